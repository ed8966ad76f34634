package main

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/monitoring/dashboards"
)

// samples of a graph are as many as the console asks for.
const samples = 60

// The parts of the dashboard that the console looks at.
type board struct {
	Title string
	Rows  []struct {
		Title  string
		Panels []panel
	}
	Templating struct {
		List []struct{ Name, Label, Query string }
	}
}

type panel struct {
	Title, Type, Format string
	Span, Decimals      int
	Stack               bool
	Targets             []struct{ Expr, LegendFormat, RefID string }
	YAxes               []struct {
		Format   string
		Decimals int
	}
	ValueMaps []struct{ Value, Text string }
	Styles    []struct {
		Pattern, Alias, Type, Unit string
		Decimals                   int
	}
}

type series struct {
	Metric map[string]string
	Value  [2]any
	Values [][2]any
}

// browser draws what the console would.
type browser struct {
	url    string
	end    time.Time
	values map[string]string // of the variables
	empty  []string          // panels without data
}

func newBrowser(url string, end time.Time) *browser {
	return &browser{url: url, end: end, values: map[string]string{}}
}

func (b *browser) ask(expr string, ranged bool) ([]series, error) {
	for name, value := range b.values {
		expr = strings.ReplaceAll(expr, "$"+name, value)
	}
	path, q := "query", url.Values{"query": {expr}, "time": {fmt.Sprint(b.end.Unix())}}
	if ranged {
		path = "query_range"
		q.Set("start", fmt.Sprint(b.end.Add(-day).Unix()))
		q.Set("end", fmt.Sprint(b.end.Unix()))
		q.Set("step", fmt.Sprint(day.Seconds()/samples))
	}
	response, err := http.Get(b.url + "/api/v1/" + path + "?" + q.Encode())
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []series }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Error != "" {
		return nil, fmt.Errorf("%s: %s %w", expr, answer.Error, err)
	}
	return answer.Data.Result, nil
}

func (b *browser) page() ([]byte, error) {
	var d board
	if err := json.Unmarshal(dashboards.Console, &d); err != nil {
		return nil, err
	}
	var out strings.Builder
	out.WriteString(`<!doctype html><meta charset="utf-8"><style>body{font:13px sans-serif;margin:12px;background:#f0f0f0}.row{display:grid;grid-template-columns:repeat(12,1fr);gap:8px}
.panel{background:#fff;padding:8px;min-width:0}h2{margin:14px 0 6px}h3{margin:0 0 6px;font-size:13px}.number{font-size:32px}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:3px 8px;border-bottom:1px solid #ddd}
.empty{color:#c00}.legend span{margin-right:12px;white-space:nowrap}</style>`)
	fmt.Fprintf(&out, "<h1>%s</h1>", html.EscapeString(d.Title))
	for _, v := range d.Templating.List {
		// As the console does it: the values of now, as one expression.
		result, err := b.ask(regexp.MustCompile(`label_values\((.*), (.*)\)`).ReplaceAllString(v.Query, "count($1) by ($2)"), false)
		if err != nil {
			return nil, err
		}
		var options []string
		for _, r := range result {
			options = append(options, slices.Collect(maps.Values(r.Metric))...)
		}
		b.values[v.Name] = "(" + strings.Join(options, "|") + ")"
		fmt.Fprintf(&out, "%s: All %s &nbsp; ", v.Label, html.EscapeString(b.values[v.Name]))
	}
	for _, r := range d.Rows {
		fmt.Fprintf(&out, `<h2>%s</h2><div class="row">`, html.EscapeString(r.Title))
		for _, p := range r.Panels {
			content, err := b.draw(p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Title, err)
			}
			fmt.Fprintf(&out, `<div class="panel" style="grid-column:span %d"><h3>%s</h3>%s</div>`, p.Span, html.EscapeString(p.Title), content)
		}
		out.WriteString("</div>")
	}
	return []byte(out.String()), nil
}

func (b *browser) draw(p panel) (string, error) {
	results := make([][]series, len(p.Targets))
	for i, t := range p.Targets {
		var err error
		if results[i], err = b.ask(t.Expr, p.Type == "graph"); err != nil {
			return "", err
		}
	}
	if len(slices.Concat(results...)) == 0 {
		b.empty = append(b.empty, p.Title)
		return `<div class="empty">No datapoints found</div>`, nil
	}
	switch p.Type {
	case "graph":
		return b.graph(p, results), nil
	case "singlestat":
		return number(p, results[0]), nil
	default:
		return table(p, results), nil
	}
}

func number(p panel, result []series) string {
	value := fmt.Sprint(result[0].Value[1])
	for _, m := range p.ValueMaps {
		if m.Value == value {
			return `<div class="number">` + html.EscapeString(m.Text) + "</div>"
		}
	}
	return `<div class="number">` + format(value, p.Format, p.Decimals) + "</div>"
}

func table(p panel, results [][]series) string {
	rows := map[string]map[string]string{}
	for i, result := range results {
		for _, r := range result {
			var key strings.Builder
			for _, name := range slices.Sorted(maps.Keys(r.Metric)) {
				key.WriteString(r.Metric[name] + "-")
			}
			if rows[key.String()] == nil {
				rows[key.String()] = maps.Clone(r.Metric)
			}
			rows[key.String()]["Value #"+p.Targets[i].RefID] = fmt.Sprint(r.Value[1])
		}
	}
	var head, body strings.Builder
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		body.WriteString("<tr>")
		for _, s := range p.Styles {
			if s.Type == "hidden" {
				continue
			}
			value := rows[key][s.Pattern]
			if s.Type == "number" {
				value = format(value, s.Unit, s.Decimals)
			}
			body.WriteString("<td>" + html.EscapeString(value) + "</td>")
		}
		body.WriteString("</tr>")
	}
	for _, s := range p.Styles {
		if s.Type != "hidden" {
			head.WriteString("<th>" + html.EscapeString(s.Alias) + "</th>")
		}
	}
	return "<table><tr>" + head.String() + "</tr>" + body.String() + "</table>"
}

var colours = []string{"#06c", "#8bc1f7", "#23511e", "#7cc674", "#f4c145", "#c58c00", "#ec7a08", "#a18fff", "#009596", "#c9190b"}

func (b *browser) graph(p panel, results [][]series) string {
	const left, width, height = 70.0, 600.0, 150.0
	top, stacked, n := 0.0, map[float64]float64{}, 0
	for _, r := range slices.Concat(results...) {
		for k, v := range r.Values {
			value := parse(v[1])
			if p.Stack {
				stacked[v[0].(float64)] += value
				value = stacked[v[0].(float64)]
			}
			r.Values[k][1] = value
			top = math.Max(top, value)
		}
	}
	var lines, legend strings.Builder
	for i, result := range results {
		for _, r := range result {
			var points strings.Builder
			for _, v := range r.Values {
				age := float64(b.end.Unix()) - v[0].(float64)
				fmt.Fprintf(&points, "%.1f,%.1f ", width-(width-left)*age/day.Seconds(), height-10-(height-20)*parse(v[1])/math.Max(top, 1e-9))
			}
			fmt.Fprintf(&lines, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>`, colours[n%len(colours)], points.String())
			name := p.Targets[i].LegendFormat
			for label, value := range r.Metric {
				name = strings.ReplaceAll(name, "{{"+label+"}}", value)
			}
			fmt.Fprintf(&legend, `<span style="color:%s">&#9632; %s</span> `, colours[n%len(colours)], html.EscapeString(name))
			n++
		}
	}
	axis := ""
	for _, part := range []float64{0, 0.5, 1} {
		y := height - 10 - (height-20)*part
		axis += fmt.Sprintf(`<line x1="%g" x2="%g" y1="%g" y2="%g" stroke="#ddd"/><text x="0" y="%g" font-size="10">%s</text>`, left, width, y, y, y+3, format(fmt.Sprint(top*part), p.YAxes[0].Format, 2))
	}
	return fmt.Sprintf(`<svg viewBox="0 0 %g %g" width="100%%">%s%s</svg><div class="legend">%s</div>`, width, height, axis, lines.String(), legend.String())
}

// format is how the console writes a number.
func format(text, unit string, decimals int) string {
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return "-"
	case unit == "percentunit":
		return fmt.Sprintf("%.*f%%", decimals, value*100)
	case unit == "bytes":
		names := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
		i := 0
		for ; math.Abs(value) >= 1024 && i < len(names)-1; i++ {
			value /= 1024
		}
		return fmt.Sprintf("%.4g %s", value, names[i])
	}
	return strconv.FormatFloat(math.Round(value*math.Pow10(decimals))/math.Pow10(decimals), 'f', -1, 64)
}

func parse(value any) float64 {
	f, err := strconv.ParseFloat(fmt.Sprint(value), 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

package dashboards

// grafanaTypes maps the kinds to Grafana's names of panel types.
var grafanaTypes = map[kind]string{lines: "timeseries", areas: "timeseries", number: "stat", table: "table"}

// Grafana's grid has 24 columns. The heights are in units of the grid.
const (
	gridFactor    = 24 / columns
	rowHeight     = 1
	numberHeight  = 4
	pictureHeight = 8
)

var datasource = object{"type": "prometheus", "uid": "${datasource}"}

// grafanaBoard returns the dashboard in the format of Grafana 10 and later.
func grafanaBoard() object {
	var panels []object
	id := 0
	y := 0
	for _, r := range rows() {
		id++
		panels = append(panels, object{"id": id, "type": "row", "title": r.title, "collapsed": false,
			"panels": []object{}, "gridPos": object{"h": rowHeight, "w": 24, "x": 0, "y": y}})
		y += rowHeight
		x := 0
		height := 0
		for _, p := range r.panels {
			if x+p.width > columns {
				x = 0
				y = y + height
				height = 0
			}
			id++
			g := grafanaPanel(p, id)
			h := pictureHeight
			if p.kind == number {
				h = numberHeight
			}
			g["gridPos"] = object{"h": h, "w": p.width * gridFactor, "x": x * gridFactor, "y": y}
			panels = append(panels, g)
			x = x + p.width
			height = max(height, h)
		}
		y += height
	}
	choices := []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
		"hide": 0, "refresh": 1}}
	for _, v := range variables {
		choices = append(choices, object{
			"name": v.name, "label": v.title, "type": "query", "datasource": datasource, "definition": v.query,
			"query": object{"query": v.query, "refId": v.name}, "includeAll": true, "multi": true, "hide": 0,
			"refresh": 2, "sort": 1,
			"current": object{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}},
		})
	}
	return object{
		"title": title, "uid": uid, "tags": []string{"lvm-storage"}, "schemaVersion": 39, "version": 1,
		"editable": true, "graphTooltip": 1,
		"time": object{"from": "now-24h", "to": "now"}, "refresh": "1m", "panels": panels,
		"templating":  object{"list": choices},
		"annotations": object{"list": []object{}}, "links": []object{},
	}
}

func grafanaPanel(p panel, id int) object {
	defaults := object{"unit": p.unit, "decimals": p.decimals}
	overrides := []object{}
	o := object{"id": id, "title": p.title, "description": p.help, "type": grafanaTypes[p.kind],
		"datasource": datasource, "targets": grafanaTargets(p)}
	switch p.kind {
	case lines, areas:
		stacking := "none"
		if p.kind == areas {
			stacking = "normal"
		}
		defaults["custom"] = object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never",
			"stacking": object{"mode": stacking, "group": "A"}}
		defaults["min"] = 0
		o["options"] = object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true},
			"tooltip": object{"mode": "multi", "sort": "desc"}}
	case number:
		defaults["mappings"], defaults["thresholds"] = grafanaWords(p),
			object{"mode": "absolute", "steps": grafanaSteps(p)}
		o["options"] = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
			"colorMode": "value", "graphMode": "none", "textMode": "value"}
	case table:
		defaults = object{}
		o["transformations"], overrides = grafanaColumns(p)
		options := object{"showHeader": true, "cellHeight": "sm"}
		if p.sorted != "" {
			options["sortBy"] = []object{{"displayName": p.sorted, "desc": true}}
		}
		o["options"] = options
	}
	o["fieldConfig"] = object{"defaults": defaults, "overrides": overrides}
	return o
}

func grafanaTargets(p panel) []object {
	var targets []object
	for i, q := range p.queries {
		target := object{"expr": q.expr, "refId": refID(i), "legendFormat": q.name,
			"datasource": datasource, "range": true}
		if p.kind == table || p.kind == number {
			target["instant"] = true
			target["range"] = false
		}
		if p.kind == table {
			target["format"] = "table"
		}
		targets = append(targets, target)
	}
	return targets
}

func grafanaWords(p panel) []object {
	mappings := []object{}
	options := object{}
	for _, w := range p.words {
		if w[0] == "null" {
			mappings = append(mappings, object{"type": "special",
				"options": object{"match": "null", "result": object{"text": w[1]}}})
			continue
		}
		options[w[0]] = object{"text": w[1]}
	}
	if len(options) > 0 {
		mappings = append(mappings, object{"type": "value", "options": options})
	}
	return mappings
}

func grafanaSteps(p panel) []object {
	steps := thresholds(p)
	steps[0] = object{"value": nil, "color": "green"}
	return steps
}

// grafanaColumns returns transformations that join the queries of a table by their labels, and that name and sort the
// columns.
func grafanaColumns(p panel) (transformations, overrides []object) {
	hidden := object{"Time": true}
	names := object{}
	order := object{}
	for i, l := range p.labels {
		names[l.label] = l.title
		order[l.label] = i
	}
	for i, q := range p.queries {
		column := "Value #" + refID(i)
		if len(p.queries) == 1 {
			column = "Value"
		}
		if q.name == "" {
			hidden[column] = true
			continue
		}
		names[column], order[column] = q.name, len(p.labels)+i
		overrides = append(overrides, object{"matcher": object{"id": "byName", "options": q.name},
			"properties": []object{{"id": "unit", "value": q.unit}, {"id": "decimals", "value": q.decimals}}})
	}
	if overrides == nil {
		overrides = []object{}
	}
	return []object{
		{"id": "merge", "options": object{}},
		{"id": "organize", "options": object{"excludeByName": hidden, "renameByName": names, "indexByName": order}},
	}, overrides
}

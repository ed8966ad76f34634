package dashboards

// consoleTypes maps the kinds to the console's names of panel types.
var consoleTypes = map[kind]string{lines: "graph", areas: "graph", number: "singlestat", table: "table"}

// consoleBoard returns the dashboard in an old format of Grafana: rows of panels, each with its width.
func consoleBoard() object {
	var list, choices []object
	id := 0
	for _, r := range rows() {
		var panels []object
		for _, p := range r.panels {
			id++
			panels = append(panels, consolePanel(p, id))
		}
		list = append(list, object{"title": r.title, "showTitle": true, "collapse": false, "panels": panels})
	}
	for _, v := range variables {
		choices = append(choices, object{
			"name": v.name, "label": v.title, "type": "query", "query": v.query, "datasource": "prometheus",
			"includeAll": true, "multi": true, "hide": 0, "refresh": 2, "sort": 1,
		})
	}
	return object{
		"title": title, "uid": uid, "tags": []string{"lvm-storage"}, "schemaVersion": 14, "version": 1,
		"editable": false, "timezone": "browser",
		"time": object{"from": "now-1d", "to": "now"}, "refresh": "1m", "rows": list,
		"templating": object{"list": choices},
	}
}

func consolePanel(p panel, id int) object {
	o := object{
		"id": id, "title": p.title, "description": p.help, "type": consoleTypes[p.kind], "span": p.width,
		"datasource": "prometheus",
		"targets":    consoleTargets(p),
	}
	switch p.kind {
	case lines, areas:
		o["stack"] = p.kind == areas
		o["legend"] = object{"show": true}
		o["nullPointMode"] = "null"
		o["yaxes"] = []object{{"format": p.unit, "decimals": p.decimals}, {"format": plain, "show": false}}
	case number:
		o["format"] = p.unit
		o["decimals"] = p.decimals
		o["valueFontSize"] = "150%"
		var words []object
		for _, w := range p.words {
			words = append(words, object{"op": "=", "value": w[0], "text": w[1]})
		}
		o["valueMaps"] = words
		if steps := thresholds(p); len(steps) > 1 {
			o["options"] = object{"fieldOptions": object{"thresholds": steps}}
		}
	case table:
		o["transform"], o["styles"] = "table", consoleColumns(p)
	}
	return o
}

func consoleTargets(p panel) []object {
	var targets []object
	for i, q := range p.queries {
		target := object{"expr": q.expr, "refId": refID(i), "legendFormat": q.name}
		if p.kind == table {
			target["format"] = "table"
			target["instant"] = true
		}
		targets = append(targets, target)
	}
	return targets
}

func consoleColumns(p panel) []object {
	styles := []object{{"pattern": "Time", "type": "hidden"}}
	for _, l := range p.labels {
		styles = append(styles, object{"pattern": l.label, "alias": l.title, "type": "string"})
	}
	for i, q := range p.queries {
		if q.name == "" {
			styles = append(styles, object{"pattern": "Value #" + refID(i), "type": "hidden"})
			continue
		}
		styles = append(styles, object{"pattern": "Value #" + refID(i), "alias": q.name, "type": "number",
			"unit": q.unit, "decimals": q.decimals})
	}
	return styles
}

// thresholds returns the colors of a number, each with the value from which it applies.
func thresholds(p panel) []object {
	steps := []object{{"value": 0, "color": "green"}}
	if p.warning > 0 {
		steps = append(steps, object{"value": p.warning, "color": "orange"})
	}
	if p.critical > 0 {
		steps = append(steps, object{"value": p.critical, "color": "red"})
	}
	return steps
}

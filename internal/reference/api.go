package reference

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// crds are the CRD files, in the order of the page.
var crds = []string{"lvm.topolvm.io_lvmclusters.yaml", "lvm.topolvm.io_lvmvolumegroups.yaml",
	"lvm.topolvm.io_lvmvolumegroupnodestatuses.yaml"}

// kubernetesTypes maps names of fields to their Kubernetes types, which Kubernetes documents.
var kubernetesTypes = map[string]string{
	"conditions":   "list of Condition (meta/v1)",
	"nodeSelector": "NodeSelector (core/v1)",
	"tolerations":  "list of Toleration (core/v1)",
}

// everyObject are the fields that every Kubernetes object has.
var everyObject = []string{"apiVersion", "kind", "metadata"}

// definition has the parts of a CustomResourceDefinition that the page needs.
type definition struct {
	Spec struct {
		Group string
		Names struct {
			Kind       string
			ShortNames []string
		}
		Scope    string
		Versions []struct {
			Name   string
			Schema struct{ OpenAPIV3Schema schema }
		}
	}
}

// schema has the parts of an OpenAPI schema, with the Kubernetes extensions, that the page needs.
type schema struct {
	Type, Format, Description, Pattern string
	Default                            json.RawMessage
	Properties                         map[string]schema
	AdditionalProperties               *schema
	Items                              *schema
	Required                           []string
	Enum                               []json.RawMessage
	Minimum, Maximum                   *float64
	MinLength, MaxLength               *int64
	MinItems, MaxItems                 *int64
	MinProperties, MaxProperties       *int64
	IntOrString                        bool                             `json:"x-kubernetes-int-or-string"`
	ListType                           string                           `json:"x-kubernetes-list-type"`
	ListKeys                           []string                         `json:"x-kubernetes-list-map-keys"`
	Validations                        []struct{ Rule, Message string } `json:"x-kubernetes-validations"`
}

const apiIntroduction = `# API

Written by ` + "`make references`" + ` from the CustomResourceDefinitions; ` + "`kubectl explain`" +
	` has the same. [LVMCluster](lvmcluster.md) explains how the fields work together, and what the admission webhook refuses. Volumes are LogicalVolumes, an API of [TopoLVM](../explanation/topolvm.md).

Lengths are in characters. A field whose type is Kubernetes' own has the name and the group of that type.
"each" is a limit of every element of a list.
`

// APIPage returns docs/reference/api.md for the CRDs in a directory.
func APIPage(folder string) (string, error) {
	var b strings.Builder
	b.WriteString(apiIntroduction)
	for _, name := range crds {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return "", err
		}
		var d definition
		if err := yaml.Unmarshal(data, &d); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if len(d.Spec.Versions) != 1 {
			return "", fmt.Errorf("%s has %d versions, and the page has one", name, len(d.Spec.Versions))
		}
		d.write(&b)
	}
	return b.String(), nil
}

func (d *definition) write(b *strings.Builder) {
	version := d.Spec.Versions[0]
	top := version.Schema.OpenAPIV3Schema
	fmt.Fprintf(b, "\n## %s\n\n`%s/%s`, %s, short name `%s`. %s\n", d.Spec.Names.Kind, d.Spec.Group, version.Name,
		strings.ToLower(d.Spec.Scope), strings.Join(d.Spec.Names.ShortNames, "`, `"), prose(top.Description))
	for _, name := range everyObject {
		delete(top.Properties, name)
	}
	top.writeObjects(b, d.Spec.Names.Kind)
}

// writeObjects writes a table for each object below the schema, with its path as the heading.
func (s *schema) writeObjects(b *strings.Builder, path string) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if kubernetesTypes[name] != "" {
			continue
		}
		child := s.Properties[name]
		child, suffix := child.element()
		if len(child.Properties) == 0 {
			continue
		}
		at := path + "." + name + suffix
		fmt.Fprintf(b, "\n### %s\n\n", at)
		child.writeTable(b)
		child.writeObjects(b, at)
	}
}

// element returns the schema of the elements of a list or map with the suffix for its path, or the schema itself.
func (s *schema) element() (schema, string) {
	switch {
	case s.Items != nil:
		return *s.Items, "[]"
	case s.AdditionalProperties != nil:
		return *s.AdditionalProperties, "{}"
	}
	return *s, ""
}

func (s *schema) writeTable(b *strings.Builder) {
	if text := prose(s.Description); text != "" {
		b.WriteString(text + "\n\n")
	}
	if rules := s.messages(); len(rules) > 0 {
		b.WriteString("- " + strings.Join(rules, "\n- ") + "\n\n")
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		required := ""
		if slices.Contains(s.Required, name) {
			required = "yes"
		}
		rows = append(rows, []string{Code(name), field.kind(name), required, Code(string(field.Default)),
			field.limits(), prose(field.Description)})
	}
	b.WriteString(Table([]string{"field", "type", "required", "default", "limits", "description"}, rows))
}

// kind returns the type of a field.
func (s *schema) kind(name string) string {
	switch {
	case kubernetesTypes[name] != "":
		return kubernetesTypes[name]
	case s.IntOrString:
		return "quantity"
	case s.Items != nil && s.ListType == "set":
		return "set of " + s.Items.kind("")
	case s.Items != nil && len(s.ListKeys) > 0:
		return "list of " + s.Items.kind("") + " by " + Code(strings.Join(s.ListKeys, "`, `"))
	case s.Items != nil:
		return "list of " + s.Items.kind("")
	case s.AdditionalProperties != nil:
		return "map of " + s.AdditionalProperties.kind("")
	case s.Format == "date-time":
		return "time"
	case s.Format == "int32" || s.Format == "int64":
		return s.Format
	}
	return s.Type
}

// limits returns what the API server validates for a field, and for the elements of a list or map.
func (s *schema) limits() string {
	limits := s.own()
	if element, suffix := s.element(); suffix != "" && len(element.Properties) == 0 {
		for _, limit := range element.own() {
			limits = append(limits, "each: "+limit)
		}
	}
	if len(s.Properties) == 0 {
		limits = append(limits, s.messages()...)
	}
	return strings.Join(limits, "; ")
}

func (s *schema) own() []string {
	var limits []string
	if len(s.Enum) > 0 {
		values := make([]string, len(s.Enum))
		for i, value := range s.Enum {
			values[i] = Code(strings.Trim(string(value), `"`))
		}
		limits = append(limits, strings.Join(values, ", "))
	}
	limits = append(limits, span("", inDecimal(s.Minimum), inDecimal(s.Maximum))...)
	for _, bound := range []struct {
		unit        string
		least, most *int64
	}{
		{" characters", s.MinLength, s.MaxLength}, {" elements", s.MinItems, s.MaxItems},
		{" entries", s.MinProperties, s.MaxProperties},
	} {
		limits = append(limits, span(bound.unit, inDigits(bound.least), inDigits(bound.most))...)
	}
	if s.Pattern != "" && !s.IntOrString {
		limits = append(limits, Code(s.Pattern))
	}
	return limits
}

// messages returns the messages of the schema's validation rules.
func (s *schema) messages() []string {
	var messages []string
	for _, v := range s.Validations {
		messages = append(messages, prose(v.Message))
	}
	return messages
}

// span describes a range, or returns nil for none.
func span(unit, least, most string) []string {
	switch {
	case least != "" && most != "":
		return []string{least + " to " + most + unit}
	case least != "":
		return []string{"at least " + least + unit}
	case most != "":
		return []string{"at most " + most + unit}
	}
	return nil
}

func inDecimal(number *float64) string {
	if number == nil {
		return ""
	}
	return strconv.FormatFloat(*number, 'f', -1, 64)
}

func inDigits(number *int64) string {
	if number == nil {
		return ""
	}
	return strconv.FormatInt(*number, 10)
}

// prose returns a description as one line of Markdown. It escapes characters that look like tags or emphasis.
func prose(text string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`).Replace(strings.Join(strings.Fields(text), " "))
}

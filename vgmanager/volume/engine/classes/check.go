package classes

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This file reports errors in lvmd.yaml by line and key, in the terms of docs/reference/lvmd.md. Strict decoders do
// not provide both: KnownFields of yaml.v3 provides only the line, sigs.k8s.io/json only the key of an unknown field,
// goccy/go-yaml the line and the last part of the key, and all print Go types. sigs.k8s.io/yaml also accepts a number
// where a string is required.

// configError is an error about one key of a configuration.
type configError struct {
	// key is the path of the key, for example "device-classes[1].spare-gb". line is 0 if it is not known.
	key, problem string
	line         int
}

func (e *configError) Error() string {
	if e.line == 0 {
		return e.key + ": " + e.problem
	}
	return fmt.Sprintf("line %d: %s: %s", e.line, e.key, e.problem)
}

// kind is the required type of a value in the configuration. A null is valid for every kind and means that the key is
// not set.
type kind struct {
	// want describes the kind in error messages.
	want string
	// is returns true if a scalar is of this kind. It is nil for lists and objects.
	is     func(*yaml.Node) bool
	item   *kind
	fields map[string]*kind
}

func scalar(want string, is func(tag, value string) bool) *kind {
	return &kind{want: want, is: func(n *yaml.Node) bool { return is(n.ShortTag(), n.Value) }}
}

var (
	aText  = scalar("a string", func(tag, _ string) bool { return tag == "!!str" })
	aFlag  = scalar("true or false", func(tag, _ string) bool { return tag == "!!bool" })
	aCount = scalar("a whole number, not below 0",
		func(_, value string) bool { _, err := strconv.ParseUint(value, 10, 32); return err == nil })
	aNumber = scalar("a number", func(tag, _ string) bool { return tag == "!!int" || tag == "!!float" })
	texts   = &kind{want: "a list of strings", item: aText}
	manyGB  = scalar("a whole number of GiB",
		func(_, value string) bool { _, err := strconv.ParseUint(value, 10, 64); return err == nil })
	manyBytes = scalar("a whole number of bytes",
		func(_, value string) bool { _, err := strconv.ParseUint(value, 10, 64); return err == nil })
	aPool = &kind{want: "an object", fields: map[string]*kind{"name": aText, "overprovision-ratio": aNumber,
		"high-water-mark-percent": aCount}}
	aLimit   = &kind{want: "an object", fields: map[string]*kind{"namespace": aText, "per-node-bytes": manyBytes}}
	aClass   = &kind{want: "an object", fields: classFields}
	anOption = &kind{want: "an object", fields: map[string]*kind{"name": aText, "options": texts}}

	classFields = map[string]*kind{
		"name": aText, "volume-group": aText, "volume-group-uuid": aText,
		"existing-volume-group": aFlag, "default": aFlag, "spare-gb": manyGB,
		"stripe": aCount, "stripe-size": aText,
		"lvcreate-options": texts, "type": aText, "thin-pool": aPool, "closed": aText,
		"no-removal":      aText,
		"erase-on-delete": aText, "allocation": aText, "namespace-limits": {want: "a list", item: aLimit},
	}

	// aConfig is the kind of the whole file (TopoLVM, docs/lvmd.md and cmd/lvmd/app/config.go).
	aConfig = &kind{want: "an object", fields: map[string]*kind{
		"socket-name": aText, "device-classes": {want: "a list", item: aClass},
		"lvcreate-option-classes": {want: "a list", item: anOption},
		"lvm-command-prefix":      texts,
	}}
)

// places maps the keys of a configuration to their lines.
type places map[string]int

// checkForm returns the line of each key, and an error if a value is of the wrong kind. If strict is set, it rejects
// unknown keys, which TopoLVM silently ignores.
func checkForm(data []byte, strict bool) (places, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	found := places{}
	if len(document.Content) == 0 {
		return found, nil
	}
	return found, found.check("", document.Content[0], aConfig, strict)
}

func (p places) check(key string, n *yaml.Node, want *kind, strict bool) error {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	p[key] = n.Line
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil
	}
	wrong := &configError{key: strings.TrimPrefix(key, "."), line: n.Line,
		problem: fmt.Sprintf("is %s, want %s", shown(n), want.want)}
	switch {
	case want.fields != nil && n.Kind == yaml.MappingNode:
		return p.checkFields(key, n, want, strict)
	case want.item != nil && n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			if err := p.check(fmt.Sprintf("%s[%d]", key, i), item, want.item, strict); err != nil {
				return err
			}
		}
		return nil
	case want.is != nil && n.Kind == yaml.ScalarNode && want.is(n):
		return nil
	}
	return wrong
}

func (p places) checkFields(key string, n *yaml.Node, want *kind, strict bool) error {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		value := n.Content[i+1]
		path := key + "." + name.Value
		field, known := want.fields[name.Value]
		switch {
		case seen[name.Value] > 0:
			return &configError{key: strings.TrimPrefix(path, "."), line: name.Line,
				problem: fmt.Sprintf("is a duplicate of line %d", seen[name.Value])}
		case !known && strict:
			return &configError{key: strings.TrimPrefix(path, "."), line: name.Line,
				problem: "is not a key of this configuration"}
		}
		seen[name.Value] = name.Line
		if !known {
			continue
		}
		if err := p.check(path, value, field, strict); err != nil {
			return err
		}
	}
	return nil
}

func shown(n *yaml.Node) string {
	const most = 40
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	}
	if len(n.Value) > most {
		return strconv.Quote(n.Value[:most]) + "…"
	}
	return strconv.Quote(n.Value)
}

// at adds the line of its key to an error. If the file does not have the key, it adds the line of the nearest
// enclosing key.
func (p places) at(err error) error {
	var wrong *configError
	if !errors.As(err, &wrong) || wrong.line > 0 {
		return err
	}
	key := "." + wrong.key
	for key != "" {
		if line, ok := p[key]; ok {
			return &configError{key: wrong.key, problem: wrong.problem, line: line}
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return err
}

// stripeSizePattern matches values that lvcreate accepts for --stripesize.
var stripeSizePattern = regexp.MustCompile(`(?i)^([0-9]+[kmgtpebs]?)?$`)

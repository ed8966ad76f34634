package reference

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestATableHasTheLimitsOfEachField(t *testing.T) {
	const crd = `
spec:
  group: example.com
  names: {kind: Thing, shortNames: [th]}
  scope: Namespaced
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: Thing is an example.
        properties:
          kind: {type: string}
          spec:
            required: [name]
            x-kubernetes-validations:
            - {rule: "true", message: "a < b"}
            properties:
              name: {type: string, minLength: 1, maxLength: 9, pattern: "^a|b*$"}
              mode: {type: string, enum: [A, B], default: A}
              size: {x-kubernetes-int-or-string: true, pattern: "^x$"}
              paths: {type: array, x-kubernetes-list-type: set, maxItems: 3, items: {type: string, maxLength: 5}}
              conditions: {type: array, items: {properties: {type: {type: string}}}}
              parts:
                type: array
                items: {properties: {count: {type: integer, format: int32, minimum: 0}}}
`
	var d definition
	if err := yaml.Unmarshal([]byte(crd), &d); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	d.write(&b)
	for _, want := range []string{
		"## Thing\n\n`example.com/v1`, namespaced, short name `th`. Thing is an example.\n",
		"\n- a &lt; b\n",
		"| `name` | string | yes |  | 1 to 9 characters; `^a\\|b*$` |  |",
		"| `mode` | string |  | `\"A\"` | `A`, `B` |  |",
		"| `size` | quantity |  |  |  |  |",
		"| `paths` | set of string |  |  | at most 3 elements; each: at most 5 characters |  |",
		"| `conditions` | list of Condition (meta/v1) |  |  |  |  |",
		"### Thing.spec.parts[]\n",
		"| `count` | int32 |  |  | at least 0 |  |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, b.String())
		}
	}
}

package reference

import (
	"regexp"
	"slices"
	"strings"
)

var variableDoc = regexp.MustCompile(`^(\w+) is an environment variable of ([^:]+): (.+)$`)

// Variable is an environment variable.
type Variable struct {
	Name, Means string
	// Programs are the programs that read it, as code.
	Programs string
}

// Variables returns the environment variables in the comments of the code, sorted by program and name.
func Variables(s *Source) []Variable {
	var found []Variable
	for _, d := range s.Declarations() {
		if m := variableDoc.FindStringSubmatch(d.Doc); m != nil && m[1] == d.Name {
			found = append(found, Variable{Name: d.Value, Programs: m[2], Means: clause(m[3])})
		}
	}
	slices.SortFunc(found, func(a, b Variable) int {
		return strings.Compare(a.Programs+" "+a.Name, b.Programs+" "+b.Name)
	})
	return found
}

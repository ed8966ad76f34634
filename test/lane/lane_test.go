package lane

import (
	"slices"
	"testing"
)

func TestCases(t *testing.T) {
	all := []string{"a", "b", "c"}
	for name, c := range map[string]struct {
		short  bool
		number string
		want   []string
	}{
		"all without -short":                {false, "1", all},
		"the first without a number":        {true, "", all[:1]},
		"the number's":                      {true, "1", all[1:2]},
		"from the beginning after the last": {true, "302", all[2:]},
		"the first if it is not a number":   {true, "x", all[:1]},
		"the first if it is negative":       {true, "-1", all[:1]},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cases(c.short, c.number, all); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if got := cases(true, "5", []string{}); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
}

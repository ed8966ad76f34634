package lane

import (
	"slices"
	"testing"
)

func TestRotate(t *testing.T) {
	all := []string{"a", "b", "c"}
	for name, c := range map[string]struct {
		short    bool
		rotation string
		want     []string
	}{
		"all in the long lane":              {false, "1", all},
		"the first without a number":        {true, "", all[:1]},
		"the number's":                      {true, "1", all[1:2]},
		"from the beginning after the last": {true, "302", all[2:]},
		"the first with what is no number":  {true, "x", all[:1]},
		"the first with a negative number":  {true, "-1", all[:1]},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rotate(c.short, c.rotation, all); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if got := rotate(true, "5", []string{}); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
}

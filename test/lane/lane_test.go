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

func TestTurns(t *testing.T) {
	for _, rotation := range []string{"", "x", "7", "626"} {
		turns := 0
		for turn := range 2 {
			if isTurn(true, rotation, turn, 2) {
				turns++
			}
			if !isTurn(false, rotation, turn, 2) {
				t.Errorf("the long lane omits turn %d with %q", turn, rotation)
			}
		}
		if turns != 1 {
			t.Errorf("with %q, %d of 2 tests run", rotation, turns)
		}
	}
	if !isTurn(true, "626", 0, 2) || !isTurn(true, "7", 1, 2) {
		t.Error("another test has its turn")
	}
}

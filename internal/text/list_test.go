package text

import (
	"strings"
	"testing"
)

func TestListShowsTheFirstNames(t *testing.T) {
	for names, want := range map[string]string{
		"a":             "1 node: a",
		"a b c d e":     "5 nodes: a, b, c, d, e",
		"a b c d e f g": "7 nodes: a, b, c, d, e and 2 more",
	} {
		if got := List("node", strings.Fields(names)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

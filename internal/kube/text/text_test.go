package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTruncate(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"empty":                      {"", 5, ""},
		"shorter":                    {"disk", 5, "disk"},
		"as long as the limit":       {"disks", 5, "disks"},
		"longer":                     {"device", 5, "de…"},
		"a character over the limit": {"ab€€", 7, "ab…"},
		"a character before it":      {"ab€cd", 8, "ab€cd"},
		"only the mark":              {"device", 3, "…"},
		"wide characters":            {"€€€", 7, "€…"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Truncate(c.text, c.limit)
			if got != c.want || len(got) > c.limit || !utf8.ValidString(got) {
				t.Errorf("got %q of %d bytes, want %q", got, len(got), c.want)
			}
		})
	}
}

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

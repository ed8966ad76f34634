package identity

import (
	"strings"
	"testing"
)

func TestTextThatIsNoTag(t *testing.T) {
	for text, want := range map[string]bool{"ns/claim-1.x": true, "": false, "a b": false, "a,b": false, "@x": false,
		strings.Repeat("x", 600): false} {
		if isTag(text) != want {
			t.Errorf("isTag(%q) is %t", text, !want)
		}
	}
}

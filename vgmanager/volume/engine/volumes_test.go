package engine

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestNamesThatAreNoNames: the name of a volume comes from an object, and becomes an argument and a part of a path.
func TestNamesThatAreNoNames(t *testing.T) {
	for _, name := range []string{"", "-a", "--config", "a/b", "../a", "a b", "a\n", "a,b", "a@b", "ä",
		strings.Repeat("a", 128)} {
		if err := checkRequest(name, 1); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: got %v", name, err)
		}
	}
	for _, name := range []string{"a", "0d2f4b1e-5b1c-4a53-9f0c-0123456789ab", "_a", "+a", "a.b-c",
		strings.Repeat("a", 127)} {
		if err := checkRequest(name, 1); err != nil {
			t.Errorf("%q: got %v", name, err)
		}
	}
	for _, size := range []int64{0, -1} {
		if err := checkRequest("a", size); status.Code(err) != codes.InvalidArgument {
			t.Errorf("size %d: got %v", size, err)
		}
	}
}

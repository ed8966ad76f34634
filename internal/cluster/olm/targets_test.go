package olm

import "testing"

func TestOtherTargets(t *testing.T) {
	for targets, want := range map[string]string{
		"": "", "storage": "", "a,storage": "", "a": "a", "a,b": "a,b", "storage-2": "storage-2",
	} {
		if got := OtherTargets(targets, "storage"); got != want {
			t.Errorf("%q: got %q, want %q", targets, got, want)
		}
	}
}

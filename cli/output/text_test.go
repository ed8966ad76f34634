package output_test

import (
	"testing"

	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/output"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "512": "512", "1023": "1023", "1Ki": "1Ki", "1536Mi": "1.5Gi",
		"1073741823": "1023.9Mi", "100Gi": "100Gi", "1000G": "931.3Gi", "3Ei": "3Ei", "7Ei": "7Ei"} {
		if got := output.SizeOf(clitest.Quantity(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if got := output.SizeOf(nil); got != "" {
		t.Errorf("got %q", got)
	}
}

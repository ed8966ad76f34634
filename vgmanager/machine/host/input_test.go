package host

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// TestInputsReachTheProgramOnly checks that a program can read its inputs completely, and that they are neither in the
// log nor in an error.
func TestInputsReachTheProgramOnly(t *testing.T) {
	var logged strings.Builder
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, text string) { logged.WriteString(text) },
		funcr.Options{Verbosity: 9}))
	first := bytes.Repeat([]byte{0, '\n', 'k', 0xff}, MaxInput/4)
	program := script(t, "cat; cat "+SecondInput+"; echo $DM_DISABLE_UDEV; exit $1\n")
	for code, arg := range []string{"0", "1"} {
		out, _, err := NewLocal().RunWithInput(ctx, [][]byte{first, []byte("secret")},
			func(c int) bool { return c == code }, program, arg)
		if want := string(first) + "secret1\n"; err != nil || string(out) != want {
			t.Errorf("got %d bytes, %v, want %d", len(out), err, len(want))
		}
	}
	_, _, err := NewLocal().RunWithInput(ctx, [][]byte{[]byte("secret")}, success, script(t, "exit 3"))
	if err == nil || strings.Contains(err.Error()+logged.String(), "secret") || logged.Len() == 0 {
		t.Errorf("got %v, and the log %s", err, &logged)
	}
}

func TestWithoutInputsThereIsNoStdin(t *testing.T) {
	out, _, err := NewLocal().RunWithInput(t.Context(), nil, success, script(t, "cat; echo end"))
	if err != nil || string(out) != "end\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestAnInputThatDoesNotFitIsRefused(t *testing.T) {
	_, code, err := NewLocal().RunWithInput(t.Context(), [][]byte{nil, make([]byte, MaxInput+1)}, success,
		script(t, "echo started"))
	if err == nil || code != -1 || !strings.Contains(err.Error(), "input 2") {
		t.Errorf("got %d, %v", code, err)
	}
}

package cli

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// plugin has all commands.
var plugin = clitest.Plugin(commands)

func TestAnUnknownCommand(t *testing.T) {
	got := plugin.Run(t, clitest.FakeReader(nil), "frobnicate")
	if got.Code != session.ExitError || got.Out != "" ||
		!strings.HasPrefix(got.Err, `error: unknown command "frobnicate" for "kubectl lvms"`) {
		t.Errorf("got %+v", got)
	}
}

func TestCompletionOfCommands(t *testing.T) {
	got := plugin.Run(t, clitest.FakeReader(nil), "__complete", "s")
	var values []string
	for _, line := range clitest.Lines(got.Out) {
		value, _, _ := strings.Cut(line, " ")
		values = append(values, value)
	}
	if joined := strings.Join(values, " "); joined != "status suspend :4" {
		t.Errorf("got %q", joined)
	}
}

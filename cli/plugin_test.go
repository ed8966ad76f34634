package cli

import (
	"strings"
	"testing"
)

var plugin = pluginWith(commands)

func TestAnUnknownCommand(t *testing.T) {
	got := plugin.run(t, fakeReader(nil), "frobnicate")
	if got.code != exitError || got.out != "" ||
		!strings.HasPrefix(got.err, `error: unknown command "frobnicate" for "kubectl lvms"`) {
		t.Errorf("got %+v", got)
	}
}

func TestCompletionOfCommands(t *testing.T) {
	got := plugin.run(t, fakeReader(nil), "__complete", "s")
	var values []string
	for _, line := range lines(got.out) {
		value, _, _ := strings.Cut(line, " ")
		values = append(values, value)
	}
	if joined := strings.Join(values, " "); joined != "status suspend :4" {
		t.Errorf("got %q", joined)
	}
}

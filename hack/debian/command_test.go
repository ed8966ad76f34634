package debian

import (
	"strings"
	"testing"
	"time"
)

func TestCommandHasATimeLimit(t *testing.T) {
	if _, err := RunCommand(t.Context(), 50*time.Millisecond, "sleep", "30"); err == nil ||
		!strings.Contains(err.Error(), "longer than 50ms") {
		t.Errorf("error %v", err)
	}
}

func TestCommandThatFailedSaysWhy(t *testing.T) {
	if _, err := RunCommand(t.Context(), time.Minute, "ls", "/absent-file"); err == nil ||
		!strings.Contains(err.Error(), "/absent-file") {
		t.Errorf("error %v", err)
	}
	if _, err := RunCommand(t.Context(), time.Minute, "absent-program"); err == nil ||
		!strings.Contains(err.Error(), "not installed") {
		t.Errorf("error %v", err)
	}
}

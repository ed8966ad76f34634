package supervisor

import (
	"os"
	"strings"
	"testing"
)

func TestThreadsOf(t *testing.T) {
	if got := threadsOf("/proc", os.Getpid()); !strings.Contains(got, "supervisor.test") ||
		!strings.Contains(got, ": R (running), tracer 0") && !strings.Contains(got, ": S (sleeping), tracer 0") {
		t.Errorf("got %s", got)
	}
	if got := threadsOf("/proc", 1<<30); !strings.Contains(got, "does not exist") {
		t.Errorf("got %s", got)
	}
}

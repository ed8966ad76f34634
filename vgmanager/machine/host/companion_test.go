package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestACompanionRunsUntilItsStdinEnds(t *testing.T) {
	written := filepath.Join(t.TempDir(), "written")
	file, err := os.Create(written)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewLocal().StartCompanion([]*os.File{file}, script(t, "echo ready\ncat\necho \"$1\" >&3"), "after")
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	if before, err := os.ReadFile(written); err != nil || len(before) > 0 {
		t.Errorf("before the end: got %q, %v", before, err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(written); err != nil || string(after) != "after\n" {
		t.Errorf("after the end: got %q, %v", after, err)
	}
}

func TestACompanionIsSignaled(t *testing.T) {
	read := filepath.Join(t.TempDir(), "read")
	file, err := os.Create(read)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewLocal().StartCompanion([]*os.File{file}, script(t, "echo ready\ncat >&3"))
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Signal(); err != nil {
			t.Error(err)
		}
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(read); err != nil || string(got) != "\n\n" {
		t.Errorf("got %q, %v", got, err)
	}
	ended, err := NewLocal().StartCompanion(nil, script(t, "echo ready"))
	if err != nil {
		t.Fatal(err)
	}
	<-ended.ended
	if err := ended.Signal(); err == nil {
		t.Error("a program that has ended was signaled")
	}
}

func TestACompanionThatFailsIsAnError(t *testing.T) {
	c, err := NewLocal().StartCompanion(nil, script(t, "echo ready; cat; echo 'it broke' >&2; exit 5"))
	if err != nil {
		t.Fatal(err)
	}
	failure := &Error{}
	if err := c.Stop(); !errors.As(err, &failure) || failure.ExitCode != 5 || failure.Stderr != "it broke" {
		t.Errorf("got %v", err)
	}
}

func TestACompanionThatIsNotReadyIsNotUsed(t *testing.T) {
	for name, body := range map[string]string{
		"silent": "exec sleep 600", "ended": "echo 'it broke' >&2; exit 5", "something else": "echo x; exec sleep 600",
	} {
		c, err := startCompanion(nil, 500*time.Millisecond, script(t, body), nil)
		failure := &Error{}
		if c != nil || !errors.As(err, &failure) || !strings.Contains(err.Error(), "not ready in time or has ended") {
			t.Errorf("%s: got %v, %v", name, c, err)
		}
	}
	if c, err := NewLocal().StartCompanion(nil, "/nosuch"); c != nil || err == nil {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestACompanionThatDoesNotEndIsKilled(t *testing.T) {
	c, err := NewLocal().StartCompanion(nil, script(t, "echo ready; exec sleep 600"))
	if err != nil {
		t.Fatal(err)
	}
	failure := &Error{}
	if err := c.stop(time.Millisecond); !errors.As(err, &failure) || failure.ExitCode != -1 ||
		!strings.Contains(err.Error(), "was killed") {
		t.Errorf("got %v", err)
	}
}

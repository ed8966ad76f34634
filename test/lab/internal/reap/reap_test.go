package reap

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/test/limit"
)

// All tests share one reaper, because it waits for every child of the process.
var reaper = New()

func TestExitCodes(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 137, "kill -15 $$": 143} {
		t.Run(script, func(t *testing.T) {
			child, err := reaper.Start(exec.Command("/bin/sh", "-c", script))
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-child.Done():
			case <-time.After(limit.Hang):
				t.Fatal("not reaped")
			}
			if child.Running() || child.ExitCode() != want {
				t.Errorf("got %d, want %d", child.ExitCode(), want)
			}
		})
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	if _, err := reaper.Start(exec.Command("/no/such/program")); err == nil {
		t.Error("no error")
	}
}

func TestStreamsHaveToBeFiles(t *testing.T) {
	cmd := exec.Command("/bin/true")
	cmd.Stdout = &strings.Builder{}
	if _, err := reaper.Start(cmd); err == nil {
		t.Error("nothing would copy the output")
	}
	cmd = exec.Command("/bin/true")
	cmd.Stdout = os.Stderr
	if _, err := reaper.Start(cmd); err != nil {
		t.Error(err)
	}
}

func TestManyAtATime(t *testing.T) {
	var children []*Child
	for range 50 {
		child, err := reaper.Start(exec.Command("/bin/true"))
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
	}
	for _, c := range children {
		select {
		case <-c.Done():
		case <-time.After(limit.Hang):
			t.Fatal("not reaped")
		}
	}
}

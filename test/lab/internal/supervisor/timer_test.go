package supervisor

import (
	"bufio"
	"os/exec"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/test/limit"
)

func TestAKernelIsWokenUntilItEnds(t *testing.T) {
	cmd := exec.Command("/bin/bash", "-c",
		`trap 'n=$((n+1)); echo $n; [ $n = 2 ] && exit 7' ALRM; echo 0; while :; do read -rt 1 <> <(:); done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "0" {
		t.Fatalf("got %q", lines.Text())
	}
	done := make(chan struct{})
	returned := make(chan struct{})
	go func() { wake(cmd.Process, done); close(returned) }()
	for _, want := range []string{"1", "2"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("got %v", err)
	}
	close(done)
	select {
	case <-returned:
	case <-time.After(limit.Hang):
		t.Error("it goes on without a kernel")
	}
}

package lvmexec

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// programs records which programs run, with their arguments, and fails those whose arguments contain fail.
type programs struct {
	ran  []string
	fail string
}

func (p *programs) Run(_ context.Context, name string, args ...string) ([]byte, error) {
	line := name + " " + strings.Join(args, " ")
	p.ran = append(p.ran, line)
	if p.fail != "" && strings.Contains(line, p.fail) {
		return nil, &host.Error{Command: line, ExitCode: 1, Err: errors.New("exit status 1"),
			Stderr: "device-mapper: message ioctl on  failed: Invalid argument\nCommand failed."}
	}
	return []byte(`{"report":[]}`), nil
}

func TestMetadataSnapshotIsReservedAndReleasedByMessages(t *testing.T) {
	p := &programs{}
	l := New(p)
	l.FlushWith(func(context.Context, string) error {
		t.Error("a message changes nothing that LVM has written")
		return nil
	})
	l.flusher.devices = map[string][]string{"vg1": {"/dev/sda"}}
	if _, err := l.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Apply(t.Context(), lvm.ThinMetadataReserve{VG: "vg1", Pool: "pool", Device: "LVM-a-tpool"}); err != nil {
		t.Fatal(err)
	}
	p.fail = "release"
	err := l.Apply(t.Context(), lvm.ThinMetadataRelease{VG: "vg1", Pool: "pool", Device: "LVM-a-tpool"})
	if err == nil || !strings.Contains(err.Error(), "release the metadata snapshot of thin pool vg1/pool") ||
		!strings.Contains(err.Error(), "Invalid argument") {
		t.Errorf("got %v", err)
	}
	want := []string{"/usr/sbin/dmsetup message --uuid LVM-a-tpool 0 reserve_metadata_snap",
		"/usr/sbin/dmsetup message --uuid LVM-a-tpool 0 release_metadata_snap"}
	if diff := cmp.Diff(want, p.ran[1:]); diff != "" {
		t.Error(diff)
	}
}

// TestAMessageIsNotSentWhileAnotherCommandRuns: for example the repair of a pool, which can take hours.
func TestAMessageIsNotSentWhileAnotherCommandRuns(t *testing.T) {
	runner := newStuck()
	l := New(runner)
	ended := make(chan error, 1)
	go func() {
		ended <- l.apply(t.Context(), "repair", command{Command: lvm.Command{
			VG: "vg1", Long: true, Args: []string{"lvconvert", "--repair"}}})
	}()
	for runner.count() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reserve := lvm.ThinMetadataReserve{VG: "vg1", Pool: "pool", Device: "LVM-a-tpool"}
	if err := l.Apply(ctx, reserve); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	l.slots.setLate(l.slots.of("vg1"), 1)
	release := lvm.ThinMetadataRelease{VG: "vg1", Pool: "pool", Device: "LVM-a-tpool"}
	if err := l.Apply(t.Context(), release); !errors.Is(err, lvm.ErrBusy) ||
		!strings.Contains(err.Error(), "lvm lvconvert --repair has been running since") {
		t.Errorf("got %v", err)
	}
	if n := runner.count(); n != 1 {
		t.Errorf("%d commands started, want 1", n)
	}
	close(runner.release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

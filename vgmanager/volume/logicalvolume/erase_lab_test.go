//go:build lab

package logicalvolume

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/events"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/erase"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// secret is what a tenant writes into its volume.
const secret = "the secret of a tenant whose volume was deleted."

// eraseOnRealDisks looks for the data of a deleted volume on its disk.
func eraseOnRealDisks(t *testing.T, newWorld func(*testing.T) *world) {
	for method, found := range map[string]bool{"": false, "Zero": false, "None": true} {
		t.Run("method "+method, func(t *testing.T) {
			w := withSecret(t, newWorld)
			other := w.sum("/dev/thick/uid-b-2")
			w.must(w.run(w.labAgent(t.Context(), method), "a"))
			w.see("after the removal", "thick/uid-b-2 40")
			if got := w.hasSecret(); got != found {
				t.Errorf("the data is on the disk: %t, want %t", got, found)
			}
			if w.sum("/dev/thick/uid-b-2") != other {
				t.Error("another volume has changed")
			}
		})
	}
	t.Run("in use", func(t *testing.T) {
		w := withSecret(t, newWorld)
		before := w.sum("/dev/thick/uid-a-1")
		user, err := os.Open("/dev/thick/uid-a-1")
		w.must(err)
		if err := w.run(w.labAgent(t.Context(), ""), "a"); err == nil || !strings.Contains(err.Error(), "is in use") {
			t.Errorf("got %v", err)
		}
		w.must(user.Close())
		if w.sum("/dev/thick/uid-a-1") != before || erasedBytes(w.tagsOf("thick", "uid-a-1")) != "" {
			t.Error("a volume that is in use has changed")
		}
		w.must(w.run(w.labAgent(t.Context(), ""), "a"))
		w.see("when it was free", "thick/uid-b-2 40")
	})
	t.Run("the process ends in the middle", func(t *testing.T) {
		w := withSecret(t, newWorld)
		process, end := context.WithCancel(t.Context())
		agent := w.labAgent(process, "")
		agent.Eraser = endsAfterRecord{agent.Eraser, end}
		if err := w.run(agent, "a"); err == nil {
			t.Error("the process did not end")
		}
		w.see("after the end of the process", "thick/uid-a-1 40", "thick/uid-b-2 40")
		if got := erasedBytes(w.tagsOf("thick", "uid-a-1")); got != "0" {
			t.Errorf("recorded %q", got)
		}
		w.must(w.run(w.labAgent(t.Context(), ""), "a"))
		w.see("after the next process", "thick/uid-b-2 40")
		if w.hasSecret() {
			t.Error("the data is on the disk")
		}
	})
	t.Run("inactive", func(t *testing.T) {
		w := withSecret(t, newWorld)
		w.must(exec.CommandContext(t.Context(), "lvchange", "--activate", "n", "thick/uid-a-1").Run())
		w.must(w.run(w.labAgent(t.Context(), ""), "a"))
		if w.see("after the removal", "thick/uid-b-2 40"); w.hasSecret() {
			t.Error("the data is on the disk")
		}
	})
	t.Run("discards", func(t *testing.T) {
		w := withSecret(t, newWorld)
		err := w.run(w.labAgent(t.Context(), "Discard"), "a")
		if err != nil && !strings.Contains(err.Error(), "does not support discards") {
			t.Error(err)
		}
		if err == nil {
			w.see("after the removal", "thick/uid-b-2 40")
		}
	})
}

// endsAfterRecord ends the process after it has recorded that a volume is being erased.
type endsAfterRecord struct {
	engine.Eraser
	end context.CancelFunc
}

func (e endsAfterRecord) Erase(ctx context.Context, target erase.Target, record erase.Record) (erase.Progress, error) {
	return e.Eraser.Erase(ctx, target, func(ctx context.Context, done int64) error {
		defer e.end()
		return errors.Join(record(ctx, done), errKilled)
	})
}

// withSecret returns a world with two thick volumes full of data. The object of the first one is deleted.
func withSecret(t *testing.T, newWorld func(*testing.T) *world) *world {
	t.Helper()
	w := newWorld(t)
	for _, name := range []string{"a", "b"} {
		w.ask(name, topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(40)})
		w.must(w.run(w.agent(), name))
	}
	w.use("thick", "uid-a-1")
	w.use("thick", "uid-b-2")
	w.fill("/dev/thick/uid-a-1", secret)
	w.fill("/dev/thick/uid-b-2", "another tenant's data")
	if !w.hasSecret() {
		t.Fatal("the data is not found on the disk before the removal")
	}
	w.must(w.api.Delete(t.Context(), w.get("a")))
	return w
}

// labAgent returns a process on real LVM, with the kernel's state, that ends with ctx.
func (w *world) labAgent(ctx context.Context, method string) *Reconciler {
	w.Helper()
	engine, err := engine.New(commands{w.lvm, w}, devicemapper.New(), "")
	w.must(err)
	w.must(engine.Publish(deviceclass.Class{Name: "thick", VolumeGroup: "thick", Type: types.TypeThick,
		EraseOnDelete: method}))
	return New(Options{Client: w.api, Live: w.api, Node: "node1", Cluster: "c1", Volumes: engine,
		Eraser: erase.New(ctx), Copier: w.copier, Removed: w.forget, Recorder: events.NewFakeRecorder(100)})
}

// fill writes a text over a whole device.
func (w *world) fill(path, text string) {
	w.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	w.must(err)
	block := bytes.Repeat([]byte(text+"\n"), 1<<20/(len(text)+1))
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		w.Fatal(err)
	}
	w.must(f.Sync())
	w.must(f.Close())
}

// hasSecret returns true if the disk of the thick class has the secret, outside LVM and its caches.
func (w *world) hasSecret() bool {
	w.Helper()
	report, err := w.lvm.Report(w.Context())
	w.must(err)
	f, err := os.Open(report.VG("thick").PVs[0].Name)
	w.must(err)
	defer func() { _ = f.Close() }()
	w.must(unix.IoctlSetInt(int(f.Fd()), unix.BLKFLSBUF, 0))
	content, err := io.ReadAll(io.LimitReader(f, 1<<30))
	w.must(err)
	return bytes.Contains(content, []byte(secret))
}

func (w *world) sum(path string) [sha256.Size]byte {
	w.Helper()
	content, err := os.ReadFile(path)
	w.must(err)
	return sha256.Sum256(content)
}

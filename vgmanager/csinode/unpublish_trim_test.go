package csinode

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mountedfs"
)

// TestAnUnmountEndsATrim: it waits for the call that has the file system open, and no further one starts.
func TestAnUnmountEndsATrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		isOpen, calls := false, 0
		f, sysfs := fileSystemsWith(t, "120 30 254:7 / /staged rw shared:60 - xfs /dev/mapper/vg1-8a6e rw\n")
		size := filepath.Join(sysfs, "dev/block/254:7/size")
		if err := errors.Join(os.MkdirAll(filepath.Dir(size), 0o755),
			os.WriteFile(size, []byte("2147483648\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		f.Usage = func(string) ([]mountedfs.Usage, error) { return nil, nil }
		f.TrimRange = func(string, string, uint64, uint64) (uint64, error) {
			mu.Lock()
			isOpen = true
			calls++
			mu.Unlock()
			time.Sleep(10 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			isOpen = false
			return 1 << 20, nil
		}
		ended := make(chan error, 1)
		go func() {
			_, err := f.TrimStaged(t.Context(), "254:7", "/staged")
			ended <- err
		}()
		time.Sleep(25 * time.Second) // the second call has run for 5 seconds
		f.EndTrim(t.Context(), "/other")
		b := newBench(t)
		b.server.FileSystems = f
		begun := time.Now()
		if err := b.server.unmount(t.Context(), id, "/staged", "staging_target_path", unmounting{}); err != nil {
			t.Error(err)
		}
		mu.Lock()
		if took := time.Since(begun); isOpen || calls != 2 || took != 5*time.Second {
			t.Errorf("after %s: open %t, %d calls", took, isOpen, calls)
		}
		mu.Unlock()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the trim ended with %v", err)
		}
		time.Sleep(time.Hour)
		if calls != 2 {
			t.Errorf("%d calls", calls)
		}
		f.EndTrim(t.Context(), "/staged") // A second time, there is nothing to end.
	})
}

package lvmexec

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
)

// newLocking returns an LVM whose locks are in a temporary directory.
func newLocking(t *testing.T, r *runner) *LVM {
	t.Helper()
	l := New(r)
	l.lockDir = t.TempDir()
	return l
}

// isLocked returns whether a command of LVM would wait for the lock of vg1.
func isLocked(t *testing.T, l *LVM) bool {
	t.Helper()
	lock, err := tryLock(filepath.Join(l.lockDir, "V_vg1"))
	if err != nil {
		t.Fatal(err)
	}
	if lock != nil {
		_ = lock.Close()
	}
	return lock == nil
}

func TestExclusivelyHoldsTheLockUntilItsFunctionEnds(t *testing.T) {
	l := newLocking(t, &runner{})
	failure := errors.New("failed")
	for _, want := range []error{nil, failure, nil} {
		err := l.Exclusively(t.Context(), "vg1", "group snapshot a", func(e *Exclusive) error {
			if !isLocked(t, l) {
				t.Error("a command of LVM does not wait")
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := l.Apply(ctx, lvm.LVRemove{VG: "vg1", Names: []string{"v"}}); err == nil {
				t.Error("a command of this process does not wait")
			}
			if e.Lock == nil {
				t.Error("no file holds the lock")
			}
			return want
		})
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("got %v, want %v", err, want)
		}
		if isLocked(t, l) {
			t.Error("the lock is held afterwards")
		}
	}
}

// TestAnInheritedLockIsHeld: the lock belongs to the open file, which another process can have too.
func TestAnInheritedLockIsHeld(t *testing.T) {
	l := newLocking(t, &runner{})
	inherited := -1
	err := l.Exclusively(t.Context(), "vg1", "group snapshot a", func(e *Exclusive) (err error) {
		inherited, err = unix.Dup(int(e.Lock.Fd()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !isLocked(t, l) {
		t.Error("the lock is not held")
	}
	if err := unix.Close(inherited); err != nil {
		t.Fatal(err)
	}
	if isLocked(t, l) {
		t.Error("the lock is held afterwards")
	}
}

func TestExclusivelyGivesUpIfAnotherCommandHoldsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocking(t, &runner{})
		other, err := tryLock(filepath.Join(l.lockDir, "V_vg1"))
		if err != nil || other == nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Close() }()
		begun := time.Now()
		for range 2 {
			err = l.Exclusively(t.Context(), "vg1", "group snapshot a", func(*Exclusive) error {
				t.Error("it runs without the lock")
				return nil
			})
			if !errors.Is(err, lvm.ErrBusy) || !strings.Contains(err.Error(), "V_vg1") ||
				!strings.Contains(err.Error(), "group snapshot a") {
				t.Errorf("got %v", err)
			}
		}
		if took := time.Since(begun); took != 2*lockTimeout {
			t.Errorf("it took %s", took)
		}
	})
}

// TestALockOnARemovedFileDoesNotCount: LVM removes the file when it releases its lock.
func TestALockOnARemovedFileDoesNotCount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "V_vg1")
	old, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	if named, err := isNamed(old, path); err != nil || !named {
		t.Errorf("got %t, %v", named, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if named, err := isNamed(old, path); err != nil || named {
		t.Errorf("got %t, %v of a removed file", named, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if named, err := isNamed(old, path); err != nil || named {
		t.Errorf("got %t, %v of another file", named, err)
	}
	if _, err := tryLock(filepath.Join(path, "V_vg1")); err == nil {
		t.Error("a lock that cannot be opened is held by another process")
	}
}

const thinVolumes = `{"report": [{"lv": [
	{"lv_name":"pool", "lv_uuid":"p-0", "vg_uuid":"u-1", "pool_lv":"", "thin_id":"", "origin":"", "lv_tags":"",
	 "lv_attr":"twi-aotz--", "transaction_id":"9"},
	{"lv_name":"a", "lv_uuid":"a-0", "vg_uuid":"u-1", "pool_lv":"pool", "thin_id":"1", "origin":"", "lv_tags":"",
	 "lv_attr":"Vwi-aotz--"},
	{"lv_name":"s", "lv_uuid":"s-0", "vg_uuid":"u-1", "pool_lv":"pool", "thin_id":"7", "origin":"a", "lv_tags":"x,y",
	 "lv_attr":"Vri---tz--"}]}]}`

func TestThinVolumesAreReadWithoutTheLock(t *testing.T) {
	answer := thinVolumes
	failure := error(nil)
	r := &runner{answer: func(_ context.Context, args []string) ([]byte, error) {
		if !strings.Contains(strings.Join(args, " "), "--nolocking") {
			t.Errorf("%v would wait for the lock", args)
		}
		return []byte(answer), failure
	}}
	l := newLocking(t, r)
	read := func() (got map[string]lvm.ThinVolume, err error) {
		err = l.Exclusively(t.Context(), "vg1", "group snapshot a", func(e *Exclusive) (err error) {
			got, err = e.ThinVolumes(t.Context())
			return err
		})
		return got, err
	}
	got, err := read()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]lvm.ThinVolume{
		"a": {Name: "a", Device: "LVM-u1a0", Pool: "pool", ID: 1, Active: true},
		"s": {Name: "s", Device: "LVM-u1s0", Pool: "pool", ID: 7, Origin: "a", Tags: []string{"x", "y"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, invalid := range []string{`{"report": []}`, `x`, strings.Replace(thinVolumes, `"7"`, `""`, 1),
		strings.Replace(thinVolumes, `"Vri---tz--"`, `"VriXXXtzX-"`, 1), strings.Replace(thinVolumes, "s-0", "", 1),
		strings.Replace(thinVolumes, `"9"`, `""`, 1)} {
		answer = invalid
		if got, err := read(); err == nil {
			t.Errorf("got %v of %s", got, invalid)
		}
	}
	answer = thinVolumes
	failure = errors.New("failed")
	if got, err := read(); err == nil || got != nil {
		t.Errorf("after a failed read: got %v, %v", got, err)
	}
}

func FuzzDecodeThinVolumes(f *testing.F) {
	f.Add([]byte(thinVolumes))
	f.Fuzz(func(t *testing.T, out []byte) {
		volumes, pools, err := output.DecodeThinVolumes(out)
		for name, v := range volumes {
			if err != nil || v.Name != name || v.Pool == "" || !strings.HasPrefix(v.Device, "LVM-") {
				t.Errorf("got %+v, %v", v, err)
			}
		}
		if err != nil && pools != nil {
			t.Errorf("got %v and %v", pools, err)
		}
	})
}

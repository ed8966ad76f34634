package mountedfs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

const csiPlugins = "/var/lib/kubelet/plugins/kubernetes.io/csi"

// mountLine returns a line of the mount table for device 254:7.
func mountLine(root, at, options, super string) string {
	return fmt.Sprintf("120 30 254:7 %s %s %s shared:60 - xfs /dev/mapper/vg1-8a6e %s\n", root, at, options, super)
}

func TestStagedFileSystems(t *testing.T) {
	own := csiPlugins + "/topolvm.io/3d0f/globalmount"
	earlier := csiPlugins + "/topolvm.cybozu.com/3d0f/globalmount"
	pod := "/var/lib/kubelet/pods/5e0a/volumes/kubernetes.io~csi/pvc-1/mount"
	for name, test := range map[string]struct{ table, want string }{
		"staged":                      {mountLine("/", own, "rw,noatime", "rw"), own},
		"staged, and used by a Pod":   {mountLine("/", own, "rw", "rw") + mountLine("/", pod, "ro", "rw"), own},
		"of the earlier driver":       {mountLine("/", earlier, "rw", "rw"), earlier},
		"of another driver":           {mountLine("/", csiPlugins+"/ebs.csi.aws.com/3d0f/globalmount", "rw", "rw"), ""},
		"only in a Pod":               {mountLine("/", pod, "rw", "rw"), ""},
		"mounted by an administrator": {mountLine("/", "/mnt/globalmount", "rw", "rw"), ""},
		"a directory below":           {mountLine("/", own+"/x/globalmount", "rw", "rw"), ""},
		"part of the file system":     {mountLine("/data", own, "rw", "rw"), ""},
		"mounted read-only":           {mountLine("/", own, "ro", "rw"), ""},
		"read-only after an error":    {mountLine("/", own, "rw", "ro"), ""},
		"read-only in an emergency":   {mountLine("/", own, "rw", "rw,emergency_ro"), ""},
		"shut down":                   {mountLine("/", own, "rw", "rw,shutdown"), ""},
		"nothing":                     {others, ""},
	} {
		f := newFileSystems(t, test.table, nil)
		staged, err := f.Staged(csiPlugins, []string{"254:7", "254:8"})
		if err != nil || staged["254:7"] != test.want || (len(staged) > 0) != (test.want != "") {
			t.Errorf("%s: got %q, %v", name, staged, err)
		}
		if staged, err := f.Staged(csiPlugins, []string{"254:8"}); err != nil || len(staged) > 0 {
			t.Errorf("%s: another device: got %q, %v", name, staged, err)
		}
	}
	f := newFileSystems(t, "", nil)
	f.MountInfo = filepath.Join(t.TempDir(), "absent")
	if staged, err := f.Staged(csiPlugins, []string{"254:7"}); err == nil {
		t.Errorf("without the mounts: got %q", staged)
	}
}

// TestTrimStagedUsesHalfOfTheTime of a device, and adds up what was discarded.
func TestTrimStagedUsesHalfOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []uint64
		f := trimmable(t, 40<<30, func(path string, start uint64) error {
			steps = append(steps, start)
			if path != "/staged" {
				t.Errorf("trimmed %s", path)
			}
			time.Sleep(time.Minute)
			return nil
		})
		begun := time.Now()
		bytes, err := f.TrimStaged(t.Context(), "254:7", "/staged")
		if err != nil || bytes != 3<<20 || !slices.Equal(steps, []uint64{0, 16 << 30, 32 << 30}) {
			t.Errorf("got %d bytes, %v, steps %v", bytes, err, steps)
		}
		if took := time.Since(begun); took != 6*time.Minute {
			t.Errorf("it took %s", took)
		}
		if len(f.trimming) > 0 {
			t.Errorf("it is still listed: %v", f.trimming)
		}
	})
}

func TestTrimStagedErrors(t *testing.T) {
	for errno, unsupported := range map[unix.Errno]bool{unix.EOPNOTSUPP: true, unix.ENOTTY: true, unix.EIO: false} {
		f := trimmable(t, 1<<30, func(string, uint64) error { return errno })
		_, err := f.TrimStaged(t.Context(), "254:7", "/staged")
		if !errors.Is(err, errno) || NotSupported(err) != unsupported {
			t.Errorf("%v: got %v", errno, err)
		}
	}
}

// TestAnUnmountDoesNotWaitForADeviceThatDoesNotRespond.
func TestAnUnmountDoesNotWaitForADeviceThatDoesNotRespond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := trimmable(t, 1<<40, func(string, uint64) error { <-release; return nil })
		ended := make(chan error, 1)
		go func() {
			_, err := f.TrimStaged(t.Context(), "254:7", "/staged")
			ended <- err
		}()
		time.Sleep(time.Second)
		begun := time.Now()
		f.EndTrim(t.Context(), "/staged")
		if took := time.Since(begun); took != endTrimTimeout {
			t.Errorf("it waited %s", took)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the trim ended with %v", err)
		}
		close(release)
	})
}

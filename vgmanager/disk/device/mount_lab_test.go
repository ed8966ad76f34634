//go:build lab

package device

import (
	"testing"
	"time"
)

// TestLabLastMount: of file systems that the tools of the node have made.
func TestLabLastMount(t *testing.T) {
	l := newLab(t)
	want := func(what string, mounted bool) {
		t.Helper()
		l.settle()
		got, err := l.n.LastMount(t.Context(), l.device(l.disk))
		if err != nil || got.IsZero() == mounted || mounted && time.Since(got).Abs() > time.Hour {
			t.Errorf("%s: got %s, %v", what, got, err)
		}
	}
	want("blank", false)
	l.sh("/usr/sbin/mkfs.ext4", "-F", "-q", "-b", "4096", l.disk)
	want("never mounted", false)
	folder := t.TempDir()
	l.sh("/usr/bin/mount", "-t", "ext4", l.disk, folder)
	want("mounted", true)
	l.sh("/usr/bin/umount", folder)
	want("mounted before", true)
	l.sh("/usr/sbin/mkfs.xfs", "--unsupported", "-f", "-q", l.disk)
	want("xfs", false)
}

//go:build lab

package csinode

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// TestLabAVolumeHasItsSELinuxContext mounts with the option that the kubelet passes for a Pod with a context. Without
// SELinux, mount(8) omits it.
func TestLabAVolumeHasItsSELinuxContext(t *testing.T) {
	enforce, err := os.ReadFile("/sys/fs/selinux/enforce")
	enforces := err == nil && string(enforce) == "1"
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			m := newMapping(t)
			staging := t.TempDir()
			m.ok(m.host.Format(t.Context(), service.FileSystems[kind].Mkfs, mapped))
			options := []string{`context="system_u:object_r:container_file_t:s0:c1,c2"`, "noatime"}
			m.ok(m.host.Mount(t.Context(), mapped, staging, kind, options))
			file := filepath.Join(staging, "file")
			m.ok(os.WriteFile(file, nil, 0o600))
			if !enforces {
				m.ok(m.host.Unmount(t.Context(), staging))
				return
			}
			m.wantAccess(file)
			m.ok(m.host.Unmount(t.Context(), staging))

			// As in a container that does not have the node's configuration.
			m.ok(unix.Mount("none", "/etc/selinux", "tmpfs", 0, ""))
			defer func() { _ = unix.Unmount("/etc/selinux", 0) }()
			err := m.host.Mount(t.Context(), mapped, staging, kind, options)
			if err == nil || !strings.Contains(err.Error(), "SELinux context of "+staging) {
				t.Errorf("got %v for a volume without its context", err)
			}
			if mounted, err := m.host.IsMountPoint(staging); err != nil || mounted {
				t.Errorf("it remains mounted: %v", err)
			}
			m.ok(m.host.Mount(t.Context(), mapped, staging, kind, []string{"noatime"}))
			m.ok(m.host.Unmount(t.Context(), staging))
		})
	}
}

// wantAccess checks that a container has access to a file if it has its categories, and only then.
func (m *mapping) wantAccess(file string) {
	m.Helper()
	for categories, want := range map[string]bool{"c1,c2": true, "c1,c2,c3": true, "c1": false, "c3,c4": false} {
		out, err := exec.Command("runcon", "system_u:system_r:container_t:s0:"+categories, "cat", file).CombinedOutput()
		if (err == nil) != want {
			m.Errorf("a container with the categories %s: %v: %s", categories, err, out)
		}
	}
}

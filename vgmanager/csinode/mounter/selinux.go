package mounter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	mount "k8s.io/mount-utils"
)

const (
	contextOption = "context="
	// seLinuxFS is the mount point of selinuxfs(5), which exists while SELinux is enabled.
	seLinuxFS = "/sys/fs/selinux"
)

// mountLabeled mounts a file system, and fails if it does not have the SELinux context of its options afterwards:
// mount(8) omits the context without an error if it takes SELinux for disabled, because /etc/selinux/config does not
// exist (libselinux, is_selinux_enabled). The kubelet would take the volume as labeled, so that nothing labels its
// files, and its Pods would have no access (KEP-1710).
func (m Mounter) mountLabeled(ctx context.Context, source, target, fileSystem string, options []string) error {
	if err := m.runMount(ctx, source, target, fileSystem, options); err != nil {
		return err
	}
	if !slices.ContainsFunc(options, isContext) || !seLinuxEnabled() {
		return nil
	}
	table, err := mount.ParseMountInfo(MountInfo)
	if err == nil {
		err = checkContext(table, target)
	}
	if err != nil {
		return errors.Join(err, m.Unmount(ctx, target))
	}
	return nil
}

func isContext(option string) bool { return strings.HasPrefix(option, contextOption) }

func seLinuxEnabled() bool {
	var stat unix.Statfs_t
	err := Retry(func() error { return unix.Statfs(seLinuxFS, &stat) })
	return err == nil && stat.Type == unix.SELINUX_MAGIC
}

// checkContext returns an error if the file system at a path, the last one of the table, has no SELinux context.
func checkContext(table []mount.MountInfo, path string) error {
	for _, m := range slices.Backward(table) {
		if m.MountPoint != path {
			continue
		}
		if slices.ContainsFunc(m.SuperOptions, isContext) {
			return nil
		}
		break
	}
	return fmt.Errorf("mount(8) did not set the SELinux context of %s: check that the node has /etc/selinux/config",
		path)
}

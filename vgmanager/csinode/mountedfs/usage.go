package mountedfs

import (
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
)

// Usage is the usage type of CSI.
type Usage = *csi.VolumeUsage

// UsageOf returns the bytes and inodes of a file system, or the size of a device.
func UsageOf(path string) ([]Usage, error) {
	var stat unix.Stat_t
	if err := mounter.Retry(func() error { return unix.Stat(path, &stat) }); err != nil {
		return nil, err
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFBLK {
		size, err := sizeOf(path)
		return []Usage{{Unit: csi.VolumeUsage_BYTES, Total: size}}, err
	}
	var fs unix.Statfs_t
	if err := mounter.Retry(func() error { return unix.Statfs(path, &fs) }); err != nil {
		return nil, err
	}
	block := int64(fs.Frsize) //nolint:unconvert // Its type depends on the architecture.
	usage := []Usage{{
		Unit: csi.VolumeUsage_BYTES, Total: int64(fs.Blocks) * block,
		Used: int64(fs.Blocks-fs.Bfree) * block, Available: int64(fs.Bavail) * block,
	}}
	if fs.Files > 0 { // A file system without a fixed number of inodes reports 0.
		usage = append(usage, &csi.VolumeUsage{
			Unit: csi.VolumeUsage_INODES, Total: int64(fs.Files), Used: int64(fs.Files - fs.Ffree),
			Available: int64(fs.Ffree),
		})
	}
	return usage, nil
}

func sizeOf(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	size, err := blockdevice.Size(f)
	return int64(size), err
}

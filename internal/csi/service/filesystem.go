package service

import (
	"maps"
	"slices"
	"strings"
)

// DefaultFileSystem is the type of file system if a request names none.
const DefaultFileSystem = "ext4"

const mebi = int64(1) << 20 // bytes

// FileSystem is a type of file system that the driver can create.
type FileSystem struct {
	// Mkfs is the command without the device. MountOptions are additional mount options.
	Mkfs, MountOptions []string
	// Minimum is the minimum size in bytes.
	Minimum int64
}

// FileSystems are the types of file systems that the driver can create, by name.
var FileSystems = map[string]FileSystem{
	"ext4": {Mkfs: []string{"mkfs.ext4", "-q", "-F", "-m0"}, Minimum: 32 * mebi},
	// A snapshot has the UUID of its source, and XFS refuses to mount the same UUID twice without this option (xfs(5)).
	"xfs": {Mkfs: []string{"mkfs.xfs", "-q", "-f"}, MountOptions: []string{"nouuid"}, Minimum: 300 * mebi},
}

// Supported returns the names of the file systems, for messages.
func Supported() string { return strings.Join(slices.Sorted(maps.Keys(FileSystems)), ", ") }

package service

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
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

// SameFileSystem returns InvalidArgument if a copy is requested with another file system than its source has, because
// a copy has the content of its source. have and want are "" if they are not known.
func SameFileSystem(source, have, want string) error {
	if have == "" || want == "" || have == want {
		return nil
	}
	return status.Errorf(codes.InvalidArgument, "source %s has the file system %s, and its copy has it too, but the "+
		"StorageClass has %s: %s: use a StorageClass with %s, or copy the files to another volume with a Pod", source,
		have, v1alpha1.FilesystemTypeParameter, want, have)
}

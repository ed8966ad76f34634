package service

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// DefaultFileSystem is the type of file system if a request names none.
const DefaultFileSystem = "ext4"

const mebi = int64(1) << 20 // bytes

// FileSystem is a type of file system that the driver can create.
type FileSystem struct {
	// Mkfs is the command without the device. MountOptions are additional mount options.
	Mkfs, MountOptions []string
	// portable are options for blocks and sectors of 4096 bytes. Without them, mkfs uses the logical sectors of the
	// disk, and for ext4 below 512 MiB blocks of 1024 bytes, and the kernel does not mount the file system after the
	// volume was moved or copied to a disk with logical sectors of 4096 bytes. excludes are options of a StorageClass
	// with which they are not possible.
	portable, excludes []string
	// Minimum is the minimum size in bytes.
	Minimum int64
}

// FileSystems are the types of file systems that the driver can create, by name.
var FileSystems = map[string]FileSystem{
	"ext4": {Mkfs: []string{"mkfs.ext4", "-q", "-F", "-m0"}, portable: []string{"-b", "4096"},
		excludes: []string{"-b", "-C", "-T"}, Minimum: 32 * mebi},
	// A snapshot has the UUID of its source, and XFS refuses to mount the same UUID twice without this option (xfs(5)).
	"xfs": {Mkfs: []string{"mkfs.xfs", "-q", "-f"}, portable: []string{"-s", "size=4096"},
		excludes: []string{"-b", "-l", "-s"}, MountOptions: []string{"nouuid"}, Minimum: 300 * mebi},
}

// MkfsCommand returns the command that creates a file system of a type, without the device. options are those of the
// StorageClass.
func MkfsCommand(fileSystem string, options []string) []string {
	kind := FileSystems[fileSystem]
	excluded := slices.ContainsFunc(options, func(word string) bool {
		return slices.Contains(kind.excludes, word[:min(2, len(word))])
	})
	if excluded {
		return slices.Concat(kind.Mkfs, options)
	}
	return slices.Concat(kind.Mkfs, kind.portable, options)
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
		have, wellknown.FilesystemTypeParameter, want, have)
}

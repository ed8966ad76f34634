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

// maxMkfsOptions is the maximum number of mkfs options in a StorageClass.
const maxMkfsOptions = 32

// MkfsOptions splits the parameter of a StorageClass into options. No shell interprets them, so quotes have no special
// meaning. It refuses options that could name a device.
func MkfsOptions(parameter string) ([]string, error) {
	options := strings.Fields(parameter)
	if len(options) > maxMkfsOptions {
		return nil, status.Errorf(codes.InvalidArgument, "%s has %d words, more than the limit of %d",
			v1alpha1.MkfsOptionsParameter, len(options), maxMkfsOptions)
	}
	for _, option := range options {
		if strings.HasPrefix(option, "/") {
			return nil, status.Errorf(codes.InvalidArgument, "%s has %q: paths are not allowed in options of mkfs",
				v1alpha1.MkfsOptionsParameter, option)
		}
	}
	return options, nil
}

// Package service has what the operator and the agents share of the CSI services: the lock of a volume, the check of a
// request, the file systems, the log of calls, and which codes of a LogicalVolume are final.
package service

import (
	"regexp"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CheckRequest refuses incomplete calls, and requests that a volume on one node cannot fulfill.
func CheckRequest(id, path, pathName string, capability *csi.VolumeCapability) error {
	switch {
	case id == "":
		return status.Error(codes.InvalidArgument, "volume_id is required")
	case path == "":
		return status.Errorf(codes.InvalidArgument, "%s is required", pathName)
	case capability == nil:
		return status.Error(codes.InvalidArgument, "volume_capability is required")
	case capability.GetBlock() == nil && capability.GetMount() == nil:
		return status.Error(codes.InvalidArgument, "volume_capability is neither block nor mount")
	case !slices.Contains(accessModes, capability.GetAccessMode().GetMode()):
		return status.Errorf(codes.InvalidArgument,
			"access mode %s is not supported: a volume is on one node, so only single-node modes are possible",
			capability.GetAccessMode().GetMode())
	}
	return checkMountOptions(capability.GetMount().GetMountFlags())
}

// refusedMountOptions name a device or a file, mount something else than the volume, start a program, or stop the node
// when the file system of a volume has an error (mount(8), ext4(5), xfs(5)).
var refusedMountOptions = []string{"loop", "offset", "sizelimit", "logdev", "rtdev", "journal_path", "journal_dev",
	"bind", "rbind", "move", "remount", "helper", "uhelper", "errors=panic", "encryption"}

// refusedMountPrefixes are those of groups of such options, in lower case.
var refusedMountPrefixes = []string{"x-mount.", "verity."}

var (
	// mountOption matches an option with or without a value. It has no "/", and no quotes, which libmount removes.
	mountOption = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.+-]*(?:=[A-Za-z0-9_.:+@%-]*)?$`)
	// seLinuxContext matches an option with the context of a volume, as the kubelet writes it.
	seLinuxContext = regexp.MustCompile(`^(?:fs|def|root)?context="[A-Za-z0-9_.:,-]*"$`)
)

// checkMountOptions returns InvalidArgument for a mount option of a StorageClass that is not for the file system alone.
func checkMountOptions(flags []string) error {
	for _, flag := range flags {
		if seLinuxContext.MatchString(flag) {
			continue
		}
		for option := range strings.SplitSeq(flag, ",") {
			if option != "" && !isMountOption(option) {
				return status.Errorf(codes.InvalidArgument, "mount option %q is not allowed: options that name a "+
					"device or a file, mount something else or stop the node are refused; remove it from the "+
					"StorageClass, and from the PersistentVolume if it exists", option)
			}
		}
	}
	return nil
}

func isMountOption(option string) bool {
	name, _, _ := strings.Cut(option, "=")
	isRefused := slices.Contains(refusedMountOptions, name) || slices.Contains(refusedMountOptions, option) ||
		slices.ContainsFunc(refusedMountPrefixes, func(prefix string) bool {
			return strings.HasPrefix(strings.ToLower(name), prefix)
		})
	return mountOption.MatchString(option) && !isRefused
}

var accessModes = []csi.VolumeCapability_AccessMode_Mode{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
}

package devicemapper

import "strings"

// PoolSuffix is the suffix of name and UUID of the mapped device of a thin pool itself, on which those of its volumes
// are built (LVM's lib/activate/dev_manager.c). A pool without active volumes has none.
const PoolSuffix = "-tpool"

// VolumeName returns the name of a logical volume in device-mapper. LVM doubles the hyphens in both names and joins
// them with one hyphen (libdm/libdm-string.c, dm_build_dm_name).
func VolumeName(vg, lv string) string { return groupPrefix(vg) + double(lv) }

// IsVolumeOf returns true if a mapped device with this name is of a logical volume of a volume group.
func IsVolumeOf(name, vg string) bool {
	rest, is := strings.CutPrefix(name, groupPrefix(vg))
	return is && !strings.HasPrefix(rest, "-")
}

func groupPrefix(vg string) string { return double(vg) + "-" }

func double(name string) string { return strings.ReplaceAll(name, "-", "--") }

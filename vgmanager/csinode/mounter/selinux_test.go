package mounter

import (
	"testing"

	mount "k8s.io/mount-utils"
)

// TestAMountWithoutItsContextIsAnError reads mount tables. TestLabAVolumeHasItsSELinuxContext mounts file systems.
func TestAMountWithoutItsContextIsAnError(t *testing.T) {
	labeled := mount.MountInfo{MountPoint: "/staging", SuperOptions: []string{"rw",
		`context="system_u:object_r:container_file_t:s0:c1`, `c2"`}}
	plain := mount.MountInfo{MountPoint: "/staging", SuperOptions: []string{"rw", "seclabel"}}
	other := labeled
	other.MountPoint = "/other"
	for name, test := range map[string]struct {
		table []mount.MountInfo
		fails bool
	}{
		"labeled":                    {table: []mount.MountInfo{labeled}},
		"another one":                {table: []mount.MountInfo{other, labeled, other}},
		"without a context":          {table: []mount.MountInfo{other, plain}, fails: true},
		"not mounted":                {table: []mount.MountInfo{other}, fails: true},
		"a context is hidden by one": {table: []mount.MountInfo{labeled, plain}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := checkContext(test.table, "/staging"); (err != nil) != test.fails {
				t.Error(err)
			}
		})
	}
}

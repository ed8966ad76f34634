package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/uml"
)

// DefaultFlavor is the flavor of nodes with this machine's own root.
const DefaultFlavor = "debian12"

// Flavor is a kind of host for the nodes of a lab.
type Flavor struct {
	Name string
	// Description describes such a host in one line.
	Description string
	// Excluded are tests that cannot pass on such a host. All other tests must pass.
	Excluded []Exclusion

	node spec.Flavor
	// root is the source of the node's root; nil for this machine's own root.
	root *rootSpec
	// ownKernel is set for nodes that run the User Mode Linux of their Debian release, which is older and slower.
	ownKernel bool
	// kind is the default kind of data disks.
	kind Kind
	// disks are added to the requested ones.
	disks []DiskSpec
}

// Exclusion is a test that is not run on a flavor.
type Exclusion struct {
	// Test is the name of a test function, or of a test and its subtests as in -test.run.
	Test string
	// Reason is why the test cannot pass.
	Reason string
}

// hostDisk is the disk of the node's own volume group.
const hostDisk = "host"

// manyDisks is the number of additional disks of a node of the flavor many-disks.
const manyDisks = 40

// Flavors returns all flavors; the first is the default.
func Flavors() []Flavor {
	all := listed()
	for i := range all {
		all[i].Excluded = append(all[i].Excluded, layersExclusions(all[i])...)
		if all[i].node.DevicesFile == "" {
			all[i].Excluded = append(all[i].Excluded,
				Exclusion{"TestSceneHiddenGroupIsAdopted",
					"LVM hides no volume group of another host where it has no devices file"})
		}
	}
	return all
}

// layersExclusions returns the tests of encrypted disks and arrays that need, or do not allow, cryptsetup and mdadm.
func layersExclusions(f Flavor) []Exclusion {
	if f.root != nil && slices.Contains(f.root.packages, "mdadm") {
		return []Exclusion{
			{"TestSceneArrayOfTheHost", "udev assembles its array with mdadm, which the test simulates"},
			{"TestSceneEncryptedDevice", "TestSceneContainerOfCryptsetup does the same with cryptsetup"},
		}
	}
	return []Exclusion{
		{"TestSceneArrayOfMdadm", "the host does not have mdadm"},
		{"TestSceneContainerOfCryptsetup", "the host does not have cryptsetup"},
	}
}

func listed() []Flavor {
	return []Flavor{
		{Name: DefaultFlavor, Description: "Debian 12: LVM 2.03.16 with its defaults"},
		{
			Name: "devicesfile", Description: "LVM uses its devices file, which has no entries",
			node: spec.Flavor{DevicesFile: spec.DevicesFileEmpty},
		},
		{
			Name: "devicesfile-absent", Description: "LVM is to use its devices file, which does not exist",
			node: spec.Flavor{DevicesFile: spec.DevicesFileAbsent},
		},
		{
			Name:        "devicesfile-root",
			Description: "LVM uses its devices file, made with the host's own volume group, which is mounted",
			node:        spec.Flavor{DevicesFile: spec.DevicesFileAbsent, HostVG: hostDisk},
			disks:       []DiskSpec{{Name: hostDisk, Kind: Plain, Size: 256 * MiB}},
		},
		{
			Name: "sectors4k", Description: "disks with logical sectors of 4096 bytes",
			node: spec.Flavor{SectorSize: 4096}, kind: SCSI,
		},
		{
			Name: "multipath", Description: "multipathd runs, and each SCSI disk (scsi:SIZE) has two paths",
			node: spec.Flavor{Multipath: true}, root: debian12("multipath-tools"),
			Excluded: []Exclusion{
				{"TestLabMultipath",
					"manually creates a multipath device from two disks with one WWN, which multipathd already uses"},
				{"TestLabIdentityOfClones", "multipathd takes its two disks with one WWN as two paths of one disk, " +
					"so they cannot be removed at the end"},
			},
		},
		{
			Name: "readonly-usr", Description: "/usr is mounted read-only, as on CoreOS",
			node: spec.Flavor{ReadOnlyUsr: true},
		},
		{
			Name:        "no-thin-tools",
			Description: "no thin_check, thin_repair and thin_dump (thin-provisioning-tools is not installed)",
			node:        spec.Flavor{Without: []string{"/usr/sbin/thin_*", "/usr/sbin/pdata_tools"}},
			Excluded: []Exclusion{
				{"TestSceneLostDiskOfAPlainGroup/thin",
					"a pool that is marked for a check is repaired with thin_check, which such a host lacks"},
			},
		},
		{
			Name:        "no-lvm",
			Description: "no LVM, dmsetup, thin-provisioning-tools and their rules for udev: the image's are used",
			node: spec.Flavor{Without: []string{"/usr/sbin/lv*", "/usr/sbin/pv*", "/usr/sbin/vg*", "/usr/sbin/dmsetup",
				"/usr/sbin/dmstats", "/usr/sbin/dmeventd", "/usr/sbin/thin_*", "/usr/sbin/pdata_tools",
				"/etc/lvm/lvm.conf", "/etc/lvm/profile", "/usr/lib/udev/rules.d/*-dm.rules",
				"/usr/lib/udev/rules.d/*-dm-notify.rules",
				"/usr/lib/udev/rules.d/*-lvm.rules"}},
		},
		{
			Name: "many-disks", Description: fmt.Sprintf("%d further SCSI disks", manyDisks),
			disks: furtherDisks(manyDisks),
			Excluded: []Exclusion{
				{"TestLabDiscoveryGrowsAGroup", "counts the disks of a device class that takes every unused one"},
			},
		},
		{
			Name: "lvm31",
			Description: "Debian 13: LVM 2.03.31, thin-provisioning-tools 1.1, cryptsetup 2.7, mdadm 4.4, " +
				"systemd 257, kernel 6.12",
			root: debian13("cryptsetup-bin", "mdadm"), ownKernel: true,
		},
		{
			Name:        "lvm31-devicesfile",
			Description: "Debian 13 as lvm31; LVM uses its devices file, which has no entries",
			node:        spec.Flavor{DevicesFile: spec.DevicesFileEmpty}, root: debian13(), ownKernel: true,
		},
		{Name: "kernel61", Description: "Debian 12 with its own kernel, 6.1", ownKernel: true},
		{
			Name: "selinux",
			Description: "Debian 12 with its own kernel, 6.1, which enforces SELinux: Pods without privileges are " +
				"confined",
			node: spec.Flavor{SELinux: true}, root: debian12("checkpolicy", "selinux-utils"), ownKernel: true,
		},
	}
}

func furtherDisks(n int) []DiskSpec {
	var disks []DiskSpec
	for i := 1; i <= n; i++ {
		disks = append(disks, DiskSpec{Name: fmt.Sprintf("further%d", i), Kind: SCSI, Size: 64 * MiB})
	}
	return disks
}

// FindFlavor returns the flavor with a name; an empty name means the default.
func FindFlavor(name string) (Flavor, error) {
	if name == "" {
		name = DefaultFlavor
	}
	all := Flavors()
	i := slices.IndexFunc(all, func(f Flavor) bool { return f.Name == name })
	if i < 0 {
		var names []string
		for _, f := range all {
			names = append(names, f.Name)
		}
		return Flavor{}, fmt.Errorf("flavor %q does not exist: the flavors are %s", name, strings.Join(names, ", "))
	}
	f := all[i]
	f.node.Name = f.Name
	return f, nil
}

// testArgs adds -test.skip for the excluded tests to a command line with flags of a test binary.
func (f Flavor) testArgs(args []string) []string {
	if len(f.Excluded) == 0 || !isTest(args) {
		return args
	}
	var patterns []string
	rest := slices.Clone(args)
	if i := slices.Index(rest, skipFlag); i >= 0 && i+1 < len(rest) {
		patterns = append(patterns, rest[i+1])
		rest = slices.Delete(rest, i, i+2)
	}
	for _, e := range f.Excluded {
		patterns = append(patterns, exactly(e.Test))
	}
	return append(rest, skipFlag, strings.Join(patterns, "|"))
}

// isTest reports whether a command line is that of a test binary.
func isTest(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-test.") })
}

const skipFlag = "-test.skip"

// exactly returns the pattern of one test. The testing package splits a pattern at slashes and matches each part
// separately.
func exactly(test string) string {
	var parts []string
	for _, part := range strings.Split(test, "/") {
		parts = append(parts, "^"+part+"$")
	}
	return strings.Join(parts, "/")
}

// prepare creates what the nodes of the flavor need, and returns their specification.
func (f Flavor) prepare(ctx context.Context, o Options, programs []string) (spec.Flavor, spec.Kernel, error) {
	node, kernel := f.node, uml.Installed()
	if !f.ownKernel {
		dir, err := builtKernel{}.ensure(ctx, o.Progress)
		if err != nil {
			return node, kernel, err
		}
		kernel = kernelIn(dir)
		programs = append(slices.Clone(programs), dir)
	}
	if f.root == nil {
		return node, kernel, nil
	}
	var err error
	if node.Root, err = f.root.ensure(ctx, o.Progress); err != nil {
		return node, kernel, err
	}
	if f.ownKernel {
		if kernel, err = uml.FromRoot(node.Root, filepath.Join(o.State, spec.KernelFile)); err != nil {
			return node, kernel, err
		}
	}
	node.Folders, err = sharedFolders(o, programs)
	return node, kernel, err
}

// sharedFolders returns the directories of this machine that are visible on a node with another root: the lab's state
// and programs, the repository, the cache, and the directories for RunTestBinary. None is inside another one.
func sharedFolders(o Options, programs []string) ([]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	folders := append([]string{root, cache, o.State}, o.folders...)
	// A set of programs may be a link into another checkout's cache.
	for _, dir := range append([]string{filepath.Join(cache, "lab", "programs")}, programs...) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			folders = append(folders, real)
		}
	}
	return outermost(slices.DeleteFunc(folders, isSystem)), nil
}

// systemFolders are the directories that a node with another root does not share.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/var/lib", "/boot"}

func isSystem(dir string) bool {
	return dir == "/" || slices.ContainsFunc(systemFolders,
		func(system string) bool { return strings.HasPrefix(dir+"/", system+"/") })
}

// outermost omits directories that are inside another one.
func outermost(folders []string) []string {
	var list []string
	slices.Sort(folders)
	for _, dir := range folders {
		if !slices.ContainsFunc(list, func(outer string) bool { return strings.HasPrefix(dir+"/", outer+"/") }) {
			list = append(list, dir)
		}
	}
	return list
}

// allDisks returns the requested disks and those that the flavor adds.
func (f Flavor) allDisks(asked []DiskSpec) []DiskSpec { return slices.Concat(asked, f.disks) }

// dataDisks returns the devices of the disks that the flavor did not add.
func (f Flavor) dataDisks(disks []Disk) []string {
	var devices []string
	for _, d := range disks {
		if !slices.ContainsFunc(f.disks, func(added DiskSpec) bool { return added.Name == d.Name }) {
			devices = append(devices, d.Device)
		}
	}
	return devices
}

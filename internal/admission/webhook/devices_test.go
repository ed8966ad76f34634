package webhook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func classesOf(t *testing.T, text string) []lvmv1alpha1.DeviceClass {
	t.Helper()
	var classes []lvmv1alpha1.DeviceClass
	if err := yaml.UnmarshalStrict([]byte(text), &classes); err != nil {
		t.Fatal(err)
	}
	return classes
}

// check compares violations with the expected texts.
func check(t *testing.T, name string, got field.ErrorList, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %d violations %v, want %d", name, len(got), got, len(want))
		return
	}
	for i := range want {
		if !strings.Contains(got[i].Error(), want[i]) {
			t.Errorf("%s: got %q, want %q", name, got[i].Error(), want[i])
		}
	}
}

func TestRulesAboutNamespaceLimits(t *testing.T) {
	const wrong = "namespaceLimits[0].perNode: Invalid value: "
	for name, tt := range map[string]struct {
		classes string
		want    []string
	}{
		"a limit and none": {"[{name: a, namespaceLimits: [{namespace: x, perNode: 10Gi}, {perNode: 0}]}]", nil},
		"negative":         {`[{name: a, namespaceLimits: [{perNode: "-1"}]}]`, []string{wrong + `"-1"`}},
		"not whole":        {"[{name: a, namespaceLimits: [{perNode: 100m}]}]", []string{wrong + `"100m"`}},
	} {
		check(t, name, validateSpec(lvmv1alpha1.LVMClusterSpec{
			Storage: lvmv1alpha1.Storage{DeviceClasses: classesOf(t, tt.classes)}}), tt.want...)
	}
}

func TestRulesAboutDevices(t *testing.T) {
	inRack := onRack("a")
	tests := map[string]struct {
		classes string
		want    []string
	}{
		"properties": {
			"[{name: a, deviceSelector: {minSize: 1Gi, maxSize: 1Gi, transports: [NVMe, sata]}}]", nil},
		"a size that is no disk": {"[{name: a, deviceSelector: {minSize: 1Ki, maxSize: 2Ki}}]",
			[]string{"deviceSelector.minSize", "at least 16Mi"}},
		"sizes crossed": {"[{name: a, deviceSelector: {minSize: 2Gi, maxSize: 1Gi}}]",
			[]string{"must not be less than minSize, which is 2Gi"}},
		"unknown transport": {"[{name: a, deviceSelectors: [{transports: [nvme, pigeon]}]}]",
			[]string{`deviceSelectors[0].transports[1]: Unsupported value: "pigeon"`}},
		"a volume group that is adopted and destroyed": {
			"[{name: a, adopt: [{node: n1, volumeGroupUUID: u1}], deviceSelector: {paths: [/dev/x], " +
				"wipeVolumeGroups: [old, u1]}}]",
			[]string{`deviceSelector.wipeVolumeGroups[1]: Invalid value: "u1": device class "a" adopts this volume group`}},
		"the same properties twice": {
			"[{name: a, deviceSelector: {minSize: 1Gi}}, {name: b, deviceSelector: {minSize: 1024Mi}}]",
			[]string{
				`device class "a" selects the same devices on the same nodes, at spec.storage.deviceClasses[0].deviceSelector`},
		},
		"labels": {"[{name: a, deviceSelector: {labels: {tier: fast, example.com/rack: \"\"}}}]", nil},
		"a label key that is none": {"[{name: a, deviceSelectors: [{labels: {a b: fast}}]}]", []string{
			`deviceSelectors[0].labels[a b]: Invalid value: "a b": device class "a": no device can have a label with ` +
				`this key: use a key like tier or example.com/tier`}},
		"a label value that is none": {"[{name: a, deviceSelector: {paths: [/dev/a], labels: {tier: very fast}}}]",
			[]string{`deviceSelector.labels[tier]: Invalid value: "very fast": device class "a": no device can have a ` +
				`label with this value`}},
		"the same labels twice": {
			"[{name: a, deviceSelector: {labels: {tier: fast}}}, {name: b, deviceSelector: {labels: {tier: fast}}}]",
			[]string{
				`device class "a" selects the same devices on the same nodes, at spec.storage.deviceClasses[0].deviceSelector`},
		},
		"other labels": {
			"[{name: a, deviceSelector: {labels: {tier: fast}}}, {name: b, deviceSelector: {labels: {tier: slow}}}]", nil},
		"labels on other nodes": {"[{name: a, " + inRack +
			", deviceSelector: {labels: {tier: fast}}}, {name: b, " + strings.Replace(inRack, "[a]", "[b]", 1) +
			", deviceSelector: {labels: {tier: fast}}}]", nil},
		"other nodes": {"[{name: a, " + inRack +
			", deviceSelector: {minSize: 1Gi}}, {name: b, " + strings.Replace(inRack, "[a]", "[b]", 1) +
			", deviceSelector: {minSize: 1Gi}}]", nil},
		"enough devices": {
			"[{name: a, raidConfig: {type: raid5}, deviceSelector: {paths: [/dev/a, /dev/b], optionalPaths: [/dev/c]}}]", nil},
		"too few devices": {
			"[{name: a, raidConfig: {type: raid6}, deviceSelector: {paths: [/dev/a, /dev/b]}}]",
			[]string{"raid6 requires at least 5 devices on each node, but paths and optionalPaths name 2"}},
		"too few devices for a striped mirror": {"[{name: a, raidConfig: {type: raid10, stripes: 2, mirrors: 1}, " +
			"deviceSelector: {paths: [/dev/a, /dev/b, /dev/c]}}]",
			[]string{"raid10 requires at least 4 devices on each node, but paths and optionalPaths name 3"}},
		"too few devices in all entries": {"[{name: a, raidConfig: {type: raid1, mirrors: 2}, deviceSelectors: [{" +
			inRack + ", paths: [/dev/a]}, {" + strings.Replace(inRack, "[a]", "[b]", 1) +
			", paths: [/dev/a, /dev/b]}]}]", []string{
			"deviceClasses[0].deviceSelectors: Invalid value: 2: raid1 requires at least 3 devices"}},
		"an entry that nobody can count": {
			"[{name: a, raidConfig: {type: raid1}, deviceSelectors: [{paths: [/dev/a]}, {minSize: 1Gi}]}]", nil},
		"devices nobody can count": {"[{name: a, raidConfig: {type: raid6}, deviceSelector: {minSize: 1Gi}}]", nil},
		"a crooked stripe": {"[{name: a, raidConfig: {type: raid5, stripeSize: 100Ki}}]",
			[]string{"must be a power of two of at least 4Ki"}},
		"several without devices": {"[{name: a}, {name: b, deviceSelectors: [{minSize: 1Gi}]}]",
			[]string{
				`deviceClasses[0].deviceSelector: Required value: device class "a" would use every unused device`}},
		"a path on two kinds of nodes": {
			"[{name: a, deviceSelectors: [{" + inRack + ", paths: [/dev/a]}, {" +
				strings.Replace(inRack, "[a]", "[b]", 1) + ", paths: [/dev/a]}]}]", nil,
		},
		"a path in both lists": {
			"[{name: a, deviceSelector: {paths: [/dev/a], optionalPaths: [/dev/a]}}]",
			[]string{"optionalPaths[0]: Invalid value: \"/dev/a\": optional device path /dev/a is specified at multiple " +
				"places in deviceClass"},
		},
		"a path twice on a node": {
			"[{name: a, deviceSelectors: [{paths: [/dev/a]}, {" + inRack + ", paths: [/dev/a]}]}]",
			[]string{
				`deviceSelectors[1].paths[0]: Invalid value: "/dev/a": device path /dev/a is specified at multiple places in deviceClass "a"`},
		},
	}
	for name, tt := range tests {
		got := validateSpec(lvmv1alpha1.LVMClusterSpec{
			Storage: lvmv1alpha1.Storage{DeviceClasses: classesOf(t, tt.classes)}})
		if name == "a size that is no disk" {
			tt.want = []string{"deviceSelector.minSize", "deviceSelector.maxSize"}
		}
		check(t, name, got, tt.want...)
	}
}

// onRack returns a nodeSelector field for a selector.
func onRack(name string) string {
	return "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: rack, operator: In, values: [" + name +
		"]}]}]}"
}

// onNode returns a nodeSelector for one node.
func onNode(name string) string {
	return "nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [" + name +
		"]}]}]}"
}

func nodeIn(node, rack string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"rack": rack}}}
}

func TestConsentToWipeIsForNewDevices(t *testing.T) {
	const (
		plain  = "[{name: a, deviceSelector: {paths: [/dev/a]}}]"
		wiping = "[{name: w, deviceSelector: {paths: [/dev/w], forceWipeDevicesAndDestroyAllData: true}}]"
	)
	racks := "[{name: a, deviceSelectors: [{" + onRack("a") +
		", paths: [/dev/a], forceWipeDevicesAndDestroyAllData: true}, {" + onRack("b") + ", paths: [/dev/a]}]}]"
	tests := map[string]struct {
		before, after string
		want          []string
	}{
		"for a device that is there": {plain,
			"[{name: a, deviceSelector: {paths: [/dev/a], forceWipeDevicesAndDestroyAllData: true}}]",
			[]string{"deviceSelector.forceWipeDevicesAndDestroyAllData: Forbidden: /dev/a was already in device " +
				"class"}},
		"for a device written otherwise": {plain,
			"[{name: a, deviceSelector: {optionalPaths: [/dev//a], forceWipeDevicesAndDestroyAllData: true}}]",
			[]string{"/dev/a was already in device class"}},
		"by another entry": {plain, "[{name: a, deviceSelectors: [{paths: [/dev/b], " +
			"forceWipeDevicesAndDestroyAllData: true}, {paths: [/dev/a]}]}]", nil},
		"it was there all the time": {wiping,
			"[{name: w, deviceSelector: {paths: [/dev/w, /dev/x], forceWipeDevicesAndDestroyAllData: true}}]", nil},
		"a new device class": {plain,
			"[{name: n, deviceSelector: {paths: [/dev/a], forceWipeDevicesAndDestroyAllData: true}}]", nil},
		"taken back":         {wiping, "[{name: w, deviceSelector: {paths: [/dev/w]}}]", nil},
		"as it was, by rack": {racks, racks, nil},
		"for the other rack": {racks, strings.Replace(racks, "paths: [/dev/a]}]",
			"paths: [/dev/a], forceWipeDevicesAndDestroyAllData: true}]", 1), []string{"deviceSelectors[1].forceWipe"}},
		"for a node, by other words": {"[{name: a, deviceSelectors: [{" + onRack("b") + ", paths: [/dev/a]}]}]",
			"[{name: a, deviceSelectors: [{" + strings.Replace(onRack("b"), "[b]", "[b, c]", 1) +
				", paths: [/dev/a], forceWipeDevicesAndDestroyAllData: true}]}]",
			[]string{"/dev/a was already in device class"}},
	}
	known := inventory{nodes: []corev1.Node{nodeIn("n1", "a"), nodeIn("n2", "b")}}
	begun := []lvmv1alpha1.LVMVolumeGroup{{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "w"}}}
	for name, tt := range tests {
		before := classesOf(t, tt.before)
		after := classesOf(t, tt.after)
		check(t, name, wipesNew(before, after, begun, known), tt.want...)
		check(t, name+", before anything was done", wipesNew(before, after, nil, known))
	}
}

func TestNothingIsWipedByTheNameOfTheKernel(t *testing.T) {
	forced := func(paths string) string {
		return "[{name: a, deviceSelector: {optionalPaths: [" + paths + "], forceWipeDevicesAndDestroyAllData: true}}]"
	}
	tests := map[string]struct {
		before, after string
		want          []string
	}{
		"a new path": {forced("/dev/sdc"), forced("/dev/sdc, /dev/sdb"),
			[]string{"optionalPaths[1]: Invalid value: \"/dev/sdb\": is a name of the kernel, which can lead to another disk " +
				"after a restart, and its content would be destroyed: name the device by a link in /dev/disk/by-id or " +
				"/dev/disk/by-path; on node n1 it is /dev/disk/by-id/wwn-1"}},
		"written otherwise":      {forced("/dev/sdc"), forced("/dev//sdz"), []string{"\"/dev//sdz\": is a name of the kernel"}},
		"NVMe":                   {forced("/dev/sdc"), forced("/dev/nvme1n1p2"), []string{"is a name of the kernel"}},
		"as it was":              {forced("/dev/sdc"), forced("/dev/sdc"), nil},
		"a link":                 {forced("/dev/sdc"), forced("/dev/disk/by-path/pci-1"), nil},
		"a name of the host":     {forced("/dev/sdc"), forced("/dev/mapper/mpatha"), nil},
		"without consent":        {"[]", "[{name: a, deviceSelector: {paths: [/dev/sdb]}}]", nil},
		"a class without groups": {"[]", strings.Replace(forced("/dev/sdb"), "name: a", "name: new", 1), nil},
	}
	begun := []lvmv1alpha1.LVMVolumeGroup{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}
	for name, tt := range tests {
		check(t, name, wipesByLinks(classesOf(t, tt.before), classesOf(t, tt.after), begun, twoNodes()), tt.want...)
	}
}

// twoNodes returns an inventory in which n1 and n2 have the disks sda, with the operating system, and sdb. The volume
// group a has sdc and sdd of n1.
func twoNodes() inventory {
	system := lvmv1alpha1.DeviceStatus{Name: "/dev/sda", ID: "wwn:s", State: lvmv1alpha1.DeviceInUse,
		Reasons: []lvmv1alpha1.DeviceReason{
			{Code: "Mounted", Message: "is mounted on /"},
			{Code: "IsOSDisk", Message: "contains the operating system of the node, or a part of it"}}}
	blank := lvmv1alpha1.DeviceStatus{Name: "/dev/sdb", ID: "wwn:1", KernelName: "/dev/sdb",
		ByID: []string{"wwn-1", "ata-x"}, ByPath: []string{"pci-1"}, State: lvmv1alpha1.DeviceAvailable}
	full := lvmv1alpha1.DeviceStatus{Name: "/dev/sdb", ID: "wwn:9", ByID: []string{"wwn-9"},
		State:   lvmv1alpha1.DeviceExcluded,
		Reasons: []lvmv1alpha1.DeviceReason{{Code: "HasSignature", Message: "carries xfs"}}}
	ours := func(name, uuid string) lvmv1alpha1.DeviceStatus {
		return lvmv1alpha1.DeviceStatus{Name: name, ID: "wwn:" + uuid, ByID: []string{"wwn-" + uuid}, PVUUID: uuid,
			VolumeGroup: "a", VolumeGroupUUID: "UA", State: lvmv1alpha1.DeviceInUse,
			Reasons: []lvmv1alpha1.DeviceReason{{Code: "InVolumeGroup", Message: "of volume group a"}}}
	}
	status := func(entries []lvmv1alpha1.VGStatus,
		devices ...lvmv1alpha1.DeviceStatus) lvmv1alpha1.LVMVolumeGroupNodeStatus {
		return lvmv1alpha1.LVMVolumeGroupNodeStatus{
			Status: lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{NodeStatus: entries, Devices: identities(devices)}}
	}
	gone := lvmv1alpha1.DeviceStatus{Name: "/dev/sde", ID: "wwn:e", ByID: []string{"wwn-e"},
		State: lvmv1alpha1.DeviceMissing}
	group := lvmv1alpha1.VGStatus{Name: "a", PhysicalVolumes: []lvmv1alpha1.PhysicalVolumeStatus{
		{UUID: "C", Name: "/dev/sdc", DeviceID: "wwn:C", Path: "/dev/disk/by-id/wwn-C"},
		{UUID: "D", Name: "/dev/sdd", DeviceID: "wwn:D"}}}
	return inventory{
		nodes: []corev1.Node{nodeIn("n1", "a"), nodeIn("n2", "b"), nodeIn("n3", "b")},
		statuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{
			"n1": status([]lvmv1alpha1.VGStatus{group}, system, blank, ours("/dev/sdc", "C"),
				ours("/dev/sdd", "D"), gone),
			"n2": status(nil, system, full),
		},
	}
}

func TestPathsThatAreOneDevice(t *testing.T) {
	tests := map[string]struct {
		before, after string
		want          []string
	}{
		"two devices": {"[]",
			"[{name: a, deviceSelector: {paths: [/dev/sda, /dev/disk/by-id/wwn-1]}}]", nil},
		"two names of one": {"[]",
			"[{name: a, deviceSelector: {paths: [/dev/sdb, /dev/disk/by-id/wwn-1]}}]", []string{"paths[1]: Invalid " +
				"value: \"/dev/disk/by-id/wwn-1\": resolves to the same device on node n1 (/dev/sdb wwn:1) as /dev/sdb " +
				"at spec.storage.deviceClasses[0].deviceSelector.paths[0]: name it once"}},
		"in two device classes": {"[]", "[{name: a, deviceSelector: {paths: " +
			"[/dev/disk/by-path/pci-1]}}, {name: b, deviceSelector: {optionalPaths: [/dev/disk/by-id/ata-x]}}]",
			[]string{
				`deviceClasses[1].deviceSelector.optionalPaths[0]: Invalid value: "/dev/disk/by-id/ata-x": resolves to the same device on node n1 (/dev/sdb wwn:1) as /dev/disk/by-path/pci-1 at spec.storage.deviceClasses[0].deviceSelector.paths[0], in device class "a"`}},
		"in classes of other nodes": {"[]",
			"[{name: a, " + onRack("a") + ", deviceSelector: {paths: [/dev/disk/by-path/pci-1]}}, {name: b, " +
				onRack("b") + ", deviceSelector: {optionalPaths: [/dev/disk/by-id/ata-x]}}]", nil},
		"in entries of other nodes": {"[]",
			"[{name: a, deviceSelectors: [{" + onRack("a") + ", paths: [/dev/disk/by-path/pci-1]}, {" + onRack("b") +
				", paths: [/dev/disk/by-id/ata-x]}]}]", nil},
		"three names of one": {"[]",
			"[{name: a, deviceSelector: {paths: [/dev/sdb, /dev/disk/by-id/wwn-1, /dev/disk/by-id/ata-x]}}]",
			[]string{"paths[1]", "paths[2]"}},
		"devices that nobody knows": {"[]",
			"[{name: a, deviceSelector: {paths: [/dev/sdx, /dev/sdy]}}]", nil},
		"a name that is not there": {"[]",
			"[{name: a, deviceSelector: {paths: [/dev/sde, /dev/disk/by-id/wwn-e]}}]", nil},
		"both were there before": {
			"[{name: a, deviceSelector: {paths: [/dev/sdb, /dev/disk/by-id/wwn-1]}}]",
			"[{name: a, deviceSelector: {paths: [/dev/sdb, /dev/disk/by-id/wwn-1, /dev/sdc]}}]", nil},
		"one path by two selectors": {"[]",
			"[{name: a, " + onRack("b") + ", deviceSelector: {paths: [/dev/sdx]}}, {name: b, " + onNode("n3") +
				", deviceSelector: {paths: [/dev/sdx]}}]",
			[]string{
				`deviceClasses[1].deviceSelector.paths[0]: Invalid value: "/dev/sdx": resolves to the same device on node n3 as /dev/sdx at spec.storage.deviceClasses[0].deviceSelector.paths[0], in device class "a"`}},
		"one path by two equal selectors is told elsewhere": {"[]",
			"[{name: a, " + onRack("b") + ", deviceSelector: {paths: [/dev/sdx]}}, {name: b, " + onRack("b") +
				", deviceSelector: {paths: [/dev/sdx]}}]", nil},
		"one was there before": {"[{name: a, deviceSelector: {paths: [/dev/sdb]}}]",
			"[{name: a, deviceSelector: {paths: [/dev/sdb, /dev/disk/by-id/wwn-1]}}]", []string{"paths[1]"}},
	}
	for name, tt := range tests {
		before := classesOf(t, tt.before)
		after := classesOf(t, tt.after)
		check(t, name, twoNodes().validateUniqueDevices(before, after), tt.want...)
		check(t, name+", without an inventory", inventory{}.validateUniqueDevices(before, after))
	}
}

// TestAPathOfAClassForAllNodesAndOfOneForSome: upstream accepts it, because the nodes can differ.
func TestAPathOfAClassForAllNodesAndOfOneForSome(t *testing.T) {
	for name, test := range map[string]struct {
		classes string
		refused bool
		want    string
	}{
		"some and all": {classes: "[{name: a, deviceSelector: {paths: [/dev/x]}}, {name: b, " + onRack("b") +
			", deviceSelector: {optionalPaths: [/dev//x]}}]",
			want: `device classes "a" and "b" both name /dev//x, and one of them selects all nodes`},
		"all twice": {classes: "[{name: a, deviceSelector: {paths: [/dev/x]}}, {name: b, deviceSelector: {paths: " +
			"[/dev/x]}}]", refused: true},
		"the same ones twice": {classes: "[{name: a, " + onRack("b") + ", deviceSelector: {paths: [/dev/x]}}, {name: b, " +
			onRack("b") + ", deviceSelector: {paths: [/dev/x]}}]", refused: true},
		"different ones": {classes: "[{name: a, " + onRack("a") + ", deviceSelector: {paths: [/dev/x]}}, {name: b, " +
			onRack("b") + ", deviceSelector: {paths: [/dev/x]}}]"},
		"other paths": {classes: "[{name: a, deviceSelector: {paths: [/dev/x]}}, {name: b, " + onRack("b") +
			", deviceSelector: {paths: [/dev/y]}}]"},
	} {
		classes := classesOf(t, test.classes)
		if got := validateUniquePaths(classes); (len(got) > 0) != test.refused {
			t.Errorf("%s: refused with %v, want a refusal: %t", name, got, test.refused)
		}
		got := strings.Join(sharedPaths(classes), "\n")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: got the warning %q, want %q", name, got, test.want)
		}
	}
}

func TestWarningsAboutDevices(t *testing.T) {
	const a = `device class "a": `
	tests := map[string]struct {
		before, after string
		want          []string
	}{
		"nothing to say": {"[{name: a, deviceSelector: {paths: [/dev/disk/by-id/wwn-1]}}]",
			"[{name: a, deviceSelector: {paths: [/dev/disk/by-id/wwn-1]}}]", nil},
		"a wipe": {"[]", "[{name: a, deviceSelector: {paths: [/dev/x], optionalPaths: [/dev//y], " +
			"forceWipeDevicesAndDestroyAllData: true}}]",
			[]string{a + "all data on /dev/x, /dev/y will be destroyed, once for each disk, unless the disk is in " +
				"use"}},
		"a volume group that is destroyed": {"[]", "[{name: b, deviceSelector: {paths: [/dev/sdc], " +
			"wipeVolumeGroups: [a, b]}}]", []string{`device class "b": volume groups on /dev/sdc will be destroyed with ` +
			"all their logical volumes, unless one is in use: a, b"}},
		"a pool that cannot grow": {"[]", "[{name: a, deviceSelector: {paths: [/dev/x]}, thinPoolConfig: {name: p, " +
			"overprovisionRatio: 1, sizePercent: 100, autoExtend: {}}}]",
			[]string{a + "thinPoolConfig.autoExtend has no effect"}},
		"a pool that can": {"[]", "[{name: a, deviceSelector: {paths: [/dev/x]}, thinPoolConfig: {name: p, " +
			"overprovisionRatio: 1, sizePercent: 99, autoExtend: {}}}]", nil},
		"the machine's own disk": {"[]", "[{name: a, deviceSelector: {paths: [/dev/sda]}}]",
			[]string{"spec.storage.deviceClasses[0].deviceSelector.paths[0]: " + a +
				"/dev/sda cannot be used on nodes n1, n2: /dev/sda wwn:s IsOSDisk: contains the operating system of the node, or a part of it"}},
		"the machine's own disk, to be wiped": {"[]",
			"[{name: a, deviceSelector: {paths: [/dev/sda], forceWipeDevicesAndDestroyAllData: true}}]",
			[]string{"all data on /dev/sda", "/dev/sda can lead to another disk", "/dev/sda cannot be used on nodes n1, n2"}},
		"usable on one node": {"[]", "[{name: a, deviceSelector: {paths: [/dev/sdb]}}]", nil},
		"usable on no node of a class": {"[]", "[{name: a, " + onRack("b") + ", deviceSelector: {paths: [/dev/sdb]}}]",
			[]string{"/dev/sdb cannot be used on node n2: /dev/sdb wwn:9 HasSignature: carries xfs"}},
		"to be wiped there": {"[]", "[{name: a, " + onRack("b") +
			", deviceSelector: {paths: [/dev/sdb], forceWipeDevicesAndDestroyAllData: true}}]",
			[]string{"all data on /dev/sdb", "/dev/sdb can lead to another disk after a restart"}},
		"in the group already": {"[]", "[{name: a, deviceSelector: {paths: [/dev/sdc]}}]", nil},
		"in the group of another class": {"[]", "[{name: b, deviceSelector: {paths: [/dev/sdc]}}]",
			[]string{"/dev/sdc cannot be used on node n1: /dev/sdc wwn:C InVolumeGroup: of volume group a"}},
		"in a group that is adopted": {"[]", "[{name: b, deviceSelector: {paths: [/dev/sdc]}, adopt: [{node: n1, " +
			"volumeGroupUUID: UA}]}]", nil},
		"in a group that is adopted on another node": {"[]", "[{name: b, deviceSelector: {paths: [/dev/sdc]}, adopt: " +
			"[{node: n2, volumeGroupUUID: UA}]}]", []string{"/dev/sdc cannot be used on node n1"}},
		"in another group than the one that is adopted": {"[]", "[{name: b, deviceSelector: {paths: [/dev/sdc]}, " +
			"adopt: [{node: n1, volumeGroupUUID: UB}]}]", []string{"/dev/sdc cannot be used on node n1"}},
		"unknown nodes": {"[]", "[{name: a, deviceSelector: {paths: [/dev/x]}, deviceRequests: [{node: n9, device: " +
			"/dev/x, action: Cordon}, {node: n1, device: /dev/x, action: Cordon}], adopt: [{node: n8, " +
			"volumeGroupUUID: u}, {node: n1, volumeGroupUUID: u}]}]",
			[]string{`deviceRequests[0].node: ` + a + `node "n9" does not exist`,
				`adopt[0].node: ` + a + `node "n8" does not exist`}},
		"removed and named by the same path": {"[]", "[{name: a, deviceSelector: {paths: [/dev/sdc, /dev/sdd]}, " +
			"deviceRequests: [{node: n1, device: /dev/sdc, action: Remove}]}]", []string{a + "the request to " +
			"remove /dev/sdc on node n1 conflicts with its path at spec.storage.deviceClasses[0].deviceSelector.paths[0]"}},
		"removed and named by another path": {"[]", "[{name: a, deviceSelectors: [{optionalPaths: " +
			"[/dev/disk/by-id/wwn-C, /dev/sdd]}], deviceRequests: [{node: n1, device: wwn:C, action: Remove}]}]",
			[]string{"the request to remove wwn:C on node n1 conflicts with its path at " +
				"spec.storage.deviceClasses[0].deviceSelectors[0].optionalPaths[0]"}},
		"removed by UUID and named": {"[]", "[{name: a, deviceSelector: {paths: [/dev/sdc, /dev/sdd]}, " +
			"deviceRequests: [{node: n1, device: D, action: Remove}]}]", []string{"the request to remove D on node " +
			"n1 conflicts with its path at spec.storage.deviceClasses[0].deviceSelector.paths[1]"}},
		"removed and named for other nodes": {"[]",
			"[{name: a, deviceSelectors: [{" + onRack("b") +
				", paths: [/dev/sdc]}], deviceRequests: [{node: n1, device: /dev/sdc, action: Remove}]}]", nil},
		"drained and named": {"[]", "[{name: a, deviceSelector: {paths: [/dev/sdc, /dev/sdd]}, " +
			"deviceRequests: [{node: n1, device: /dev/sdc, action: Drain}, {node: n1, device: D, action: Drain}]}]",
			nil},
		"every device removed": {"[]", "[{name: a, deviceSelector: {paths: [/dev/x]}, " +
			"deviceRequests: [{node: n1, device: /dev/disk/by-id/wwn-C, action: Remove}, {node: n1, device: D, " +
			"action: Remove}]}]", []string{a + "deviceRequests would remove every device of its volume group on " +
			"node n1"}},
		"on another node": {"[]", "[{name: a, deviceSelector: {paths: [/dev/x]}, " +
			"deviceRequests: [{node: n1, device: C, action: Remove}, {node: n2, device: D, action: Remove}]}]", nil},
		"a path taken out": {"[{name: a, deviceSelector: {paths: [/dev/x, /dev/y]}}]",
			"[{name: a, deviceSelector: {paths: [/dev/y]}}]", []string{a + "/dev/x is no longer selected on nodes n1, n2, " +
				"n3: unless another path or property selects the device, its data is moved"}},
		"a path made optional": {"[{name: a, deviceSelector: {paths: [/dev/x, /dev/y]}}]",
			"[{name: a, deviceSelectors: [{paths: [/dev/y], optionalPaths: [/dev//x]}]}]", nil},
		"a path taken out on some nodes": {"[{name: a, deviceSelector: {paths: [/dev/x, /dev/y]}}]",
			"[{name: a, deviceSelectors: [{" + onRack("a") + ", paths: [/dev/x, /dev/y]}, {" + onRack("b") +
				", paths: [/dev/y]}]}]", []string{"/dev/x is no longer selected on nodes n2, n3"}},
		"the whole selector taken out":     {"[{name: a, deviceSelector: {paths: [/dev/x]}}]", "[{name: a}]", nil},
		"the whole device class taken out": {"[{name: a, deviceSelector: {paths: [/dev/x]}}]", "[]", nil},
		"too few for the redundancy, by rack": {"[]",
			"[{name: a, raidConfig: {type: raid1}, deviceSelectors: [{" + onRack("a") +
				", paths: [/dev/x, /dev/y]}, {" + onRack("b") + ", paths: [/dev/x]}]}]",
			[]string{a + "raid1 requires at least 2 devices, but fewer are named for nodes n2, n3"}},
		"enough for the redundancy, everywhere": {"[]",
			"[{name: a, raidConfig: {type: raid1}, deviceSelectors: [{" + onRack("a") +
				", paths: [/dev/x, /dev/y]}]}]", nil},
	}
	for name, tt := range tests {
		got := deviceWarnings(classesOf(t, tt.before), classesOf(t, tt.after), twoNodes())
		if len(got) != len(tt.want) {
			t.Errorf("%s: got %d warnings\n%s\nwant %d", name, len(got), strings.Join(got, "\n"), len(tt.want))
			continue
		}
		for i, want := range tt.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: got\n%s\nwant\n%s", name, got[i], want)
			}
		}
	}
}

func TestAPathTakenOutIsToldForNodesThatHaveADevice(t *testing.T) {
	observed := func(is metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: lvmv1alpha1.ConditionDevicesObserved, Status: is}}
	}
	disk := lvmv1alpha1.DeviceStatus{Name: "/dev/sdb", ID: "wwn:1", ByID: []string{"wwn-1"}, ByPath: []string{"pci-1"},
		State: lvmv1alpha1.DeviceInUse}
	pulled := disk
	pulled.State = lvmv1alpha1.DeviceMissing
	group := func(name string, pv lvmv1alpha1.PhysicalVolumeStatus) []lvmv1alpha1.VGStatus {
		return []lvmv1alpha1.VGStatus{{Name: name, PhysicalVolumes: []lvmv1alpha1.PhysicalVolumeStatus{pv}}}
	}
	lost := lvmv1alpha1.PhysicalVolumeStatus{UUID: "L", State: lvmv1alpha1.PhysicalVolumeMissing}
	tests := map[string]struct {
		status *lvmv1alpha1.LVMVolumeGroupNodeStatusStatus
		told   bool
	}{
		"it leads to a device": {
			&lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{Conditions: observed("True"),
				Devices: []lvmv1alpha1.DeviceStatus{disk}}, true},
		"it leads to one that was pulled": {
			&lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{Conditions: observed("True"),
				Devices: []lvmv1alpha1.DeviceStatus{pulled}}, true},
		"the group has a device by it": {
			&lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{Conditions: observed("True"),
				NodeStatus: group("a", lvmv1alpha1.PhysicalVolumeStatus{UUID: "P",
					Path: "/dev/disk/by-id/wwn-1"})}, true},
		"the group lacks a device": {
			&lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{Conditions: observed("True"),
				NodeStatus: group("a", lost)}, true},
		"the group of another class lacks a device": {
			&lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{Conditions: observed("True"),
				NodeStatus: group("b", lost)}, false},
		"it leads to nothing": {
			&lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{Conditions: observed("True"),
				Devices: []lvmv1alpha1.DeviceStatus{{Name: "/dev/sdc"}}}, false},
		"the node has no devices": {
			&lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{Conditions: observed("True")}, false},
		"the node could not be looked at": {
			&lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{Conditions: observed("False")}, true},
		"the node has not listed its devices": {&lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{}, true},
		"the node has no status":              {nil, true},
	}
	before := classesOf(t, "[{name: a, deviceSelector: {paths: [/dev/disk/by-id//wwn-1, /dev/y]}}]")
	after := classesOf(t, "[{name: a, deviceSelector: {paths: [/dev/y]}}]")
	for name, tt := range tests {
		known := inventory{nodes: []corev1.Node{nodeIn("has", "a"), nodeIn("asked", "a")},
			statuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{
				"has": {Status: *tests["it leads to a device"].status},
			}}
		if tt.status != nil {
			known.statuses["asked"] = lvmv1alpha1.LVMVolumeGroupNodeStatus{Status: *tt.status}
		}
		want := "is no longer selected on node has:"
		if tt.told {
			want = "is no longer selected on nodes has, asked:"
		}
		if got := known.takenOut(before, after); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	nowhere := inventory{nodes: []corev1.Node{nodeIn("n", "a")},
		statuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{"n": {Status: *tests["it leads to nothing"].status}}}
	if got := nowhere.takenOut(before, after); len(got) != 0 {
		t.Errorf("it leads to nothing anywhere: got %q", got)
	}
}

func TestManyNodesAreCounted(t *testing.T) {
	for want, nodes := range map[string][]string{
		"node a": {"a"}, "nodes a, b": {"a", "b"}, "nodes a, b, c": {"a", "b", "c"},
		"nodes a, b, c and 2 more": {"a", "b", "c", "d", "e"},
	} {
		if got := shown(nodes); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSamplesAreAdmitted(t *testing.T) {
	samples, err := filepath.Glob("../../../config/samples/lvm_*.yaml")
	if err != nil || len(samples) < 3 {
		t.Fatalf("samples %q, %v", samples, err)
	}
	for _, sample := range samples {
		data, err := os.ReadFile(sample)
		if err != nil {
			t.Fatal(err)
		}
		cluster := &lvmv1alpha1.LVMCluster{}
		if err := yaml.UnmarshalStrict(data, cluster); err != nil {
			t.Fatalf("%s: %v", sample, err)
		}
		check(t, sample, validateSpec(cluster.Spec))
	}
}

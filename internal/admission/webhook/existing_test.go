package webhook

import (
	"strings"
	"testing"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func TestExistingGroupsAreSharedSafely(t *testing.T) {
	const on = "nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [%]}]}]}"
	n1 := strings.Replace(on, "%", "n1", 1)
	n2 := strings.Replace(on, "%", "n2", 1)
	thin := func(pool string) string { return "thinPoolConfig: {name: " + pool + ", overprovisionRatio: 1}" }
	tests := map[string]struct {
		classes string
		want    []string
	}{
		"one":                        {"[{name: a, existingVolumeGroup: data}]", nil},
		"with the name of the class": {"[{name: data, existingVolumeGroup: data}]", nil},
		"thick and two pools": {"[{name: a, existingVolumeGroup: data}, {name: b, existingVolumeGroup: data, " +
			thin("p") + "}, {name: c, existingVolumeGroup: data, " + thin("q") + "}]", nil},
		"stripes": {"[{name: a, existingVolumeGroup: data, existingVolumeGroupConfig: {stripes: 2, stripeSize: 64Ki}}]", nil},
		"an odd stripe size": {"[{name: a, existingVolumeGroup: data, existingVolumeGroupConfig: {stripes: 2, " +
			"stripeSize: 65Ki}}]", []string{"deviceClasses[0].existingVolumeGroupConfig.stripeSize: Invalid value: " +
			"\"65Ki\": must be a power of two of at least 4Ki"}},
		"beside a class without a selector": {"[{name: a}, {name: b, existingVolumeGroup: data}]", nil},
		"twice thick": {"[{name: a, existingVolumeGroup: data}, {name: b, existingVolumeGroup: data}]",
			[]string{"deviceClasses[1].existingVolumeGroup: Invalid value: \"data\": already has device class \"a\""}},
		"twice thick on different nodes": {"[{name: a, existingVolumeGroup: data, " + n1 +
			"}, {name: b, existingVolumeGroup: data, " + n2 + "}]", nil},
		"twice the pool": {"[{name: a, existingVolumeGroup: data, " + thin("p") + "}, {name: b, existingVolumeGroup: " +
			"data, " + thin("p") + "}]", []string{"its thin pool \"p\" already has device class \"a\""}},
		"that of another class": {"[{name: a, existingVolumeGroup: b}, {name: b, deviceSelector: {paths: [/dev/sdb]}}]",
			[]string{"is the volume group of device class \"b\""}},
		"that is destroyed": {"[{name: a, existingVolumeGroup: data}, {name: b, deviceSelector: {paths: [/dev/sdb], " +
			"wipeVolumeGroups: [data]}}]", []string{"deviceClasses[1].deviceSelector.wipeVolumeGroups[0]: Invalid " +
			"value: \"data\": device class \"a\" uses this volume group"}},
		"that is destroyed elsewhere": {"[{name: a, existingVolumeGroup: data, " + n1 + "}, {name: b, " + n2 +
			", deviceSelector: {paths: [/dev/sdb], wipeVolumeGroups: [data]}}]", nil},
	}
	for name, tt := range tests {
		classes := classesOf(t, tt.classes)
		check(t, name, existingGroupsPossible(classes), tt.want...)
		check(t, name, devicesNamed(classes))
	}
}

func TestExistingGroupsHaveNoWarningsAboutDevices(t *testing.T) {
	classes := classesOf(t, "[{name: a, default: true, existingVolumeGroup: data, thinPoolConfig: {name: p, "+
		"sizePercent: 100, overprovisionRatio: 1}}]")
	if got := warnings(lvmv1alpha1.LVMClusterSpec{Storage: lvmv1alpha1.Storage{DeviceClasses: classes}}); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

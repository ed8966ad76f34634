package webhook

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

const lun = "0x6001405a1b2c3d4e5f60718293a4b5c6"

// lunNodes returns two nodes that see one LUN. Each also has a virtual disk with the serial number of its template.
func lunNodes() inventory {
	status := func(name string) lvmv1alpha1.LVMVolumeGroupNodeStatus {
		return lvmv1alpha1.LVMVolumeGroupNodeStatus{Status: lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{
			Devices: identities([]lvmv1alpha1.DeviceStatus{
				{Name: name, ID: "wwn:" + lun, WWN: lun, ByID: []string{"wwn-" + lun}},
				{Name: "/dev/sdz", ID: "serial:drive-scsi0", Serial: "drive-scsi0", ByID: []string{"scsi-0QEMU_drive-scsi0"}},
			})}}
	}
	return inventory{nodes: []corev1.Node{nodeIn("n1", "a"), nodeIn("n2", "b")},
		statuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{"n1": status("/dev/sdb"), "n2": status("/dev/sdk")}}
}

func TestDisksOfSeveralNodes(t *testing.T) {
	const link = "/dev/disk/by-id/wwn-" + lun
	both := "[{name: a, deviceSelector: {paths: [" + link + "]}}]"
	one := "[{name: a, " + onRack("a") + ", deviceSelector: {paths: [" + link + "]}}]"
	entries := "[{name: a, deviceSelectors: [{" + onRack("a") + ", paths: [/dev/sdb]}, {" + onRack("b") +
		", optionalPaths: [/dev/sdk]}]}]"
	const refused = `"` + link + `": names one disk on several nodes, by its WWN ` + lun + ": nodes n1 (/dev/sdb), n2 " +
		"(/dev/sdk). Two nodes that use one disk destroy its data, so none takes it: present the disk to one node only"
	tests := map[string]struct {
		before, after string
		change        func(inventory)
		want          []string
		warns         string
	}{
		"new, on both nodes": {before: "[]", after: both, want: []string{refused}},
		"by other names": {before: "[]", after: entries,
			want: []string{"deviceSelectors[0].paths[0]", "deviceSelectors[1].optionalPaths[0]"}},
		"as before":                 {before: both, after: both, warns: "names one disk on several nodes, by its WWN"},
		"as before, by other names": {before: both, after: entries, warns: "nodes n1 (/dev/sdb), n2 (/dev/sdk)"},
		"on a second node": {before: one, after: both,
			want: []string{"names one disk on several nodes, by its WWN " + lun + ": nodes n2 (/dev/sdk), n1 (/dev/sdb)"}},
		"a second path": {before: one, after: entries,
			want: []string{`deviceSelectors[1].optionalPaths[0]: Invalid value: "/dev/sdk": names one disk`}},
		"on one node that alone names it": {before: "[]", after: one,
			warns: "names a disk that is attached to several nodes, by its WWN " + lun + ": nodes n1 (/dev/sdb), n2 (/dev/sdk)"},
		"on one node, after the other has lost it": {before: "[]", after: both, change: func(i inventory) {
			i.statuses["n2"].Status.Devices[0].State = lvmv1alpha1.DeviceMissing
		}},
		"the serial number of a template": {before: "[]",
			after: "[{name: a, deviceSelector: {paths: [/dev/disk/by-id/scsi-0QEMU_drive-scsi0]}}]"},
		"a list without WWNs": {before: "[]", after: both, want: []string{refused}, change: func(i inventory) {
			for _, s := range i.statuses {
				s.Status.Devices[0].WWN = ""
			}
		}},
		"nobody knows it": {before: "[]", after: "[{name: a, deviceSelector: {paths: [/dev/sdq]}}]"},
		"by properties":   {before: "[]", after: "[{name: a, deviceSelector: {minSize: 1Gi}}]"},
	}
	for name, tt := range tests {
		known := lunNodes()
		if tt.change != nil {
			tt.change(known)
		}
		violations, warnings := known.sharedDisks(classesOf(t, tt.before), classesOf(t, tt.after))
		check(t, name, violations, tt.want...)
		text := strings.Join(warnings, "\n")
		if tt.warns == "" && text != "" || !strings.Contains(text, tt.warns) {
			t.Errorf("%s: got the warnings %q, want %q", name, text, tt.warns)
		}
		violations, warnings = inventory{}.sharedDisks(classesOf(t, tt.before), classesOf(t, tt.after))
		check(t, name+", without an inventory", violations)
		if len(warnings) != 0 {
			t.Errorf("%s, without an inventory: got the warnings %q", name, warnings)
		}
	}
}

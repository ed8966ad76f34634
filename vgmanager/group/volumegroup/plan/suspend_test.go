package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// tagged returns a function that tags the physical volume on the device c as suspended.
func tagged(vg *lvm.VG) { vg.PVs[1].Tags = append(vg.PVs[1].Tags, wellknown.SuspendedTag) }

func suspended(spec v1alpha1.LVMVolumeGroupSpec) v1alpha1.LVMVolumeGroupSpec {
	spec.DeviceRequests = slices.Clone(spec.DeviceRequests)
	spec.DeviceRequests[len(spec.DeviceRequests)-1].Suspend = true
	return spec
}

func because(spec v1alpha1.LVMVolumeGroupSpec, reason string) v1alpha1.LVMVolumeGroupSpec {
	spec.DeviceRequests[len(spec.DeviceRequests)-1].SuspendReason = reason
	return spec
}

func TestPlanOfSuspendedDevices(t *testing.T) {
	cordon := request("pv-c", v1alpha1.DeviceActionCordon)
	drain := request("/dev/sdc", v1alpha1.DeviceActionDrain)
	inUse := func() lvm.VG { return edit(group("b", "c"), used(gib)) }
	for name, test := range map[string]struct {
		spec    v1alpha1.LVMVolumeGroupSpec
		vg      lvm.VG
		failing bool
		want    string
		// of the device c in the status
		state     v1alpha1.PhysicalVolumeState
		suspended bool
		message   string
		says      []string
	}{
		"the tag comes first": {suspended(cordon), inUse(), false, "Progressing SuspendDevice /dev/sdc", "Cordoned",
			false, "", nil},
		"then the cordon": {suspended(cordon), edit(inUse(), tagged), false, "Progressing CordonDevice /dev/sdc",
			"Cordoned", true, "new Pods do not get the volumes a", nil},
		"suspended": {suspended(cordon), edit(closed(inUse()), tagged), false, "Ready", "Cordoned", true,
			"suspended (deviceRequests): new Pods do not get the volumes a; no new extents are allocated on it", nil},
		"suspended, with a reason": {because(suspended(cordon), "by admin:\n smart"), edit(closed(inUse()), tagged), false,
			"Ready", "Cordoned", true, "do not get the volumes a; suspended by admin: smart; no new extents", nil},
		"suspended and empty": {suspended(cordon), edit(closed(group("b", "c")), tagged), false, "Ready", "Cordoned", true,
			"it has no data of a volume", nil},
		"suspended and failing": {suspended(cordon), edit(closed(inUse()), tagged), true, "Degraded", "Failing", true,
			"I/O error", []string{"is failing: I/O error"}},
		"suspended and drained": {suspended(drain), edit(closed(inUse()), tagged), false,
			"Progressing MoveExtents /dev/sdc", "Draining", true, "new Pods do not get the volumes a; its extents are", nil},
		"resumed, and still cordoned": {cordon, edit(closed(inUse()), tagged), false,
			"Progressing ResumeDevice /dev/sdc", "Cordoned", true, "no new extents", nil},
		"cordoned only": {cordon, closed(inUse()), false, "Ready", "Cordoned", false, "no new extents", nil},
		"the request is withdrawn": {v1alpha1.LVMVolumeGroupSpec{}, edit(closed(inUse()), tagged), false,
			"Progressing ResumeDevice /dev/sdc", "Ready", true, "", nil},
		"of another device": {suspended(request("pv-b", v1alpha1.DeviceActionCordon)), edit(inUse(), tagged), false,
			"Progressing SuspendDevice /dev/sdb", "Ready", true, "", nil},
		"missing: LVM cannot change the tag": {suspended(cordon), edit(inUse(), lost), false, "Degraded", "Missing", false,
			"", []string{"is missing the physical volume pv-c"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := state.NodeState{Report: report(test.vg), Devices: []device.Device{disk("b"), disk("c")}, Class: thickDone}
			if test.vg.MissingPVs > 0 {
				s.Devices = s.Devices[:1]
			}
			s.Disks.Identities = device.Identities(s.Devices)
			pv := s.Report.VG("vg1").PVs[1]
			if test.failing {
				s.Health.Failing = map[device.Number]error{state.NumberOf(pv): errors.New("I/O error")}
			}
			p := New(testDesired(test.spec), s)
			checkPlan(t, name, p, test.want, test.says)
			got := physicalVolume(state.Outcome{Node: s, Plan: p}, pv)
			if got.State != test.state || got.Suspended != test.suspended ||
				!strings.Contains(got.Message, test.message) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

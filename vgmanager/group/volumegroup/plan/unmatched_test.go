package plan

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/devicerequests"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/publication"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestRequestsStayInForce: the device pv-b is cordoned by a name. Then its name or identity changes.
func TestRequestsStayInForce(t *testing.T) {
	for name, tt := range map[string]struct {
		device string
		change func(*state.NodeState)
		meant  string
	}{
		"nothing changes":                {"serial:serial-b", func(*state.NodeState) {}, "pv-b"},
		"the identity changes":           {"serial:serial-b", func(s *state.NodeState) { s.Devices[0].Serial = "new" }, "pv-b"},
		"the identity is lost":           {"serial:serial-b", func(s *state.NodeState) { s.Devices[0].Serial = "" }, "pv-b"},
		"another disk gets the identity": {"serial:serial-b", func(s *state.NodeState) { swap(s) }, "pv-b"},
		"another disk gets the name":     {"/dev/sdb", func(s *state.NodeState) { rename(s) }, "pv-b"},
		"a link is lost":                 {"/dev/disk/by-id/b", func(s *state.NodeState) { s.Devices[0].ByID = nil }, "pv-b"},
		"the UUID":                       {"pv-b", func(s *state.NodeState) { s.Devices[0].Serial = "new" }, "pv-b"},
	} {
		t.Run(name, func(t *testing.T) {
			d := testDesired(v1alpha1.LVMVolumeGroupSpec{DeviceRequests: []v1alpha1.DeviceRequest{
				{Node: "n1", Device: tt.device, Action: v1alpha1.DeviceActionCordon}}})
			vg := group("b", "c")
			s := state.NodeState{Report: report(vg), Devices: []device.Device{disk("b"), disk("c")}}
			s.Disks.Identities = device.Identities(s.Devices)
			for i := range 3 { // the identity changes at a restart; then the agent reports again
				s.Before = Entry(state.Outcome{Node: s, Plan: New(d, s)}, d, s.Before, metav1.Time{})
				if i == 0 {
					tt.change(&s)
					s.Disks.Identities = device.Identities(s.Devices)
				}
			}
			p := New(d, s)
			if p.Action.Kind != state.Cordon || p.Action.PVs()[0].UUID != tt.meant {
				t.Errorf("got %+v, want a cordon of %s", p.Action, tt.meant)
			}
			if got := devicerequests.Unmatched(d, s, ownership.GroupOf(d, s)); got != "" {
				t.Error(got)
			}
		})
	}
}

// rename exchanges the kernel names of the two disks, as at a restart.
func rename(s *state.NodeState) {
	b, c := &s.Devices[0], &s.Devices[1]
	b.Name, c.Name = c.Name, b.Name
	b.KernelName, c.KernelName = c.KernelName, b.KernelName
	b.Number, c.Number = c.Number, b.Number
	pvs := s.Report.VGs[0].PVs
	pvs[0].Name, pvs[1].Name = pvs[1].Name, pvs[0].Name
	pvs[0].Major, pvs[1].Major = pvs[1].Major, pvs[0].Major
	pvs[0].Minor, pvs[1].Minor = pvs[1].Minor, pvs[0].Minor
}

// swap exchanges the serial numbers of the two disks.
func swap(s *state.NodeState) {
	s.Devices[0].Serial, s.Devices[1].Serial = s.Devices[1].Serial, s.Devices[0].Serial
}

// TestWhatNamesNoDeviceIsReported: an administrator who relies on a request, a label or an approval learns of it.
func TestWhatNamesNoDeviceIsReported(t *testing.T) {
	of := func(action v1alpha1.DeviceAction, name string) v1alpha1.DeviceRequest {
		return v1alpha1.DeviceRequest{Node: "n1", Device: name, Action: action}
	}
	for name, tt := range map[string]struct {
		request  v1alpha1.DeviceRequest
		labels   []v1alpha1.DeviceLabels
		approved string
		want     string
	}{
		"a cordon":             {request: of(v1alpha1.DeviceActionCordon, "wwn:old"), want: "the request Cordon for wwn:old"},
		"a cordon of a spare":  {request: of(v1alpha1.DeviceActionCordon, "serial:serial-d")},
		"a removal that ended": {request: of(v1alpha1.DeviceActionRemove, "wwn:old")},
		"a cordon of another node": {request: v1alpha1.DeviceRequest{Node: "n2", Device: "wwn:old",
			Action: v1alpha1.DeviceActionCordon}},
		"labels":                  {labels: []v1alpha1.DeviceLabels{{ID: "wwn:old"}}, want: "the labels of wwn:old"},
		"labels of a device":      {labels: []v1alpha1.DeviceLabels{{ID: "serial:serial-d"}}},
		"an approval":             {approved: "wwn:old", want: "the approval a of wwn:old"},
		"an approval of a device": {approved: "serial:serial-d"},
		"an approval of its path": {approved: "/dev/sdd"},
	} {
		t.Run(name, func(t *testing.T) {
			d := testDesired(v1alpha1.LVMVolumeGroupSpec{})
			if tt.request.Device != "" {
				d.Spec.DeviceRequests = []v1alpha1.DeviceRequest{tt.request}
			}
			if tt.approved != "" {
				d.Consent.Approvals = []v1alpha1.LVMDeviceApproval{{ObjectMeta: metav1.ObjectMeta{Name: "a"},
					Spec: v1alpha1.LVMDeviceApprovalSpec{Device: tt.approved}}}
			}
			s := state.NodeState{Report: report(group("b")), Devices: []device.Device{disk("b"), disk("d")}}
			s.Disks.Identities = device.Identities(s.Devices)
			s.Disks.UnmatchedLabels = devicerequests.UnmatchedLabels(s.Devices, tt.labels)
			got := devicerequests.Unmatched(d, s, &lvm.VG{PVs: s.Report.VGs[0].PVs})
			if (got != "") != (tt.want != "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if class := publication.ClassOf(d, nil, s.Report.VGs[0].UUID); tt.want != "" {
				s.Class = &class
				s.Report.VGs[0].Tags = ownership.OwnerTags(d)
				if p := New(d, s); p.State != v1alpha1.VGStatusReady || !strings.Contains(p.Note, tt.want) {
					t.Errorf("the status is %s: %s, %+v", p.State, p.Note, p.Problems)
				}
			}
		})
	}
}

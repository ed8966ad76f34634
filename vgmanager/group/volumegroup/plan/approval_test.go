package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// requiring returns a device class with approval: Required.
func requiring(spec v1alpha1.LVMVolumeGroupSpec) v1alpha1.LVMVolumeGroupSpec {
	spec.Approval = v1alpha1.ApprovalRequired
	return spec
}

// observed returns an observation of devices with their identities and fingerprints.
func observed(s state.NodeState, devices ...device.Device) state.NodeState {
	s.Devices = devices
	if s.Report == nil {
		s.Report = report()
	}
	s.Disks.Identities = device.Identities(devices)
	s.Disks.Fingerprints = device.NewFingerprints(devices, state.PhysicalVolumes(s.Report))
	return s
}

// approvalFor returns the approval of a device as it is now.
func approvalFor(d device.Device, reasons ...device.Reason) v1alpha1.LVMDeviceApproval {
	s := observed(state.NodeState{}, d)
	return v1alpha1.LVMDeviceApproval{ObjectMeta: metav1.ObjectMeta{Name: "approval-" + d.Name},
		Spec: v1alpha1.LVMDeviceApprovalSpec{NodeName: "n1", DeviceClassName: "vg1", Device: s.Disks.Identities[d.Number],
			Fingerprint: s.Disks.Fingerprints.Of(d, reasons), ApprovedBy: "ann"}}
}

func TestPlanOfApprovals(t *testing.T) {
	all := requiring(v1alpha1.LVMVolumeGroupSpec{})
	named := requiring(v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector})
	wiping := requiring(forced("/dev/disk/by-id/b"))
	raid := requiring(v1alpha1.LVMVolumeGroupSpec{
		RAIDConfig: &v1alpha1.RAIDConfig{Type: "raid1", Mirrors: new(int32(1))}})
	larger := disk("b")
	larger.Size += 1 << 20
	young := disk("b")
	young.Appeared = time.Second
	nameless := disk("b")
	nameless.Serial = ""
	tests := map[string]struct {
		spec      v1alpha1.LVMVolumeGroupSpec
		approvals []v1alpha1.LVMDeviceApproval
		seen      state.NodeState
		want      string
		note      string
		excluded  []string
	}{
		"nothing is approved": {spec: all, seen: observed(state.NodeState{}, disk("b"), disk("c")),
			want: "Progressing", note: "before its devices are approved: /dev/sdb, /dev/sdc",
			excluded: []string{"/dev/sdb AwaitingApproval", "/dev/sdc AwaitingApproval"}},
		"a named device is not approved": {spec: named, seen: observed(state.NodeState{Disks: state.Disks{Paths: paths("b")}}, disk("b")),
			want: "Progressing", note: "approved", excluded: []string{"/dev/disk/by-id/b AwaitingApproval"}},
		"one is approved": {spec: all, approvals: []v1alpha1.LVMDeviceApproval{approvalFor(disk("b"))},
			seen: observed(state.NodeState{}, disk("b"), disk("c")), want: "Progressing CreateVolumeGroup /dev/sdb",
			excluded: []string{"/dev/sdc AwaitingApproval"}},
		"too few for the redundancy": {spec: raid, approvals: []v1alpha1.LVMDeviceApproval{approvalFor(disk("b"))},
			seen: observed(state.NodeState{}, disk("b"), disk("c")), want: "Progressing", note: "approved",
			excluded: []string{"/dev/sdc AwaitingApproval"}},
		"enough for the redundancy": {spec: raid,
			approvals: []v1alpha1.LVMDeviceApproval{approvalFor(disk("b")), approvalFor(disk("c"))},
			seen:      observed(state.NodeState{}, disk("b"), disk("c")),
			want:      "Progressing CreateVolumeGroup /dev/sdb /dev/sdc"},
		"it changed": {spec: all, approvals: []v1alpha1.LVMDeviceApproval{approvalFor(disk("b"))},
			seen: observed(state.NodeState{}, larger), want: "Progressing", note: "approved",
			excluded: []string{"/dev/sdb ChangedSinceReview"}},
		"it has content since": {spec: named, approvals: []v1alpha1.LVMDeviceApproval{approvalFor(disk("b"))},
			seen: observed(state.NodeState{Disks: state.Disks{Paths: paths("b")}}, written("b")), want: "Failed",
			excluded: []string{"/dev/disk/by-id/b HasSignature", "/dev/disk/by-id/b ChangedSinceReview"}},
		"it was approved again": {spec: all,
			approvals: []v1alpha1.LVMDeviceApproval{approvalFor(disk("b")), approvalFor(larger)},
			seen:      observed(state.NodeState{}, larger), want: "Progressing CreateVolumeGroup /dev/sdb"},
		"nothing identifies it": {spec: all, seen: observed(state.NodeState{}, nameless),
			want: "Progressing", note: "approved", excluded: []string{"/dev/sdb AwaitingApproval"}},
		"approval is no consent to wipe": {spec: named,
			approvals: []v1alpha1.LVMDeviceApproval{approvalFor(written("b"))},
			seen:      observed(state.NodeState{Disks: state.Disks{Paths: paths("b")}}, written("b")), want: "Failed",
			excluded: []string{"/dev/disk/by-id/b HasSignature"}},
		"consent to wipe is no approval": {spec: wiping, seen: observed(state.NodeState{Disks: state.Disks{Paths: paths("b")}}, written("b")),
			want: "Progressing", note: "approved",
			excluded: []string{"/dev/disk/by-id/b HasSignature", "/dev/disk/by-id/b AwaitingApproval"}},
		"approved as blank, to be wiped now": {spec: wiping,
			approvals: []v1alpha1.LVMDeviceApproval{approvalFor(disk("b"))},
			seen:      observed(state.NodeState{Disks: state.Disks{Paths: paths("b")}}, written("b")), want: "Progressing", note: "approved",
			excluded: []string{"/dev/disk/by-id/b HasSignature", "/dev/disk/by-id/b ChangedSinceReview"}},
		"consent and approval": {spec: wiping, approvals: []v1alpha1.LVMDeviceApproval{approvalFor(written("b"))},
			seen: observed(state.NodeState{Disks: state.Disks{Paths: paths("b")}}, written("b")), want: "Progressing WipeDevice"},
		"members are not affected": {spec: all,
			seen: observed(state.NodeState{Report: report(group("b")), Class: thickDone}, disk("b")), want: "Ready"},
		"a new device waits": {spec: all, seen: observed(state.NodeState{Report: report(group("b")), Class: thickDone},
			disk("b"), disk("c")), want: "Ready", excluded: []string{"/dev/sdc AwaitingApproval"}},
		"an approved one is added under Static": {spec: all,
			approvals: []v1alpha1.LVMDeviceApproval{approvalFor(disk("c"))},
			seen:      observed(state.NodeState{Report: report(group("b")), Class: thickDone}, disk("b"), disk("c")),
			want:      "Progressing ExtendVolumeGroup /dev/sdc"},
		"a young device": {spec: requiring(v1alpha1.LVMVolumeGroupSpec{
			DeviceDiscoveryPolicy: v1alpha1.DeviceDiscoveryDynamic}),
			approvals: []v1alpha1.LVMDeviceApproval{approvalFor(young)}, seen: observed(state.NodeState{}, young),
			want: "Progressing", note: "attached for a minute", excluded: []string{"/dev/sdb TooYoung"}},
		"no approval is required": {spec: v1alpha1.LVMVolumeGroupSpec{}, seen: observed(state.NodeState{}, nameless),
			want: "Progressing CreateVolumeGroup /dev/sdb"},
	}
	for name, tt := range tests {
		d := testDesired(tt.spec)
		d.Consent.Approvals = selection.ApprovalsFor(tt.approvals, d.Node, d.Name)
		p := New(d, tt.seen)
		if got := summary(p); got != tt.want || !strings.Contains(p.Note, tt.note) || tt.note == "" && p.Note != "" {
			t.Errorf("%s: got %q, %q, want %q (%v)", name, got, p.Note, tt.want, p.Problems)
		}
		if got := excludedCodes(p); !slices.Equal(got, tt.excluded) {
			t.Errorf("%s: excluded %v, want %v", name, got, tt.excluded)
		}
	}
}

// A wipe changes what was approved. What it leaves is approved too, until the device gets other content.
func TestAnApprovalCoversWhatTheWipeLeaves(t *testing.T) {
	spec := requiring(forced("/dev/disk/by-id/b"))
	approval := approvalFor(written("b"))
	blank := observed(state.NodeState{}, disk("b")).Disks.Fingerprints.Of(disk("b"), nil)
	record := state.WipeRecord{Class: "uid", ID: "serial:serial-b", Done: true, Approved: approval.Spec.Fingerprint,
		Blank: blank, Found: state.WipeTarget{Reasons: device.Explain(written("b"), nil)}.Found()}
	other := disk("b")
	other.Size++
	for name, tt := range map[string]struct {
		change func(*state.WipeRecord)
		device device.Device
		want   string
	}{
		"after the wipe": {func(*state.WipeRecord) {}, disk("b"), "Progressing CreateVolumeGroup /dev/sdb"},
		"after an interrupted wipe, blank": {func(r *state.WipeRecord) { r.Done = false }, disk("b"),
			"Progressing CreateVolumeGroup /dev/sdb"},
		"after an interrupted wipe, not blank": {func(r *state.WipeRecord) { r.Done = false; r.Found = append(r.Found, "x") },
			written("b"), "Progressing WipeDevice"},
		"wiped for another class":    {func(r *state.WipeRecord) { r.Class = "former" }, disk("b"), "Progressing"},
		"wiped without approval":     {func(r *state.WipeRecord) { r.Approved = "" }, disk("b"), "Progressing"},
		"approved as something else": {func(r *state.WipeRecord) { r.Approved = "v1-x" }, disk("b"), "Progressing"},
		"another size":               {func(*state.WipeRecord) {}, other, "Progressing"},
	} {
		r := record
		tt.change(&r)
		d := testDesired(spec)
		d.Consent.Approvals = []v1alpha1.LVMDeviceApproval{approval}
		s := observed(state.NodeState{Disks: state.Disks{Paths: paths("b")}, Records: state.Records{Wiped: []state.WipeRecord{r}}}, tt.device)
		if got := summary(New(d, s)); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestAnApprovalIsForOneNodeAndClass(t *testing.T) {
	now := metav1.Now()
	for name, change := range map[string]func(*v1alpha1.LVMDeviceApproval){
		"another node":     func(a *v1alpha1.LVMDeviceApproval) { a.Spec.NodeName = "n2" },
		"another class":    func(a *v1alpha1.LVMDeviceApproval) { a.Spec.DeviceClassName = "vg2" },
		"is being deleted": func(a *v1alpha1.LVMDeviceApproval) { a.DeletionTimestamp = &now },
	} {
		a := approvalFor(disk("b"))
		change(&a)
		if got := selection.ApprovalsFor([]v1alpha1.LVMDeviceApproval{a}, "n1", "vg1"); len(got) > 0 {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// What seems to have changed is read before that is reported: udev may not know all content.
func TestADoubtfulDeviceIsRead(t *testing.T) {
	ceph := device.Signature{Type: "ceph_bluestore"}
	found := device.Reason{Code: device.CephBlueStore, Message: "x", Signature: &ceph}
	d := testDesired(requiring(forced("/dev/disk/by-id/b")))
	d.Consent.Approvals = []v1alpha1.LVMDeviceApproval{approvalFor(disk("b"), found)}
	s := observed(state.NodeState{Disks: state.Disks{Paths: paths("b")}}, disk("b"))
	p := New(d, s)
	if len(p.Doubtful) != 1 || summary(p) != "Progressing" {
		t.Fatalf("got %s, %v", summary(p), p.Doubtful)
	}
	s.Disks.Probed = map[device.Number][]device.Reason{disk("b").Number: {found}}
	if p := New(d, s); len(p.Doubtful) > 0 || summary(p) != "Progressing WipeDevice" {
		t.Errorf("after it was read: got %s, %v", summary(p), p.Doubtful)
	}
	s.Disks.Probed[disk("b").Number] = nil
	if p := New(d, s); len(p.Doubtful) > 0 || summary(p) != "Progressing" {
		t.Errorf("if it is blank: got %s, %v", summary(p), p.Doubtful)
	}
}

func TestTheVerdictNamesTheApproval(t *testing.T) {
	d := testDesired(requiring(v1alpha1.LVMVolumeGroupSpec{}))
	verdict := func() selection.Verdict {
		return selection.Judge([]selection.ClassState{{Desired: d, Node: observed(state.NodeState{}, disk("b"))}}, disk("b"))[0]
	}
	if v := verdict(); v.Eligible || !slices.Equal(v.Codes, []device.Code{device.AwaitingApproval}) {
		t.Errorf("got %+v", v)
	}
	larger := disk("b")
	larger.Size++
	d.Consent.Approvals = []v1alpha1.LVMDeviceApproval{approvalFor(larger)}
	if v := verdict(); v.Eligible || !slices.Equal(v.Codes, []device.Code{device.ChangedSinceReview}) {
		t.Errorf("got %+v", v)
	}
	d.Consent.Approvals = []v1alpha1.LVMDeviceApproval{approvalFor(disk("b"))}
	if v := verdict(); !v.Eligible {
		t.Errorf("got %+v", v)
	}
}

func TestUsedApprovals(t *testing.T) {
	d := testDesired(requiring(v1alpha1.LVMVolumeGroupSpec{}))
	s := observed(state.NodeState{Report: &lvm.Report{}}, disk("b"))
	if _, err := selection.UsedApprovals(d, s, s.Devices); err == nil {
		t.Error("a device without an approval is used")
	}
	d.Consent.Approvals = []v1alpha1.LVMDeviceApproval{approvalFor(disk("b"))}
	if used, err := selection.UsedApprovals(d, s, s.Devices); err != nil || len(used) != 1 {
		t.Errorf("got %v, %v", used, err)
	}
	s.Disks.Probed = map[device.Number][]device.Reason{disk("b").Number: {{Code: device.Unreadable}}}
	if _, err := selection.UsedApprovals(d, s, s.Devices); err == nil {
		t.Error("a device that could not be read is used")
	}
	d.Spec.Approval = ""
	if used, err := selection.UsedApprovals(d, s, s.Devices); err != nil || used != nil {
		t.Errorf("not required: got %v, %v", used, err)
	}
}

func TestNewlyExcluded(t *testing.T) {
	entry := func(names ...string) v1alpha1.VGStatus {
		e := v1alpha1.VGStatus{}
		for _, n := range names {
			e.Excluded = append(e.Excluded, v1alpha1.ExcludedDevice{Name: n, Reasons: []string{"HasSignature: x",
				"AwaitingApproval: y"}})
		}
		return e
	}
	if got := selection.NewlyExcluded(entry("a"), entry("a", "b"), device.AwaitingApproval); !slices.Equal(got, []string{"b"}) {
		t.Errorf("got %v", got)
	}
	if got := selection.NewlyExcluded(entry("a"), entry("a"), device.AwaitingApproval); len(got) > 0 {
		t.Errorf("again: got %v", got)
	}
	if got := selection.NewlyExcluded(entry(), entry("a"), device.ChangedSinceReview); len(got) > 0 {
		t.Errorf("another reason: got %v", got)
	}
}

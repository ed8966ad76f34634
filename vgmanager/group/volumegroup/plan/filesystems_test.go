package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/filesystems"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/fsck"
)

// withFileSystems returns a volume group with the active thin volumes v1 and v2, whose claims are shop/v1 and shop/v2.
func withFileSystems(change ...func(*lvm.VG)) lvm.VG {
	vg := running(func(lv *lvm.LV) { lv.DataPercent = new(50.0) })
	for i := range vg.LVs {
		if lv := &vg.LVs[i]; !lv.Attr.IsThinPool() {
			lv.Major, lv.Minor, lv.Path = 253, uint32(i), "/dev/vg1/"+lv.Name
			lv.Tags = []string{wellknown.VolumeClaimTagPrefix + "shop/" + lv.Name}
		}
	}
	for _, do := range change {
		vg = edit(vg, do)
	}
	return vg
}

func checking(d state.Desired, volumes ...string) state.Desired {
	d.Open.Check = &state.Check{Recovery: "check", Volumes: volumes}
	return d
}

func checkRecovery() *v1alpha1.LVMRecovery {
	return &v1alpha1.LVMRecovery{Spec: v1alpha1.LVMRecoverySpec{NodeName: "node1", DeviceClassName: "vg1",
		Action: v1alpha1.RecoveryCheckFileSystems, Volumes: []string{"v1", "v2"}}}
}

var (
	well   = state.FileSystemResult{Kind: "ext4", Result: fsck.Result{Finding: "no errors"}}
	broken = state.FileSystemResult{Kind: "xfs", Result: fsck.Result{Errors: true, Finding: "errors: bad magic number"}}
)

func checked(v1, v2 state.FileSystemResult) *state.FileSystemRun {
	return &state.FileSystemRun{Results: map[string]state.FileSystemResult{"uuid-v1": v1, "uuid-v2": v2}}
}

func TestCheckOfFileSystems(t *testing.T) {
	const staging = "/var/lib/kubelet/plugins/kubernetes.io/csi/topolvm.io/1/globalmount"
	pod := "/var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/pvc-1/mount"
	without := func(name string) func(*lvm.VG) {
		return func(vg *lvm.VG) { *vg.LV(name) = lvm.LV{Name: "other", UUID: "uuid-other", Attr: "Vwi-a-tz--"} }
	}
	pool := func(change func(*lvm.LV)) func(*lvm.VG) { return func(vg *lvm.VG) { change(vg.LV("pool")) } }
	v1 := func(change func(*lvm.LV)) func(*lvm.VG) { return func(vg *lvm.VG) { change(vg.LV("v1")) } }
	for name, tt := range map[string]struct {
		vg       lvm.VG
		volumes  []string
		users    state.Users
		run      *state.FileSystemRun
		planned  bool
		deleting bool
		failing  bool
		action   state.Kind
		phase    v1alpha1.RecoveryPhase
		ended    bool
		says     []string
		silent   string
	}{
		"not checked yet": {action: state.CheckVolumes, phase: v1alpha1.RecoveryPreparing, says: []string{"in progress"}},
		"a check runs": {run: &state.FileSystemRun{Running: true, Current: "v1", Program: "e2fsck", Since: "2026-01-01T00:00:00Z",
			Results: map[string]state.FileSystemResult{"uuid-v2": well}}, phase: v1alpha1.RecoveryPreparing, says: []string{
			"1 of 2 volumes", "e2fsck of volume v1 has been running since 2026-01-01T00:00:00Z", "Pods"}},
		"open while it is checked": {run: &state.FileSystemRun{Running: true}, users: state.Users{Open: map[string]bool{"uuid-v1": true}},
			phase: v1alpha1.RecoveryPreparing, says: []string{"0 of 2 volumes"}},
		"another device class is checked": {run: &state.FileSystemRun{Other: "vg2"}, phase: v1alpha1.RecoveryPreparing,
			says: []string{"waiting", "device class vg2"}},
		"the check failed": {run: &state.FileSystemRun{Err: errors.New("e2fsck canceled")}, phase: v1alpha1.RecoveryPreparing,
			says: []string{"tries again", "e2fsck canceled"}},
		"no errors": {run: checked(well, well), phase: v1alpha1.RecoveryNotApplicable, ended: true, says: []string{
			"no errors were found in 2 file systems", "the Pods can be started again"}},
		"a journal that is not replayed": {run: checked(well, state.FileSystemResult{Kind: "ext4",
			Result: fsck.Result{Finding: "no errors; its journal has changes"}}), phase: v1alpha1.RecoveryNotApplicable,
			ended: true, says: []string{"no errors were found", "volume v2: its journal has changes"}},
		"errors in one": {run: checked(well, broken), phase: v1alpha1.RecoveryAwaitingApproval, says: []string{
			"file systems with errors: 1: volume v2 (claim shop/v2)", "file systems without errors: 1"},
			silent: "claim shop/v1"},
		"no supported file system": {run: checked(well, state.FileSystemResult{Problem: "/dev/vg1/v2 contains btrfs"}),
			phase: v1alpha1.RecoveryNotApplicable, says: []string{"vg1/v2 on node n1: /dev/vg1/v2 contains btrfs"}},
		"a plan of an earlier agent": {planned: true, phase: v1alpha1.RecoveryAwaitingApproval,
			says: []string{"file systems with errors: 1"}},

		"used by a Pod": {users: state.Users{MountPoints: map[string][]string{"uuid-v1": {staging, pod}}},
			phase: v1alpha1.RecoveryPreparing, says: []string{"volume v1 (claim shop/v1)",
				"delete the Pods that use the claim"}, silent: "v2"},
		"a block volume that is published": {users: state.Users{MountPoints: map[string][]string{"uuid-v2": {"/var/lib/kubelet/" +
			"plugins/kubernetes.io/csi/volumeDevices/publish/pvc-1/2"}}}, phase: v1alpha1.RecoveryPreparing,
			says: []string{"volume v2 (claim shop/v2)", "delete the Pods"}},
		"a block device that is open": {users: state.Users{Open: map[string]bool{"uuid-v2": true}},
			phase: v1alpha1.RecoveryPreparing, says: []string{"volume v2 (claim shop/v2)", "delete the Pods"}},
		"not unmounted": {users: state.Users{MountPoints: map[string][]string{"uuid-v1": {staging}}},
			phase: v1alpha1.RecoveryPreparing, says: []string{"still mounted on node n1 although no Pod uses it",
				staging, "kubelet"}, silent: "delete the Pods"},
		"users that cannot be read": {users: state.Users{Err: errors.New("permission denied")},
			phase: v1alpha1.RecoveryPreparing, says: []string{"is not known", "permission denied"}},
		"used after the plan": {planned: true, users: state.Users{Open: map[string]bool{"uuid-v2": true}},
			phase: v1alpha1.RecoveryPreparing, says: []string{"volume v2"}},

		"a volume that does not exist": {vg: withFileSystems(without("v2")), phase: v1alpha1.RecoveryNotApplicable,
			says: []string{"volume group vg1 on node n1 has no logical volume v2"}},
		"a plan for a volume that was deleted": {vg: withFileSystems(without("v2")), planned: true,
			phase: v1alpha1.RecoveryNotApplicable, says: []string{"no logical volume v2"}},
		"a thin pool": {volumes: []string{"pool"}, phase: v1alpha1.RecoveryNotApplicable,
			says: []string{"vg1/pool on node n1 is a thin pool"}},
		"a thick snapshot": {vg: withFileSystems(v1(func(lv *lvm.LV) { lv.Attr, lv.Origin = "swi-a-s---", "v2" })),
			phase: v1alpha1.RecoveryNotApplicable, says: []string{"is a snapshot of v2"}},
		"an inactive volume": {vg: withFileSystems(v1(func(lv *lvm.LV) { lv.Attr = "Vwi---tz-k" })),
			phase: v1alpha1.RecoveryNotApplicable, says: []string{"vg1/v1 on node n1 is not active", "lvchange"}},
		"a read-only volume": {vg: withFileSystems(v1(func(lv *lvm.LV) { lv.Attr = "Vri-a-tz--" })),
			phase: v1alpha1.RecoveryNotApplicable, says: []string{"is read-only"}},
		"a suspended volume": {vg: withFileSystems(v1(func(lv *lvm.LV) { lv.Attr = "Vwi-s-tz--" })),
			phase: v1alpha1.RecoveryNotApplicable, says: []string{"dmsetup resume"}},
		"a pool to be checked": {vg: withFileSystems(pool(func(lv *lvm.LV) { lv.CheckNeeded = true })),
			phase: v1alpha1.RecoveryNotApplicable, says: []string{"needs a repair", "RepairThinPool"}},
		"a full pool": {vg: withFileSystems(pool(func(lv *lvm.LV) { lv.DataPercent = new(100.0) })),
			phase: v1alpha1.RecoveryNotApplicable, says: []string{"is full", "FreePoolSpace"}},
		"a missing device": {vg: withFileSystems(func(vg *lvm.VG) { vg.MissingPVs = 1 }),
			phase: v1alpha1.RecoveryNotApplicable, says: []string{"is missing 1 physical volumes"}},
		"a failing device": {failing: true, phase: v1alpha1.RecoveryNotApplicable, says: []string{"input/output error"}},
		"a device class that is deleted": {deleting: true, phase: v1alpha1.RecoveryNotApplicable,
			says: []string{"is being deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			vg, volumes := tt.vg, tt.volumes
			if vg.Name == "" {
				vg = withFileSystems()
			}
			if volumes == nil {
				volumes = []string{"v2", "v1"}
			}
			d := checking(testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec}), volumes...)
			d.Deleting, d.Open.Check.Planned = tt.deleting, tt.planned
			s := state.NodeState{Report: report(vg), Class: published(vg, d),
				FileSystems: state.FileSystems{Users: tt.users, Run: tt.run}}
			if tt.failing {
				s.Health.Failing = map[device.Number]error{state.NumberOf(vg.PVs[0]): errors.New("input/output error")}
			}
			p := New(d, s)
			got := p.Action.Kind
			if got != state.CheckVolumes && got != state.RepairVolumes {
				got = state.Nothing
			}
			if got != tt.action {
				t.Errorf("got the action %+v", p.Action)
			}
			if tt.action != state.Nothing && strings.Join(volumesOf(p.Action), " ") != "uuid-v1 uuid-v2" {
				t.Errorf("got the volumes %v", volumesOf(p.Action))
			}
			r := checkRecovery()
			if tt.planned {
				o := state.Outcome{Node: state.NodeState{Report: report(withFileSystems()),
					FileSystems: state.FileSystems{Run: checked(well,
						broken)}}}
				r.Status = RecoveryStatus(o, d, r, nil, metav1.Time{})
			}
			status := RecoveryStatus(state.Outcome{Node: s, Plan: p}, d, r, nil, metav1.Now())
			if status.Phase != tt.phase || (status.CompletionTime != nil) != tt.ended ||
				(status.Plan != nil) != (tt.phase == v1alpha1.RecoveryAwaitingApproval) {
				t.Errorf("got %+v", status)
			}
			for _, text := range tt.says {
				if !strings.Contains(status.Message, text) {
					t.Errorf("the message %q should say %q", status.Message, text)
				}
			}
			if tt.silent != "" && strings.Contains(status.Message, tt.silent) {
				t.Errorf("the message %q should not say %q", status.Message, tt.silent)
			}
			blocked := tt.phase == v1alpha1.RecoveryNotApplicable && tt.run == nil || tt.users.Open != nil ||
				tt.users.MountPoints != nil || tt.users.Err != nil
			if filesystems.IsCheckBlocked(d, s) != blocked {
				t.Errorf("blocked: %t, want %t", !blocked, blocked)
			}
		})
	}
}

// approvedCheck returns an approved plan to repair v2. v1 has no errors.
func approvedCheck(t *testing.T, v1, v2 state.FileSystemResult) (state.Desired, *v1alpha1.LVMRecovery) {
	t.Helper()
	d := checking(testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec}), "v1", "v2")
	r := checkRecovery()
	o := state.Outcome{Node: state.NodeState{Report: report(withFileSystems()),
		FileSystems: state.FileSystems{Run: checked(v1, v2)}}}
	r.Status = RecoveryStatus(o, d, r, nil, metav1.NewTime(time.Unix(1, 0)))
	if r.Status.Phase != v1alpha1.RecoveryAwaitingApproval {
		t.Fatalf("got %+v", r.Status)
	}
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	d.Open.Approved, d.Open.Check.Planned = ApprovedRecovery(r), true
	return d, r
}

func TestCheckPlan(t *testing.T) {
	_, r := approvedCheck(t, well, broken)
	p := r.Status.Plan
	v := p.CheckedVolumes
	if len(v) != 2 {
		t.Fatalf("got %+v", p)
	}
	expect.Equal(t, "v[0].Name", v[0].Name, "v1")
	expect.Equal(t, "v[0].FSType", v[0].FSType, "ext4")
	expect.Equal(t, "v[0].Finding", v[0].Finding, "no errors")
	expect.Equal(t, "v[1].UUID", v[1].UUID, "uuid-v2")
	expect.Equal(t, "v[1].FSType", v[1].FSType, "xfs")
	expect.Equal(t, "v[1].Finding", v[1].Finding, "errors: bad magic number")
	expect.Equal(t, "v[1].Claim", v[1].Claim, "shop/v2")
	expect.NotZero(t, "v[1].Size", v[1].Size)
	expect.Equal(t, "LostVolumeCount", p.LostVolumeCount, 0)
	expect.Equal(t, "KeptVolumeCount", p.KeptVolumeCount, 2)
	ids := map[string]bool{p.ID: true}
	other := broken
	other.Finding = "errors: other"
	for _, results := range [][2]state.FileSystemResult{{broken, well}, {broken, broken}, {well, other}} {
		_, r := approvedCheck(t, results[0], results[1])
		ids[r.Status.Plan.ID] = true
	}
	if len(ids) != 4 {
		t.Errorf("plans with other findings have the same ID: %v", ids)
	}
}

func TestRepairOfFileSystems(t *testing.T) {
	clean := state.FileSystemResult{Kind: "xfs", Result: fsck.Result{Finding: "no errors", Moved: 7}}
	repairing := func(v2 state.FileSystemResult) *state.FileSystemRun {
		return &state.FileSystemRun{Repairing: true, Results: map[string]state.FileSystemResult{"uuid-v2": v2}}
	}
	for name, tt := range map[string]struct {
		vg     lvm.VG
		run    *state.FileSystemRun
		err    error
		action state.Kind
		phase  v1alpha1.RecoveryPhase
		says   []string
		// finding is that of v2 afterwards, if it changes.
		finding string
	}{
		"approved": {action: state.RepairVolumes, phase: v1alpha1.RecoveryRunning, says: []string{"in progress"}},
		"the check has just ended": {run: checked(well, broken), phase: v1alpha1.RecoveryRunning,
			says: []string{"in progress"}},
		"another device class is repaired": {run: &state.FileSystemRun{Other: "vg2"}, phase: v1alpha1.RecoveryRunning,
			says: []string{"waiting", "vg2"}},
		"running": {run: &state.FileSystemRun{Running: true, Repairing: true, Current: "v2", Program: "xfs_repair",
			Since: "2026-01-01T00:00:00Z"}, phase: v1alpha1.RecoveryRunning, says: []string{"RepairFileSystems: 0 of 1",
			"xfs_repair of volume v2"}},
		"cannot start": {err: errors.New("no such program"), action: state.RepairVolumes, phase: v1alpha1.RecoveryRunning,
			says: []string{"no such program"}},
		"must be tried again": {run: &state.FileSystemRun{Repairing: true, Err: errors.New("LVM cannot be read")},
			phase: v1alpha1.RecoveryRunning, says: []string{"tries again", "LVM cannot be read"}},
		"a device is missing": {vg: withFileSystems(func(vg *lvm.VG) { vg.MissingPVs = 1 }),
			phase: v1alpha1.RecoveryRunning, says: []string{"waiting: ", "is missing"}},
		"repaired": {run: repairing(clean), phase: v1alpha1.RecoverySucceeded,
			finding: "no errors after the repair, files and directories moved to lost+found: 7",
			says: []string{"file systems repaired on node n1: 1: volume v2 (claim shop/v2): files and directories moved " +
				"to lost+found: 7", "start the Pods again"}},
		"errors remain": {run: repairing(broken), phase: v1alpha1.RecoverySucceeded, says: []string{
			"file systems repaired on node n1: 0; not repaired: 1: volume v2 (claim shop/v2): errors remain after the " +
				"repair: bad magic number"}},
		"in use": {run: repairing(state.FileSystemResult{Problem: "the volume is in use: it is mounted at /a"}),
			phase: v1alpha1.RecoverySucceeded,
			says:  []string{"not repaired: 1: volume v2 (claim shop/v2): the volume is in use"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, r := approvedCheck(t, well, broken)
			vg := tt.vg
			if vg.Name == "" {
				vg = withFileSystems()
			}
			// A volume that is in use no longer matters: the agent finds it when it repairs it.
			s := state.NodeState{Report: report(vg), FileSystems: state.FileSystems{Run: tt.run, Users: state.Users{Open: map[string]bool{"uuid-v1": true}}}, Class: published(vg, d)}
			p := New(d, s)
			got := p.Action.Kind
			if got != state.RepairVolumes {
				got = state.Nothing
			}
			if got != tt.action || got == state.RepairVolumes && strings.Join(volumesOf(p.Action), " ") != "uuid-v2" {
				t.Errorf("got the action %+v", p.Action)
			}
			o := state.Outcome{Node: s, Plan: p, Err: tt.err}
			status := RecoveryStatus(o, d, r, nil, metav1.Now())
			if status.Phase != tt.phase || status.StartTime == nil && tt.phase == v1alpha1.RecoveryRunning ||
				status.Plan.ID != r.Spec.ApprovedPlan {
				t.Errorf("got %+v", status)
			}
			for _, text := range tt.says {
				if !strings.Contains(status.Message, text) {
					t.Errorf("the message %q should say %q", status.Message, text)
				}
			}
			finding := "errors: bad magic number"
			if tt.finding != "" {
				finding = tt.finding
			}
			if got := status.Plan.CheckedVolumes[1].Finding; got != finding {
				t.Errorf("got the finding %q, want %q", got, finding)
			}
		})
	}
}

// TestARepairedVolumeIsNotRepairedAgain: the next agent knows from the status what the previous one has done.
func TestARepairedVolumeIsNotRepairedAgain(t *testing.T) {
	d, r := approvedCheck(t, broken, broken)
	s := state.NodeState{Report: report(withFileSystems()), Class: published(withFileSystems(), d),
		FileSystems: state.FileSystems{Run: &state.FileSystemRun{Running: true, Repairing: true, Results: map[string]state.FileSystemResult{"uuid-v1": well}}}}
	r.Status = RecoveryStatus(state.Outcome{Node: s}, d, r, nil, metav1.Now())
	d.Open.Approved = ApprovedRecovery(r)
	s.FileSystems.Run = nil
	if a := New(d, s).Action; a.Kind != state.RepairVolumes || strings.Join(volumesOf(a), " ") != "uuid-v2" {
		t.Errorf("got %+v", a)
	}
	s.FileSystems.Run = &state.FileSystemRun{Repairing: true, Results: map[string]state.FileSystemResult{"uuid-v2": well}}
	got := RecoveryStatus(state.Outcome{Node: s}, d, r, nil, metav1.Now())
	if !strings.Contains(got.Message, "file systems repaired on node n1: 2") {
		t.Errorf("got %q", got.Message)
	}
}

// TestCheckAfterAFailedObservation keeps what is known.
func TestCheckAfterAFailedObservation(t *testing.T) {
	d, r := approvedCheck(t, well, broken)
	got := RecoveryStatus(state.Outcome{ObserveFailed: true, Err: errors.New("lvs: timeout")}, d, r, nil, metav1.Now())
	if got.Phase != v1alpha1.RecoveryAwaitingApproval || got.Plan == nil ||
		!strings.Contains(got.Message, "lvs: timeout") {
		t.Errorf("got %+v", got)
	}
}

package recovery

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
)

var at = session.Target{Namespace: "storage", Node: "worker-1", Class: "vg1"}

func TestEachActionHasAPreview(t *testing.T) {
	var text strings.Builder
	for _, action := range []v1alpha1.RecoveryAction{v1alpha1.RecoveryRemoveLostDevices,
		v1alpha1.RecoveryRepairThinPool, v1alpha1.RecoveryRestoreLabels, v1alpha1.RecoveryRestoreMetadata,
		v1alpha1.RecoveryFreePoolSpace, v1alpha1.RecoveryDeleteOrphans, v1alpha1.RecoveryImportVolumes,
		v1alpha1.RecoveryCheckFileSystems} {
		if len(recoveryEffects[action]) == 0 {
			t.Errorf("%s has no effects", action)
		}
		request := recoveryRequest{action: action, at: at}
		if action == v1alpha1.RecoveryDeleteOrphans || action == v1alpha1.RecoveryCheckFileSystems {
			request.volumes = []string{"a", "b"}
		}
		text.WriteString(request.preview() + "\n")
	}
	text.WriteString(recoveryRequest{action: v1alpha1.RecoveryImportVolumes, at: at, volumes: []string{"a", "b"},
		claims: []v1alpha1.RecoveryClaim{{Volume: "a", Namespace: "shop", Name: "data"}}}.preview())
	clitest.Golden(t, "previews", text.String())
}

// plans are plans of each kind, with their action.
func plans() []*v1alpha1.LVMRecovery {
	created := metav1.NewTime(clitest.Now)
	of := func(action v1alpha1.RecoveryAction, plan v1alpha1.RecoveryPlan) *v1alpha1.LVMRecovery {
		plan.ID = recoveryplan.ID(action, "worker-1", "vg1", &plan)
		return &v1alpha1.LVMRecovery{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: "worker-1-vg1-x"},
			Spec:   v1alpha1.LVMRecoverySpec{NodeName: "worker-1", DeviceClassName: "vg1", Action: action},
			Status: v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryAwaitingApproval, Plan: &plan}}
	}
	return []*v1alpha1.LVMRecovery{
		of(v1alpha1.RecoveryRemoveLostDevices, v1alpha1.RecoveryPlan{LostVolumeCount: 3, KeptVolumeCount: 5,
			Devices:     []v1alpha1.RecoveryDevice{{UUID: "pv-d", Name: "/dev/sdd", DeviceID: "wwn:0x4"}},
			ThinPools:   []v1alpha1.RecoveryVolume{{Name: "thin-pool", Size: 90 << 30}},
			LostVolumes: []v1alpha1.RecoveryVolume{{Name: "a", Size: 20 << 30, Claim: "shop/data"}, {Name: "b"}}}),
		of(v1alpha1.RecoveryRemoveLostDevices, v1alpha1.RecoveryPlan{KeptVolumeCount: 1,
			Devices:        []v1alpha1.RecoveryDevice{{UUID: "pv-d"}},
			FailingDevices: []v1alpha1.RecoveryDevice{{UUID: "pv-e", Name: "/dev/sde"}}}),
		of(v1alpha1.RecoveryRepairThinPool, v1alpha1.RecoveryPlan{Repair: v1alpha1.RepairClearCheck}),
		of(v1alpha1.RecoveryRepairThinPool, v1alpha1.RecoveryPlan{Repair: v1alpha1.RepairRebuild, KeptVolumeCount: 2}),
		of(v1alpha1.RecoveryRepairThinPool, v1alpha1.RecoveryPlan{Repair: v1alpha1.RepairRebuild, LostVolumeCount: 1,
			LostVolumes: []v1alpha1.RecoveryVolume{{Name: "a", Size: 1 << 30}},
			DamagedVolumes: []v1alpha1.RecoveryVolume{{Name: "b", Size: 1 << 30, LostBytes: 5 << 19, Claim: "shop/b"},
				{Name: "c", Finding: "its blocks\nare shared"}}}),
		of(v1alpha1.RecoveryRepairThinPool, v1alpha1.RecoveryPlan{Repair: "Newer"}),
		of(v1alpha1.RecoveryRestoreMetadata, v1alpha1.RecoveryPlan{ReplacesMetadata: true, MetadataSource: "vg1_00001.vg"}),
		of(v1alpha1.RecoveryFreePoolSpace, v1alpha1.RecoveryPlan{MountedVolumeCount: 3, ExtensibleBytes: 10 << 30,
			MountedVolumes: []v1alpha1.RecoveryVolume{
				{Name: "a", Size: 20 << 30, AllocatedBytes: 5 << 30, UsedBytes: 3 << 30}, {Name: "b", AllocatedBytes: 1 << 30}}}),
		of(v1alpha1.RecoveryDeleteOrphans, v1alpha1.RecoveryPlan{LostVolumeCount: 1,
			LostVolumes: []v1alpha1.RecoveryVolume{{Name: "old", Size: 1 << 30, Claim: "shop/old"}}}),
		of(v1alpha1.RecoveryImportVolumes, v1alpha1.RecoveryPlan{ImportedVolumes: []v1alpha1.RecoveryVolume{
			{Name: "old", Size: 1 << 30, Claim: "shop/old", PersistentVolume: "pvc-1", FSType: "ext4", Created: &created,
				LastMountTime: &created},
			{Name: "far", Size: 1 << 30, Claim: "shop/far", PersistentVolume: "pvc-2", FromNode: "worker-2"}}}),
		of(v1alpha1.RecoveryCheckFileSystems, v1alpha1.RecoveryPlan{CheckedVolumes: []v1alpha1.RecoveryVolume{
			{Name: "a", Size: 1 << 30, FSType: "xfs", Finding: "bad magic number", Claim: "shop/data"},
			{Name: "b", Size: 1 << 30, FSType: "ext4", Finding: "no errors; the journal has changes"}}}),
	}
}

func TestPlansAsAPersonReadsThem(t *testing.T) {
	var all strings.Builder
	for _, recovery := range plans() {
		text, err := planText(recovery)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(text)
	}
	clitest.Golden(t, "plans", all.String())
}

// TestAForgedPlanOfAnImportIsNotShown: what is approved would be something else. The agents compute the IDs of some
// other plans before they add what is for information only.
func TestAForgedPlanOfAnImportIsNotShown(t *testing.T) {
	for _, recovery := range plans() {
		recovery.Status.Plan.VolumeGroupUUID += "x"
		text, err := planText(recovery)
		if isImport := recovery.Spec.Action == v1alpha1.RecoveryImportVolumes; isImport != (err != nil) {
			t.Errorf("%s: got %q, %v", recovery.Spec.Action, text, err)
		}
	}
}

func TestWhichPlansCanLoseData(t *testing.T) {
	var got []string
	for _, recovery := range plans() {
		got = append(got, risk(recovery.Spec.Action, recovery.Status.Plan))
	}
	want := []string{"3 volumes are lost", "", "",
		"the metadata of the thin pool is written again, which can lose more than the plan lists",
		"1 volume is lost, and 2 volumes lose some of their data",
		"this version of the plugin does not know the repair Newer",
		"the metadata of a volume group that exists is replaced", "", "1 volume is lost", "",
		"the repair of a file system can remove damaged files"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOpenRecovery(t *testing.T) {
	recovery := func(name string, age time.Duration, change func(*v1alpha1.LVMRecovery)) v1alpha1.LVMRecovery {
		r := v1alpha1.LVMRecovery{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: name,
			CreationTimestamp: metav1.NewTime(clitest.Now.Add(-age))},
			Spec: v1alpha1.LVMRecoverySpec{NodeName: "worker-1", DeviceClassName: "vg1"}}
		if change != nil {
			change(&r)
		}
		return r
	}
	ended := recovery("ended", 9*time.Hour, func(r *v1alpha1.LVMRecovery) {
		r.Status.Phase = v1alpha1.RecoverySucceeded
	})
	found := recovery("no-errors-found", 8*time.Hour, func(r *v1alpha1.LVMRecovery) {
		r.Status.Phase = v1alpha1.RecoveryNotApplicable
		r.Status.CompletionTime = ptr.To(metav1.NewTime(clitest.Now))
	})
	deleted := recovery("deleted", 7*time.Hour, func(r *v1alpha1.LVMRecovery) {
		r.DeletionTimestamp = ptr.To(metav1.NewTime(clitest.Now))
	})
	elsewhere := recovery("elsewhere", 6*time.Hour, func(r *v1alpha1.LVMRecovery) { r.Spec.NodeName = "worker-2" })
	class := recovery("class", 6*time.Hour, func(r *v1alpha1.LVMRecovery) { r.Spec.DeviceClassName = "vg2" })
	waits := recovery("waits", time.Hour, func(r *v1alpha1.LVMRecovery) {
		r.Status.Phase = v1alpha1.RecoveryNotApplicable
	})
	newer := recovery("newer", time.Minute, nil)
	if open := openRecovery([]v1alpha1.LVMRecovery{ended, found, deleted, elsewhere, class}, at); open != nil {
		t.Errorf("got %s", open.Name)
	}
	open := openRecovery([]v1alpha1.LVMRecovery{ended, newer, waits, found}, at)
	if open == nil || open.Name != "waits" {
		t.Errorf("got %v", open)
	}
}

func TestTheSameRecoveryHasTheSameVolumesAndClaims(t *testing.T) {
	claims := []v1alpha1.RecoveryClaim{{Volume: "a", Namespace: "shop", Name: "data"}}
	request := recoveryRequest{action: v1alpha1.RecoveryImportVolumes, at: at, volumes: []string{"b", "a"}, claims: claims}
	object := request.object()
	object.Spec.Volumes = []string{"a", "b"}
	if !request.isSame(object) {
		t.Error("another order is another recovery")
	}
	for name, change := range map[string]func(*v1alpha1.LVMRecoverySpec){
		"action":  func(s *v1alpha1.LVMRecoverySpec) { s.Action = v1alpha1.RecoveryDeleteOrphans },
		"volumes": func(s *v1alpha1.LVMRecoverySpec) { s.Volumes = []string{"a"} },
		"claims":  func(s *v1alpha1.LVMRecoverySpec) { s.Claims = nil },
	} {
		other := object.DeepCopy()
		change(&other.Spec)
		if request.isSame(other) {
			t.Errorf("%s: another recovery is the same", name)
		}
	}
}

func TestTheCommandOfARecoveryContinuesIt(t *testing.T) {
	for action, want := range map[v1alpha1.RecoveryAction]string{
		v1alpha1.RecoveryRepairThinPool:    "repair --node worker-1 --class vg1",
		v1alpha1.RecoveryRemoveLostDevices: "forget --node worker-1 --class vg1",
		v1alpha1.RecoveryRestoreLabels:     "restore-labels --node worker-1 --class vg1",
		v1alpha1.RecoveryRestoreMetadata:   "restore-metadata --node worker-1 --class vg1",
		v1alpha1.RecoveryFreePoolSpace:     "trim --node worker-1 --class vg1",
		v1alpha1.RecoveryDeleteOrphans:     "orphans delete --node worker-1 --class vg1 --volume a",
		v1alpha1.RecoveryImportVolumes:     "import --node worker-1 --class vg1 --volume a=shop/data",
		v1alpha1.RecoveryCheckFileSystems:  "check --node worker-1 --class vg1 --volume a",
	} {
		request := recoveryRequest{action: action, at: at}
		if strings.Contains(want, "--volume") {
			request.volumes = []string{"a"}
		}
		if action == v1alpha1.RecoveryImportVolumes {
			request.claims = []v1alpha1.RecoveryClaim{{Volume: "a", Namespace: "shop", Name: "data"}}
		}
		open := request.object()
		open.Name = "mine"
		open.Status = clitest.Awaiting(clitest.Harmless)
		open.Status.Plan.ID = recoveryplan.ID(action, "worker-1", "vg1", open.Status.Plan)
		if got := verdict.CommandOf(open); got != "kubectl lvms "+want {
			t.Errorf("%s: got %s", action, got)
		}
		c := clitest.NewCluster(t, append(clitest.HealthyObjects("storage"), open)...)
		got := plugin.RunWith(t, c, "", nil, append(strings.Fields(want), "--dry-run")...)
		clitest.Prints(t, got, 0, "storage/mine exists already: the plan "+open.Status.Plan.ID+" awaits approval.",
			"path: /spec/approvedPlan")
	}
	many := recoveryRequest{action: v1alpha1.RecoveryDeleteOrphans, at: at, volumes: strings.Split("abcdef", "")}.object()
	if got := verdict.CommandOf(many); got != "" {
		t.Errorf("got %s", got)
	}
}

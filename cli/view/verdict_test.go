package view

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// healthyState is a state without problems, for a test to change.
func healthyState() observed {
	return observed{Objects: verdict.Objects{Clusters: []v1alpha1.LVMCluster{*clitest.HealthyCluster("storage")},
		Deployments:  []appsv1.Deployment{*clitest.OperatorOf("storage", 1)},
		NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{*clitest.HealthyNode("storage")},
		Volumes:      []topolvmv1.LogicalVolume{*clitest.Volume("pvc-1", "worker-1", "vg1", "shop/data")}}}
}

func TestProblems(t *testing.T) {
	cluster := func(o *observed) *v1alpha1.LVMClusterStatus { return &o.Clusters[0].Status }
	node := func(o *observed) *v1alpha1.LVMVolumeGroupNodeStatusStatus { return &o.NodeStatuses[0].Status }
	group := func(o *observed) *v1alpha1.VGStatus { return &node(o).NodeStatus[0] }
	recovery := func(o *observed, phase v1alpha1.RecoveryPhase) *v1alpha1.LVMRecoveryStatus {
		r := clitest.WaitingRecovery("storage")
		r.Status.Phase = phase
		o.Recoveries = append(o.Recoveries, *r)
		return &o.Recoveries[0].Status
	}
	tests := map[string]struct {
		change func(*observed)
		want   []string // REASON NODE CLASS OBJECT
	}{
		"none":          {func(*observed) {}, nil},
		"no LVMCluster": {func(o *observed) { o.Clusters = nil }, []string{"NoLVMCluster"}},
		"no status yet": {func(o *observed) { *cluster(o) = v1alpha1.LVMClusterStatus{} },
			[]string{"NotObserved LVMCluster storage/lvmcluster"}},
		"a new spec": {func(o *observed) { o.Clusters[0].Generation = 2 },
			[]string{"SpecNotObserved LVMCluster storage/lvmcluster"}},
		"an operand failed": {func(o *observed) {
			cluster(o).Conditions[1] = clitest.Condition(v1alpha1.ConditionResourcesAvailable,
				v1alpha1.ReasonResourcesSyncIncomplete, metav1.ConditionFalse, "forbidden")
		}, []string{"ResourcesSyncIncomplete LVMCluster storage/lvmcluster"}},
		"only Ready is not True": {func(o *observed) {
			cluster(o).Conditions[0] = clitest.Condition(v1alpha1.ConditionReady, "Unknown", metav1.ConditionUnknown, "")
		}, []string{"Unknown LVMCluster storage/lvmcluster"}},
		"a class selects no node": {func(o *observed) {
			cluster(o).Conditions[2] = clitest.Condition(v1alpha1.ConditionVolumeGroupsReady,
				v1alpha1.ReasonVGReadinessInProgress, metav1.ConditionFalse, "device class vg2: it selects no node")
			cluster(o).DeviceClassStatuses = append(cluster(o).DeviceClassStatuses,
				v1alpha1.DeviceClassStatus{Name: "vg2"})
			group(o).Status, group(o).Reason = v1alpha1.VGStatusDegraded, "bad"
		}, []string{"VGReadinessInProgress LVMCluster storage/lvmcluster", "VolumeGroupDegraded worker-1 vg1"}},
		"a node that has not reported": {func(o *observed) {
			cluster(o).Conditions[2] = clitest.Condition(v1alpha1.ConditionVolumeGroupsReady,
				v1alpha1.ReasonVGReadinessInProgress, metav1.ConditionFalse, "…")
			entries := &cluster(o).DeviceClassStatuses[0].NodeStatus
			*entries = append(*entries, v1alpha1.NodeStatus{Node: "worker-9"})
		}, []string{"VolumeGroupProgressing worker-9 vg1"}},
		"a node that cannot be observed": {func(o *observed) {
			node(o).Conditions[0] = clitest.Condition(v1alpha1.ConditionDevicesObserved,
				v1alpha1.ReasonObservationFailed, metav1.ConditionFalse, "LVM does not answer")
		}, []string{"ObservationFailed worker-1"}},
		"a node that never reported": {func(o *observed) { node(o).Conditions = nil },
			[]string{"NotObserved worker-1"}},
		"an old observation": {func(o *observed) { node(o).LastObserved.Time = clitest.Now.AddDate(0, 0, -1) },
			[]string{"ObservationOutdated worker-1"}},
		"a condition that is Unknown": {func(o *observed) {
			group(o).Conditions[0] = clitest.Condition(v1alpha1.ConditionDevicesHealthy,
				v1alpha1.ReasonObservationFailed, metav1.ConditionUnknown, "cannot be read")
		}, []string{"ObservationFailed worker-1 vg1"}},
		"a volume group that is missing": {func(o *observed) {
			group(o).Status, group(o).Reason = v1alpha1.VGStatusDegraded, "a"
			group(o).Conditions[0] = clitest.Condition(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing,
				metav1.ConditionFalse, "a")
			group(o).Conditions = append(group(o).Conditions, clitest.Condition(v1alpha1.ConditionVolumesHealthy,
				v1alpha1.ReasonNotEvaluated, metav1.ConditionUnknown, "not evaluated"))
		}, []string{"DeviceMissing worker-1 vg1"}},
		"a reason that no condition has": {func(o *observed) {
			group(o).Status, group(o).Reason = v1alpha1.VGStatusFailed, "a; b"
			group(o).Conditions[0] = clitest.Condition(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDuplicatePV,
				metav1.ConditionFalse, "a")
		}, []string{"DuplicatePV worker-1 vg1", "VolumeGroupFailed worker-1 vg1"}},
		"a reason that a condition has": {func(o *observed) {
			group(o).Status, group(o).Reason = v1alpha1.VGStatusDegraded, "a; b"
			group(o).Conditions[0] = clitest.Condition(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDuplicatePV,
				metav1.ConditionFalse, "a; b")
		}, []string{"DuplicatePV worker-1 vg1"}},
		"a volume group that is being created": {func(o *observed) { group(o).Status = v1alpha1.VGStatusProgressing },
			[]string{"VolumeGroupProgressing worker-1 vg1"}},
		"a drain that is blocked": {func(o *observed) {
			group(o).PhysicalVolumes[0].State = v1alpha1.PhysicalVolumeBlocked
			group(o).PhysicalVolumes[0].Message = "not enough space"
		}, []string{"DeviceBlocked worker-1 vg1 /dev/sdb"}},
		"a failing device without a condition": {func(o *observed) {
			group(o).PhysicalVolumes[0].State = v1alpha1.PhysicalVolumeFailing
		}, []string{"DeviceFailing worker-1 vg1 /dev/sdb"}},
		"a device outside volume groups that fails": {func(o *observed) {
			node(o).Devices[2].State = v1alpha1.DeviceFailing
		}, []string{"DeviceFailing worker-1 /dev/sdc"}},
		"a device that was removed from its volume group": {func(o *observed) {
			node(o).Devices[2].State = v1alpha1.DeviceMissing
		}, nil},
		"more orphans than listed": {func(o *observed) {
			group(o).Orphans = []v1alpha1.OrphanStatus{{Kind: v1alpha1.OrphanUnclaimed, Name: "pvc-7"}}
			group(o).OrphanCount = 40
		}, []string{"OrphanUnclaimed worker-1 vg1 pvc-7", "Orphan worker-1 vg1"}},
		"a volume whose object names another node": {func(o *observed) {
			group(o).Orphans = []v1alpha1.OrphanStatus{{Kind: v1alpha1.OrphanOtherNode, Name: "vg1/a", Object: "pvc-7",
				ObjectNode: "worker-2"}}
		}, []string{"OrphanOtherNode worker-1 vg1 vg1/a"}},
		"a recovery without a plan": {func(o *observed) { recovery(o, "") },
			[]string{"NotPlanned worker-2 vg1 LVMRecovery storage/lost-disk"}},
		"a recovery that cannot help": {func(o *observed) { recovery(o, v1alpha1.RecoveryNotApplicable) },
			[]string{"NotApplicable worker-2 vg1 LVMRecovery storage/lost-disk"}},
		"an import that is blocked": {func(o *observed) {
			recovery(o, v1alpha1.RecoveryRunning).Conditions = []metav1.Condition{clitest.Condition(
				v1alpha1.ConditionObjectsCreated, v1alpha1.ReasonObjectsBlocked, metav1.ConditionFalse, "no namespace")}
		}, []string{"ObjectsBlocked worker-2 vg1 LVMRecovery storage/lost-disk"}},
		"a recovery that has ended": {func(o *observed) { recovery(o, v1alpha1.RecoverySucceeded) }, nil},
		"a check that found no errors": {func(o *observed) {
			recovery(o, v1alpha1.RecoveryNotApplicable).CompletionTime = &metav1.Time{Time: clitest.Now}
		}, nil},
		"a volume with a condition": {func(o *observed) {
			o.Volumes[0].Annotations[wellknown.ConditionAnnotation] = "the file system has errors"
		}, []string{"VolumeAbnormal worker-1 vg1 shop/data"}},
		"a volume that failed": {func(o *observed) { o.Volumes[0] = *clitest.FailedVolume() },
			[]string{"VolumeFailed worker-1 vg1 web/cache"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := healthyState()
			test.change(&o)
			status := newStatus(o, clitest.Now)
			var got []string
			for _, row := range statusTable(status).Rows {
				var cells []string
				for _, cell := range row.Cells[:4] {
					if cell != "<none>" {
						cells = append(cells, cell.(string))
					}
				}
				got = append(got, strings.Join(cells, " "))
				if row.Cells[4] == "<none>" {
					t.Errorf("%s has no action", got[len(got)-1])
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if status.Healthy != (len(test.want) == 0) {
				t.Errorf("healthy: %v", status.Healthy)
			}
		})
	}
}

// copiedVolume is a volume to which the data of a snapshot is copied, with a code in its status.
func copiedVolume(code codes.Code) *topolvmv1.LogicalVolume {
	lv := clitest.Volume("pvc-9", "worker-1", "vg1", "shop/copy")
	lv.Spec.Source = "snapshot-1"
	lv.Status = topolvmv1.LogicalVolumeStatus{Code: code, Message: "the data of snapshot-1 is copied from node " +
		"worker-2: 3 of 12 MiB (25 %)"}
	return lv
}

// TestACopyInProgressIsNoProblem, unless the node agent reports an error.
func TestACopyInProgressIsNoProblem(t *testing.T) {
	for code, want := range map[codes.Code]int{codes.Aborted: 0, codes.Unavailable: 1, codes.NotFound: 1} {
		o := verdict.Objects{ClustersUnread: true, Volumes: []topolvmv1.LogicalVolume{*copiedVolume(code)}}
		if got := verdict.Problems(o, clitest.Now); len(got) != want {
			t.Errorf("%s: problems %+v", code, got)
		}
	}
	if got := newVolume(copiedVolume(codes.Aborted)); !strings.Contains(got.Message, "3 of 12 MiB") {
		t.Errorf("message %q", got.Message)
	}
}

// TestADeletedVolumeThatIsErasedIsNoProblem, unless the node agent reports an error.
func TestADeletedVolumeThatIsErasedIsNoProblem(t *testing.T) {
	for code, want := range map[codes.Code]int{codes.Aborted: 0, codes.Unavailable: 1, codes.FailedPrecondition: 1} {
		lv := clitest.Volume("pvc-9", "worker-1", "vg1", "shop/erased")
		lv.DeletionTimestamp = &metav1.Time{Time: clitest.Now}
		lv.Status = topolvmv1.LogicalVolumeStatus{VolumeID: "pvc-9", Code: code, Message: "3 of 12 MiB are erased"}
		o := verdict.Objects{ClustersUnread: true, Volumes: []topolvmv1.LogicalVolume{*lv}}
		if got := verdict.Problems(o, clitest.Now); len(got) != want {
			t.Errorf("%s: problems %+v", code, got)
		}
	}
}

func TestStateOfVolumes(t *testing.T) {
	tests := map[output.VolumeState]func(*topolvmv1.LogicalVolume){
		output.VolumeReady:     func(*topolvmv1.LogicalVolume) {},
		output.VolumePending:   func(lv *topolvmv1.LogicalVolume) { lv.Status = topolvmv1.LogicalVolumeStatus{} },
		output.VolumeFailed:    func(lv *topolvmv1.LogicalVolume) { *lv = *clitest.FailedVolume() },
		output.VolumeCopying:   func(lv *topolvmv1.LogicalVolume) { *lv = *copiedVolume(codes.Aborted) },
		output.VolumeExpanding: func(lv *topolvmv1.LogicalVolume) { lv.Spec.Size = resource.MustParse("30Gi") },
		output.VolumeDeleting: func(lv *topolvmv1.LogicalVolume) {
			lv.DeletionTimestamp = ptr.To(metav1.NewTime(clitest.Now))
		},
		output.VolumeUnclaimed: func(lv *topolvmv1.LogicalVolume) { lv.Annotations[wellknown.UnclaimedAnnotation] = "true" },
		output.VolumeAbnormal: func(lv *topolvmv1.LogicalVolume) {
			lv.Annotations[wellknown.ConditionAnnotation] = "read-only"
		},
	}
	for want, change := range tests {
		lv := clitest.Volume("pvc-1", "worker-1", "vg1", "shop/data")
		change(lv)
		if got := newVolume(lv); got.State != want {
			t.Errorf("got %s, want %s", got.State, want)
		}
	}
}

func TestLimitsOfVolumes(t *testing.T) {
	for name, test := range map[string]struct{ requested, inForce, failed, want, message string }{
		"none":             {"", "", "", "", ""},
		"in force":         {"readIOPS=1", "readIOPS=1", "", "readIOPS=1", ""},
		"removed":          {"none", "none", "", "", ""},
		"changing":         {"readIOPS=2", "readIOPS=1", "", "readIOPS=1 (requested: readIOPS=2)", ""},
		"first":            {"readIOPS=2", "", "", "none (requested: readIOPS=2)", ""},
		"are removed":      {"none", "readIOPS=1", "", "readIOPS=1 (requested: none)", ""},
		"cannot be in use": {"readIOPS=2", "", "readIOPS=2: why", "none (requested: readIOPS=2)", "readIOPS=2: why"},
	} {
		lv := clitest.Volume("pvc-1", "worker-1", "vg1", "shop/data")
		lv.Annotations[wellknown.IOLimitsAnnotation] = test.requested
		lv.Annotations[wellknown.IOLimitsInForceAnnotation] = test.inForce
		lv.Annotations[wellknown.IOLimitsErrorAnnotation] = test.failed
		row := volumeTable(output.VolumeList{Items: []output.Volume{newVolume(lv)}}).Rows[0].Cells
		if row[8] != cmp.Or(test.want, "<none>") || row[9] != cmp.Or(test.message, "<none>") {
			t.Errorf("%s: got %q, want %q and %q", name, row, test.want, test.message)
		}
	}
}

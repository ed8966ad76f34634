package verdict

import (
	"fmt"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func observedNode(conditions ...metav1.Condition) v1alpha1.LVMVolumeGroupNodeStatus {
	node := v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}
	node.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDevicesObserved, Status: metav1.ConditionTrue}}
	node.Status.NodeStatus = []v1alpha1.VGStatus{{Name: "vg1", Status: v1alpha1.VGStatusReady, Conditions: conditions}}
	return node
}

func brokenVolume(name string) topolvmv1.LogicalVolume {
	return topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations: map[string]string{wellknown.ConditionAnnotation: "it is read-only"}}}
}

// on returns objects without an LVMCluster, of which it is not known whether there is one.
func on(node v1alpha1.LVMVolumeGroupNodeStatus, volumes ...topolvmv1.LogicalVolume) Objects {
	return Objects{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{node}, Volumes: volumes, ClustersUnread: true}
}

// TestSeverityOfProblems: a condition that is Unknown does not say that data is at risk.
func TestSeverityOfProblems(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason string) Objects {
		return on(observedNode(
			metav1.Condition{Type: v1alpha1.ConditionDevicesHealthy, Status: status, Reason: reason}))
	}
	outdated := observedNode()
	outdated.Status.LastObserved = &metav1.Time{Time: now.Add(-time.Hour)}
	for name, test := range map[string]struct {
		objects Objects
		want    string // SEVERITY REASON RUNBOOK
	}{
		"a device is missing": {condition(metav1.ConditionFalse, v1alpha1.ReasonDeviceMissing),
			"critical DeviceMissing LVMSDeviceMissing"},
		"a device may be missing": {condition(metav1.ConditionUnknown, v1alpha1.ReasonDeviceMissing),
			"warning DeviceMissing LVMSDeviceMissing"},
		"redundancy is built": {condition(metav1.ConditionFalse, v1alpha1.ReasonRAIDSyncing), "info RAIDSyncing "},
		"redundancy is lost": {condition(metav1.ConditionFalse, v1alpha1.ReasonRAIDDegraded),
			"warning RAIDDegraded LVMSRAIDDegraded"},
		"not evaluated":            {condition(metav1.ConditionUnknown, v1alpha1.ReasonNotEvaluated), ""},
		"not observed for an hour": {on(outdated), "warning ObservationOutdated LVMSNodeNotObserved"},
		"no operator": {Objects{ClustersUnread: true, Namespaces: []string{"ns"}},
			"critical OperatorUnavailable LVMSOperatorDown"},
		"not known whether there is an operator": {Objects{ClustersUnread: true, Namespaces: []string{"ns"},
			DeploymentsUnread: true}, ""},
		"no LVMCluster": {Objects{}, "info NoLVMCluster "},
	} {
		var got []string
		for _, p := range Problems(test.objects, now) {
			got = append(got, fmt.Sprintf("%s %s %s", p.Severity, p.Reason, p.Runbook))
			if p.Action == "" || p.Subject == "" {
				t.Errorf("%s: no action or no subject: %+v", name, p)
			}
		}
		if strings.Join(got, "; ") != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestAVolumeCanHaveTwoProblems: a failed request, and what is wrong with the volume.
func TestAVolumeCanHaveTwoProblems(t *testing.T) {
	lv := brokenVolume("pvc-1")
	lv.Status.Code = codes.ResourceExhausted
	got := Problems(on(observedNode(), lv), now)
	if len(got) != 2 || got[0].Reason != VolumeFailed || got[0].Message != "ResourceExhausted" ||
		got[1].Reason != VolumeAbnormal {
		t.Errorf("got %+v", got)
	}
}

// TestManyVolumesDoNotHideTheirCause: the disk is first, and the volumes that are not listed are counted.
func TestManyVolumesDoNotHideTheirCause(t *testing.T) {
	node := observedNode(metav1.Condition{Type: v1alpha1.ConditionDevicesHealthy, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonDeviceFailing})
	var volumes []topolvmv1.LogicalVolume
	for i := range 3000 {
		volumes = append(volumes, brokenVolume(fmt.Sprint("pvc-", i)))
	}
	got := Problems(on(node, volumes...), now)
	if len(got) != 1+maxOfReason+1 || got[0].Reason != v1alpha1.ReasonDeviceFailing {
		t.Fatalf("%d problems, the first: %+v", len(got), got[0])
	}
	if last := got[len(got)-1]; last.Reason != VolumeAbnormal || last.Severity != Warning ||
		last.Message != "There are 2980 more volumes with this problem." {
		t.Errorf("got %+v", last)
	}
}

// TestWhyTheOperatorDoesNotRun: the message has the cause that the Deployment reports.
func TestWhyTheOperatorDoesNotRun(t *testing.T) {
	zero := int32(0)
	operator := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: OperatorName}}
	scaled, refused := operator, operator
	scaled.Spec.Replicas = &zero
	refused.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: "True",
		Reason: "FailedCreate", Message: "exceeded quota"}}
	for want, d := range map[string]appsv1.Deployment{"It is scaled to 0.": scaled,
		"0 of its Pods exist. exceeded quota": refused} {
		got := Problems(Objects{ClustersUnread: true, Deployments: []appsv1.Deployment{d}}, now)
		if len(got) != 1 || got[0].Object != "Deployment ns/lvms-operator" || !strings.HasSuffix(got[0].Message, want) {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}

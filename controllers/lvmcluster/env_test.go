//go:build env

package lvmcluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
)

func TestFirstReconcileCreatesOperandsAndSecondWritesNothing(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"), fixture.Thick("vg2"))
	_, err := w.reconcile()
	w.must(err)
	want := slices.Concat([]string{
		"patch LVMCluster my-lvmcluster",
		"apply SecurityContextConstraints lvms-vgmanager",
		"apply CSIDriver topolvm.io",
		"apply StorageClass lvms-vg1", "apply StorageClass lvms-vg2",
		"apply VolumeSnapshotClass lvms-vg1", "apply VolumeGroupSnapshotClass lvms-vg1",
	}, ofPolicies("apply"), []string{
		"apply LVMVolumeGroup vg1", "apply LVMVolumeGroup vg2",
		"apply LVMVolumeGroupNodeStatus a", "apply LVMVolumeGroupNodeStatus b",
		"apply DaemonSet vg-manager",
		"apply ConfigMap lvms-dashboard",
		"patch status LVMCluster my-lvmcluster",
	})
	if diff := cmp.Diff(want, w.spy.Writes()); diff != "" {
		t.Errorf("first reconcile (-want +got):\n%s", diff)
	}
	if got := w.condition(lvmv1alpha1.ConditionVolumeGroupsReady); !strings.Contains(got,
		"VGReadinessInProgress: device class vg1 on node a: the node has not reported") {
		t.Errorf("VolumeGroupsReady = %s", got)
	}
	_, err = w.reconcile()
	w.must(err)
	if writes := w.spy.Writes(); len(writes) != 0 {
		t.Errorf("second reconcile wrote %q", writes)
	}
}

func TestReadyClusterIsQuiet(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.settle()
	before := w.cluster.Status
	result, err := w.reconcile()
	w.must(err)
	if writes := w.spy.Writes(); len(writes) != 0 || !result.IsZero() {
		t.Errorf("wrote %q, result %+v", writes, result)
	}
	if diff := cmp.Diff(before, w.cluster.Status); diff != "" {
		t.Errorf("status changed:\n%s", diff)
	}
	if want := []string{
		"Normal ResourceReconciliationSuccess all operands are running, and all volume groups are ready"}; !cmp.Equal(
		want, w.notes.said) {
		t.Errorf("events %q", w.notes.said)
	}
}

func TestDriftIsRepaired(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.settle()

	w.must(w.api.Delete(w.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "lvms-vg1"}}))
	daemonSet := &appsv1.DaemonSet{}
	w.must(w.get(daemonSet, operand.AgentName))
	daemonSet.Spec.Template.Spec.Containers[0].Image = "somebody/elses:image"
	w.must(w.api.Update(w.Context(), daemonSet))
	driver := &storagev1.CSIDriver{}
	w.must(w.get(driver, wellknown.DriverName))
	driver.Labels = nil
	w.must(w.api.Update(w.Context(), driver))
	group := &lvmv1alpha1.LVMVolumeGroup{}
	w.must(w.get(group, "vg1"))
	group.Spec.DeviceSelector = nil
	w.must(w.api.Update(w.Context(), group))
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
	w.must(w.get(policy, "lvms-vg-manager-nodes"))
	policy.Spec.Validations = policy.Spec.Validations[:1]
	w.must(w.api.Update(w.Context(), policy))
	w.must(w.get(binding, "lvms-vg-manager-nodes"))
	w.must(w.api.Delete(w.Context(), binding))

	_, err := w.reconcile()
	w.must(err)
	if !w.exists(&storagev1.StorageClass{}, "lvms-vg1") {
		t.Error("StorageClass not made again")
	}
	w.must(w.get(daemonSet, operand.AgentName))
	if image := daemonSet.Spec.Template.Spec.Containers[0].Image; image != "quay.example/lvms:v5.1.0" {
		t.Errorf("image %s", image)
	}
	w.must(w.get(driver, wellknown.DriverName))
	if driver.Labels[wellknown.OwnerNameLabel] != w.cluster.Name {
		t.Errorf("labels %v", driver.Labels)
	}
	w.must(w.get(group, "vg1"))
	if group.Spec.DeviceSelector == nil {
		t.Error("deviceSelector not restored")
	}
	if w.must(w.get(policy, "lvms-vg-manager-nodes")); len(policy.Spec.Validations) != 2 ||
		!w.exists(binding, "lvms-vg-manager-nodes") {
		t.Errorf("the agents are not held to their nodes: %v", policy.Spec.Validations)
	}
	if want := "system:serviceaccount:" + w.cluster.Namespace +
		":vg-manager"; !strings.Contains(policy.Spec.MatchConditions[0].Expression, want) {
		t.Errorf("the policy is not about %s: %v", want, policy.Spec.MatchConditions)
	}
}

func TestStorageClassAsItWasChosen(t *testing.T) {
	w := newWorld(t, fixture.Retained("vg1"))
	_, err := w.reconcile()
	w.must(err)
	made := &storagev1.StorageClass{}
	w.must(w.get(made, "lvms-vg1"))
	if *made.ReclaimPolicy != corev1.PersistentVolumeReclaimRetain ||
		*made.VolumeBindingMode != storagev1.VolumeBindingImmediate ||
		made.Parameters[wellknown.MkfsOptionsParameter] != "-K" || made.Labels["tier"] != "slow" {
		t.Errorf("got %+v", made)
	}
	w.cluster.Spec.Storage.DeviceClasses[0].StorageClassOptions.AdditionalLabels = map[string]string{"rack": "a"}
	w.must(w.api.Update(w.Context(), w.cluster))
	_, err = w.reconcile()
	w.must(err)
	made = &storagev1.StorageClass{}
	w.must(w.get(made, "lvms-vg1"))
	if _, left := made.Labels["tier"]; left || made.Labels["rack"] != "a" ||
		made.Labels[wellknown.OwnerNameLabel] == "" {
		t.Errorf("labels %v", made.Labels)
	}
}

// TestStorageClassThatIsAnother checks that the operator does not change a StorageClass that a user created, and that
// the message says what to do.
func TestStorageClassThatIsAnother(t *testing.T) {
	for name, test := range map[string]struct {
		provisioner string
		want        string
	}{
		"ours": {wellknown.DriverName,
			`StorageClass lvms-vg1 already exists and is immutable: parameter csi.storage.k8s.io/fstype is "xfs" instead of "ext4", parameter mine is "yes" instead of "", reclaimPolicy is Retain instead of Delete, volumeBindingMode is Immediate instead of WaitForFirstConsumer; set storageClassOptions of device class vg1 to the existing values, or delete the StorageClass`},
		"theirs": {"ebs.csi.aws.com", "StorageClass lvms-vg1 already exists with provisioner " +
			"ebs.csi.aws.com: delete it, or use another name for device class vg1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fixture.Thin("vg1"))
			other := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "lvms-vg1"},
				Provisioner:       test.provisioner,
				ReclaimPolicy:     ptr.To(corev1.PersistentVolumeReclaimRetain),
				VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate),
				Parameters: map[string]string{wellknown.DeviceClassParameter: "vg1",
					wellknown.FilesystemTypeParameter: "xfs", "mine": "yes"}}
			w.make(other)
			if _, err := w.reconcile(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			now := &storagev1.StorageClass{}
			w.must(w.get(now, "lvms-vg1"))
			if now.ResourceVersion != other.ResourceVersion {
				t.Error("it was changed")
			}
			if !w.exists(&appsv1.DaemonSet{}, operand.AgentName) {
				t.Error("the others were not made")
			}
			w.must(w.api.Delete(w.Context(), other))
			_, err := w.reconcile()
			w.must(err)
			w.must(w.get(now, "lvms-vg1"))
			if now.UID == other.UID || *now.ReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
				t.Error("it was not recreated")
			}
		})
	}
}

func TestAffinityIsClearedWhenAClassSelectsAllNodes(t *testing.T) {
	w := newWorld(t, fixture.On(fixture.Thick("vg1"), "kubernetes.io/hostname"))
	_, err := w.reconcile()
	w.must(err)
	daemonSet := &appsv1.DaemonSet{}
	w.must(w.get(daemonSet, operand.AgentName))
	if terms := termsOf(daemonSet); len(terms) != 1 || len(terms[0].MatchExpressions) != 1+len(suitableNodes) {
		t.Fatalf("a class that selects some nodes, and the affinity has %v", terms)
	}
	w.cluster.Spec.Storage.DeviceClasses = append(w.cluster.Spec.Storage.DeviceClasses, fixture.Thick("vg2"))
	w.must(w.api.Update(w.Context(), w.cluster))
	_, err = w.reconcile()
	w.must(err)
	daemonSet = &appsv1.DaemonSet{}
	w.must(w.get(daemonSet, operand.AgentName))
	wantEverySuitableNode(t, daemonSet)
}

func termsOf(daemonSet *appsv1.DaemonSet) []corev1.NodeSelectorTerm {
	affinity := daemonSet.Spec.Template.Spec.Affinity.NodeAffinity
	return affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// suitableNodes are the requirements that exclude the nodes on which no node agent can run.
var suitableNodes = []corev1.NodeSelectorRequirement{
	{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"windows"}},
	{Key: "type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"virtual-kubelet"}},
	{Key: "node-role.kubernetes.io/arbiter", Operator: corev1.NodeSelectorOpDoesNotExist},
}

// wantEverySuitableNode checks that the agent runs on every node on which it can run.
func wantEverySuitableNode(t *testing.T, daemonSet *appsv1.DaemonSet) {
	t.Helper()
	if diff := cmp.Diff([]corev1.NodeSelectorTerm{{MatchExpressions: suitableNodes}}, termsOf(daemonSet)); diff != "" {
		t.Error(diff)
	}
}

func TestDefaultClassYieldsToAnotherAndDoesNotFlap(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	isDefault := func() string {
		class := &storagev1.StorageClass{}
		w.must(w.get(class, "lvms-vg1"))
		return class.Annotations[defaultClassAnnotation]
	}
	for range 3 {
		_, err := w.reconcile()
		w.must(err)
		if isDefault() != "true" {
			t.Fatal("not the default though there is no other")
		}
	}
	ours := &storagev1.StorageClass{}
	w.must(w.get(ours, "lvms-vg1"))
	// The second one is a copy with the operator's labels.
	for _, labels := range []map[string]string{nil, ours.Labels} {
		other := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: labels,
			Annotations: map[string]string{defaultClassAnnotation: "true"}}, Provisioner: "x"}
		w.make(other)
		for range 2 {
			_, err := w.reconcile()
			w.must(err)
			if isDefault() != "false" {
				t.Fatal("two defaults")
			}
		}
		w.must(w.api.Delete(w.Context(), other))
		_, err := w.reconcile()
		w.must(err)
		if isDefault() != "true" {
			t.Fatal("no default after the other is gone")
		}
	}
}

func TestFailedReadIsNotEmpty(t *testing.T) {
	for name, fails := range map[string]func(any) bool{
		"claims":             func(o any) bool { _, is := o.(*corev1.PersistentVolumeClaimList); return is },
		"persistent-volumes": func(o any) bool { _, is := o.(*corev1.PersistentVolumeList); return is },
		"logical-volumes":    func(o any) bool { _, is := o.(*topolvmv1.LogicalVolumeList); return is },
		"storage-classes":    func(o any) bool { _, is := o.(*storagev1.StorageClassList); return is },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fixture.Thin("vg1"))
			w.settle()
			w.must(w.api.Delete(w.Context(), w.cluster))
			w.spy.Writes()
			w.spy.Fail = func(verb string, object any) error {
				if verb == "list" && fails(object) {
					return errors.New("the API server is away")
				}
				return nil
			}
			if _, err := w.reconcile(); err == nil || !strings.Contains(err.Error(), "the API server is away") {
				t.Errorf("error %v", err)
			}
			for _, write := range w.spy.Writes() {
				if strings.HasPrefix(write, "delete") {
					t.Error(write)
				}
			}
			if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); !strings.Contains(got, "DeletionPending") ||
				!strings.Contains(got, "the API server is away") {
				t.Error(got)
			}
		})
	}
}

func TestFailedListOfVolumeGroupsDeletesNothing(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.settle()
	w.spy.Fail = func(verb string, object any) error {
		if _, is := object.(*lvmv1alpha1.LVMVolumeGroupList); is && verb == "list" {
			return errors.New("the API server is away")
		}
		return nil
	}
	if _, err := w.reconcile(); err == nil {
		t.Error("no error")
	}
	if diff := cmp.Diff([]string{"patch status LVMCluster my-lvmcluster"}, w.spy.Writes()); diff != "" {
		t.Error(diff)
	}
	if got := w.condition(lvmv1alpha1.ConditionVolumeGroupsReady); !strings.HasPrefix(got, "Unknown/NotObserved") {
		t.Error(got)
	}
}

func TestOneOperandThatFailsDoesNotStopTheOthers(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.spy.Fail = func(verb string, object any) error {
		if o, is := object.(client.Object); is && verb == "apply" &&
			o.GetObjectKind().GroupVersionKind().Kind == "CSIDriver" {
			return errors.New("forbidden")
		}
		return nil
	}
	if _, err := w.reconcile(); err == nil {
		t.Error("no error")
	}
	if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); got !=
		"False/ResourcesSyncIncomplete: csiDriver: CSIDriver topolvm.io: apply: forbidden" {
		t.Error(got)
	}
	if !w.exists(&appsv1.DaemonSet{}, operand.AgentName) {
		t.Error("no DaemonSet")
	}
}

func TestNodeThatIsNotReadyIsShown(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.settle()
	node := &corev1.Node{}
	w.must(w.get(node, "b"))
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	node.Status.Conditions[0].Reason = "NodeStatusUnknown"
	w.must(w.api.Status().Update(w.Context(), node))
	_, err := w.reconcile()
	w.must(err)
	got := w.condition(lvmv1alpha1.ConditionVolumeGroupsReady)
	if !strings.HasPrefix(got, "False/VGsDegraded: device class vg1 on node b: the node has not been ready since") ||
		!strings.HasSuffix(got, "last reported: Ready") {
		t.Error(got)
	}
	if len(w.cluster.Status.DeviceClassStatuses[0].NodeStatus) != 2 ||
		w.cluster.Status.State != lvmv1alpha1.LVMStatusDegraded {
		t.Errorf("%+v", w.cluster.Status)
	}
}

//go:build env

package lvmcluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	securityv1 "github.com/openshift/api/security/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
	"github.com/lvm-storage/lvm-operator/internal/admission/deletionwebhook"
	"github.com/lvm-storage/lvm-operator/internal/cluster/platform"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

var sccKind = securityv1.GroupVersion.WithKind("SecurityContextConstraints")

// defaultClassAnnotation marks the default StorageClass of a cluster.
const defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class"

// metadataOf returns an empty PartialObjectMetadata of a kind.
func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

func TestMain(m *testing.M) {
	env.Main(m, func(e *env.Env) { server = e }, env.OptionalCRDs()...)
}

// notes records events.
type notes struct{ said []string }

func (n *notes) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	n.said = append(n.said, eventType+" "+reason+" "+fmt.Sprintf(note, args...))
}

// world is a namespace of the API server with an LVMCluster and a controller that tests call directly.
type world struct {
	*testing.T
	spy        *env.Spy      // the controller's client
	api        client.Client // the test's client: all permissions
	controller *Controller
	notes      *notes
	cluster    *lvmv1alpha1.LVMCluster
}

// newWorld creates nodes a and b, on which the driver is registered, and an LVMCluster.
func newWorld(t *testing.T, classes ...lvmv1alpha1.DeviceClass) *world {
	t.Helper()
	w := &world{T: t, api: server.Client, notes: &notes{}, cluster: fixture.Cluster(classes...)}
	w.cluster.UID = ""
	w.cluster.Namespace = strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	w.make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.cluster.Namespace}})
	// On OpenShift, the console's namespace exists on every cluster.
	w.must(client.IgnoreAlreadyExists(w.api.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operand.DashboardNamespace}})))
	w.make(&corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: operand.AgentName}})
	// The owner of the policies of the installation is found from the Deployment.
	labels := map[string]string{"app.kubernetes.io/name": installed.Name}
	w.make(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: installed.Name, Namespace: w.cluster.Namespace},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "i"}}}}}})
	w.must(server.InstallPolicies(w.cluster.Namespace))
	w.spy = server.OperatorSpy(w, w.cluster.Namespace)
	w.controller = New(w.spy, w.spy, w.notes, w.options())
	for _, name := range []string{"a", "b"} {
		node := fixture.Node(name, map[string]string{"kubernetes.io/hostname": name})
		status := node.Status
		w.make(node)
		node.Status = status
		node.Spec.Taints = nil
		w.must(w.api.Status().Update(t.Context(), node))
		w.register(name)
	}
	w.make(w.cluster)
	t.Cleanup(w.clean)
	return w
}

// options returns the options of the controller on OpenShift.
func (w *world) options() Options {
	namespace := w.cluster.Namespace
	return Options{Namespace: namespace, Options: operand.Options{
		Image:    "quay.example/lvms:v5.1.0",
		Platform: platform.Platform{Kind: platform.OpenShift, SCC: true, Snapshots: true, GroupSnapshots: true},
		DeletionWebhook: deletionwebhook.NewRegistration(deletionwebhook.Options{Client: w.spy, Namespace: namespace,
			Certificate: newServing(w.T, namespace)}),
	}}
}

// serving is the certificate of a webhook server.
type serving struct{ certificate tls.Certificate }

func (s serving) Current() (*tls.Certificate, error) { return &s.certificate, nil }

// newServing returns a certificate for a Service in the namespace. Nothing serves it.
func newServing(t *testing.T, namespace string) serving {
	t.Helper()
	pair, err := pki.SelfSigned(pki.ServerRequest(time.Now(), time.Hour, pki.ServiceNames(namespace, "webhook")...))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return serving{certificate}
}

// account returns the UID of the agents' ServiceAccount.
func (w *world) account() types.UID {
	w.Helper()
	account := &corev1.ServiceAccount{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: operand.AgentName}, account))
	return account.UID
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) make(object client.Object) {
	w.Helper()
	w.must(w.api.Create(context.Background(), object))
}

func (w *world) register(node string) {
	w.Helper()
	w.make(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: wellknown.DriverName, NodeID: node,
			TopologyKeys: []string{wellknown.TopologyNodeKey}}},
	}})
}

func (w *world) get(object client.Object, name string) error {
	return w.api.Get(w.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}, object)
}

func (w *world) exists(object client.Object, name string) bool {
	w.Helper()
	err := w.get(object, name)
	if err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	return err == nil
}

// reconcile calls the controller once and reads the LVMCluster back, if it still exists.
func (w *world) reconcile() (reconcile.Result, error) {
	w.Helper()
	result, err := w.controller.Reconcile(w.Context(),
		reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.cluster)})
	w.must(client.IgnoreNotFound(w.get(w.cluster, w.cluster.Name)))
	return result, err
}

// settle reconciles and simulates the DaemonSet controller and the node agents until everything is ready.
func (w *world) settle() {
	w.Helper()
	_, err := w.reconcile()
	w.must(err)
	w.playDaemonSet()
	w.playAgents()
	_, err = w.reconcile()
	w.must(err)
	if w.cluster.Status.State != lvmv1alpha1.LVMStatusReady {
		w.Fatalf("not Ready: %+v", w.cluster.Status)
	}
	w.spy.Writes()
}

// later lets the time of the controller pass until it reads again what uses the storage.
func (w *world) later() {
	now := w.controller.now().Add(11 * time.Minute)
	w.controller.now = func() time.Time { return now }
}

func (w *world) playDaemonSet() {
	w.Helper()
	daemonSet := &appsv1.DaemonSet{}
	w.must(w.get(daemonSet, operand.AgentName))
	daemonSet.Status = appsv1.DaemonSetStatus{ObservedGeneration: daemonSet.Generation,
		DesiredNumberScheduled: 2, CurrentNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2,
		NumberAvailable: 2}
	w.must(w.api.Status().Update(w.Context(), daemonSet))
}

// playAgents reports each LVMVolumeGroup ready, on each node.
func (w *world) playAgents() {
	w.Helper()
	groups := &lvmv1alpha1.LVMVolumeGroupList{}
	w.must(w.api.List(w.Context(), groups, client.InNamespace(w.cluster.Namespace)))
	statuses := &lvmv1alpha1.LVMVolumeGroupNodeStatusList{}
	w.must(w.api.List(w.Context(), statuses, client.InNamespace(w.cluster.Namespace)))
	for _, status := range statuses.Items {
		for i := range groups.Items {
			group := &groups.Items[i]
			status.Status.NodeStatus = append(status.Status.NodeStatus, lvmv1alpha1.VGStatus{
				Name: group.Name, Status: lvmv1alpha1.VGStatusReady, ObservedGeneration: group.Generation,
				Devices: []string{"/dev/sdb"}})
		}
		w.must(w.api.Status().Update(w.Context(), &status))
	}
}

// playRemoval simulates that the node agents remove a volume group.
func (w *world) playRemoval(class string) {
	w.Helper()
	statuses := &lvmv1alpha1.LVMVolumeGroupNodeStatusList{}
	w.must(w.api.List(w.Context(), statuses, client.InNamespace(w.cluster.Namespace)))
	for _, status := range statuses.Items {
		status.Status.NodeStatus = slices.DeleteFunc(status.Status.NodeStatus,
			func(s lvmv1alpha1.VGStatus) bool { return s.Name == class })
		w.must(w.api.Status().Update(w.Context(), &status))
	}
}

// ofPolicies returns the writes of the admission policies.
func ofPolicies(verb string) []string {
	var writes []string
	for _, of := range []string{"logicalvolumes", "nodestatuses", "recoveries", "nodes"} {
		writes = append(writes, verb+" ValidatingAdmissionPolicy lvms-vg-manager-"+of,
			verb+" ValidatingAdmissionPolicyBinding lvms-vg-manager-"+of)
	}
	writes = append(writes, verb+" ValidatingAdmissionPolicy lvms-operator-pods",
		verb+" ValidatingAdmissionPolicyBinding lvms-operator-pods",
		verb+" ValidatingAdmissionPolicy lvms-logicalvolume-users",
		verb+" ValidatingAdmissionPolicyBinding lvms-logicalvolume-users")
	return append(writes, ofDeletionPolicies(verb)...)
}

// ofDeletionPolicies returns the writes of the webhook and the policy that refuse deletion.
func ofDeletionPolicies(verb string) []string {
	return []string{verb + " ValidatingWebhookConfiguration lvms-logicalvolume-deletion",
		verb + " ValidatingAdmissionPolicy lvms-installation-deletion",
		verb + " ValidatingAdmissionPolicyBinding lvms-installation-deletion"}
}

func (w *world) condition(conditionType string) string {
	w.Helper()
	condition := meta.FindStatusCondition(w.cluster.Status.Conditions, conditionType)
	if condition == nil {
		w.Fatalf("no condition %s", conditionType)
	}
	return fmt.Sprintf("%s/%s: %s", condition.Status, condition.Reason, condition.Message)
}

// clean deletes the cluster-scoped objects, for the next test.
func (w *world) clean() {
	ctx := context.Background()
	w.spy.Fail = nil
	logical := &topolvmv1.LogicalVolumeList{}
	_ = w.api.List(ctx, logical)
	for _, lv := range logical.Items {
		w.annotate(&lv, wellknown.AllowDeletionAnnotation, "true")
	}
	for _, object := range []client.Object{
		&topolvmv1.LogicalVolume{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{}, &storagev1.CSIDriver{},
		&admissionv1.ValidatingWebhookConfiguration{},
		&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{},
		&storagev1.CSINode{}, &corev1.Node{}, &snapshotv1.VolumeSnapshotClass{},
		&groupsnapshotv1.VolumeGroupSnapshotClass{}, metadataOf(sccKind),
	} {
		if err := w.api.DeleteAllOf(ctx, object); err != nil {
			w.Errorf("clean %T: %v", object, err)
		}
	}
	if err := w.api.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(operand.DashboardNamespace)); err != nil {
		w.Errorf("clean the console's dashboards: %v", err)
	}
	volumes := &corev1.PersistentVolumeList{}
	_ = w.api.List(ctx, volumes)
	for _, volume := range volumes.Items {
		volume.Finalizers = nil
		_ = w.api.Update(ctx, &volume)
	}
	claims := &corev1.PersistentVolumeClaimList{}
	_ = w.api.List(ctx, claims)
	for _, claim := range claims.Items {
		_ = w.api.Delete(ctx, &claim)
		claim.Finalizers = nil
		_ = w.api.Update(ctx, &claim)
	}
}

// annotate sets an annotation of an object, or removes it if the value is empty.
func (w *world) annotate(object client.Object, key, value string) {
	w.Helper()
	text := strconv.Quote(value)
	if value == "" {
		text = "null"
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, key, text))
	w.must(w.api.Patch(context.Background(), object, patch))
}

func lvSize(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }

// volume creates a claim, a PersistentVolume and a LogicalVolume, and returns a function that deletes them.
func (w *world) volume(name, class string) func() {
	w.Helper()
	storageClass := wellknown.StorageClassName(class)
	logical := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + name},
		Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: "a", DeviceClass: class,
			Size: resource.MustParse("1Gi")}}
	w.make(logical)
	logical.Status.VolumeID = "id-" + name
	w.must(w.api.Status().Update(w.Context(), logical))
	persistent := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              storageClass,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: "id-" + name}},
		}}
	w.make(persistent)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.cluster.Namespace},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &storageClass,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}
	w.make(claim)
	return func() {
		w.Helper()
		w.later()
		w.annotate(logical, wellknown.AllowDeletionAnnotation, "true")
		for _, object := range []client.Object{logical, persistent, claim} {
			w.must(w.api.Delete(w.Context(), object))
			err := w.api.Get(w.Context(), client.ObjectKeyFromObject(object), object)
			if apierrors.IsNotFound(err) {
				continue
			}
			w.must(err)
			object.SetFinalizers(nil)
			w.must(w.api.Update(w.Context(), object))
		}
	}
}

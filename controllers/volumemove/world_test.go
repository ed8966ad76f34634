package volumemove

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove/plan"
	"github.com/lvm-storage/lvm-operator/internal/volume/activecache"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/kill"
)

// createCluster creates the LVMCluster with the device classes of the tests.
func createCluster(api client.Client) error {
	cluster := &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster", Namespace: env.Namespace}}
	for _, name := range []string{"thin", "thick", "select", "full"} {
		class := v1alpha1.DeviceClass{Name: name}
		if name != "thick" {
			class.ThinPoolConfig = &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90, OverprovisionRatio: 10}
		}
		cluster.Spec.Storage.DeviceClasses = append(cluster.Spec.Storage.DeviceClasses, class)
	}
	return api.Create(context.Background(), cluster)
}

// world is a claim with a volume on node NAME-a, and a node NAME-b. The test plays the node agents and the controller
// that recreates PersistentVolumes. data has the content of logical volumes, as NODE/VOLUME: the number of the last
// write.
type world struct {
	*testing.T
	name     string
	class    string
	recorder *events.FakeRecorder
	api      client.Client
	// operator has the permissions of the operator, which uses spy.
	operator client.WithWatch
	spy      *env.Spy
	move     *v1alpha1.VolumeMove
	ctl      *Controller
	clock    time.Time
	data     map[string]int
	written  int
	// busy: the node agent of the source does not confirm the fence.
	busy bool
	// lost: the node agent of node b does nothing.
	lost bool
	// seconds is how long a round takes, and changed whether it sends data.
	seconds float64
}

func newWorld(t *testing.T, name string) *world { t.Helper(); return newWorldOf(t, name, "thin") }

func newWorldOf(t *testing.T, name, class string) *world {
	t.Helper()
	w := &world{T: t, name: name, class: class, data: map[string]int{}, clock: time.Now()}
	var err error
	w.api, w.operator, err = connect()
	w.must(err)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.node(w.a(), "100Gi", true)
	w.node(w.b(), "100Gi", true)
	w.volume()
	w.write()
	w.move = &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: env.Namespace},
		Spec: v1alpha1.VolumeMoveSpec{Claim: v1alpha1.VolumeMoveClaim{Namespace: name, Name: "data"}, NodeName: w.b()}}
	w.guard(nil)
	t.Cleanup(w.clean)
	return w
}

// clean deletes what the operator lists of all worlds: otherwise, the lists of later worlds take longer.
func (w *world) clean() {
	ctx := context.WithoutCancel(w.Context())
	objects := []client.Object{w.move}
	volumes := &topolvmv1.LogicalVolumeList{}
	w.must(w.api.List(ctx, volumes))
	for i := range volumes.Items {
		if node := volumes.Items[i].Spec.NodeName; node == w.a() || node == w.b() {
			objects = append(objects, &volumes.Items[i])
		}
	}
	for _, object := range objects {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		w.must(client.IgnoreNotFound(w.api.Patch(ctx, object, patch)))
		w.must(client.IgnoreNotFound(w.api.Delete(ctx, object)))
	}
}

func (w *world) a() string      { return w.name + "-a" }
func (w *world) b() string      { return w.name + "-b" }
func (w *world) pv() string     { return w.name + "-pv" }
func (w *world) handle() string { return w.name + "-lv" }

// operatorClient lists only what the operator's client lists.
type operatorClient struct{ client.Client }

func (c operatorClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return (&activecache.Client{Client: c.Client}).List(ctx, list, options...)
}

// guard starts an operator that one of its writes may end.
func (w *world) guard(p *kill.Points) {
	w.spy = env.Watch(p.Client(w.operator))
	w.restart()
}

func (w *world) restart() {
	w.recorder = events.NewFakeRecorder(1000)
	w.ctl = New(operatorClient{w.spy}, w.spy, w.spy, w.recorder, env.Namespace)
	w.ctl.now = func() time.Time { return w.clock }
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) create(object client.Object) {
	w.Helper()
	w.must(w.api.Create(w.Context(), object))
}

// node creates a node with capacity for the class, with or without a node agent.
func (w *world) node(name, room string, agent bool) {
	w.Helper()
	quantity := resource.MustParse(room)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": name},
		Annotations: map[string]string{wellknown.CapacityAnnotationPrefix + w.class: fmt.Sprint(quantity.Value())}}}
	w.create(node)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.must(w.api.Status().Update(w.Context(), node))
	csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if agent {
		csiNode.Spec.Drivers = []storagev1.CSINodeDriver{{Name: wellknown.DriverName, NodeID: name,
			TopologyKeys: []string{wellknown.TopologyNodeKey}}}
	}
	w.create(csiNode)
}

// volume creates claim, PersistentVolume and LogicalVolume on node a.
func (w *world) volume() {
	w.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To(w.name), AccessModes: modes, VolumeName: w.pv(),
			Resources: corev1.VolumeResourceRequirements{Requests: size}}}
	w.create(claim)
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: w.pv(),
		Finalizers:  []string{wellknown.LogicalVolumeFinalizer},
		Annotations: map[string]string{wellknown.ClaimAnnotation: w.name + "/data"}},
		Spec: topolvmv1.LogicalVolumeSpec{Name: w.pv(), NodeName: w.a(), DeviceClass: w.class,
			Size: resource.MustParse("1Gi")}}
	w.create(lv)
	lv.Status.VolumeID = w.handle()
	lv.Status.CurrentSize = ptr.To(resource.MustParse("1Gi"))
	w.must(w.api.Status().Update(w.Context(), lv))
	w.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.pv()},
		Spec: corev1.PersistentVolumeSpec{Capacity: size, AccessModes: modes, StorageClassName: w.name,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: w.name, Name: "data",
				UID: claim.UID},
			NodeAffinity: relocate.Affinity(w.a()),
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: wellknown.DriverName, VolumeHandle: w.handle()}}}})
}

// pod creates a Pod with the claim on a node; on none if it is "".
func (w *world) pod(name, node string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}
	w.create(pod)
	return pod
}

func (w *world) delete(object client.Object) {
	w.Helper()
	w.must(client.IgnoreNotFound(w.api.Delete(w.Context(), object, client.GracePeriodSeconds(0))))
}

// start creates the VolumeMove.
func (w *world) start() { w.Helper(); w.create(w.move) }

// reconcile reconciles the move after an event, and so late that it lists the Pods again.
func (w *world) reconcile() (reconcile.Result, error) {
	w.ctl.podEnded(client.ObjectKeyFromObject(w.move), w.name)
	return w.ctl.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.move)})
}

// logicalVolume returns a LogicalVolume, or nil if it does not exist.
func (w *world) logicalVolume(name string) *topolvmv1.LogicalVolume {
	w.Helper()
	lv, err := relocate.Get(w.Context(), w.api, client.ObjectKey{Name: name}, &topolvmv1.LogicalVolume{})
	w.must(err)
	return lv
}

func (w *world) theVolume() *topolvmv1.LogicalVolume {
	w.Helper()
	lv := w.logicalVolume(w.pv())
	if lv == nil {
		w.Fatal("the LogicalVolume of the claim does not exist")
	}
	return lv
}

// write writes to the volume like a Pod. A fenced volume cannot be written.
func (w *world) write() {
	w.Helper()
	lv := w.theVolume()
	if lv.Annotations[wellknown.FencedAnnotation] != "" || lv.Annotations[wellknown.AdoptAnnotation] != "" {
		return
	}
	w.written++
	w.data[lv.Spec.NodeName+"/"+w.handle()] = w.written
}

// own returns the LogicalVolumes of the move.
func (w *world) own() []topolvmv1.LogicalVolume {
	w.Helper()
	list := &topolvmv1.LogicalVolumeList{}
	w.must(w.api.List(w.Context(), list, client.MatchingLabels{wellknown.MoveLabel: string(w.move.UID)}))
	return list.Items
}

// agents does what the node agents and the controller of PersistentVolumes have to do.
func (w *world) agents() {
	w.Helper()
	w.agentsOfVolume()
	w.bind()
	for _, lv := range w.own() {
		disk := lv.Spec.NodeName + "/" + string(lv.UID)
		switch {
		case w.lost && lv.Spec.NodeName == w.b():
		case !lv.DeletionTimestamp.IsZero():
			back := lv.Annotations[wellknown.MoveBackAnnotation]
			if _, exists := w.data[disk]; exists && back != "" && back != lv.Spec.NodeName &&
				w.logicalVolume(w.pv()) != nil {
				continue // The agent keeps the logical volume.
			}
			delete(w.data, disk)
			if controllerutil.RemoveFinalizer(&lv, wellknown.LogicalVolumeFinalizer) {
				w.must(client.IgnoreNotFound(w.api.Update(w.Context(), &lv)))
			}
		case controllerutil.AddFinalizer(&lv, wellknown.LogicalVolumeFinalizer):
			w.must(w.api.Update(w.Context(), &lv))
		case lv.Name == plan.TargetName(w.move):
			w.agentOfTarget(&lv)
		case lv.Status.VolumeID == "" && plan.IsOldOf(w.move, &lv):
			w.agentOfOld(&lv)
		case lv.Status.VolumeID == "":
			w.data[lv.Name] = w.data[lv.Spec.NodeName+"/"+w.handle()]
			w.created(&lv)
		}
	}
}

func (w *world) created(lv *topolvmv1.LogicalVolume) {
	w.Helper()
	lv.Status.VolumeID = string(lv.UID)
	lv.Status.CurrentSize = ptr.To(lv.Spec.Size)
	w.must(w.api.Status().Update(w.Context(), lv))
}

func (w *world) agentOfTarget(lv *topolvmv1.LogicalVolume) {
	w.Helper()
	if lv.Spec.Source == "" {
		w.Fatal("the target has no source")
	}
	if lv.Spec.Source == w.pv() {
		w.agentOfThickTarget(lv)
		return
	}
	base := lv.Annotations[wellknown.CopyBaseAnnotation]
	old, err := view.Copied(lv)
	if err == nil && old.Source == lv.Spec.Source {
		return
	}
	before, known := w.data[w.b()+"/"+w.handle()]
	if base != "" && (!known || w.data[base] != before || w.logicalVolume(base) == nil) {
		w.Errorf("the base %s has %d, and the target %d", base, w.data[base], before)
	}
	source := w.logicalVolume(lv.Spec.Source)
	if source == nil {
		w.Fatalf("the source %s does not exist", lv.Spec.Source)
	}
	record := view.CopyRecord{Source: lv.Spec.Source, Base: base, Finished: true, Seconds: w.seconds,
		SizeBytes: uint64(source.Spec.Size.Value()), CopiedBytes: uint64(source.Spec.Size.Value())}
	if !known || before != w.data[lv.Spec.Source] {
		record.SentBytes = 4096
	}
	w.data[w.b()+"/"+w.handle()] = w.data[lv.Spec.Source]
	text, err := json.Marshal(record)
	w.must(err)
	metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.CopiedAnnotation, string(text))
	w.must(w.api.Update(w.Context(), lv))
}

func (w *world) agentOfOld(lv *topolvmv1.LogicalVolume) {
	w.Helper()
	isBack := lv.Annotations[wellknown.MoveBackAnnotation] == lv.Spec.NodeName
	if want := w.handle() + "/" + string(w.move.UID); lv.Annotations[wellknown.RetireAnnotation] != want ||
		(lv.Spec.NodeName == w.b()) != isBack || lv.Spec.Source != wellknown.RetiredSource {
		w.Fatalf("the old logical volume has %+v %+v", lv.ObjectMeta, lv.Spec)
	}
	switch v := w.logicalVolume(w.pv()); {
	case v != nil && v.Spec.NodeName == lv.Spec.NodeName && lv.Annotations[wellknown.MoveBackAnnotation] == "":
		w.Fatal("the old logical volume is given up before the switch")
	case v != nil && (v.Spec.NodeName == lv.Spec.NodeName || v.Annotations[wellknown.AdoptAnnotation] != ""):
		return
	}
	w.data[lv.Spec.NodeName+"/"+string(lv.UID)] = w.data[lv.Spec.NodeName+"/"+w.handle()]
	delete(w.data, lv.Spec.NodeName+"/"+w.handle())
	w.created(lv)
}

// agentsOfVolume fences, adopts and recreates.
func (w *world) agentsOfVolume() {
	w.Helper()
	lv := w.logicalVolume(w.pv())
	if lv == nil {
		return
	}
	before := lv.DeepCopy()
	request, fenced := lv.Annotations[wellknown.FenceAnnotation], lv.Annotations[wellknown.FencedAnnotation]
	switch {
	case lv.Annotations[wellknown.MovedVolumeAnnotation] != "":
		w.recreate(lv)
	case w.lost && lv.Spec.NodeName == w.b():
	case lv.Annotations[wellknown.AdoptAnnotation] != "" && lv.Spec.NodeName == w.a():
		retired := lv.Spec.NodeName + "/" + lv.Annotations[wellknown.AdoptAnnotation]
		data, exists := w.data[retired]
		if !exists {
			w.Fatal("the old logical volume was removed before the volume has adopted it")
		}
		w.data[lv.Spec.NodeName+"/"+w.handle()] = data
		delete(w.data, retired)
		delete(lv.Annotations, wellknown.AdoptAnnotation)
	case lv.Spec.NodeName == w.b():
		if target := w.logicalVolume(plan.TargetName(w.move)); target != nil &&
			lv.Annotations[wellknown.AdoptAnnotation] == string(target.UID) {
			delete(lv.Annotations, wellknown.AdoptAnnotation)
		}
	case request != "" && fenced == "" && !w.busy:
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.FencedAnnotation, request)
	case request != "" && w.busy:
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.FenceErrorAnnotation, "it is mounted at /x")
	case request == "":
		delete(lv.Annotations, wellknown.FencedAnnotation)
		delete(lv.Annotations, wellknown.FenceErrorAnnotation)
		delete(lv.Annotations, wellknown.UnfenceAnnotation)
	}
	if !equality.Semantic.DeepEqual(lv, before) {
		w.must(w.api.Patch(w.Context(), lv, client.MergeFrom(before)))
	}
}

// recreate recreates the PersistentVolume, like package volumeimport.
func (w *world) recreate(lv *topolvmv1.LogicalVolume) {
	w.Helper()
	text := lv.Annotations[wellknown.MovedVolumeAnnotation]
	if text == "" {
		return
	}
	pv := &corev1.PersistentVolume{}
	w.must(json.Unmarshal([]byte(text), pv))
	old := &corev1.PersistentVolume{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: pv.Name}, old))
	old.Finalizers = nil
	w.must(w.api.Update(w.Context(), old))
	w.delete(old)
	w.create(pv)
	pv.Status.Phase = corev1.VolumeBound
	w.must(w.api.Status().Update(w.Context(), pv))
	w.setPhase(corev1.ClaimLost)
	delete(lv.Annotations, wellknown.MovedVolumeAnnotation)
}

// status returns the status of the move. It is empty if the move does not exist.
func (w *world) status() v1alpha1.VolumeMoveStatus {
	w.Helper()
	m := &v1alpha1.VolumeMove{}
	err := w.api.Get(w.Context(), client.ObjectKeyFromObject(w.move), m)
	if apierrors.IsNotFound(err) {
		return v1alpha1.VolumeMoveStatus{}
	}
	w.must(err)
	return m.Status
}

// until reconciles, with the agents, until the move has a phase.
func (w *world) until(phase v1alpha1.VolumeMovePhase) {
	w.Helper()
	for range 60 {
		if now := time.Now().Add(time.Second); w.clock.Before(now) {
			w.clock = now
		}
		_, _ = w.reconcile()
		if w.status().Phase == phase {
			return
		}
		w.agents()
	}
	w.Fatalf("the move has not reached the phase %s: %+v", phase, w.status())
}

// untilKilled reconciles, with Pods that write and the agents, until the operator is killed. Pods and agents go on for
// some time without it.
func (w *world) untilKilled(p *kill.Points) {
	w.Helper()
	for range 12 {
		_, _ = w.reconcile()
		w.write()
		w.agents()
		if p.Dead() {
			w.write()
			w.agents()
			return
		}
	}
}

// untilGone reconciles, with the agents, until the move and all that was created for it do not exist.
func (w *world) untilGone() {
	w.Helper()
	for range 60 {
		_, _ = w.reconcile()
		w.agents()
		err := w.api.Get(w.Context(), client.ObjectKeyFromObject(w.move), &v1alpha1.VolumeMove{})
		if apierrors.IsNotFound(err) && len(w.own()) == 0 {
			w.agents()
			return
		}
	}
	w.Fatalf("the move still exists: %+v, %d objects", w.status(), len(w.own()))
}

// wantOn checks that the volume is on a node, with the last write, and that it can be used.
func (w *world) wantOn(node string) {
	w.Helper()
	lv := w.theVolume()
	pv := &corev1.PersistentVolume{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: w.pv()}, pv))
	if lv.Spec.NodeName != node || view.NodeOfVolume(pv) != node || !pv.DeletionTimestamp.IsZero() {
		w.Errorf("the volume is on node %s, its PersistentVolume on %s, want %s", lv.Spec.NodeName,
			view.NodeOfVolume(pv), node)
	}
	if claim := w.claim(); claim.Status.Phase == corev1.ClaimLost {
		w.Error("the claim is lost")
	}
	for key := range lv.Annotations {
		if key != wellknown.ClaimAnnotation {
			w.Errorf("the LogicalVolume still has %s", key)
		}
	}
	if got := w.data[node+"/"+w.handle()]; got != w.written {
		w.Errorf("the volume on node %s has write %d, and the last one was %d", node, got, w.written)
	}
}

func isWrite(verb string) bool { return verb != "get" && verb != "list" }

func (w *world) events() string {
	var all []string
	for {
		select {
		case text := <-w.recorder.Events:
			all = append(all, text)
		default:
			return strings.Join(all, "\n")
		}
	}
}

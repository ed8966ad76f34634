package nodeprobe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/kill"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

const (
	namespace = "openshift-lvm-storage"
	volume    = "pvc-1"
)

// world is a cluster with nodes, and the components of Kubernetes that a probe needs.
type world struct {
	*testing.T
	api    client.WithWatch
	prober *Prober
	clock  time.Time
	events []string
	// fails is the error of each request of the prober, if it is set.
	fails error
	// points ends the prober, if it is set.
	points *kill.Points
}

func newWorld(t *testing.T, nodes ...string) *world {
	t.Helper()
	w := &world{T: t, api: memory.New(namespace), clock: time.Now().Truncate(time.Second)}
	w.create(&v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"},
		Spec: v1alpha1.LVMClusterSpec{Storage: v1alpha1.Storage{DeviceClasses: []v1alpha1.DeviceClass{{Name: "vg1"}}}}})
	for _, name := range nodes {
		w.addNode(name)
	}
	w.restart()
	return w
}

func (w *world) addNode(name string) {
	w.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.create(node)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.must(w.api.Status().Update(w.Context(), node))
	status := &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	w.create(status)
	status.Status.NodeStatus = []v1alpha1.VGStatus{{Name: "vg1", Status: v1alpha1.VGStatusReady}}
	w.must(w.api.Status().Update(w.Context(), status))
}

// restart starts another operator.
func (w *world) restart() {
	api := w.api
	if w.points != nil {
		api = w.points.Client(api)
	}
	api = interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			return errors.Join(w.fails, c.Get(ctx, key, o, options...))
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
			return errors.Join(w.fails, c.List(ctx, l, options...))
		}})
	w.prober = New(api, api, api, w, Options{Namespace: namespace, Image: "image", Interval: time.Hour})
	w.prober.now = func() time.Time { return w.clock }
}

// Eventf implements event.Recorder.
func (w *world) Eventf(about, related runtime.Object, _, reason, _, note string, args ...any) {
	node, _ := about.(*v1alpha1.LVMVolumeGroupNodeStatus)
	class, _ := related.(*v1alpha1.LVMVolumeGroup)
	w.events = append(w.events, reason+" "+node.GetName()+" "+class.GetName()+": "+fmt.Sprintf(note, args...))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) create(o client.Object) {
	w.Helper()
	w.must(w.api.Create(w.Context(), o))
}

func (w *world) pass() int {
	w.Helper()
	remaining, err := w.prober.pass(w.Context())
	w.must(err)
	return remaining
}

// claims and pods return the objects of probes.
func (w *world) claims() []corev1.PersistentVolumeClaim {
	w.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	w.must(w.api.List(w.Context(), list, client.InNamespace(namespace)))
	return list.Items
}

func (w *world) pods() []corev1.Pod {
	w.Helper()
	list := &corev1.PodList{}
	w.must(w.api.List(w.Context(), list, client.InNamespace(namespace)))
	return list.Items
}

// provision binds the claims of probes to volumes with a reclaim policy.
func (w *world) provision(policy corev1.PersistentVolumeReclaimPolicy) {
	w.Helper()
	for _, claim := range w.claims() {
		if claim.Spec.VolumeName != "" {
			continue
		}
		w.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: policy,
				ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID}}})
		claim.Spec.VolumeName = volume
		w.must(w.api.Update(w.Context(), &claim))
		claim.Status.Phase = corev1.ClaimBound
		w.must(w.api.Status().Update(w.Context(), &claim))
	}
}

// end sets the status of the Pods of probes.
func (w *world) end(status corev1.PodStatus) {
	w.Helper()
	for _, pod := range w.pods() {
		pod.Status = status
		w.must(w.api.Status().Update(w.Context(), &pod))
	}
}

// reclaim does what Kubernetes does with the volume of a deleted claim. It fails if the volume is retained.
func (w *world) reclaim() {
	w.Helper()
	pv := &corev1.PersistentVolume{}
	if err := w.api.Get(w.Context(), client.ObjectKey{Name: volume}, pv); err != nil || len(w.claims()) > 0 {
		return
	}
	if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		w.Error("the volume is retained")
	}
	pv.Finalizers = nil
	w.must(w.api.Update(w.Context(), pv))
	w.must(client.IgnoreNotFound(w.api.Delete(w.Context(), pv)))
}

// collectGarbage deletes Pods whose claim is gone, and ends the protection of claims that no Pod uses.
func (w *world) collectGarbage() {
	w.Helper()
	claims := map[string]bool{}
	for _, claim := range w.claims() {
		claims[claim.Name] = true
	}
	for _, pod := range w.pods() {
		if !claims[pod.Name] {
			w.must(w.api.Delete(w.Context(), &pod))
		}
	}
	for _, claim := range w.claims() {
		if claim.DeletionTimestamp != nil {
			claim.Finalizers = nil
			w.must(client.IgnoreNotFound(w.api.Update(w.Context(), &claim)))
		}
	}
}

func (w *world) metrics(want string) {
	w.Helper()
	var text strings.Builder
	for line := range strings.Lines(want) {
		name, _, _ := strings.Cut(line, "{")
		for _, f := range Families {
			if f.Name == name {
				fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s gauge\n", f.Name, f.Help, f.Name)
			}
		}
		text.WriteString(line)
	}
	if err := testutil.CollectAndCompare(w.prober, strings.NewReader(text.String()), "lvms_node_probe_success",
		"lvms_node_probe_duration_seconds"); err != nil {
		w.Error(err)
	}
}

func succeeded(at time.Time) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(at)}}}}}
}

// probe does one complete probe with the components of Kubernetes.
func (w *world) probe(policy corev1.PersistentVolumeReclaimPolicy, status func() corev1.PodStatus) {
	w.Helper()
	w.pass()
	w.provision(policy)
	w.pass()
	w.end(status())
	w.pass()
	w.collectGarbage()
	w.pass()
	w.reclaim()
	w.pass()
}

func TestAProbeCreatesWritesAndDeletes(t *testing.T) {
	for _, policy := range []corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete,
		corev1.PersistentVolumeReclaimRetain} {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld(t, "node1")
			w.probe(policy, func() corev1.PodStatus {
				if w.metrics(""); len(w.pods()) != 1 {
					t.Fatalf("got %d Pods", len(w.pods()))
				}
				return succeeded(w.claims()[0].CreationTimestamp.Add(7 * time.Second))
			})
			w.metrics(`lvms_node_probe_duration_seconds{device_class="vg1",node="node1"} 7
lvms_node_probe_success{device_class="vg1",node="node1"} 1
`)
			if remaining := w.pass(); remaining+len(w.claims())+len(w.pods())+len(w.events) != 0 {
				t.Errorf("left: %d, %v, %v, events %v", remaining, w.claims(), w.pods(), w.events)
			}
			w.clock = w.clock.Add(time.Hour - time.Second)
			if w.pass(); len(w.claims()) != 0 {
				t.Error("a probe before the interval has passed")
			}
			w.clock = w.clock.Add(time.Second)
			if w.pass(); len(w.claims()) != 1 {
				t.Error("no probe after the interval")
			}
		})
	}
}

func TestAFailedProbeIsReportedWithItsStep(t *testing.T) {
	w := newWorld(t, "node1")
	bad := corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "input/output error"}}}}}
	w.probe(corev1.PersistentVolumeReclaimDelete, func() corev1.PodStatus { return bad })
	const want = "NodeProbeFailed node1 vg1: device class vg1: the data could not be written: input/output error"
	if len(w.events) != 1 || w.events[0] != want {
		t.Errorf("got %q", w.events)
	}
	w.metrics("lvms_node_probe_success{device_class=\"vg1\",node=\"node1\"} 0\n")
	w.prober.Interval = time.Second
	w.clock = w.clock.Add(time.Second)
	w.probe(corev1.PersistentVolumeReclaimDelete, func() corev1.PodStatus {
		return succeeded(w.claims()[0].CreationTimestamp.Time)
	})
	w.metrics(`lvms_node_probe_duration_seconds{device_class="vg1",node="node1"} 0
lvms_node_probe_success{device_class="vg1",node="node1"} 1
`)
}

func TestTheStepAtWhichAProbeStops(t *testing.T) {
	bound := corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}
	container := func(state corev1.ContainerState) *corev1.PodStatus {
		return &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: state}}}
	}
	for want, c := range map[string]struct {
		claim corev1.PersistentVolumeClaimStatus
		pod   *corev1.PodStatus
	}{
		"its Pod could not be created": {},
		"its Pod could not be scheduled: no free storage": {pod: &corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no free storage"}}}},
		"the volume was not created within 5m0s": {pod: &corev1.PodStatus{}},
		"the volume was not mounted within 5m0s": {claim: bound, pod: container(corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}})},
		"its Pod could not be started: no image": {claim: bound, pod: container(corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Message: "no image"}})},
		"the data was not written within 5m0s": {claim: bound, pod: container(corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{}})},
		"the data could not be written: OOMKilled": {claim: bound, pod: container(corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}})},
		"evicted": {claim: bound, pod: &corev1.PodStatus{Phase: corev1.PodFailed, Message: "evicted"}},
	} {
		found := probe{claim: &corev1.PersistentVolumeClaim{Status: c.claim}}
		if c.pod != nil {
			found.pod = &corev1.Pod{Status: *c.pod}
		}
		if got := stepOf(found); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAProbeThatMakesNoProgressEnds(t *testing.T) {
	w := newWorld(t, "node1")
	w.pass()
	w.pass()
	w.clock = w.clock.Add(limit + time.Second)
	w.pass()
	w.collectGarbage()
	w.pass()
	if len(w.claims())+len(w.pods()) != 0 {
		t.Errorf("left: %v, %v", w.claims(), w.pods())
	}
	if len(w.events) != 1 || !strings.Contains(w.events[0], "the volume was not created") {
		t.Errorf("got %q", w.events)
	}
}

func TestAVolumeThatIsNotDeletedIsReported(t *testing.T) {
	w := newWorld(t, "node1")
	w.pass()
	w.provision(corev1.PersistentVolumeReclaimDelete)
	w.pass()
	w.end(succeeded(w.clock))
	w.pass()
	w.collectGarbage()
	w.pass()
	w.metrics("")
	w.clock = w.clock.Add(limit)
	w.pass()
	w.pass()
	w.metrics("lvms_node_probe_success{device_class=\"vg1\",node=\"node1\"} 0\n")
	if len(w.events) != 1 || !strings.Contains(w.events[0], "the volume pvc-1 was not deleted within 5m0s") {
		t.Errorf("got %q", w.events)
	}
	w.clock = w.clock.Add(2 * time.Hour)
	if w.pass(); len(w.claims()) != 0 {
		t.Error("another probe while the volume of the last one exists")
	}
	w.reclaim()
	w.pass()
	w.metrics(`lvms_node_probe_duration_seconds{device_class="vg1",node="node1"} 0
lvms_node_probe_success{device_class="vg1",node="node1"} 1
`)
}

func TestAVolumeThatIsCreatedAfterItsClaimIsDeletedIsNotRetained(t *testing.T) {
	w := newWorld(t, "node1")
	w.pass()
	w.pass()
	uid := w.claims()[0].UID
	w.clock = w.clock.Add(limit + time.Second)
	w.pass()
	w.collectGarbage()
	w.pass()
	retain := func(name string, claim corev1.ObjectReference) {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, ClaimRef: &claim}}
		w.create(pv)
		pv.Status.Phase = corev1.VolumeReleased
		w.must(w.api.Status().Update(w.Context(), pv))
	}
	name := nameOf("node1", "vg1")
	retain(volume, corev1.ObjectReference{Namespace: namespace, Name: name, UID: uid})
	retain("other-namespace", corev1.ObjectReference{Namespace: "default", Name: name, UID: "1"})
	retain("other-name", corev1.ObjectReference{Namespace: namespace, Name: prefix + "data", UID: "1"})
	w.restart()
	w.prober.Interval = 0
	for range 2 {
		w.pass()
	}
	w.reclaim()
	list := &corev1.PersistentVolumeList{}
	w.must(w.api.List(w.Context(), list))
	if len(list.Items) != 2 {
		t.Errorf("left: %v", list.Items)
	}
	for _, pv := range list.Items {
		if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			t.Errorf("%s is not retained", pv.Name)
		}
	}
}

func TestWhatIsNotProbed(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"a cordoned node": func(w *world) {
			node := &corev1.Node{}
			w.must(w.api.Get(w.Context(), client.ObjectKey{Name: "node1"}, node))
			node.Spec.Unschedulable = true
			w.must(w.api.Update(w.Context(), node))
		},
		"a node that is not ready": func(w *world) {
			node := &corev1.Node{}
			w.must(w.api.Get(w.Context(), client.ObjectKey{Name: "node1"}, node))
			node.Status.Conditions[0].Status = corev1.ConditionUnknown
			w.must(w.api.Status().Update(w.Context(), node))
		},
		"a failed volume group": func(w *world) {
			status := &v1alpha1.LVMVolumeGroupNodeStatus{}
			w.must(w.api.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: "node1"}, status))
			status.Status.NodeStatus[0].Status = v1alpha1.VGStatusFailed
			w.must(w.api.Status().Update(w.Context(), status))
		},
		"a removed device class": func(w *world) {
			cluster := &v1alpha1.LVMCluster{}
			w.must(w.api.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: "c"}, cluster))
			cluster.Spec.Storage.DeviceClasses[0].Name = "vg2"
			w.must(w.api.Update(w.Context(), cluster))
		},
		"no LVMCluster": func(w *world) {
			w.must(w.api.DeleteAllOf(w.Context(), &v1alpha1.LVMCluster{}, client.InNamespace(namespace)))
		},
		"probes are off": func(w *world) { w.prober.Interval = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "node1")
			change(w)
			if w.pass(); len(w.claims()) != 0 {
				t.Error("probed")
			}
			// And what a probe has left is deleted without a result.
			w = newWorld(t, "node1")
			w.pass()
			w.provision(corev1.PersistentVolumeReclaimRetain)
			w.pass()
			change(w)
			w.pass()
			w.collectGarbage()
			w.pass()
			w.reclaim()
			if remaining := w.pass(); remaining+len(w.claims())+len(w.pods())+len(w.events) != 0 {
				t.Errorf("left: %d, %v, %v, events %v", remaining, w.claims(), w.pods(), w.events)
			}
			w.metrics("")
		})
	}
}

func TestAClaimOfSomebodyElseIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	w.create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data",
		Labels: probeLabels}})
	if w.pass(); len(w.claims()) != 1 || w.claims()[0].DeletionTimestamp != nil {
		t.Errorf("got %v", w.claims())
	}
}

func TestAtMostFiveProbesAtTheSameTime(t *testing.T) {
	w := newWorld(t, "node1", "node2", "node3", "node4", "node5", "node6", "node7")
	for range 3 {
		if w.pass(); len(w.claims()) != parallel {
			t.Errorf("got %d", len(w.claims()))
		}
	}
}

func TestAFailedReadChangesNothing(t *testing.T) {
	w := newWorld(t, "node1")
	w.pass()
	w.pass()
	w.fails = errors.New("no answer")
	w.clock = w.clock.Add(time.Hour)
	if _, err := w.prober.pass(t.Context()); err == nil {
		t.Error("no error")
	}
	if len(w.claims())+len(w.pods()) != 2 || w.claims()[0].DeletionTimestamp != nil || len(w.events) != 0 {
		t.Errorf("got %v, %v, events %q", w.claims(), w.pods(), w.events)
	}
}

func TestNothingIsLeftWhenTheOperatorIsKilled(t *testing.T) {
	kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
		w := newWorld(t, "node1")
		w.points = p
		w.restart()
		for range 12 {
			_, _ = w.prober.pass(t.Context())
			if p.Dead() {
				p.Restart()
				w.restart()
			}
			w.provision(corev1.PersistentVolumeReclaimRetain)
			w.end(succeeded(w.clock))
			w.collectGarbage()
			w.reclaim()
		}
		p.Restart()
		if remaining := w.pass(); remaining+len(w.claims())+len(w.pods())+len(w.events) != 0 {
			t.Errorf("left: %d, %v, %v, events %v", remaining, w.claims(), w.pods(), w.events)
		}
		w.metrics(`lvms_node_probe_duration_seconds{device_class="vg1",node="node1"} 0
lvms_node_probe_success{device_class="vg1",node="node1"} 1
`)
	})
}

func TestWrite(t *testing.T) {
	folder := t.TempDir()
	for range 2 {
		if err := Write(folder); err != nil {
			t.Error(err)
		}
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 0 {
		t.Errorf("left: %v, %v", files, err)
	}
	if err := Write(filepath.Join(folder, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

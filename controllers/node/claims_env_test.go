//go:build env

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

type said []string

func (s *said) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	object, _ := about.(client.Object)
	*s = append(*s, object.GetName()+" "+reason+" "+fmt.Sprintf(note, args...))
}

// loss is a node with two bound claims. Two more claims must not be affected: one on another node, and one of another
// driver.
type loss struct {
	*testing.T
	spy    *env.Spy
	claims *Claims
	events *said
	ns     string
	node   *corev1.Node
}

func newLoss(t *testing.T, name string) *loss {
	t.Helper()
	config, err := server.AsOperator(env.Namespace)
	l := &loss{T: t, events: &said{}, ns: "loss-" + name, node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	l.must(err)
	l.spy, err = env.NewSpy(config)
	l.must(err)
	l.claims = NewClaims(l.spy, l.spy, env.Namespace, l.events)
	l.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.ns}})
	l.create(l.node)
	l.volume("one", name, wellknown.DriverName)
	l.volume("two", name, wellknown.DriverName)
	l.volume("elsewhere", "other-"+name, wellknown.DriverName)
	l.volume("foreign", name, "other.example.com")
	return l
}

func (l *loss) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *loss) create(object client.Object) {
	l.Helper()
	l.must(server.Client.Create(l.Context(), object))
}

// volume creates a claim with a PersistentVolume and a LogicalVolume.
func (l *loss) volume(name, node, driver string) {
	l.Helper()
	id := l.ns + "-" + name
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: id},
		Spec: topolvmv1.LogicalVolumeSpec{Name: id, NodeName: node, Size: resource.MustParse("1Gi")}}
	l.create(lv)
	lv.Status.VolumeID = id
	l.must(server.Client.Status().Update(l.Context(), lv))
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: l.ns},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeName: id,
			Resources: corev1.VolumeResourceRequirements{Requests: size}}}
	l.create(claim)
	l.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes,
		ClaimRef: &corev1.ObjectReference{Namespace: l.ns, Name: name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver,
			VolumeHandle: id}},
	}})
}

func (l *loss) reconcile() error {
	l.Helper()
	_, err := l.claims.Reconcile(l.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(l.node)})
	return err
}

// edit applies a change to the current Node.
func (l *loss) edit(change func(*corev1.Node)) {
	l.Helper()
	node := &corev1.Node{}
	l.must(server.Client.Get(l.Context(), client.ObjectKeyFromObject(l.node), node))
	change(node)
	l.must(server.Client.Update(l.Context(), node))
}

func (l *loss) remove() {
	l.Helper()
	l.must(server.Client.Delete(l.Context(), l.node))
}

// left returns the claims that are not deleted. No Pod uses them, so they have no finalizer.
func (l *loss) left() []string {
	l.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	l.must(server.Client.List(l.Context(), list, client.InNamespace(l.ns)))
	var names []string
	for _, claim := range list.Items {
		if claim.DeletionTimestamp.IsZero() {
			names = append(names, claim.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (l *loss) nodeIsGone() bool {
	l.Helper()
	return apierrors.IsNotFound(server.Client.Get(l.Context(), client.ObjectKeyFromObject(l.node), &corev1.Node{}))
}

func taint(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

func annotate(value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations = map[string]string{wellknown.ReleaseClaimsAnnotation: value} }
}

// TestWhatBecomesOfClaimsWithTheirNode has a case for each state of a Node that is removed.
func TestWhatBecomesOfClaimsWithTheirNode(t *testing.T) {
	all := []string{"elsewhere", "foreign", "one", "two"}
	others := []string{"elsewhere", "foreign"}
	outOfService := taint(corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute)
	inUse(t)
	tests := map[string]struct {
		states []func(*corev1.Node)
		want   []string
		says   string
	}{
		"healthy":  {nil, all, ""},
		"cordoned": {[]func(*corev1.Node){func(n *corev1.Node) { n.Spec.Unschedulable = true }}, all, ""},
		"unreachable": {[]func(*corev1.Node){taint(corev1.TaintNodeUnreachable,
			corev1.TaintEffectNoExecute)}, all, ""},
		"not-ready": {[]func(*corev1.Node){taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)}, all, ""},
		"tainted":   {[]func(*corev1.Node){taint("mine", corev1.TaintEffectNoExecute)}, all, ""},
		"relabelled": {[]func(*corev1.Node){
			func(n *corev1.Node) { n.Labels = map[string]string{"disks": "none"} }}, all, ""},
		"of-upstream": {[]func(*corev1.Node){
			func(n *corev1.Node) { n.Finalizers = []string{wellknown.NodeFinalizer} }}, all, ""},
		"annotated-no": {[]func(*corev1.Node){annotate("false")}, all, ""},
		"out-of-order": {[]func(*corev1.Node){outOfService}, all, ""},
		"annotated": {[]func(*corev1.Node){annotate("true")}, others,
			"the annotation lvm.topolvm.io/release-claims"},
		"both": {[]func(*corev1.Node){annotate("true"), outOfService,
			taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)}, others, "the annotation"},
		"taken-back": {[]func(*corev1.Node){annotate("true"), func(n *corev1.Node) { n.Annotations = nil }}, all, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t, name)
			for _, change := range tt.states {
				l.edit(change)
				for range 2 {
					l.must(l.reconcile())
				}
			}
			if diff := cmp.Diff(all, l.left()); diff != "" {
				t.Errorf("while the Node is there: %s", diff)
			}
			l.remove()
			for range 2 {
				l.must(l.reconcile())
			}
			if diff := cmp.Diff(tt.want, l.left()); diff != "" {
				t.Error(diff)
			}
			if !l.nodeIsGone() {
				t.Error("the Node is kept")
			}
			var want []string
			if tt.says != "" {
				want = []string{"one NodeRemoved the claim is being deleted, because node " + name, tt.says}
			}
			if len(*l.events) != len(want) {
				t.Fatalf("events %q, want %q", *l.events, want)
			}
			for i, event := range *l.events {
				expect.Contains(t, "the event", event, want[i])
			}
			// The machine returns with a Node without the annotation: the remaining claims stay.
			l.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			l.create(l.node)
			l.must(l.reconcile())
			if diff := cmp.Diff(tt.want, l.left()); diff != "" {
				t.Errorf("after it came back: %s", diff)
			}
		})
	}
}

// inUse creates an LVMCluster for the duration of a test.
func inUse(t *testing.T) {
	t.Helper()
	cluster := &lvmv1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: "in-use", Namespace: env.Namespace}}
	if err := server.Client.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Client.Delete(context.Background(), cluster) })
}

// TestNothingIsPutOnANodeWithoutAnLVMCluster checks that a Node gets no finalizer without an LVMCluster: nothing would
// remove it after the operator.
func TestNothingIsPutOnANodeWithoutAnLVMCluster(t *testing.T) {
	l := newLoss(t, "unused")
	l.edit(annotate("true"))
	l.must(l.reconcile())
	if writes := l.spy.Writes(); len(writes) != 0 {
		t.Errorf("wrote %q", writes)
	}
	l.remove()
	if !l.nodeIsGone() {
		t.Error("the Node is kept")
	}
}

func TestNodeIsKeptUntilItsClaimsAreDeleted(t *testing.T) {
	inUse(t)
	l := newLoss(t, "half")
	l.edit(annotate("true"))
	l.must(l.reconcile())
	l.remove()
	away := errors.New("the API server is away")
	for _, call := range []string{"list *v1.LogicalVolumeList", "list *v1.PersistentVolumeList",
		"get *v1.LogicalVolume", "get *v1.PersistentVolumeClaim", "delete *v1.PersistentVolumeClaim"} {
		l.spy.Fail = func(verb string, object any) error {
			if fmt.Sprintf("%s %T", verb, object) == call {
				return away
			}
			return nil
		}
		if err := l.reconcile(); !errors.Is(err, away) || !strings.Contains(err.Error(), "half") {
			t.Errorf("%s: got %v", call, err)
		}
		if l.nodeIsGone() || len(l.left()) != 4 {
			t.Fatalf("%s: the Node is gone, or claims are: %v", call, l.left())
		}
	}
	// A claim that was recreated with the same name is a different claim.
	l.spy.Fail = nil
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: l.ns, Name: "one"}
	l.must(server.Client.Get(t.Context(), key, claim))
	claim.Finalizers = nil
	l.must(server.Client.Update(t.Context(), claim))
	l.must(server.Client.Delete(t.Context(), claim))
	claim.ResourceVersion = ""
	claim.UID = ""
	l.create(claim)
	l.must(l.reconcile())
	if diff := cmp.Diff([]string{"elsewhere", "foreign", "one"}, l.left()); diff != "" || !l.nodeIsGone() {
		t.Errorf("%s, node gone: %v", diff, l.nodeIsGone())
	}
}

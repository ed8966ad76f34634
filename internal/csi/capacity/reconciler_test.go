package capacity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

type world struct {
	*testing.T
	api    client.Client
	writes int
	fail   error
	// failCSINode is returned when a CSINode is read.
	failCSINode error
	*Reconciler
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	w := &world{T: t}
	for _, object := range slices.Clone(objects) {
		if n, ok := object.(*corev1.Node); ok {
			objects = append(objects, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name},
				Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: wellknown.DriverName,
					NodeID: n.Name}}}})
		}
	}
	write := func(do func() error) error {
		w.writes++
		return do()
	}
	w.api = memory.Builder().WithIndex(&topolvmv1.LogicalVolume{}, NodeField, NodeOf).
		WithIndex(&storagev1.CSIStorageCapacity{}, capacityField, capacityOf).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object,
				options ...client.CreateOption) error {
				return write(func() error { return c.Create(ctx, o, options...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
				options ...client.PatchOption) error {
				return write(func() error { return c.Patch(ctx, o, p, options...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object,
				options ...client.DeleteOption) error {
				return write(func() error { return c.Delete(ctx, o, options...) })
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				options ...client.GetOption) error {
				if _, is := o.(*storagev1.CSINode); is && w.failCSINode != nil {
					return w.failCSINode
				}
				return c.Get(ctx, key, o, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption) error {
				if _, volumes := list.(*topolvmv1.LogicalVolumeList); volumes && w.fail != nil {
					return w.fail
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
	w.Reconciler = New(w.api, w.api, "lvms")
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) run(node string) {
	w.Helper()
	_, err := w.Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: node}})
	w.must(err)
}

// see compares the objects with want, as "STORAGECLASS NODE BYTES".
func (w *world) see(what string, want ...string) {
	w.Helper()
	list := &storagev1.CSIStorageCapacityList{}
	w.must(w.api.List(w.Context(), list))
	var got []string
	for _, c := range list.Items {
		got = append(got, fmt.Sprintf("%s %s %d", c.StorageClassName, nodeOfCapacity(&c), c.Capacity.Value()))
		if c.Namespace != "lvms" || c.MaximumVolumeSize == nil || c.MaximumVolumeSize.Cmp(*c.Capacity) != 0 {
			w.Errorf("got %+v", c)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func node(name string, capacities map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{wellknown.TopologyNodeKey: name}, Annotations: map[string]string{}}}
	for class, bytes := range capacities {
		n.Annotations[wellknown.CapacityAnnotationPrefix+class] = bytes
	}
	return n
}

func class(name, provisioner, device string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: ptr.To(mode),
		Parameters: map[string]string{wellknown.DeviceClassParameter: device},
	}
}

func asked(name, node, device string, size string) *topolvmv1.LogicalVolume {
	return &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: node, DeviceClass: device,
			Size: resource.MustParse(size)}}
}

const waits = storagev1.VolumeBindingWaitForFirstConsumer

func TestTheSchedulerSeesWhatTheNodesOffer(t *testing.T) {
	made := asked("made", "node1", "ssd", "500")
	made.Status.VolumeID = "x"
	refused := asked("refused", "node1", "ssd", "500")
	refused.Status.Code = codes.ResourceExhausted
	w := newWorld(t,
		node("node1", map[string]string{"ssd": "1000", "hdd": "9000"}), node("node2", map[string]string{"ssd": "7"}),
		class("lvms-ssd", wellknown.DriverName, "ssd", waits), class("lvms-hdd", wellknown.DriverName, "hdd", waits),
		class("lvms-now", wellknown.DriverName, "ssd", storagev1.VolumeBindingImmediate),
		class("other", "ebs.csi.aws.com", "ssd", waits),
		made, refused, asked("pending", "node1", "ssd", "300"), asked("elsewhere", "node2", "ssd", "500"),
		asked("hdd", "node1", "hdd", "1"),
		// Objects that external-provisioner created for this driver and for another one.
		&storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "lvms", Name: "csisc-abc",
			Labels: map[string]string{driverLabel: wellknown.DriverName, managedByLabel: "external-provisioner"}},
			StorageClassName: "lvms-ssd", NodeTopology: &metav1.LabelSelector{
				MatchLabels: map[string]string{wellknown.TopologyNodeKey: "node1"}},
			Capacity: resource.NewQuantity(5, resource.BinarySI)},
	)
	for range 2 {
		w.run("node1")
	}
	w.see("one node", "lvms-hdd node1 8999", "lvms-ssd node1 700")
	if w.writes != 3 {
		t.Errorf("%d writes: the second time nothing had changed", w.writes)
	}
	w.run("node2")
	w.see("two nodes", "lvms-hdd node1 8999", "lvms-ssd node1 700", "lvms-ssd node2 7")

	n := &corev1.Node{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "node1"}, n))
	n.Annotations[wellknown.CapacityAnnotationPrefix+"ssd"] = "5000"
	delete(n.Annotations, wellknown.CapacityAnnotationPrefix+"hdd")
	w.must(w.api.Update(t.Context(), n))
	w.run("node1")
	w.see("a class is gone, another one has grown", "lvms-ssd node1 4700", "lvms-ssd node2 7")

	w.fail = errors.New("no connection")
	if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "node1"}}); err == nil {
		t.Error("a read that fails is no empty list")
	}
	w.fail = nil
	w.see("after a failed read", "lvms-ssd node1 4700", "lvms-ssd node2 7")

	w.must(w.api.Delete(t.Context(), n))
	w.run("node1")
	w.must(w.api.Delete(t.Context(), class("lvms-ssd", "", "", waits)))
	w.run("node2")
	w.see("nothing is offered")
}

// A Ready node without an agent still has the agent's annotations. The driver is not registered there, and a claim
// would wait forever.
// An administrator creates capacity for the nodes that a cluster autoscaler can add.
func TestCapacityOfTheAdministratorRemains(t *testing.T) {
	capacityFor := func(name, node string, labels map[string]string) *storagev1.CSIStorageCapacity {
		return &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "lvms", Name: name, Labels: labels},
			StorageClassName: "lvms-ssd", NodeTopology: &metav1.LabelSelector{
				MatchLabels: map[string]string{wellknown.TopologyNodeKey: node}},
			Capacity:          resource.NewQuantity(5, resource.BinarySI),
			MaximumVolumeSize: resource.NewQuantity(5, resource.BinarySI)}
	}
	byHand := map[string]string{driverLabel: wellknown.DriverName}
	w := newWorld(t, node("node1", map[string]string{"ssd": "1000"}),
		class("lvms-ssd", wellknown.DriverName, "ssd", waits), capacityFor("by-hand", "template", byHand), capacityFor("without-labels", "template", nil),
		// The reconciler's own object, whose label somebody removed.
		capacityFor(objectName("lvms-ssd", "node1"), "node1", byHand))
	for range 2 {
		w.run("node1")
		w.run("template")
	}
	w.see("own and by hand", "lvms-ssd node1 1000", "lvms-ssd template 5", "lvms-ssd template 5")
}

func TestANodeWithoutTheDriverOffersNothing(t *testing.T) {
	w := newWorld(t, node("node1", map[string]string{"ssd": "1000"}), node("node2", map[string]string{"ssd": "7"}),
		class("lvms-ssd", wellknown.DriverName, "ssd", waits))
	csiNode := &storagev1.CSINode{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "node1"}, csiNode))
	w.run("node1")
	w.see("registered", "lvms-ssd node1 1000")
	drivers := csiNode.Spec.Drivers
	csiNode.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "ebs.csi.aws.com", NodeID: "node1"}}
	w.must(w.api.Update(t.Context(), csiNode))
	for range 2 {
		w.run("node1")
		w.see("not registered")
	}
	csiNode.Spec.Drivers = drivers
	w.must(w.api.Update(t.Context(), csiNode))
	w.run("node1")
	w.see("registered again", "lvms-ssd node1 1000")

	w.failCSINode = errors.New("no connection")
	if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "node1"}}); err == nil {
		t.Error("a CSINode that cannot be read is not one without the driver")
	}
	w.see("after a failed read", "lvms-ssd node1 1000")
	w.failCSINode = nil
	w.must(w.api.Delete(t.Context(), csiNode))
	w.run("node1")
	w.see("no CSINode")
}

func TestOnlyWhatMattersWakes(t *testing.T) {
	before := node("node1", map[string]string{"ssd": "1"})
	heartbeat := before.DeepCopy()
	heartbeat.Annotations["other"] = "x"
	grown := before.DeepCopy()
	grown.Annotations[wellknown.CapacityAnnotationPrefix+"ssd"] = "2"
	registered := before.DeepCopy()
	registered.Labels = nil
	for name, tt := range map[string]struct {
		after *corev1.Node
		want  bool
	}{"heartbeat": {heartbeat, false}, "capacity": {grown, true}, "registration": {registered, true}} {
		if got := offerChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: tt.after}); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	pending := asked("a", "node1", "ssd", "1")
	made := pending.DeepCopy()
	made.Status.VolumeID = "x"
	if !demandChanged.Update(event.UpdateEvent{ObjectOld: pending, ObjectNew: made}) ||
		demandChanged.Update(event.UpdateEvent{ObjectOld: made, ObjectNew: made}) {
		t.Error("demand")
	}
}

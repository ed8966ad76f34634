package volumegroup

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

var errAway = errors.New("the API server is away")

// staleGroup makes the agent's cache return an earlier state of an LVMVolumeGroup.
func (b *bench) staleGroup() {
	b.Helper()
	old := b.object()
	b.agent.objects.Client = interceptor.NewClient(b.watching(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			if group, is := object.(*v1alpha1.LVMVolumeGroup); is {
				old.DeepCopyInto(group)
				return nil
			}
			return c.Get(ctx, key, object, options...)
		},
	})
}

func (b *bench) watching() client.WithWatch {
	b.Helper()
	api, ok := b.client.(client.WithWatch)
	if !ok {
		b.Fatal("another client")
	}
	return api
}

// changes returns how often commands were called that change the node.
func (b *bench) changes() int {
	n := 0
	for command, calls := range b.lvm.Calls() {
		if command != "Report" {
			n += calls
		}
	}
	return n
}

func TestNothingIsDoneOnANodeThatDoesNotSaySo(t *testing.T) {
	for name, broken := range map[string]interceptor.Funcs{
		"the entry cannot be written": {SubResourcePatch: func(context.Context, client.Client, string, client.Object,
			client.Patch, ...client.SubResourcePatchOption) error {
			return errAway
		}},
		"the node status cannot be read": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
			object client.Object, options ...client.GetOption) error {
			if _, is := object.(*v1alpha1.LVMVolumeGroupNodeStatus); is {
				return errAway
			}
			return c.Get(ctx, key, object, options...)
		}},
		"the LVMVolumeGroup cannot be read": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
			object client.Object, options ...client.GetOption) error {
			if _, is := object.(*v1alpha1.LVMVolumeGroup); is {
				return errAway
			}
			return c.Get(ctx, key, object, options...)
		}},
	} {
		b := newBench(t, thinOf(90))
		works := b.client
		away := interceptor.NewClient(b.watching(), broken)
		b.agent.objects.Live = away
		if broken.SubResourcePatch != nil {
			b.agent.objects.Client = away
		}
		for range 3 {
			if _, err := b.reconcile(); !errors.Is(err, errAway) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if b.changes() != 0 {
			t.Errorf("%s: %v", name, b.lvm.Calls())
		}
		b.agent.objects.Client = works
		b.agent.objects.Live = works
		b.settle()
		b.wantState(v1alpha1.VGStatusReady)
	}
}

// TestAClassThatIsBeingRemovedIsNotBegun: the operator read the node statuses before this node added its entry, and
// removed the finalizer of the LVMVolumeGroup. The agent's cache still has the object.
func TestAClassThatIsBeingRemovedIsNotBegun(t *testing.T) {
	for name, gone := range map[string]bool{"it is being deleted": false, "it is gone": true} {
		b := newBench(t, thinOf(90))
		b.staleGroup()
		b.remove()
		if gone && !b.gone() {
			t.Fatal("the operator should have let it go")
		}
		for range 3 {
			if result, err := b.reconcile(); err != nil || result.RequeueAfter != 0 {
				t.Errorf("%s: %v, %v", name, result, err)
			}
		}
		if b.changes() != 0 || !b.isMember() {
			t.Errorf("%s: %v, %+v", name, b.lvm.Calls(), b.entry())
		}
		b.agent.objects.Client = b.client
		b.settle()
		if !b.gone() || b.isMember() {
			t.Errorf("%s: the cache has caught up, and the node says %+v", name, b.entry())
		}
		b.wantBlankDisks()
	}
}

// TestAClassThatWasMadeAnewIsTakenPartInAnew: a recreated class with the same name is another class.
func TestAClassThatWasMadeAnewIsTakenPartInAnew(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.settle()
	reads := 0
	b.agent.objects.Live = interceptor.NewClient(b.watching(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, object, options...)
		},
	})
	b.settle()
	if reads != 0 {
		t.Errorf("at rest %d reads from the API server", reads)
	}
	status := &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Namespace: namespace}}
	b.ok(b.client.Delete(t.Context(), status))
	status.ResourceVersion = ""
	status.UID = "status-2"
	b.ok(b.client.Create(t.Context(), status))
	b.settle()
	if reads == 0 || !b.isMember() {
		t.Errorf("the node status is another one, and after %d reads it has %+v", reads, b.entry())
	}
	b.wantState(v1alpha1.VGStatusReady)
}

// TestAFinalizerOfUpstreamIsAnsweredInTheEntry: the finalizer of upstream's agents is only removed by the operator,
// after it reads the entry.
func TestAFinalizerOfUpstreamIsAnsweredInTheEntry(t *testing.T) {
	for name, deleted := range map[string]bool{"the class is removed": true,
		"the class does not select the node": false} {
		b := newBench(t, withSelector(thinOf(90)))
		object := b.object()
		object.Finalizers = []string{wellknown.NodeCleanupFinalizer("other"), wellknown.NodeCleanupFinalizer(nodeName)}
		b.ok(b.client.Update(t.Context(), object))
		b.settle()
		b.wantState(v1alpha1.VGStatusReady)
		if deleted {
			b.remove()
		} else {
			b.label("")
		}
		for range 2 {
			b.restart() // the entry survives the restart
			if result := b.settle(); result.RequeueAfter != whileWaiting {
				t.Errorf("%s: looks again after %s", name, result.RequeueAfter)
			}
			b.wantState(v1alpha1.VGStatusRemoved)
		}
		b.wantBlankDisks()
		object = b.object()
		object.Finalizers = []string{wellknown.NodeCleanupFinalizer("other")}
		b.ok(b.client.Update(t.Context(), object))
		b.settle()
		if b.isMember() {
			t.Errorf("%s: %+v", name, b.entry())
		}
	}
}

// TestAVolumeGroupWithoutItsObjectIsStillTold: the finalizers were removed manually.
func TestAVolumeGroupWithoutItsObjectIsStillTold(t *testing.T) {
	b := newBench(t, thinOf(90))
	b.settle()
	b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThin{VG: "vg1", Pool: "pool", Name: "pvc-1", VirtualSize: 1 << 20}))
	object := b.object()
	object.Finalizers = nil
	b.ok(b.client.Update(t.Context(), object))
	b.remove()
	b.settle()
	if entry := b.entry(); entry.UUID == "" {
		t.Errorf("got %+v", entry)
	}
	requests := b.agent.all(t.Context(), nil)
	if len(requests) != 1 || requests[0].Name != "vg1" {
		t.Errorf("after a restart nobody looks: %v", requests)
	}
}

func TestAnEventForThePartsOfThisNode(t *testing.T) {
	status := func(node string, classes ...string) *v1alpha1.LVMVolumeGroupNodeStatus {
		s := &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: node}}
		for _, class := range classes {
			s.Status.NodeStatus = append(s.Status.NodeStatus, v1alpha1.VGStatus{Name: class})
		}
		return s
	}
	labeled := status(nodeName, "a")
	labeled.Spec.DeviceLabels = []v1alpha1.DeviceLabels{{ID: "wwn:1", Labels: v1alpha1.DeviceLabelSet{"tier": "fast"}}}
	changed := labeled.DeepCopy()
	changed.Spec.DeviceLabels[0].Labels["tier"] = "slow"
	copied := status(nodeName, "a")
	copied.Spec.NodeStatus = []v1alpha1.VGSummary{{Name: "a"}}
	listing := status(nodeName, "a")
	listing.Status.Devices = []v1alpha1.DeviceStatus{{Name: "/dev/sdb", WWN: lun}}
	renamed := listing.DeepCopy()
	renamed.Status.Devices[0].Name = "/dev/sdc"
	missing := listing.DeepCopy()
	missing.Status.Devices[0].State = v1alpha1.DeviceMissing
	passes := nodeStatusChanged(nodeName).Update
	for name, tc := range map[string]struct {
		before, after client.Object
		want          bool
	}{
		"more":         {status(nodeName), status(nodeName, "a"), true},
		"fewer":        {status(nodeName, "a", "b"), status(nodeName, "a"), true},
		"the same":     {status(nodeName, "a"), status(nodeName, "a"), false},
		"of others":    {status("other"), status("other", "a"), false},
		"another kind": {&corev1.Node{}, &corev1.Node{}, false},

		"a device is labeled":      {status(nodeName, "a"), labeled, true},
		"a label is changed":       {labeled, changed, true},
		"the labels are removed":   {labeled, status(nodeName, "a"), true},
		"a disk is listed":         {status(nodeName, "a"), listing, true},
		"a disk is missing":        {listing, missing, true},
		"a disk has another name":  {listing, renamed, false},
		"the operator's copy only": {status(nodeName, "a"), copied, false},
	} {
		if got := passes(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestTheEndOfAPartContinuesAfterAFailureOfEachWrite: the API server is unreachable at each write of the removal, and
// the process restarts each time.
func TestTheEndOfAPartContinuesAfterAFailureOfEachWrite(t *testing.T) {
	for failing := range 4 {
		b := newBench(t, thinOf(90))
		b.settle()
		b.remove()
		writes := 0
		away := interceptor.NewClient(b.watching(), interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				options ...client.SubResourcePatchOption) error {
				if entries := o.(*v1alpha1.LVMVolumeGroupNodeStatus).Status.NodeStatus; len(entries) == 0 ||
					entries[0].Status == v1alpha1.VGStatusRemoved {
					if writes++; writes == failing+1 || failing == 3 && slices.Contains([]int{1, 2, 4, 5}, writes) {
						return errAway
					}
				}
				return c.SubResource(sub).Patch(ctx, o, p, options...)
			},
		})
		for range 40 {
			b.agent.objects.Client = away
			if _, err := b.reconcile(); err != nil {
				if !errors.Is(err, errAway) {
					t.Fatal(err)
				}
				b.restart()
			}
		}
		if !b.gone() || b.isMember() {
			t.Errorf("write %d fails: %+v", failing, b.entry())
		}
		b.wantBlankDisks()
		err := b.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "vg1"},
			&v1alpha1.LVMVolumeGroup{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
	}
}

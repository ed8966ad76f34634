package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// withSource is a cluster of two nodes with the volume "pvc-1" on node2, its snapshot, and the claim of pvc-2. selected
// is the node that the scheduler has selected for the claim.
type withSource struct {
	*cluster
	volume, snapshot string
}

func newWithSource(t *testing.T, free int64, selected string) withSource {
	t.Helper()
	offers := func(node string, bytes int64) *corev1.Node {
		text := fmt.Sprint(bytes)
		return offering(node, map[string]string{"ssd": text, "hdd": text, "thick": text})
	}
	c := newCluster(t, offers("node1", 900*mebi), offers("node2", free))
	source, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 40*mebi, "node2"))
	c.must(err)
	id := source.GetVolume().GetVolumeId()
	snapshot, err := c.server.CreateSnapshot(t.Context(),
		&csi.CreateSnapshotRequest{Name: "snapshot-1", SourceVolumeId: id})
	c.must(err)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "2"}}
	if selected != "" {
		claim.Annotations = map[string]string{selectedNode: selected}
	}
	c.must(c.api.Create(t.Context(), claim))
	return withSource{cluster: c, volume: id, snapshot: snapshot.GetSnapshot().GetSnapshotId()}
}

// restore returns a request for a copy of the snapshot.
func (w withSource) restore(nodes ...string) *csi.CreateVolumeRequest {
	r := wanted("pvc-2", 80*mebi, nodes...)
	r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: w.snapshot}}}
	return r
}

// TestWhereACopyIs has the placement of the StorageClass, and whether the scheduler has selected a node.
func TestWhereACopyIs(t *testing.T) {
	both := []string{"node1", "node2"}
	for name, tt := range map[string]struct {
		placement, selected string
		free                int64
		nodes               []string
		want                string
		code                codes.Code
	}{
		"by default, with the source":         {free: 400 * mebi, nodes: both, want: "node2"},
		"no room there":                       {free: 50 * mebi, nodes: both, want: "node1"},
		"not allowed there":                   {free: 400 * mebi, nodes: []string{"node1"}, want: "node1"},
		"the scheduler selects another":       {selected: "node1", free: 400 * mebi, nodes: both, want: "node1"},
		"the scheduler selects the same":      {selected: "node2", free: 50 * mebi, nodes: []string{"node2"}, want: "node2"},
		"any, the one with the most capacity": {placement: "any", free: 400 * mebi, nodes: both, want: "node1"},
		"only there":                          {placement: "source-node-only", free: 400 * mebi, nodes: both, want: "node2"},
		"only there, without room":            {placement: "source-node-only", free: 50 * mebi, nodes: both, want: "node2"},
		"only there, but not allowed": {placement: "source-node-only", free: 400 * mebi, nodes: []string{"node1"},
			code: codes.ResourceExhausted},
		"an unknown placement": {placement: "nearby", free: 400 * mebi, nodes: both, code: codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			c := newWithSource(t, tt.free, tt.selected)
			request := c.restore(tt.nodes...)
			if tt.placement != "" {
				request.Parameters[wellknown.SourcePlacementParameter] = tt.placement
			}
			for range 2 {
				response, err := c.server.CreateVolume(t.Context(), request)
				if tt.code != codes.OK {
					wantCode(t, name, err, tt.code)
					continue
				}
				c.must(err)
				lv := c.get("pvc-2")
				expect.Equal(t, "Spec.NodeName", lv.Spec.NodeName, tt.want)
				expect.Equal(t, "Spec.Source", lv.Spec.Source, "snapshot-1")
				expect.Equal(t, "Spec.AccessType", lv.Spec.AccessType, "rw")
				expect.Equal(t, "Annotations[wellknown.CopyOfAnnotation]", lv.Annotations[wellknown.CopyOfAnnotation], "")
				expect.NotZero(t, "GetVolume().GetContentSource()", response.GetVolume().GetContentSource())
			}
			if c.get("copy-pvc-2") != nil {
				t.Error("a snapshot of the snapshot was created")
			}
		})
	}
}

// TestAVolumeIsCopiedFromASnapshot: the data of a volume changes while it is copied, so a snapshot is created for it.
func TestAVolumeIsCopiedFromASnapshot(t *testing.T) {
	for name, request := range map[string]func(c withSource) *csi.CreateVolumeRequest{
		"another node": func(c withSource) *csi.CreateVolumeRequest { return copyOf("pvc-2", c.volume, 80*mebi, "node1") },
		"another class": func(c withSource) *csi.CreateVolumeRequest {
			r := copyOf("pvc-2", c.volume, 80*mebi, "node2")
			r.Parameters[wellknown.DeviceClassParameter] = "hdd"
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newWithSource(t, 400*mebi, "")
			var snapshot *topolvmv1.LogicalVolume
			c.agent = func(lv *topolvmv1.LogicalVolume) {
				if lv.Name == "pvc-2" {
					snapshot = c.get("copy-pvc-2")
				}
				c.serve(lv)
			}
			_, err := c.server.CreateVolume(t.Context(), request(c))
			c.must(err)
			if snapshot == nil {
				t.Fatalf("the snapshot is %+v", snapshot)
			}
			expect.Equal(t, "Spec.Source", snapshot.Spec.Source, "pvc-1")
			expect.Equal(t, "Spec.NodeName", snapshot.Spec.NodeName, "node2")
			expect.Equal(t, "Spec.AccessType", snapshot.Spec.AccessType, "ro")
			expect.Equal(t, "Spec.DeviceClass", snapshot.Spec.DeviceClass, "ssd")
			expect.NotZero(t, "Status.VolumeID", snapshot.Status.VolumeID)
			expect.Equal(t, "Annotations[wellknown.CopyForAnnotation]", snapshot.Annotations[wellknown.CopyForAnnotation], "pvc-2")
			lv := c.get("pvc-2")
			if lv.Spec.Source != "copy-pvc-2" || lv.Annotations[wellknown.CopyOfAnnotation] != "pvc-1" {
				t.Errorf("got %+v, %v", lv.Spec, lv.Annotations)
			}
			if c.get("copy-pvc-2") != nil {
				t.Error("the snapshot remains")
			}
			// The response was lost: the volume is found, and nothing else is created.
			_, err = c.server.CreateVolume(t.Context(), request(c))
			c.must(err)
			if again := c.get("pvc-2"); again.UID != lv.UID {
				t.Error("it was created again")
			}
		})
	}
}

// TestACopyOfAnotherSourceIsAnotherVolume, also if both have a snapshot for the copy.
func TestACopyOfAnotherSourceIsAnotherVolume(t *testing.T) {
	c := newWithSource(t, 400*mebi, "")
	_, err := c.server.CreateVolume(t.Context(), copyOf("pvc-2", c.volume, 80*mebi, "node1"))
	c.must(err)
	other, err := c.server.CreateVolume(t.Context(), wanted("pvc-3", 40*mebi, "node2"))
	c.must(err)
	_, err = c.server.CreateVolume(t.Context(), copyOf("pvc-2", other.GetVolume().GetVolumeId(), 80*mebi, "node1"))
	wantCode(t, "another source", err, codes.AlreadyExists)
}

// thick makes the volume "pvc-1" a thick one.
func (w withSource) thick(class string) {
	w.Helper()
	lv := w.get("pvc-1")
	lv.Spec.DeviceClass = class
	w.must(w.api.Update(w.Context(), lv))
}

// TestAThickVolumeIsCopiedItself, on each node and in each class: there are no snapshots of it.
func TestAThickVolumeIsCopiedItself(t *testing.T) {
	for name, tt := range map[string]struct{ class, node string }{"same node and class": {"thick", "node2"},
		"another node": {"thick", "node1"}, "thin on the node": {"ssd", "node2"},
		"thin on another node": {"hdd", "node1"}} {
		t.Run(name, func(t *testing.T) {
			w := newWithSource(t, 400*mebi, "")
			w.thick("thick")
			request := copyOf("pvc-2", w.volume, 80*mebi, tt.node)
			request.Parameters[wellknown.DeviceClassParameter] = tt.class
			request.Parameters[wellknown.OptionClassParameter] = "striped"
			for range 2 {
				_, err := w.server.CreateVolume(t.Context(), request)
				w.must(err)
				lv := w.get("pvc-2")
				expect.Equal(t, "Spec.Source", lv.Spec.Source, "pvc-1")
				expect.Equal(t, "Spec.NodeName", lv.Spec.NodeName, tt.node)
				expect.Equal(t, "Spec.DeviceClass", lv.Spec.DeviceClass, tt.class)
				expect.Equal(t, "Spec.LvcreateOptionClass", lv.Spec.LvcreateOptionClass, "striped")
				expect.Equal(t, "Annotations[wellknown.CloneVolumeAnnotation]", lv.Annotations[wellknown.CloneVolumeAnnotation],
					w.volume)
				expect.Equal(t, "Annotations[wellknown.CopyOfAnnotation]", lv.Annotations[wellknown.CopyOfAnnotation], "")
			}
			if w.get("copy-pvc-2") != nil {
				t.Error("a snapshot was requested")
			}
			if source := w.get("pvc-1"); source.Annotations[wellknown.FenceAnnotation] != "" {
				t.Error("the call has fenced the source")
			}
		})
	}
}

// TestWhatIsNoThickSource: a volume of a thin class, a snapshot, whatever its class, and a volume of a class that only
// its node knows: if the class is thick, the node refuses the snapshot.
func TestWhatIsNoThickSource(t *testing.T) {
	w := newWithSource(t, 400*mebi, "")
	_, err := w.server.CreateVolume(t.Context(), copyOf("pvc-2", w.volume, 80*mebi, "node2"))
	w.must(err)
	w.thick("removed")
	other := copyOf("pvc-4", w.volume, 80*mebi, "node2")
	delete(other.Parameters, service.ClaimNameKey)
	_, err = w.server.CreateVolume(t.Context(), other)
	w.must(err)
	request := w.restore("node2")
	request.Name = "pvc-3"
	delete(request.Parameters, service.ClaimNameKey)
	snapshot := w.get("snapshot-1")
	snapshot.Spec.DeviceClass = "unknown"
	w.must(w.api.Update(t.Context(), snapshot))
	_, err = w.server.CreateVolume(t.Context(), request)
	w.must(err)
	for _, name := range []string{"pvc-2", "pvc-3", "pvc-4"} {
		if lv := w.get(name); lv.Annotations[wellknown.CloneVolumeAnnotation] != "" {
			t.Errorf("%s is the clone of a thick volume", name)
		}
	}
}

// TestASourceThatMayBeThick: nothing is created if that cannot be read.
func TestASourceThatMayBeThick(t *testing.T) {
	w := newWithSource(t, 400*mebi, "")
	w.fail["list"] = errors.New("timeout")
	for range 2 {
		_, err := w.server.CreateVolume(t.Context(), copyOf("pvc-2", w.volume, 80*mebi, "node2"))
		wantCode(t, "clone", err, codes.Unavailable)
	}
	if w.get("pvc-2") != nil {
		t.Error("it was created")
	}
}

// TestACloneOfAThickVolumeSaysWhatItWaitsFor: the message of the operator, not of a node that has nothing to do yet.
func TestACloneOfAThickVolumeSaysWhatItWaitsFor(t *testing.T) {
	for name, tt := range map[string]struct{ fence, want string }{
		"before the fence": {"", "volume pvc-2 is not created yet: because"},
		"under the fence":  {"x", "volume pvc-2 is not created yet: node node1: because"},
	} {
		lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-2", Annotations: map[string]string{
			wellknown.CloneVolumeAnnotation: "id", wellknown.FenceTimeAnnotation: tt.fence}},
			Spec:   topolvmv1.LogicalVolumeSpec{NodeName: "node1"},
			Status: topolvmv1.LogicalVolumeStatus{Code: codes.Aborted, Message: "because"}}
		if err := objects.TimeoutError(lv, "created", context.DeadlineExceeded); !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestACloneOfAThickVolumeEndsWithItsClaim, also on the node of the source and in its class.
func TestACloneOfAThickVolumeEndsWithItsClaim(t *testing.T) {
	w := newWithSource(t, 400*mebi, "node2")
	w.thick("thick")
	request := copyOf("pvc-2", w.volume, 80*mebi, "node2")
	request.Parameters[wellknown.DeviceClassParameter] = "thick"
	if lv := w.interrupted(request); lv == nil {
		t.Fatal("it is not copied")
	}
	w.must(w.api.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
		Name: "data"}}))
	for range 2 {
		_, err := w.server.CreateVolume(t.Context(), request)
		wantCode(t, "the claim was deleted", err, codes.NotFound)
		if w.get("pvc-2") != nil {
			t.Error("it remains")
		}
	}
}

// TestASnapshotForACopyThatCannotBeDeleted is not an error of the copy: the audit deletes it.
func TestASnapshotForACopyThatCannotBeDeleted(t *testing.T) {
	c := newWithSource(t, 400*mebi, "")
	c.agent = func(lv *topolvmv1.LogicalVolume) {
		if lv.Name == "pvc-2" {
			c.mu.Lock()
			c.fail["delete"] = errors.New("timeout")
			c.mu.Unlock()
		}
		c.serve(lv)
	}
	_, err := c.server.CreateVolume(t.Context(), copyOf("pvc-2", c.volume, 80*mebi, "node1"))
	c.must(err)
	if c.get("copy-pvc-2") == nil {
		t.Error("the snapshot is gone")
	}
}

// interrupted calls CreateVolume, which ends when the agent has begun to copy.
func (w withSource) interrupted(request *csi.CreateVolumeRequest) *topolvmv1.LogicalVolume {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	w.agent = func(lv *topolvmv1.LogicalVolume) {
		if lv.Name != "pvc-2" {
			w.serve(lv)
			return
		}
		if lv.Status.Code != codes.Aborted {
			w.refuse(codes.Aborted)(lv)
			cancel()
		}
	}
	_, err := w.server.CreateVolume(ctx, request)
	wantCode(w.T, "the agent copies", err, codes.Canceled)
	return w.get("pvc-2")
}

// TestACopyEndsWithItsClaim: otherwise the provisioner would go on until all data is copied.
func TestACopyEndsWithItsClaim(t *testing.T) {
	w := newWithSource(t, 400*mebi, "node1")
	request := copyOf("pvc-2", w.volume, 80*mebi, "node1", "node2")
	lv := w.interrupted(request)
	if lv == nil || lv.Spec.NodeName != "node1" {
		t.Fatalf("got %+v", lv)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"}}
	w.must(w.api.Delete(t.Context(), claim))
	w.mu.Lock()
	w.fail["delete"] = errors.New("timeout")
	w.mu.Unlock()
	_, err := w.server.CreateVolume(t.Context(), request)
	wantCode(t, "it is not deleted yet", err, codes.Unavailable)
	w.mu.Lock()
	delete(w.fail, "delete")
	w.mu.Unlock()
	for range 2 {
		_, err := w.server.CreateVolume(t.Context(), request)
		wantCode(t, "the claim was deleted", err, codes.NotFound)
		request = copyOf("pvc-2", w.volume, 80*mebi, "node1")
		if w.get("pvc-2") != nil || w.get("copy-pvc-2") != nil {
			t.Error("something remains")
		}
	}
}

// TestAClaimThatWasCreatedAgainIsAnotherOne: the copy for the earlier one ends, and its volume does not get
// the labels of the new one.
func TestAClaimThatWasCreatedAgainIsAnotherOne(t *testing.T) {
	w := newWithSource(t, 400*mebi, "node1")
	request := copyOf("pvc-2", w.volume, 80*mebi, "node1", "node2")
	w.interrupted(request)
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "9", Labels: map[string]string{
		wellknown.SpreadGroupLabel: "web"}, Annotations: map[string]string{selectedNode: "node2"}}
	w.must(w.api.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
		Name: "data"}}))
	w.must(w.api.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: meta}))
	for range 2 {
		_, err := w.server.CreateVolume(t.Context(), request)
		wantCode(t, "the claim was deleted", err, codes.NotFound)
		request = copyOf("pvc-2", w.volume, 80*mebi, "node1")
		if w.get("pvc-2") != nil || w.get("copy-pvc-2") != nil {
			t.Error("something remains")
		}
	}
	w.agent = nil
	_, err := w.server.CreateVolume(t.Context(), wanted("pvc-2", 80*mebi, "node1", "node2"))
	w.must(err)
	lv := w.get("pvc-2")
	expect.Equal(t, "Spec.NodeName", lv.Spec.NodeName, "node1")
	expect.Equal(t, "spread", lv.Annotations[wellknown.SpreadAnnotation], "")
}

// TestACacheWithTheEarlierClaim: the claim was created again, and the cache does not have it yet.
func TestACacheWithTheEarlierClaim(t *testing.T) {
	w := newWithSource(t, 400*mebi, "")
	w.must(w.api.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
		Name: "data"}}))
	w.must(w.api.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
		Name: "data", UID: "9"}}))
	w.server.volumes.Client = interceptor.NewClient(w.api, interceptor.Funcs{Get: func(ctx context.Context,
		c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		err := c.Get(ctx, key, o, options...)
		if _, is := o.(*corev1.PersistentVolumeClaim); is {
			o.SetUID("2")
		}
		return err
	}})
	request := copyOf("pvc-9", w.volume, 80*mebi, "node1")
	w.server.volumes.Live = failingReads{w.api}
	_, err := w.server.placer.ClaimOf(t.Context(), request)
	wantCode(t, "the claim cannot be read", err, codes.Unavailable)
	w.server.volumes.Live = w.api
	for range 2 {
		claim, err := w.server.placer.ClaimOf(t.Context(), request)
		if err != nil || claim == nil || claim.UID != "9" {
			t.Errorf("got %v, %v", claim, err)
		}
	}
}

// TestACompleteCopyOfADeletedClaimIsFound, so that the provisioner can delete it.
func TestACompleteCopyOfADeletedClaimIsFound(t *testing.T) {
	w := newWithSource(t, 400*mebi, "node1")
	request := copyOf("pvc-2", w.volume, 80*mebi, "node1", "node2")
	lv := w.interrupted(request)
	w.serve(lv)
	w.agent = w.serve
	w.must(w.api.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
		Name: "data"}}))
	response, err := w.server.CreateVolume(t.Context(), request)
	w.must(err)
	if response.GetVolume().GetVolumeId() != string(lv.UID) || w.get("copy-pvc-2") != nil {
		t.Errorf("got %+v, want volume %s", response.GetVolume(), lv.UID)
	}
}

// pool sets the usage of the thin pool of class ssd on a node.
func (w withSource) pool(node string, percent int32, copyFree string) {
	w.Helper()
	pool := &v1alpha1.ThinPoolStatus{Name: "pool", Size: resource.MustParse("1000Mi"), DataPercent: percent,
		Free: ptr.To(resource.MustParse("1Mi")), CopyFree: ptr.To(resource.MustParse(copyFree))}
	status := &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Namespace: "lvms", Name: node}}
	status.Status.NodeStatus = []v1alpha1.VGStatus{{Name: "ssd", ThinPool: pool}}
	w.must(w.api.Create(w.Context(), status))
}

// TestACopyIsWhereItsDataHasRoom: node3 has the most capacity. The volume on node2 has 40 MiB.
func TestACopyIsWhereItsDataHasRoom(t *testing.T) {
	for name, tt := range map[string]struct {
		pools  func(w withSource)
		want   string
		says   string
		source bool
	}{
		"nothing is known": {pools: func(withSource) {}, want: "node3"},
		"a full pool":      {pools: func(w withSource) { w.pool("node3", 91, "0") }, want: "node1"},
		"too little room": {pools: func(w withSource) {
			w.pool("node3", 88, "39Mi")
			w.pool("node1", 50, "40Mi")
		}, want: "node1"},
		"the source has less data": {pools: func(w withSource) {
			w.pool("node3", 88, "39Mi")
			w.pool("node2", 3, "800Mi")
		}, want: "node3"},
		"only doubtful ones": {pools: func(w withSource) {
			w.pool("node3", 88, "39Mi")
			w.pool("node1", 88, "39Mi")
		}, want: "node3"},
		"only full ones": {pools: func(w withSource) {
			w.pool("node3", 91, "0")
			w.pool("node1", 92, "0")
		}, says: "node node1 has the thin pool pool, which is too full for copies: its data is 92% full"},
		"a snapshot of the source needs no room": {pools: func(w withSource) { w.pool("node2", 93, "0") }, source: true,
			want: "node2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWithSource(t, 400*mebi, "")
			w.must(w.api.Create(t.Context(), offering("node3", map[string]string{"ssd": fmt.Sprint(950 * mebi)})))
			w.must(w.api.Create(t.Context(), registered("node3")))
			tt.pools(w)
			request := w.restore("node1", "node3")
			if tt.source {
				request = w.restore("node1", "node2")
			}
			for range 2 {
				_, err := w.server.CreateVolume(t.Context(), request)
				if tt.says != "" {
					wantCode(t, name, err, codes.ResourceExhausted)
					if !strings.Contains(fmt.Sprint(err), tt.says) {
						t.Errorf("%v does not say %q", err, tt.says)
					}
					continue
				}
				w.must(err)
				expect.Equal(t, "Spec.NodeName", w.get("pvc-2").Spec.NodeName, tt.want)
			}
		})
	}
}

// failingStatuses cannot list node statuses.
type failingStatuses struct{ client.Client }

func (f failingStatuses) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, is := list.(*v1alpha1.LVMVolumeGroupNodeStatusList); is {
		return errors.New("no answer")
	}
	return f.Client.List(ctx, list, options...)
}

// TestACopyIsNotPlacedBlindly: if the node statuses cannot be read, no node is selected for a copy.
func TestACopyIsNotPlacedBlindly(t *testing.T) {
	w := newWithSource(t, 50*mebi, "")
	w.server.volumes.Client = failingStatuses{w.server.volumes.Client}
	_, err := w.server.CreateVolume(t.Context(), w.restore("node1", "node2"))
	wantCode(t, "statuses", err, codes.Unavailable)
	if w.get("pvc-2") != nil {
		t.Error("the copy was requested")
	}
}

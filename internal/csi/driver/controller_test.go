package driver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/internal/volume/activecache"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// cluster is an API server with nodes whose agents answer at once, as each test configures.
type cluster struct {
	*testing.T
	api    client.WithWatch
	server *ControllerServer
	// agent is called for each written LogicalVolume; nil for agents that create every volume.
	agent func(lv *topolvmv1.LogicalVolume)
	mu    sync.Mutex
	uids  int
	// seen has the names of volumes by ID, as the watch has delivered them.
	seen sync.Map
	fail map[string]error
}

func newCluster(t *testing.T, nodes ...client.Object) *cluster {
	c := &cluster{T: t, fail: map[string]error{}}
	for _, node := range slices.Clone(nodes) {
		nodes = append(nodes, registered(node.GetName()))
	}
	nodes = append(nodes, withClasses())
	c.api = memory.Builder().
		WithObjects(nodes...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := c.failure("create"); err != nil {
				return err
			}
			c.mu.Lock()
			if c.uids++; o.GetUID() == "" {
				o.SetUID(types.UID(fmt.Sprint("uid-", c.uids)))
			}
			c.mu.Unlock()
			o.SetCreationTimestamp(metav1.Now())
			err := w.Create(ctx, o, options...)
			c.changed(o.GetName())
			return err
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := c.failure("delete"); err != nil {
				return err
			}
			err := w.Delete(ctx, o, options...)
			c.changed(o.GetName())
			return err
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch,
			options ...client.PatchOption) error {
			if err := c.failure("patch"); err != nil {
				return err
			}
			err := w.Patch(ctx, o, p, options...)
			c.changed(o.GetName())
			return err
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch,
			options ...client.SubResourcePatchOption) error {
			err := w.SubResource(sub).Patch(ctx, o, p, options...)
			c.changed(o.GetName())
			return err
		},
		List: c.list,
	}).Build()
	c.server = NewControllerServer(objects.Options{Client: cached(c.api), Live: c.api, Active: cached(c.api),
		NameOf: c.nameOf})
	return c
}

// withClasses is an LVMCluster with thin and thick device classes, none of which is the default.
func withClasses() *v1alpha1.LVMCluster {
	lvms := &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "classes"}}
	for _, name := range []string{"ssd", "hdd"} {
		lvms.Spec.Storage.DeviceClasses = append(lvms.Spec.Storage.DeviceClasses, v1alpha1.DeviceClass{Name: name,
			ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool"}})
	}
	lvms.Spec.Storage.DeviceClasses = append(lvms.Spec.Storage.DeviceClasses, v1alpha1.DeviceClass{Name: "thick"})
	return lvms
}

// cached returns a client like the operator's, which does not see settled LogicalVolumes.
func cached(api client.WithWatch) client.Client {
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			err := w.Get(ctx, key, o, options...)
			if lv, ok := o.(*topolvmv1.LogicalVolume); ok && err == nil && activecache.IsSettled(lv) {
				return apierrors.NewNotFound(topolvmv1.GroupVersion.WithResource("logicalvolumes").
					GroupResource(), key.Name)
			}
			return err
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			err := w.List(ctx, list, options...)
			if l, ok := list.(*topolvmv1.LogicalVolumeList); ok {
				l.Items = slices.DeleteFunc(l.Items, func(lv topolvmv1.LogicalVolume) bool {
					return activecache.IsSettled(&lv)
				})
			}
			return err
		},
	})
}

// list returns pages of two objects, like the API server. Like the decoder, it does not reset fields of the given
// object that the response omits.
func (c *cluster) list(ctx context.Context, w client.WithWatch, list client.ObjectList,
	options ...client.ListOption) error {
	if err := c.failure("list"); err != nil {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(options)
	next := list.GetContinue()
	if err := w.List(ctx, list, options...); err != nil || o.Limit == 0 {
		return err
	}
	list.SetContinue(next)
	l, ok := list.(*topolvmv1.LogicalVolumeList)
	if !ok {
		return nil
	}
	l.Items = slices.DeleteFunc(l.Items, func(lv topolvmv1.LogicalVolume) bool { return lv.Name <= o.Continue })
	if len(l.Items) > 2 {
		l.Items = l.Items[:2]
		l.Continue = l.Items[1].Name
	}
	return nil
}

func (c *cluster) nameOf(id string) string {
	name, _ := c.seen.Load(id)
	text, _ := name.(string)
	return text
}

func (c *cluster) failure(call string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fail[call]
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// changed runs the agent and wakes waiting calls.
func (c *cluster) changed(name string) {
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := c.api.Get(context.Background(), client.ObjectKey{Name: name}, lv)
	if err == nil {
		if c.agent != nil {
			c.agent(lv)
		} else {
			c.serve(lv)
		}
	}
	if lv.Status.VolumeID != "" {
		c.seen.Store(lv.Status.VolumeID, name)
	}
	if err != nil || activecache.IsSettled(lv) {
		c.server.volumes.Handler().OnDelete(lv)
	} else {
		c.server.volumes.Handler().OnUpdate(lv, lv)
	}
}

// serve answers like an agent with enough capacity.
func (c *cluster) serve(lv *topolvmv1.LogicalVolume) {
	lv.Status.VolumeID = string(lv.UID)
	lv.Status.Code = codes.OK
	// LVM rounds up to extents.
	size := (lv.Spec.Size.Value() + 4*mebi - 1) / (4 * mebi) * (4 * mebi)
	lv.Status.CurrentSize = resource.NewQuantity(size, resource.BinarySI)
	c.answer(lv)
}

// refuse returns an agent that answers with a code.
func (c *cluster) refuse(code codes.Code) func(*topolvmv1.LogicalVolume) {
	return func(lv *topolvmv1.LogicalVolume) {
		lv.Status.Code = code
		lv.Status.Message = "because"
		c.answer(lv)
	}
}

func (c *cluster) answer(lv *topolvmv1.LogicalVolume) {
	if err := c.api.Status().Update(context.Background(), lv); err != nil && !apierrors.IsNotFound(err) {
		c.Error(err)
	}
}

func (c *cluster) get(name string) *topolvmv1.LogicalVolume {
	lv := &topolvmv1.LogicalVolume{}
	if err := c.api.Get(c.Context(), client.ObjectKey{Name: name}, lv); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		c.Fatal(err)
	}
	return lv
}

func offering(name string, capacities map[string]string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	for class, bytes := range capacities {
		node.Annotations[wellknown.CapacityAnnotationPrefix+class] = bytes
	}
	return node
}

// registered returns the CSINode of a node on which an agent runs.
func registered(node string) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: wellknown.DriverName, NodeID: node}}}}
}

// mebi is a mebibyte, and extent the default size of the extents of LVM.
const (
	mebi   = int64(1) << 20
	extent = 4 * mebi
)

// selectedNode is the annotation with which the scheduler sets the node of a claim.
const selectedNode = "volume.kubernetes.io/selected-node"

func mountCapability(kind string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: kind}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func on(nodes ...string) *csi.TopologyRequirement {
	r := &csi.TopologyRequirement{}
	for _, node := range nodes {
		r.Requisite = append(r.Requisite, &csi.Topology{Segments: map[string]string{wellknown.TopologyNodeKey: node}})
	}
	return r
}

func wanted(name string, size int64, nodes ...string) *csi.CreateVolumeRequest {
	r := &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: size},
		VolumeCapabilities: []*csi.VolumeCapability{mountCapability("")},
		Parameters: map[string]string{wellknown.DeviceClassParameter: "ssd", service.ClaimNamespaceKey: "ns",
			service.ClaimNameKey: "data"},
	}
	if len(nodes) > 0 {
		r.AccessibilityRequirements = on(nodes...)
	}
	return r
}

func copyOf(name, volume string, size int64, nodes ...string) *csi.CreateVolumeRequest {
	r := wanted(name, size, nodes...)
	r.VolumeContentSource = &csi.VolumeContentSource{
		Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: volume}}}
	return r
}

func wantCode(t *testing.T, what string, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}

func TestCreateVolumeIsTheSameHoweverOftenItIsCalled(t *testing.T) {
	c := newCluster(t)
	for range 3 {
		response, err := c.server.CreateVolume(t.Context(), wanted("PVC-1", 33*mebi, "node1"))
		c.must(err)
		v := response.GetVolume()
		if v.GetVolumeId() != "uid-1" || v.GetCapacityBytes() != 36*mebi ||
			v.GetAccessibleTopology()[0].GetSegments()[wellknown.TopologyNodeKey] != "node1" {
			t.Errorf("got %v", v)
		}
	}
	lv := c.get("pvc-1")
	if lv.Spec.NodeName != "node1" || lv.Spec.DeviceClass != "ssd" ||
		lv.Annotations[wellknown.ClaimAnnotation] != "ns/data" || len(lv.Finalizers) != 0 {
		t.Errorf("got %+v", lv)
	}
	// The response has the node of the existing volume, whatever the new request.
	response, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 33*mebi, "node2"))
	if err != nil || response.GetVolume().
		GetAccessibleTopology()[0].GetSegments()[wellknown.TopologyNodeKey] != "node1" {
		t.Errorf("got %v, %v", response, err)
	}
	// This also works if no node has enough capacity by then.
	anywhere := wanted("pvc-1", 33*mebi)
	anywhere.AccessibilityRequirements = nil
	response, err = c.server.CreateVolume(t.Context(), anywhere)
	if err != nil || response.GetVolume().GetVolumeId() != "uid-1" {
		t.Errorf("got %v, %v", response, err)
	}
	_, err = c.server.CreateVolume(t.Context(), wanted("pvc-1", 99*mebi, "node1"))
	wantCode(t, "another size", err, codes.AlreadyExists)
	other := wanted("pvc-1", 33*mebi, "node1")
	other.Parameters[wellknown.DeviceClassParameter] = "hdd"
	_, err = c.server.CreateVolume(t.Context(), other)
	wantCode(t, "another class", err, codes.AlreadyExists)
}

func TestCreateVolumeRefuses(t *testing.T) {
	c := newCluster(t)
	for name, tt := range map[string]struct {
		change func(*csi.CreateVolumeRequest)
		code   codes.Code
	}{
		"no name":         {func(r *csi.CreateVolumeRequest) { r.Name = "" }, codes.InvalidArgument},
		"no capabilities": {func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities = nil }, codes.InvalidArgument},
		"unknown fs": {func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0] = mountCapability("zfs") },
			codes.InvalidArgument},
		"btrfs": {func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0] = mountCapability("btrfs") },
			codes.InvalidArgument},
		"many writers": {func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
		}, codes.InvalidArgument},
		"negative": {func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = -1 },
			codes.InvalidArgument},
		"more than limit": {func(r *csi.CreateVolumeRequest) { r.CapacityRange.LimitBytes = mebi }, codes.OutOfRange},
		"limit below xfs": {func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0] = mountCapability("xfs")
			r.CapacityRange.LimitBytes = 200 * mebi
		}, codes.OutOfRange},
		"no such source": {func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = copyOf("", "nosuch",
				0).VolumeContentSource
		}, codes.NotFound},
		"empty source": {func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = copyOf("", "",
				0).VolumeContentSource
		}, codes.NotFound},
		"unknown topology": {func(r *csi.CreateVolumeRequest) {
			r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{{}}}
		}, codes.InvalidArgument},
		"no node has it": {func(r *csi.CreateVolumeRequest) { r.AccessibilityRequirements = nil },
			codes.ResourceExhausted},
		"a path for mkfs": {
			func(r *csi.CreateVolumeRequest) { r.Parameters[wellknown.MkfsOptionsParameter] = "-I 128 /dev/sda" },
			codes.InvalidArgument},
		"too much for mkfs": {func(r *csi.CreateVolumeRequest) {
			r.Parameters[wellknown.MkfsOptionsParameter] = strings.Repeat("-x ", 40)
		}, codes.InvalidArgument},
	} {
		request := wanted("pvc-1", 100*mebi, "node1")
		tt.change(request)
		_, err := c.server.CreateVolume(t.Context(), request)
		wantCode(t, name, err, tt.code)
	}
	if c.get("pvc-1") != nil {
		t.Error("something was written down")
	}
}

// A refused LogicalVolume is withdrawn before the response, so that the scheduler can select another node. The refusal
// does not answer a later call.
func TestARefusalIsWithdrawnAndNotRepeated(t *testing.T) {
	c := newCluster(t)
	for _, code := range []codes.Code{codes.ResourceExhausted, codes.Internal, codes.InvalidArgument} {
		c.agent = c.refuse(code)
		_, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 33*mebi, "node1"))
		wantCode(t, "refused", err, code)
		if !strings.Contains(err.Error(), "node1: because") || c.get("pvc-1") != nil {
			t.Errorf("got %v and %v", err, c.get("pvc-1"))
		}
	}
	// The operator ended before it withdrew the LogicalVolume.
	c.agent = nil
	c.must(c.api.Create(t.Context(), &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-2"},
		Spec: topolvmv1.LogicalVolumeSpec{Name: "pvc-2", NodeName: "node1", DeviceClass: "ssd",
			Size: *resource.NewQuantity(33*mebi, resource.BinarySI)},
	}))
	old := c.get("pvc-2")
	old.Spec.Size = *resource.NewQuantity(33*mebi/volumespec.Sector*volumespec.Sector, resource.BinarySI)
	old.Status = topolvmv1.LogicalVolumeStatus{Code: codes.ResourceExhausted, Message: "long ago"}
	c.answer(old)
	response, err := c.server.CreateVolume(t.Context(), wanted("pvc-2", 33*mebi, "node1"))
	if err != nil || response.GetVolume().GetVolumeId() == string(old.UID) {
		t.Errorf("got %v, %v", response, err)
	}
}

// The selected node of a claim changed before the first node answered.
func TestAVolumeThatAnotherNodeHasNotMadeIsMadeHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, offering("node1", nil), offering("node2", nil))
		short, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		withFinalizer := func(lv *topolvmv1.LogicalVolume) {
			if len(lv.Finalizers) == 0 && lv.DeletionTimestamp.IsZero() {
				lv.Finalizers = []string{wellknown.LogicalVolumeFinalizer}
				c.must(c.api.Update(context.Background(), lv))
			}
		}
		c.agent = withFinalizer
		_, err := c.server.CreateVolume(short, wanted("pvc-1", 33*mebi, "node1"))
		wantCode(t, "an agent that is slow", err, codes.DeadlineExceeded)
		c.agent = func(lv *topolvmv1.LogicalVolume) {
			if !lv.DeletionTimestamp.IsZero() {
				lv.Finalizers = nil
				c.must(c.api.Update(context.Background(), lv))
				return
			}
			c.serve(lv)
		}
		response, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 33*mebi, "node2"))
		if err != nil || response.GetVolume().
			GetAccessibleTopology()[0].GetSegments()[wellknown.TopologyNodeKey] != "node2" {
			t.Errorf("got %v, %v", response, err)
		}
	})
}

// If the agent has not seen the object, nothing was created, and another node can create the volume.
func TestALostNodeSendsTheClaimElsewhere(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		n := offering(name, nil)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return n
	}
	for name, want := range map[string]codes.Code{"ready": codes.DeadlineExceeded, "silent": codes.ResourceExhausted,
		"gone": codes.ResourceExhausted} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, node("ready", corev1.ConditionTrue), node("silent", corev1.ConditionUnknown))
			c.agent = func(*topolvmv1.LogicalVolume) {}
			short, cancel := context.WithTimeout(t.Context(), 6*time.Second)
			defer cancel()
			_, err := c.server.CreateVolume(short, wanted("pvc-1", 33*mebi, name))
			wantCode(t, name, err, want)
			if (c.get("pvc-1") == nil) != (want == codes.ResourceExhausted) || !strings.Contains(err.Error(), name) {
				t.Errorf("%v; the object is %v", err, c.get("pvc-1"))
			}
		})
	}
}

func TestCopiesAreWhereTheirSourceIs(t *testing.T) {
	c := newCluster(t)
	source, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 40*mebi, "node2"))
	c.must(err)
	id := source.GetVolume().GetVolumeId()
	response, err := c.server.CreateVolume(t.Context(), copyOf("pvc-2", id, 80*mebi, "node1", "node2"))
	c.must(err)
	lv := c.get("pvc-2")
	if lv.Spec.Source != "pvc-1" || lv.Spec.AccessType != "rw" || lv.Spec.NodeName != "node2" ||
		response.GetVolume().GetContentSource() == nil {
		t.Errorf("got %+v", lv.Spec)
	}
	_, err = c.server.CreateVolume(t.Context(), copyOf("pvc-3", id, 36*mebi, "node2"))
	wantCode(t, "smaller", err, codes.OutOfRange)
	_, err = c.server.CreateVolume(t.Context(), copyOf("pvc-1", id, 40*mebi, "node2"))
	wantCode(t, "a name that is taken", err, codes.AlreadyExists)
}

func TestSnapshots(t *testing.T) {
	c := newCluster(t)
	source, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 40*mebi, "node2"))
	c.must(err)
	id := source.GetVolume().GetVolumeId()
	request := &csi.CreateSnapshotRequest{Name: "Snapshot-1", SourceVolumeId: id}
	first, err := c.server.CreateSnapshot(t.Context(), request)
	c.must(err)
	// The volume is expanded; the snapshot does not change.
	_, err = c.server.ControllerExpandVolume(t.Context(),
		&csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 80 * mebi}})
	c.must(err)
	again, err := c.server.CreateSnapshot(t.Context(), request)
	c.must(err)
	a := first.GetSnapshot()
	b := again.GetSnapshot()
	if a.GetSnapshotId() != b.GetSnapshotId() || !a.GetCreationTime().AsTime().Equal(b.GetCreationTime().AsTime()) ||
		b.GetSizeBytes() != 40*mebi || !b.GetReadyToUse() {
		t.Errorf("got %v, then %v", a, b)
	}
	for name, r := range map[string]*csi.CreateSnapshotRequest{"no name": {SourceVolumeId: id},
		"no source": {Name: "x"}} {
		_, err := c.server.CreateSnapshot(t.Context(), r)
		wantCode(t, name, err, codes.InvalidArgument)
	}
	_, err = c.server.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "x", SourceVolumeId: "nosuch"})
	wantCode(t, "no such source", err, codes.NotFound)
	list, err := c.server.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	if err != nil || len(list.GetEntries()) != 1 {
		t.Errorf("a snapshot is no volume: %v, %v", list, err)
	}
	for range 2 {
		_, err = c.server.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: a.GetSnapshotId()})
		c.must(err)
	}
	if c.get("snapshot-1") != nil || c.get("pvc-1") == nil {
		t.Error("the wrong object was deleted, or none")
	}
}

// failingReads is an API server that does not answer.
type failingReads struct{ client.Reader }

func (failingReads) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no connection")
}

func (failingReads) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no connection")
}

func TestDeleteVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		_, err := c.server.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{})
		wantCode(t, "no id", err, codes.InvalidArgument)
		_, err = c.server.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "nosuch"})
		c.must(err)
		response, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 40*mebi, "node1"))
		c.must(err)
		id := response.GetVolume().GetVolumeId()
		c.server.volumes.Live = failingReads{c.api}
		for _, id := range []string{id, "never-seen"} {
			_, err = c.server.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
			wantCode(t, "a read that fails is not: does not exist", err, codes.Unavailable)
		}
		c.server.volumes.Live = c.api
		// The node is slow.
		lv := c.get("pvc-1")
		lv.Finalizers = []string{wellknown.LogicalVolumeFinalizer}
		c.must(c.api.Update(t.Context(), lv))
		c.agent = func(lv *topolvmv1.LogicalVolume) { c.refuse(codes.FailedPrecondition)(lv) }
		short, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		_, err = c.server.DeleteVolume(short, &csi.DeleteVolumeRequest{VolumeId: id})
		wantCode(t, "in use", err, codes.DeadlineExceeded)
		if !strings.Contains(err.Error(), "because") {
			t.Errorf("the reason is missing: %v", err)
		}
		lv = c.get("pvc-1")
		lv.Finalizers = nil
		c.must(c.api.Update(t.Context(), lv))
		for range 2 {
			_, err = c.server.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
			c.must(err)
		}
	})
}

func TestExpansion(t *testing.T) {
	c := newCluster(t)
	response, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 40*mebi, "node1"))
	c.must(err)
	id := response.GetVolume().GetVolumeId()
	expand := func(size int64) (*csi.ControllerExpandVolumeResponse, error) {
		return c.server.ControllerExpandVolume(t.Context(),
			&csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: size}})
	}
	// A request that exceeds the capacity is refused and reset.
	c.agent = func(lv *topolvmv1.LogicalVolume) {
		if lv.Spec.Size.Value() > 1<<30 && lv.Status.Code == codes.OK {
			c.refuse(codes.ResourceExhausted)(lv)
		} else if lv.Spec.Size.Value() <= 1<<30 && !has(lv, lv.Spec.Size.Value()) {
			c.serve(lv)
		}
	}
	for range 2 {
		_, err = expand(1 << 40)
		wantCode(t, "too large", err, codes.OutOfRange)
		if lv := c.get("pvc-1"); lv.Spec.Size.Value() != 40*mebi || lv.Status.Code != codes.OK {
			t.Errorf("the request stands: %+v", lv)
		}
	}
	// The claim then requests less (RecoverVolumeExpansionFailure).
	for range 2 {
		grown, err := expand(50 * mebi)
		if err != nil || grown.GetCapacityBytes() != 52*mebi || !grown.GetNodeExpansionRequired() {
			t.Errorf("got %v, %v", grown, err)
		}
	}
	if c.get("pvc-1").Annotations[wellknown.ResizeRequestedAnnotation] == "" {
		t.Errorf("the annotation %s is missing", wellknown.ResizeRequestedAnnotation)
	}
	if grown, err := expand(10 * mebi); err != nil || grown.GetCapacityBytes() != 52*mebi {
		t.Errorf("smaller than it is: %v, %v", grown, err)
	}
	before := c.get("pvc-1").Spec.Size
	// A claim for 8Ei is infeasible, so that it can be lowered (external-resizer, isInfeasibleError).
	for _, size := range []int64{volumespec.Maximum + 1, math.MaxInt64 - volumespec.Sector, math.MaxInt64} {
		grown, err := expand(size)
		wantCode(t, fmt.Sprintf("%d bytes: %v", size, grown), err, codes.OutOfRange)
	}
	if size := c.get("pvc-1").Spec.Size; size.Cmp(before) != 0 {
		t.Errorf("the LogicalVolume requests %s", size.String())
	}
	for name, r := range map[string]*csi.ControllerExpandVolumeRequest{
		"no id": {CapacityRange: &csi.CapacityRange{RequiredBytes: 1}}, "no size": {VolumeId: id},
		"negative": {VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: -1}},
	} {
		_, err := c.server.ControllerExpandVolume(t.Context(), r)
		wantCode(t, name, err, codes.InvalidArgument)
	}
	_, err = c.server.ControllerExpandVolume(t.Context(),
		&csi.ControllerExpandVolumeRequest{VolumeId: "nosuch", CapacityRange: &csi.CapacityRange{RequiredBytes: 1}})
	wantCode(t, "no such volume", err, codes.NotFound)

	// The status has the error and the size of an older version.
	lv := c.get("pvc-1")
	lv.Spec.Size = *resource.NewQuantity(1<<40, resource.BinarySI)
	c.must(c.api.Update(t.Context(), lv))
	lv.Status.Code = codes.ResourceExhausted
	lv.Status.Message = "long ago"
	lv.Status.CurrentSize = nil
	c.answer(lv)
	if grown, err := expand(60 * mebi); err != nil || grown.GetCapacityBytes() != 60*mebi {
		t.Errorf("an old error was repeated, or an old size was in the way: %v, %v", grown, err)
	}
}

// TestAnotherVolumeWithTheNameIsNotExpanded: the volume was deleted and created again since it was found.
func TestAnotherVolumeWithTheNameIsNotExpanded(t *testing.T) {
	c := newCluster(t)
	_, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 40*mebi, "node1"))
	c.must(err)
	found := c.get("pvc-1")
	found.UID = "another"
	for range 2 {
		_, err := expansion{c.server.volumes}.ask(t.Context(), found, 80*mebi)
		wantCode(t, "another object", err, codes.NotFound)
	}
	if size := c.get("pvc-1").Spec.Size; size.Value() != 40*mebi {
		t.Errorf("the size is %s", size.String())
	}
}

// TestWhatTheNodeExpands: the file system, and the mapped device of an encrypted volume, also without a file system.
func TestWhatTheNodeExpands(t *testing.T) {
	block := &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
	for name, tt := range map[string]struct {
		encrypted  bool
		capability *csi.VolumeCapability
		want       bool
	}{
		"block":                         {false, block, false},
		"file system":                   {false, mountCapability("xfs"), true},
		"no capability":                 {false, nil, true},
		"encrypted block":               {true, block, true},
		"encrypted file system":         {true, mountCapability("xfs"), true},
		"encrypted, without capability": {true, nil, true},
	} {
		c := newCluster(t)
		request := wanted("pvc-1", 400*mebi, "node1")
		if tt.encrypted {
			request = encrypted(request)
		}
		response, err := c.server.CreateVolume(t.Context(), request)
		c.must(err)
		for range 2 {
			grown, err := c.server.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
				VolumeId: response.GetVolume().GetVolumeId(), VolumeCapability: tt.capability,
				CapacityRange: &csi.CapacityRange{RequiredBytes: 800 * mebi}})
			if err != nil || grown.GetNodeExpansionRequired() != tt.want {
				t.Errorf("%s: got %v, %v", name, grown, err)
			}
		}
	}
}

// classless is a request of a StorageClass without a device class.
func classless(name string) *csi.CreateVolumeRequest {
	request := wanted(name, 33*mebi, "node1")
	delete(request.Parameters, wellknown.DeviceClassParameter)
	return request
}

// TestTheDefaultClassOfTheNode has a default device class in the file of the node, as on MicroShift, and none in an
// LVMCluster.
func TestTheDefaultClassOfTheNode(t *testing.T) {
	c := newCluster(t, offering("node1", map[string]string{"default": "999999999", "00default": "999999999"}))
	c.must(c.api.Create(t.Context(), &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lvms"}}))
	for range 2 {
		_, err := c.server.CreateVolume(t.Context(), classless("pvc-1"))
		c.must(err)
		if lv := c.get("pvc-1"); lv.Spec.DeviceClass != "" || lv.Spec.NodeName != "node1" {
			t.Errorf("the device class is %q on node %s, but the node agent sets it", lv.Spec.DeviceClass, lv.Spec.NodeName)
		}
	}
	c.fail["list"] = errors.New("no answer")
	_, err := c.server.CreateVolume(t.Context(), classless("pvc-2"))
	wantCode(t, "the LVMClusters and Nodes cannot be read", err, codes.Unavailable)
}

// TestTheDefaultClassIsNamedOnce uses a StorageClass without a device class.
func TestTheDefaultClassIsNamedOnce(t *testing.T) {
	c := newCluster(t, offering("node1", map[string]string{"ssd": "999999999"}))
	_, err := c.server.CreateVolume(t.Context(), classless("pvc-0"))
	wantCode(t, "no default", err, codes.InvalidArgument)

	lvms := &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lvms"}}
	lvms.Spec.Storage.DeviceClasses = []v1alpha1.DeviceClass{{Name: "ssd", Default: true}, {Name: "hdd"}}
	c.must(c.api.Create(t.Context(), lvms))
	for _, name := range []string{"ssd", "hdd", "hdd"} {
		if name == "hdd" {
			lvms.Spec.Storage.DeviceClasses[0].Default = false
			lvms.Spec.Storage.DeviceClasses[1].Default = true
			c.must(c.api.Update(t.Context(), lvms))
		}
		_, err := c.server.CreateVolume(t.Context(), classless("pvc-1"))
		c.must(err)
		if got := c.get("pvc-1").Spec.DeviceClass; got != "ssd" {
			t.Errorf("with the default %s the device class is %q", name, got)
		}
	}
	_, err = c.server.CreateVolume(t.Context(), classless("pvc-2"))
	c.must(err)
	if got := c.get("pvc-2").Spec.DeviceClass; got != "hdd" {
		t.Errorf("the device class is %q", got)
	}
	c.fail["list"] = errors.New("no answer")
	_, err = c.server.CreateVolume(t.Context(), classless("pvc-3"))
	wantCode(t, "the LVMClusters cannot be read", err, codes.Unavailable)
}

func TestGetCapacity(t *testing.T) {
	c := newCluster(t, offering("node1", map[string]string{"ssd": "1000000", "00default": "7"}),
		offering("node2", map[string]string{"ssd": "3000000"}), offering("node3", map[string]string{"ssd": "junk"}))
	c.agent = func(*topolvmv1.LogicalVolume) {}
	c.must(c.api.Create(t.Context(), &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "asked"},
		Spec: topolvmv1.LogicalVolumeSpec{Name: "asked", NodeName: "node2", DeviceClass: "ssd",
			Size: resource.MustParse("1000000")},
	}))
	at := func(node string) *csi.Topology {
		return &csi.Topology{Segments: map[string]string{wellknown.TopologyNodeKey: node}}
	}
	for name, tt := range map[string]struct {
		class     string
		topology  *csi.Topology
		sum, most int64
	}{
		"all nodes":      {"ssd", nil, 3000000, 2000000},
		"one":            {"ssd", at("node1"), 1000000, 1000000},
		"with a request": {"ssd", at("node2"), 2000000, 2000000},
		"junk":           {"ssd", at("node3"), 0, 0},
		"unknown node":   {"ssd", at("node9"), 0, 0},
		"unknown class":  {"x", nil, 0, 0},
		"default class":  {"", at("node1"), 7, 7},
		"other topology": {"ssd", &csi.Topology{Segments: map[string]string{"zone": "a"}}, 0, 0},
	} {
		r, err := c.server.GetCapacity(t.Context(),
			&csi.GetCapacityRequest{Parameters: map[string]string{wellknown.DeviceClassParameter: tt.class},
				AccessibleTopology: tt.topology})
		if err != nil || r.GetAvailableCapacity() != tt.sum || r.GetMaximumVolumeSize().GetValue() != tt.most {
			t.Errorf("%s: got %v, %v", name, r, err)
		}
	}
	// Without a scheduler the node with the most capacity is selected.
	c.agent = nil
	request := wanted("pvc-1", 900000)
	request.VolumeCapabilities = []*csi.VolumeCapability{{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}}
	_, err := c.server.CreateVolume(t.Context(), request)
	wantCode(t, "no node has 8 MiB", err, codes.ResourceExhausted)
}

func TestListVolumesPageByPage(t *testing.T) {
	c := newCluster(t)
	for i := range 5 {
		_, err := c.server.CreateVolume(t.Context(), wanted(fmt.Sprint("pvc-", i), 40*mebi, "node1"))
		c.must(err)
	}
	var seen []string
	token := ""
	for range 5 {
		r, err := c.server.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: 2, StartingToken: token})
		c.must(err)
		for _, e := range r.GetEntries() {
			seen = append(seen, e.GetVolume().GetVolumeId())
		}
		if token = r.GetNextToken(); token == "" {
			break
		}
	}
	if got := strings.Join(seen, ","); got != "uid-1,uid-2,uid-3,uid-4,uid-5" {
		t.Errorf("got %s", got)
	}
	_, err := c.server.ListVolumes(t.Context(), &csi.ListVolumesRequest{StartingToken: "junk"})
	wantCode(t, "a token of somebody else", err, codes.Aborted)
	_, err = c.server.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: -1})
	wantCode(t, "negative", err, codes.InvalidArgument)
}

// TestSumsOfSizes of LogicalVolumes that somebody else has created, of the minimum and the maximum size.
func TestSumsOfSizes(t *testing.T) {
	volume := func(node string, size int64) topolvmv1.LogicalVolume {
		return topolvmv1.LogicalVolume{Spec: topolvmv1.LogicalVolumeSpec{NodeName: node, DeviceClass: "ssd",
			Size: *resource.NewQuantity(size, resource.BinarySI)}}
	}
	requests := supply.Pending([]topolvmv1.LogicalVolume{volume("a", mebi), volume("a", math.MinInt64),
		volume("b", math.MaxInt64), volume("b", math.MaxInt64), volume("c", mebi), volume("c", mebi)}, "ssd")
	for node, want := range map[string]int64{"a": math.MaxInt64 - mebi, "b": 0, "c": math.MaxInt64 - 2*mebi} {
		at := offering(node, map[string]string{"ssd": fmt.Sprint(int64(math.MaxInt64))})
		if got := requests.Room(at, "ssd"); got != want {
			t.Errorf("node %s has %d, want %d", node, got, want)
		}
	}
	c := newCluster(t, offering("node1", map[string]string{"ssd": fmt.Sprint(int64(math.MaxInt64))}),
		offering("node2", map[string]string{"ssd": fmt.Sprint(int64(math.MaxInt64))}))
	capacity, err := c.server.GetCapacity(t.Context(),
		&csi.GetCapacityRequest{Parameters: map[string]string{wellknown.DeviceClassParameter: "ssd"}})
	if err != nil || capacity.GetAvailableCapacity() != math.MaxInt64 {
		t.Errorf("got %v, %v", capacity, err)
	}
}

func TestASecondCallForTheSameVolumeIsSentAway(t *testing.T) {
	c := newCluster(t)
	c.must(c.server.locks.Enter("pvc-1"))
	_, err := c.server.CreateVolume(t.Context(), wanted("PVC-1", 40*mebi, "node1"))
	wantCode(t, "at work", err, codes.Aborted)
}

// The cache does not have the volumes yet for which a node was just selected.
func TestClaimsThatComeTogetherAreSpread(t *testing.T) {
	c := newCluster(t, offering("node1", map[string]string{"ssd": fmt.Sprint(400 * mebi)}),
		offering("node2", map[string]string{"ssd": fmt.Sprint(390 * mebi)}))
	c.agent = func(*topolvmv1.LogicalVolume) {}
	count := map[string]int{}
	for i := range 8 {
		desired, _, err := c.server.desiredVolume(t.Context(), wanted(fmt.Sprint("pvc-", i), 90*mebi))
		c.must(err)
		c.must(c.server.placer.Place(t.Context(), desired, nil, nil, &csi.CreateVolumeRequest{}, nil))
		count[desired.Spec.NodeName]++
	}
	if count["node1"] != 4 || count["node2"] != 4 {
		t.Errorf("got %v", count)
	}
	unscheduled := &corev1.PersistentVolumeClaim{}
	large := volumespec.New("pvc-large", 90*mebi, "")
	large.Spec.DeviceClass = "ssd"
	request := &csi.CreateVolumeRequest{AccessibilityRequirements: on("node2", "node3")}
	err := c.server.placer.Place(t.Context(), large, nil, nil, request, unscheduled)
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "the maximum is 30Mi") {
		t.Errorf("got %v", err)
	}
	small := volumespec.New("pvc-8", 30*mebi, "")
	small.Spec.DeviceClass = "ssd"
	c.must(c.server.placer.Place(t.Context(), small, nil, nil, request, unscheduled))
	if small.Spec.NodeName != "node2" {
		t.Errorf("got %+v", small.Spec)
	}
	desired, _, err := c.server.desiredVolume(t.Context(), wanted("pvc-9", 90*mebi))
	c.must(err)
	wantCode(t, "more than there is", c.server.placer.Place(t.Context(), desired, nil, nil, &csi.CreateVolumeRequest{}, nil),
		codes.ResourceExhausted)
}

// A call ended before the node answered. The capacity that the next call finds excludes the volume itself.
func TestAVolumeThatIsBeingMadeKeepsItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, offering("node1", map[string]string{"ssd": fmt.Sprint(100 * mebi)}),
			offering("node2", map[string]string{"ssd": fmt.Sprint(20 * mebi)}))
		c.agent = func(*topolvmv1.LogicalVolume) {}
		for _, nodes := range [][]string{nil, {"node1", "node2"}} {
			short, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			_, err := c.server.CreateVolume(short, wanted("pvc-1", 90*mebi))
			cancel()
			wantCode(t, "an agent that is slow", err, codes.DeadlineExceeded)
			first := c.get("pvc-1")
			c.must(c.api.Create(t.Context(), offering(fmt.Sprint("larger-", len(nodes)),
				map[string]string{"ssd": fmt.Sprint(900 * mebi)})))
			short, cancel = context.WithTimeout(t.Context(), 4*time.Second)
			_, err = c.server.CreateVolume(short, wanted("pvc-1", 90*mebi, nodes...))
			cancel()
			wantCode(t, "the same call again", err, codes.DeadlineExceeded)
			if again := c.get("pvc-1"); again == nil || again.UID != first.UID {
				t.Errorf("%v: got %v instead of %v", nodes, again, first)
			}
		}
	})
}

// With immediate binding the request lists all nodes, in any order.
func TestWithoutASchedulersChoiceTheRoomiestOfTheNamedNodesIsTaken(t *testing.T) {
	c := newCluster(t, offering("node1", map[string]string{"ssd": "1000000000"}),
		offering("node2", map[string]string{"ssd": "3000000000"}),
		offering("node3", map[string]string{"ssd": "9000000000"}))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1"}}
	c.must(c.api.Create(t.Context(), claim))
	place := func() string {
		t.Helper()
		request := wanted("pvc-1", 90*mebi, "node1", "node2")
		desired, _, err := c.server.desiredVolume(t.Context(), request)
		c.must(err)
		claim, err := c.server.placer.ClaimOf(t.Context(), request)
		c.must(err)
		c.must(c.server.placer.Place(t.Context(), desired, nil, nil, request, claim))
		return desired.Spec.NodeName
	}
	if got := place(); got != "node2" {
		t.Errorf("nobody has chosen: got %s", got)
	}
	// A node that no longer answers would offer the most capacity forever.
	away := &corev1.Node{}
	c.must(c.api.Get(t.Context(), client.ObjectKey{Name: "node2"}, away))
	away.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	c.must(c.api.Status().Update(t.Context(), away))
	if got := place(); got != "node1" {
		t.Errorf("node2 is away: got %s", got)
	}
	away.Status.Conditions[0].Status = corev1.ConditionTrue
	c.must(c.api.Status().Update(t.Context(), away))
	if got := place(); got != "node2" {
		t.Errorf("node2 is back: got %s", got)
	}
	csiNode := &storagev1.CSINode{}
	c.must(c.api.Get(t.Context(), client.ObjectKey{Name: "node2"}, csiNode))
	drivers := csiNode.Spec.Drivers
	csiNode.Spec.Drivers = nil
	c.must(c.api.Update(t.Context(), csiNode))
	if got := place(); got != "node1" {
		t.Errorf("node2 has no agent: got %s", got)
	}
	csiNode.Spec.Drivers = drivers
	c.must(c.api.Update(t.Context(), csiNode))
	claim.Annotations = map[string]string{selectedNode: "node1"}
	c.must(c.api.Update(t.Context(), claim))
	if got := place(); got != "node1" {
		t.Errorf("the scheduler has chosen node1: got %s", got)
	}
}

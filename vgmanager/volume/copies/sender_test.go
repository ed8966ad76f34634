package copies

import (
	"context"
	"errors"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/internal/cluster/agentpod"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
)

func logicalVolume(name, node, source, access, id string) *topolvmv1.LogicalVolume {
	return &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: node, Source: source, AccessType: access,
			DeviceClass: "vg1"},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: id}}
}

// volumes are those of a node.
type volumes map[string]*engine.Device

var errLVM = errors.New("lvs: exit status 5")

func (v volumes) Device(_ context.Context, class, name string) (*engine.Device, error) {
	switch {
	case v == nil:
		return nil, errLVM
	case class != "vg1" || v[name] == nil:
		return nil, status.Error(codes.NotFound, "not found")
	}
	return v[name], nil
}

func (v volumes) FencedDevice(ctx context.Context, class, name, move string) (*engine.Device, error) {
	d, err := v.Device(ctx, class, name)
	if err == nil && lvtag.FencedBy(d.Tags) != move {
		return nil, status.Error(codes.FailedPrecondition, "not fenced")
	}
	return d, err
}

// world is an API server with a copy "target" on node2 of the snapshot "snap" on node1.
func world(t *testing.T, failing error, change func(target, source *topolvmv1.LogicalVolume),
	others ...*topolvmv1.LogicalVolume) *Sender {
	t.Helper()
	target := logicalVolume("target", "node2", "snap", "rw", "")
	source := logicalVolume("snap", "node1", "volume", "ro", "id1")
	change(target, source)
	objects := []client.Object{source}
	if target.Name != "" {
		objects = append(objects, target)
	}
	for _, other := range others {
		objects = append(objects, other)
	}
	api := memory.Builder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			if failing != nil {
				return failing
			}
			return c.Get(ctx, key, o, options...)
		}}).Build()
	return &Sender{Live: api, Node: "node1", Volumes: volumes{"id1": {VolumeGroup: "vg1", Name: "id1", ReadOnly: true,
		ThinPool: "pool", Path: "/dev/does-not-exist", Number: "253:1"}}}
}

func nothing(_, _ *topolvmv1.LogicalVolume) {}

// TestWhoMayHaveASnapshot: only the node on which the API server wants a copy, while it is created.
func TestWhoMayHaveASnapshot(t *testing.T) {
	now := metav1.Now()
	for name, tt := range map[string]struct {
		node    string
		failing error
		change  func(target, source *topolvmv1.LogicalVolume)
		want    error
	}{
		"another node": {node: "node3", change: nothing, want: ErrForbidden},
		"no such object": {change: func(target, _ *topolvmv1.LogicalVolume) { target.Name = "other" },
			want: ErrForbidden},
		"not a copy": {change: func(target, _ *topolvmv1.LogicalVolume) { target.Spec.Source = "" },
			want: ErrForbidden},
		"it is complete": {change: func(target, _ *topolvmv1.LogicalVolume) { target.Status.VolumeID = "id2" },
			want: ErrForbidden},
		"it is deleted": {change: func(target, _ *topolvmv1.LogicalVolume) {
			target.DeletionTimestamp = &now
			target.Finalizers = []string{"x"}
		}, want: ErrForbidden},
		"a source of another node": {change: func(_, source *topolvmv1.LogicalVolume) { source.Spec.NodeName = "node4" },
			want: ErrForbidden},
		"a source that does not exist": {change: func(target, _ *topolvmv1.LogicalVolume) { target.Spec.Source = "gone" },
			want: ErrGone},
		"a volume in use": {change: func(_, source *topolvmv1.LogicalVolume) { source.Spec.AccessType = "rw" },
			want: ErrGone},
		"a source that is deleted": {change: func(_, source *topolvmv1.LogicalVolume) {
			source.DeletionTimestamp = &now
			source.Finalizers = []string{"x"}
		}, want: ErrGone},
		"a lost logical volume": {change: func(_, source *topolvmv1.LogicalVolume) { source.Status.VolumeID = "id9" },
			want: ErrGone},
		"a source that is not ready":     {change: func(_, source *topolvmv1.LogicalVolume) { source.Status.VolumeID = "" }},
		"a device that cannot be opened": {change: nothing},
		"the read failed":                {failing: errors.New("timeout"), change: nothing},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(t, tt.failing, tt.change)
			node := "node2"
			if tt.node != "" {
				node = tt.node
			}
			opened, err := s.open(t.Context(), node, Request{Target: "target"})
			if err == nil {
				t.Fatalf("opened %+v", opened)
			}
			for _, known := range []error{ErrForbidden, ErrGone} {
				if errors.Is(err, known) != errors.Is(tt.want, known) {
					t.Errorf("%v, want %v", err, tt.want)
				}
			}
		})
	}
}

func TestAVolumeThatIsNotAThinSnapshotIsNotSent(t *testing.T) {
	for name, d := range map[string]*engine.Device{
		"thick":    {VolumeGroup: "vg1", Name: "id1", ReadOnly: true},
		"writable": {VolumeGroup: "vg1", Name: "id1", ThinPool: "pool"},
	} {
		s := world(t, nil, nothing)
		s.Volumes = volumes{"id1": d}
		if _, err := s.open(t.Context(), "node2", Request{Target: "target"}); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := world(t, nil, nothing)
	s.Volumes = volumes(nil)
	_, err := s.open(t.Context(), "node2", Request{Target: "target"})
	if !errors.Is(err, errLVM) || errors.Is(err, ErrGone) {
		t.Errorf("LVM cannot be read: %v", err)
	}
}

// pages answers queries by their offset.
type pages struct {
	t     *testing.T
	pages map[uint64]*changedblocks.Page
	err   error
}

func (p pages) Read(_ context.Context, q changedblocks.Query) (*changedblocks.Page, error) {
	if q.VG != "vg1" || q.Target != "id1" || q.Base != "" || !q.Encrypted {
		p.t.Errorf("query %+v", q)
	}
	if page := p.pages[q.Offset]; page != nil {
		return page, nil
	}
	return nil, p.err
}

func TestTheRangesOfASnapshot(t *testing.T) {
	first := &changedblocks.Page{Size: 100, Ranges: []changedblocks.Range{{Offset: 0, Length: 10}}, Next: 10}
	for name, tt := range map[string]struct {
		pages map[uint64]*changedblocks.Page
		err   error
		want  int
		fails error
	}{
		"two pages": {pages: map[uint64]*changedblocks.Page{0: first, 10: {Size: 100,
			Ranges: []changedblocks.Range{{Offset: 20, Length: 10}, {Offset: 40, Length: 10}}}}, want: 3},
		"empty":                {pages: map[uint64]*changedblocks.Page{0: {Size: 100}}},
		"the second fails":     {pages: map[uint64]*changedblocks.Page{0: first}, err: errLVM, want: 1, fails: errLVM},
		"the snapshot is gone": {err: lvm.ErrNotFound, fails: ErrGone},
		"another size":         {pages: map[uint64]*changedblocks.Page{0: {Size: 200}}, fails: errAny},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Sender{Allocations: pages{t: t, pages: tt.pages, err: tt.err}}
			got := 0
			var failed error
			q := changedblocks.Query{VG: "vg1", Target: "id1", Encrypted: true}
			s.ranges(q, 100)(t.Context(), 0, func(_ changedblocks.Range, err error) bool {
				if err != nil {
					failed = err
				} else {
					got++
				}
				return true
			})
			expect.Equal(t, "got", got, tt.want)
			expect.Equal(t, "failed != nil", failed != nil, tt.fails != nil)
			if tt.fails != nil && !errors.Is(tt.fails, errAny) && !errors.Is(failed, tt.fails) {
				t.Errorf("%d ranges, %v, want %d, %v", got, failed, tt.want, tt.fails)
			}
		})
	}
}

var errAny = errors.New("any error")

// TestTheAddressOfAnAgent is that of its Pod. What an agent has written is not used.
func TestTheAddressOfAnAgent(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent", Labels: map[string]string{
		"app.kubernetes.io/name": "vg-manager", "app.kubernetes.io/part-of": "lvms-provisioner"}},
		Spec: corev1.PodSpec{NodeName: "node1"}, Status: corev1.PodStatus{PodIP: "192.0.2.1"}}
	a := &Agents{Namespace: "ns", Live: memory.Builder().WithObjects(pod).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}).Build()}
	got, err := a.Of(t.Context(), "node1")
	if a, is := got.(*agent); err != nil || !is || a.node != "node1" || a.address != "192.0.2.1:8446" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = a.Of(t.Context(), "node2")
	if !errors.Is(err, agentpod.ErrNone) || !strings.Contains(err.Error(), "node2") {
		t.Errorf("no agent: %v", err)
	}
}

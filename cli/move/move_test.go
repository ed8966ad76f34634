package move

import (
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// clientOf returns a client with objects. The status of VolumeMoves is written separately.
func clientOf(objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(session.Scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.VolumeMove{}).Build()
}

const operatorNamespace = "openshift-lvm-storage"

func clusterWithClasses() *v1alpha1.LVMCluster {
	c := &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "lvmcluster"}}
	c.Spec.Storage.DeviceClasses = []v1alpha1.DeviceClass{
		{Name: "thin", ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool"}}, {Name: "thick"}}
	return c
}

func moveVolume(name, claim, class, size string) *topolvmv1.LogicalVolume {
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations: map[string]string{wellknown.ClaimAnnotation: claim}},
		Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: "worker-1", DeviceClass: class,
			Size: resource.MustParse(size)}}
	lv.Status.VolumeID = "id-" + name
	return lv
}

// poolOn has the free capacity of a node in the classes thin and thick.
func poolOn(node, free string) *v1alpha1.LVMVolumeGroupNodeStatus {
	s := &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: node}}
	s.Status.NodeStatus = []v1alpha1.VGStatus{{Name: "thin", ThinPool: &v1alpha1.ThinPoolStatus{Name: "pool",
		Size: resource.MustParse("100Gi"), DataPercent: 10, Free: clitest.Quantity(free)}}, {Name: "thick", Free: clitest.Quantity("3Gi")}}
	return s
}

func movesIn(t *testing.T, c client.Client) []v1alpha1.VolumeMove {
	t.Helper()
	all := &v1alpha1.VolumeMoveList{}
	if err := c.List(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	return all.Items
}

// TestMove: it creates a VolumeMove, and follows it to its end. If it is run again meanwhile, it creates no second one.
func TestMove(t *testing.T) {
	c := clientOf(clusterWithClasses())
	dry := plugin.Run(t, c, "move", "-n", "shop", "data", "--dry-run")
	if dry.Code != 0 || !strings.Contains(dry.Out, "kind: VolumeMove") || !strings.Contains(dry.Out, "namespace: shop") ||
		len(movesIn(t, c)) != 0 {
		t.Errorf("dry run: %+v", dry)
	}
	if got := plugin.Run(t, c, "move", "shop/data", "--wait=false"); got.Code != session.ExitError || len(movesIn(t, c)) != 0 {
		t.Errorf("without --yes: %+v", got)
	}
	for range 2 {
		if got := plugin.Run(t, c, "move", "shop/data", "--to", "worker-2", "--yes", "--wait=false"); got.Code != 0 {
			t.Errorf("got %+v", got)
		}
	}
	moves := movesIn(t, c)
	if len(moves) != 1 || moves[0].Namespace != operatorNamespace || moves[0].Spec.NodeName != "worker-2" ||
		moves[0].Spec.Claim.String() != "shop/data" {
		t.Fatalf("got %+v", moves)
	}
	if got := plugin.Run(t, c, "move", "shop/data", "--to", "worker-3", "--yes"); got.Code != session.ExitProblems ||
		!strings.Contains(got.Err, "delete it first") {
		t.Errorf("another node: %+v", got)
	}
	set := func(phase v1alpha1.VolumeMovePhase, message string) func() {
		return func() {
			m := movesIn(t, c)[0]
			m.Status.Phase = phase
			m.Status.Message = message
			if err := c.Status().Update(t.Context(), &m); err != nil {
				t.Error(err)
			}
		}
	}
	got := plugin.RunWith(t, c, "", []func(){set(v1alpha1.MoveWaitingForPods, "ends when shop/p has ended"),
		set(v1alpha1.MoveKeepingSource, "the volume is on worker-2")}, "move", "shop/data", "--yes")
	if got.Code != 0 || !strings.Contains(got.Out, "WaitingForPods: ends when shop/p has ended") ||
		!strings.Contains(got.Out, "KeepingSource: the volume is on worker-2") {
		t.Errorf("got %+v", got)
	}
	if got := plugin.Run(t, c, "moves"); got.Code != 0 || !strings.Contains(got.Out, "shop/data") ||
		!strings.Contains(got.Out, "KeepingSource") {
		t.Errorf("moves: %+v", got)
	}
	set(v1alpha1.MoveCompleted, "")()
	got = plugin.RunWith(t, c, "", []func(){func() {
		for _, m := range movesIn(t, c) {
			if m.Status.Phase == "" {
				m.Status = v1alpha1.VolumeMoveStatus{Phase: v1alpha1.MoveFailed, Message: "no thin pool"}
				if err := c.Status().Update(t.Context(), &m); err != nil {
					t.Error(err)
				}
			}
		}
	}}, "move", "shop/data", "--yes")
	if got.Code != session.ExitProblems || !strings.Contains(got.Err, "no thin pool") {
		t.Errorf("a move that fails: %+v", got)
	}
}

// TestMoveBack: it requests the way back once, for the node that has the volume now, and follows it.
func TestMoveBack(t *testing.T) {
	switched := func(name, claim string, at int) *v1alpha1.VolumeMove {
		m := &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: name},
			Spec: v1alpha1.VolumeMoveSpec{Claim: v1alpha1.VolumeMoveClaim{Namespace: "shop", Name: claim}}}
		time := metav1.Date(2026, 11, 30, at, 0, 0, 0, time.UTC)
		m.Status = v1alpha1.VolumeMoveStatus{Phase: v1alpha1.MoveKeepingSource, SourceNode: "worker-1",
			TargetNode: "worker-2", SwitchTime: &time}
		return m
	}
	ended := switched("ended", "old", 1)
	ended.Status.Phase = v1alpha1.MoveCompleted
	c := clientOf(clusterWithClasses(), switched("first", "data", 1), switched("second", "data", 2), ended)
	if got := plugin.Run(t, c, "move", "shop/old", "--back", "--yes"); got.Code != session.ExitProblems ||
		!strings.Contains(got.Err, "no VolumeMove keeps an old logical volume of the claim shop/old") {
		t.Errorf("got %+v", got)
	}
	if got := plugin.Run(t, c, "move", "shop/data", "--back", "--to", "worker-1", "--yes"); got.Code != session.ExitError {
		t.Errorf("got %+v", got)
	}
	get := func() *v1alpha1.VolumeMove {
		m := &v1alpha1.VolumeMove{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: operatorNamespace, Name: "second"}, m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	if got := plugin.Run(t, c, "move", "shop/data", "--back", "--dry-run"); got.Code != 0 || len(get().Annotations) != 0 ||
		!strings.Contains(got.Out, "lvm.topolvm.io/move-back: worker-2") || !strings.Contains(got.Out, "name: second") {
		t.Errorf("dry run: %+v", got)
	}
	if got := plugin.Run(t, c, "move", "shop/data", "--back", "--wait=false"); got.Code != session.ExitError || len(get().Annotations) != 0 ||
		!strings.Contains(got.Out, "Node worker-1 has kept the volume of the claim shop/data as it was at 2026-11-30T02:00:00Z") {
		t.Errorf("without --yes: %+v", got)
	}
	set := func(change func(*v1alpha1.VolumeMoveStatus)) func() {
		return func() {
			m := get()
			change(&m.Status)
			if err := c.Status().Update(t.Context(), m); err != nil {
				t.Error(err)
			}
		}
	}
	got := plugin.RunWith(t, c, "", []func(){
		set(func(s *v1alpha1.VolumeMoveStatus) { s.Message = "not known that node worker-2 is off" }),
		set(func(s *v1alpha1.VolumeMoveStatus) {
			s.SourceNode = "worker-2"
			s.TargetNode = "worker-1"
			s.Message = "node worker-2 has not given up"
		})}, "move", "shop/data", "--back", "--yes")
	if got.Code != 0 || get().Annotations[wellknown.MoveBackAnnotation] != "worker-2" ||
		!strings.Contains(got.Out, "not known that node worker-2 is off") ||
		!strings.Contains(got.Out, "node worker-2 has not given up") {
		t.Errorf("got %+v, %+v", got, get())
	}
}

// TestMoveOfAThickVolume: it says that the Pods must end first, and how long they cannot start.
func TestMoveOfAThickVolume(t *testing.T) {
	own := moveVolume("moved-1", "shop/thick", "thin", "1Gi")
	own.Annotations[wellknown.MoveAnnotation] = "1"
	c := clientOf(clusterWithClasses(), own, moveVolume("pvc-1", "shop/thick", "thick", "10Gi"),
		moveVolume("pvc-2", "shop/data", "thin", "10Gi"))
	got := plugin.Run(t, c, "move", "shop/thick", "--to", "worker-2", "--yes", "--wait=false")
	if got.Code != 0 || !strings.Contains(got.Out, "The volume of the claim shop/thick is thick: it is copied to worker-2 "+
		"only while no Pod uses it, and its Pods cannot start for about 3m24s at 100Mi for each second.") {
		t.Errorf("got %+v", got)
	}
	got = plugin.Run(t, c, "move", "shop/data", "--yes", "--wait=false")
	if got.Code != 0 || !strings.Contains(got.Out, "is copied to another node while Pods use it") {
		t.Errorf("got %+v", got)
	}
}

// TestEvacuate: what can be moved, what stays with the numbers, and the forecast.
func TestEvacuate(t *testing.T) {
	snapshot := moveVolume("snapshot-1", "shop/snap", "thin", "1Gi")
	snapshot.Spec.AccessType = "ro"
	elsewhere := moveVolume("pvc-9", "shop/elsewhere", "thin", "1Gi")
	elsewhere.Spec.NodeName = "worker-2"
	own := moveVolume("move-1-1", "shop/own", "thin", "1Gi")
	own.Annotations[wellknown.MoveAnnotation] = "1"
	running := newMove(operatorNamespace, "shop/running", "")
	running.Name = "running"
	c := clientOf(clusterWithClasses(), moveVolume("pvc-1", "shop/data", "thin", "8Gi"),
		moveVolume("pvc-2", "shop/more", "thin", "12Gi"), moveVolume("pvc-3", "shop/large", "thin", "60Gi"),
		moveVolume("pvc-4", "shop/thick", "thick", "1Gi"), moveVolume("pvc-6", "shop/thick-large", "thick", "4Gi"),
		moveVolume("pvc-7", "shop/unknown", "other", "1Gi"), moveVolume("pvc-5", "shop/running", "thin", "1Gi"), snapshot,
		elsewhere, own, running, poolOn("worker-1", "20Gi"), poolOn("worker-2", "50Gi"), poolOn("worker-3", "30Gi"))
	got := plugin.Run(t, c, "evacuate", "worker-1", "--dry-run")
	for _, want := range []string{"Node worker-1: 3 volumes can be moved, 21Gi.\n",
		"The other nodes have 80Gi free in device class thin.", "The other nodes have 6Gi free in device class thick.\n",
		"The thin ones have at most 10Gi of data. At 100Mi for each second, their copies take at most about 1m42s.\n" +
			"Thick volumes are copied while their Pods are stopped, two at once; the others wait.\n",
		"  move  shop/more\n  move  shop/data\n  move  shop/thick: thick, 1Gi, its Pods cannot start for about 20s at 100Mi " +
			"for each second\n  moves already  shop/running\n",
		"  stays  shop/large (pvc-3): it has 60Gi, and the other nodes have at most 50Gi free in device class thin\n",
		"  stays  shop/thick-large (pvc-6): it has 4Gi, and the other nodes have at most 3Gi free in device class thick\n",
		"  stays  shop/unknown (pvc-7): the LVMCluster has no device class \"other\"\n",
		"  stays  shop/snap (snapshot-1): it is a snapshot"} {
		if !strings.Contains(got.Err, want) {
			t.Errorf("%q is missing in %s", want, got.Err)
		}
	}
	if got.Code != 0 || strings.Count(got.Out, "kind: VolumeMove") != 3 || len(movesIn(t, c)) != 1 {
		t.Errorf("dry run: %+v", got)
	}
	got = plugin.Run(t, c, "evacuate", "worker-1", "--yes")
	if got.Code != session.ExitProblems || len(movesIn(t, c)) != 4 || !strings.Contains(got.Out, "kubectl drain worker-1") {
		t.Errorf("got %+v", got)
	}
	if got = plugin.Run(t, c, "evacuate", "worker-1", "--yes"); len(movesIn(t, c)) != 4 {
		t.Errorf("called twice: %+v", got)
	}
	if got = plugin.Run(t, c, "evacuate", "worker-1", "--rate", "0"); got.Code != session.ExitError ||
		!strings.Contains(got.Err, "--rate") {
		t.Errorf("got %+v", got)
	}
}

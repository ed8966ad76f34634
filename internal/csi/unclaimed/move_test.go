package unclaimed

import (
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// ofMove is a LogicalVolume of the VolumeMove with the UID "m".
func ofMove(name string) *topolvmv1.LogicalVolume {
	lv := volume(name, "shop/data")
	lv.Annotations[wellknown.MoveAnnotation] = "m"
	return lv
}

func volumeMove(uid string) *v1alpha1.VolumeMove {
	return &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "operator", UID: types.UID(uid)}}
}

// TestWhatAVolumeMoveLeavesIsDeleted: snapshots and targets are deleted when their VolumeMove does not exist, even if
// the node refused them. The owner of an old logical volume is only marked.
func TestWhatAVolumeMoveLeavesIsDeleted(t *testing.T) {
	target := ofMove("move-m")
	target.Status.VolumeID = ""
	target.Annotations[wellknown.MoveVolumeAnnotation] = "handle"
	old := ofMove("moved-m")
	old.Annotations[wellknown.RetireAnnotation] = "handle/m"
	pending := ofMove("moved-m")
	pending.Annotations[wellknown.RetireAnnotation] = "handle/m"
	pending.Status.VolumeID = ""
	for name, tt := range map[string]struct {
		lv            *topolvmv1.LogicalVolume
		move          *v1alpha1.VolumeMove
		fail          string
		stays, marked bool
	}{
		"a snapshot":                         {lv: ofMove("move-m-1")},
		"a target":                           {lv: target},
		"the move exists":                    {lv: ofMove("move-m-1"), move: volumeMove("m"), stays: true},
		"another move exists":                {lv: ofMove("move-m-1"), move: volumeMove("x")},
		"moves cannot be read":               {lv: ofMove("move-m-1"), fail: "VolumeMoveList", stays: true},
		"another volume with the annotation": {lv: ofMove("pvc-9"), stays: true, marked: true},
		"a volume of another move":           {lv: ofMove("move-x-1"), stays: true, marked: true},
		"an old volume":                      {lv: old, stays: true, marked: true},
		"an old volume of a move":            {lv: old, move: volumeMove("m"), stays: true},
		"an old volume that was not renamed": {lv: pending, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{tt.lv.DeepCopy(), claim("data", "1")}
			if tt.move != nil {
				objects = append(objects, tt.move)
			}
			s := newSetup(t, true, objects...)
			s.fail = tt.fail
			s.look(0)
			key := client.ObjectKeyFromObject(tt.lv)
			if err := s.Live.Get(t.Context(), key, &topolvmv1.LogicalVolume{}); err != nil {
				t.Errorf("before the settle time: %v", err)
			}
			s.look(settleTime)
			s.look(2 * settleTime)
			s.fail = ""
			got := &topolvmv1.LogicalVolume{}
			err := s.Live.Get(t.Context(), client.ObjectKeyFromObject(tt.lv), got)
			if apierrors.IsNotFound(err) == tt.stays || client.IgnoreNotFound(err) != nil {
				t.Errorf("after the settle time: %v, want it to stay: %v", err, tt.stays)
			}
			if marked := got.Annotations[wellknown.UnclaimedAnnotation] != ""; marked != tt.marked {
				t.Errorf("marked: %v", marked)
			}
		})
	}
}

// TestTheFenceOfALostVolumeMoveIsRemoved: the volume can be used again. Package clone removes that of a clone.
func TestTheFenceOfALostVolumeMoveIsRemoved(t *testing.T) {
	for name, tt := range map[string]struct {
		fence string
		move  *v1alpha1.VolumeMove
		stays bool
	}{"no move": {"m", nil, false}, "its move": {"m", volumeMove("m"), true},
		"another move": {"m", volumeMove("x"), false}, "a clone": {"clone-uid", nil, true}} {
		t.Run(name, func(t *testing.T) {
			lv := volume("pvc-1", "shop/data")
			lv.Annotations[wellknown.FenceAnnotation] = tt.fence
			lv.Annotations[wellknown.FenceTimeAnnotation] = "x"
			objects := []client.Object{lv, claim("data", "1"), persistent("pvc-1", wellknown.DriverName, "handle-pvc-1")}
			if tt.move != nil {
				objects = append(objects, tt.move)
			}
			s := newSetup(t, true, objects...)
			s.look(0)
			s.look(settleTime)
			s.look(2 * settleTime)
			got := &topolvmv1.LogicalVolume{}
			err := s.Live.Get(t.Context(), client.ObjectKeyFromObject(lv), got)
			_, fenced := got.Annotations[wellknown.FenceAnnotation]
			_, timed := got.Annotations[wellknown.FenceTimeAnnotation]
			if err != nil || fenced != tt.stays || timed != tt.stays {
				t.Errorf("got the annotations %v: %v", got.Annotations, err)
			}
		})
	}
}

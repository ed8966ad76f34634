package unclaimed

import (
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// preparation is the snapshot that was created to copy a volume to "pvc-1".
func preparation() *topolvmv1.LogicalVolume {
	lv := volume("copy-pvc-1", "shop/data")
	lv.Annotations[wellknown.CopyForAnnotation] = "pvc-1"
	lv.Spec.AccessType = "ro"
	return lv
}

// TestOnlyTheSnapshotForACopyIsDeleted: the annotation does not have another volume deleted.
func TestOnlyTheSnapshotForACopyIsDeleted(t *testing.T) {
	for name, edit := range map[string]func(*topolvmv1.LogicalVolume){
		"another name":           func(lv *topolvmv1.LogicalVolume) { lv.Name = "pvc-2" },
		"the name of a snapshot": func(lv *topolvmv1.LogicalVolume) { lv.Name = "snapshot-1" },
		"the name of another copy": func(lv *topolvmv1.LogicalVolume) {
			lv.Annotations[wellknown.CopyForAnnotation] = "pvc-2"
		},
		"a writable volume": func(lv *topolvmv1.LogicalVolume) { lv.Spec.AccessType = "rw" },
		"a volume with a PersistentVolume": func(lv *topolvmv1.LogicalVolume) {
			lv.Status.VolumeID = "handle-of-a-persistentvolume"
		},
	} {
		t.Run(name, func(t *testing.T) {
			lv := preparation()
			edit(lv)
			s := newSetup(t, true, lv, claim("data", "1"),
				persistent("by-hand", wellknown.DriverName, "handle-of-a-persistentvolume"))
			for _, at := range []time.Duration{0, settleTime, 2 * settleTime, 3 * settleTime} {
				s.look(at)
			}
			if err := s.Live.Get(t.Context(), client.ObjectKeyFromObject(lv), &topolvmv1.LogicalVolume{}); err != nil {
				t.Errorf("it was deleted: %v", err)
			}
		})
	}
}

// TestTheSnapshotForACopyGoesWithIt: it is deleted when the copy is complete or does not exist, and never marked.
func TestTheSnapshotForACopyGoesWithIt(t *testing.T) {
	copying := volume("pvc-1", "shop/data")
	copying.Status.VolumeID = ""
	for name, tt := range map[string]struct {
		target *topolvmv1.LogicalVolume
		fail   string
		stays  bool
	}{
		"it is copied":         {target: copying, stays: true},
		"the copy is complete": {target: volume("pvc-1", "shop/data")},
		"no copy":              {},
		"the read fails":       {target: nil, fail: "LogicalVolume", stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{preparation(), claim("data", "1")}
			if tt.target != nil {
				objects = append(objects, tt.target, persistent("pvc-1", wellknown.DriverName, "handle-pvc-1"))
			}
			s := newSetup(t, true, objects...)
			s.fail = tt.fail
			if marked, again := s.look(0); marked != "" || again == tt.stays {
				t.Errorf("marked %q, again %v", marked, again)
			}
			s.look(settleTime)
			s.look(2 * settleTime)
			s.fail = ""
			err := s.Live.Get(t.Context(), client.ObjectKey{Name: "copy-pvc-1"}, &topolvmv1.LogicalVolume{})
			if apierrors.IsNotFound(err) == tt.stays || client.IgnoreNotFound(err) != nil {
				t.Errorf("after the settle time: %v, want it to stay: %v", err, tt.stays)
			}
		})
	}
}

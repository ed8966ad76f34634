//go:build env

package lvmcluster

import (
	"errors"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
)

func snapshotClass(name, driver string, policy snapshotv1.DeletionPolicy) *snapshotv1.VolumeSnapshotClass {
	return &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Driver: driver,
		DeletionPolicy: policy}
}

// The operator does not change a VolumeSnapshotClass with another deletionPolicy or driver. The condition names it.
func TestVolumeSnapshotClassSetByAnAdministratorIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		driver string
		want   string
	}{
		"ours": {wellknown.DriverName,
			"VolumeSnapshotClass lvms-vg1 already exists, and its deletionPolicy is Retain instead of Delete"},
		"theirs": {"ebs.csi.aws.com",
			"VolumeSnapshotClass lvms-vg1 already exists with driver ebs.csi.aws.com"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fixture.Thin("vg1"))
			class := snapshotClass("lvms-vg1", test.driver, snapshotv1.VolumeSnapshotContentRetain)
			w.make(class)
			for range 2 {
				if _, err := w.reconcile(); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want %s", err, test.want)
				}
			}
			now := &snapshotv1.VolumeSnapshotClass{}
			w.must(w.get(now, "lvms-vg1"))
			if now.DeletionPolicy != snapshotv1.VolumeSnapshotContentRetain ||
				now.ResourceVersion != class.ResourceVersion {
				t.Errorf("the class was changed: %+v", now)
			}
			if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); !strings.Contains(got, test.want) {
				t.Errorf("condition %s", got)
			}
			if !w.exists(&appsv1.DaemonSet{}, operand.AgentName) {
				t.Error("the other operands were not created")
			}
			w.must(w.api.Delete(w.Context(), class))
			_, err := w.reconcile()
			w.must(err)
			w.must(w.get(now, "lvms-vg1"))
			if now.DeletionPolicy != snapshotv1.VolumeSnapshotContentDelete {
				t.Errorf("the class was not recreated as the spec says: %+v", now)
			}
		})
	}
}

// A VolumeSnapshotClass of the operator that a user sets to Retain stays so, also after the operator restarts and has
// lost its record of applied objects.
func TestVolumeSnapshotClassThatBecomesRetainStaysSo(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	_, err := w.reconcile()
	w.must(err)
	class := &snapshotv1.VolumeSnapshotClass{}
	w.must(w.get(class, "lvms-vg1"))
	class.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
	w.must(w.api.Update(w.Context(), class))
	w.controller = New(w.spy, w.spy, w.notes, w.controller.options)
	if _, err := w.reconcile(); err == nil {
		t.Error("no error names the class")
	}
	w.must(w.get(class, "lvms-vg1"))
	if class.DeletionPolicy != snapshotv1.VolumeSnapshotContentRetain {
		t.Error("the deletionPolicy was flipped")
	}
}

// If the VolumeSnapshotClasses cannot be read, the operator writes none of them.
func TestVolumeSnapshotClassesThatCannotBeReadAreNotWritten(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	class := snapshotClass("lvms-vg1", wellknown.DriverName, snapshotv1.VolumeSnapshotContentRetain)
	w.make(class)
	away := errors.New("the API server is away")
	w.spy.Fail = func(verb string, object any) error {
		switch object.(type) {
		case *snapshotv1.VolumeSnapshotClassList, *metav1.PartialObjectMetadataList:
			return away
		}
		return nil
	}
	if _, err := w.reconcile(); err == nil ||
		!strings.Contains(err.Error(), "list VolumeSnapshotClasses: "+away.Error()) {
		t.Errorf("error %v", err)
	}
	now := &snapshotv1.VolumeSnapshotClass{}
	w.must(w.get(now, "lvms-vg1"))
	if now.ResourceVersion != class.ResourceVersion {
		t.Errorf("it was changed: %+v", now)
	}
}

// With the option the class is created with Retain. An existing one with Retain is accepted.
func TestVolumeSnapshotClassOptionIsApplied(t *testing.T) {
	class := fixture.Thin("vg1")
	class.VolumeSnapshotClassOptions = &lvmv1alpha1.VolumeSnapshotClassOptions{
		DeletionPolicy: lvmv1alpha1.SnapshotDeletionRetain,
	}
	w := newWorld(t, class)
	for range 2 {
		_, err := w.reconcile()
		w.must(err)
	}
	now := &snapshotv1.VolumeSnapshotClass{}
	w.must(w.get(now, "lvms-vg1"))
	if now.DeletionPolicy != snapshotv1.VolumeSnapshotContentRetain {
		t.Errorf("got %+v", now)
	}
}

//go:build env

package lvmcluster

import (
	"errors"
	"strings"
	"testing"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
)

func groupSnapshotClass(driver string) *groupsnapshotv1.VolumeGroupSnapshotClass {
	return &groupsnapshotv1.VolumeGroupSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "lvms-vg1"}, Driver: driver,
		DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain}
}

// The operator does not change a VolumeGroupSnapshotClass with another deletionPolicy or driver. The condition names
// it.
func TestVolumeGroupSnapshotClassSetByAnAdministratorIsKept(t *testing.T) {
	for name, test := range map[string]struct{ driver, want string }{
		"ours": {wellknown.DriverName,
			"VolumeGroupSnapshotClass lvms-vg1 already exists, and its deletionPolicy is Retain instead of Delete"},
		"theirs": {"ebs.csi.aws.com",
			"VolumeGroupSnapshotClass lvms-vg1 already exists with driver ebs.csi.aws.com"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fixture.Thin("vg1"))
			class := groupSnapshotClass(test.driver)
			w.make(class)
			for range 2 {
				if _, err := w.reconcile(); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want %s", err, test.want)
				}
			}
			now := &groupsnapshotv1.VolumeGroupSnapshotClass{}
			w.must(w.get(now, "lvms-vg1"))
			if now.ResourceVersion != class.ResourceVersion {
				t.Errorf("the class was changed: %+v", now)
			}
			if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); !strings.Contains(got, test.want) {
				t.Errorf("condition %s", got)
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

// If the VolumeGroupSnapshotClasses cannot be read, the operator writes none of them.
func TestVolumeGroupSnapshotClassesThatCannotBeReadAreNotWritten(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	class := groupSnapshotClass(wellknown.DriverName)
	w.make(class)
	away := errors.New("the API server is away")
	w.spy.Fail = func(verb string, object any) error {
		switch object.(type) {
		case *groupsnapshotv1.VolumeGroupSnapshotClassList, *metav1.PartialObjectMetadataList:
			return away
		}
		return nil
	}
	if _, err := w.reconcile(); err == nil ||
		!strings.Contains(err.Error(), "list VolumeGroupSnapshotClasses: "+away.Error()) {
		t.Errorf("error %v", err)
	}
	now := &groupsnapshotv1.VolumeGroupSnapshotClass{}
	w.must(w.get(now, "lvms-vg1"))
	if now.ResourceVersion != class.ResourceVersion {
		t.Errorf("it was changed: %+v", now)
	}
}

// A thick device class has none, and the option for VolumeSnapshotClasses applies.
func TestVolumeGroupSnapshotClassOfEachThinDeviceClass(t *testing.T) {
	class := fixture.Thin("vg1")
	class.VolumeSnapshotClassOptions = &lvmv1alpha1.VolumeSnapshotClassOptions{
		DeletionPolicy: lvmv1alpha1.SnapshotDeletionRetain,
	}
	w := newWorld(t, class, fixture.Thick("vg2"))
	for range 2 {
		_, err := w.reconcile()
		w.must(err)
	}
	now := &groupsnapshotv1.VolumeGroupSnapshotClass{}
	w.must(w.get(now, "lvms-vg1"))
	if now.DeletionPolicy != snapshotv1.VolumeSnapshotContentRetain || now.Driver != wellknown.DriverName {
		t.Errorf("got %+v", now)
	}
	if w.exists(now, "lvms-vg2") {
		t.Error("a thick device class has a VolumeGroupSnapshotClass")
	}
}

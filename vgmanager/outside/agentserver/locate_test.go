package agentserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// objects is a cache with LogicalVolumes.
type objects struct {
	client.Reader
	list []topolvmv1.LogicalVolume
	err  error
}

func (o objects) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*topolvmv1.LogicalVolumeList).Items = o.list
	return o.err
}

// pools are the classes thin, with a thin pool, thick, existing, which an administrator created, and away, whose volume
// group is not available.
type pools struct{ err error }

func (pools) Class(name string) (deviceclass.Class, bool) {
	class := deviceclass.Class{Name: name, VolumeGroup: "vg-" + name, ExistingVolumeGroup: name == "existing"}
	if name != "thick" {
		class.ThinPoolConfig = &deviceclass.ThinPool{Name: "pool"}
	}
	return class, slices.Contains([]string{"thin", "thick", "away", "existing"}, name)
}

func (p pools) States(context.Context) ([]engine.ClassState, error) {
	return []engine.ClassState{{Name: "away", Err: errors.New("away")}, {Name: "existing"}, {Name: "gone"}, {Name: "thick"},
		{Name: "thin"}}, p.err
}

func snapshot(name, volume string, edit func(*topolvmv1.LogicalVolume)) topolvmv1.LogicalVolume {
	lv := topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:   topolvmv1.LogicalVolumeSpec{NodeName: "a", DeviceClass: "thin", Source: "pvc-1", AccessType: "ro"},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: volume}}
	if edit != nil {
		edit(&lv)
	}
	return lv
}

func TestWhichLogicalVolumeASnapshotIs(t *testing.T) {
	away := errors.New("the cache does not answer")
	here := []topolvmv1.LogicalVolume{snapshot("s1", "v1", nil), snapshot("s2", "v2", nil),
		snapshot("other-node", "v3", func(lv *topolvmv1.LogicalVolume) { lv.Spec.NodeName = "b" }),
		snapshot("volume", "v4", func(lv *topolvmv1.LogicalVolume) { lv.Spec.AccessType = "rw" }),
		snapshot("deleted", "v5", func(lv *topolvmv1.LogicalVolume) {
			lv.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}),
		snapshot("no-class", "v6", func(lv *topolvmv1.LogicalVolume) { lv.Spec.DeviceClass = "" }),
		snapshot("twice-1", "v7", nil), snapshot("twice-2", "v7", nil), snapshot("new", "", nil)}
	for id, tt := range map[string]struct {
		want error // nil: any error with text
		text string
	}{
		"v2": {nil, ""},
		"v3": {lvm.ErrNotFound, "no LogicalVolume of node a"},
		"v4": {changedblocks.ErrUnsupported, "volume is not a snapshot"},
		"v5": {lvm.ErrNotFound, "being deleted"},
		"v6": {changedblocks.ErrUnavailable, `no-class: device class ""`},
		"v7": {nil, "twice-1 and twice-2"},
		"v8": {lvm.ErrNotFound, "no LogicalVolume"},
		"":   {lvm.ErrNotFound, "no LogicalVolume"},
	} {
		got, err := Locate(objects{list: here}, "a", pools{})(t.Context(), id)
		if tt.text == "" {
			want := changedblocks.Volume{VG: "vg-thin", Name: id, Source: "pvc-1"}
			if err != nil || got != want {
				t.Errorf("%q: got %+v, %v", id, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.text) || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%q: got %v", id, err)
		}
	}
	if _, err := Locate(objects{list: here, err: away}, "a", pools{})(t.Context(), "v1"); !errors.Is(err, away) ||
		errors.Is(err, lvm.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestWhatAnEarlierAgentReservedIsReleased(t *testing.T) {
	var released []string
	failed := errors.New("busy")
	release := func(_ context.Context, vg, pool string) error {
		released = append(released, vg+"/"+pool)
		return failed
	}
	if err := ReleaseAll(t.Context(), pools{}, release); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if !slices.Equal(released, []string{"vg-thin/pool"}) {
		t.Errorf("released %q", released)
	}
	away := errors.New("LVM does not answer")
	if err := ReleaseAll(t.Context(), pools{err: away}, release); !errors.Is(err, away) || len(released) != 1 {
		t.Errorf("got %v, released %q", err, released)
	}
}

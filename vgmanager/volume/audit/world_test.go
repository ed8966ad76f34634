package audit

import (
	"fmt"
	"slices"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/logicalvolume"
)

const mib = int64(1) << 20

// world is a node with the classes "thick" and "thin", and its API server.
type world struct {
	*testing.T
	lvm  lvmtest.LVM
	fake *lvmtest.Fake
	api  client.Client
	uids int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	f := lvmtest.New()
	f.AddDisk("/dev/a", lvm.Bytes(1<<30), 16)
	f.AddDisk("/dev/b", lvm.Bytes(1<<30), 32)
	w := newWorldOn(t, f)
	w.fake = f
	w.must(f.Apply(t.Context(), lvm.VGCreate{Name: "thick", Devices: []string{"/dev/a"}}))
	w.must(f.Apply(t.Context(), lvm.VGCreate{Name: "thin", Devices: []string{"/dev/b"}}))
	w.must(f.Apply(t.Context(), lvm.LVCreateThinPool{VG: "thin", Name: "pool", PercentFree: 50}))
	return w
}

// newWorldOn returns a world without volume groups.
func newWorldOn(t *testing.T, l lvmtest.LVM) *world {
	return &world{T: t, lvm: l, api: memory.Builder().Build()}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// engine returns the engine of the node.
func (w *world) engine() *engine.Engine {
	w.Helper()
	e, err := engine.New(w.lvm, nil, "")
	w.must(err)
	w.must(e.Publish(deviceclass.Class{Name: "thick", VolumeGroup: "thick", Type: types.TypeThick}))
	w.must(e.Publish(deviceclass.Class{Name: "thin", VolumeGroup: "thin", Type: types.TypeThin,
		ThinPoolConfig: &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: 10}}))
	return e
}

// ask creates an object like the CSI controller.
func (w *world) ask(name string, spec topolvmv1.LogicalVolumeSpec) {
	w.Helper()
	w.uids++
	spec.Name = name
	if spec.NodeName == "" {
		spec.NodeName = "node1"
	}
	w.must(w.api.Create(w.Context(), &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: k8stypes.UID(fmt.Sprintf("uid-%s-%d", name, w.uids)),
			Annotations: map[string]string{wellknown.ClaimAnnotation: "ns/" + name},
		},
		Spec: spec,
	}))
}

func (w *world) get(name string) *topolvmv1.LogicalVolume {
	w.Helper()
	lv := &topolvmv1.LogicalVolume{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: name}, lv))
	return lv
}

// run creates the logical volume of an object.
func (w *world) run(name string) error {
	r := logicalvolume.New(logicalvolume.Options{Client: w.api, Live: w.api, Node: "node1", Cluster: "c1",
		Volumes: w.engine(), Recorder: events.NewFakeRecorder(100)})
	var err error
	for range 6 {
		_, err = r.Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
	return err
}

// see checks which logical volumes the node has, as "VG/NAME SIZE-IN-MIB".
func (w *world) see(what string, want ...string) {
	w.Helper()
	report, err := w.lvm.Report(w.Context())
	w.must(err)
	var got []string
	for _, vg := range report.VGs {
		for _, lv := range vg.LVs {
			if !lv.Attr.IsThinPool() {
				got = append(got, fmt.Sprintf("%s/%s %d", vg.Name, lv.Name, int64(lv.Size)/mib))
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.Errorf("%s: the node has %q, want %q", what, got, want)
	}
}

func thin(mibs int64) topolvmv1.LogicalVolumeSpec {
	return topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Size: *resource.NewQuantity(mibs*mib, resource.BinarySI)}
}

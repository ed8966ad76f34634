package volumeimport

import (
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func TestWhyAVolumeIsNotServed(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*migrationFacts)
		want string // empty: it is served
	}{
		"served":      {edit: func(*migrationFacts) {}},
		"no affinity": {func(f *migrationFacts) { f.pv.Spec.NodeAffinity = nil }, "pv has no node affinity with the key"},
		"no earlier object": {func(f *migrationFacts) { f.old = nil },
			"LogicalVolume pv of the API group topolvm.cybozu.com does not exist"},
		"another volume": {func(f *migrationFacts) { f.old.Status.VolumeID = "x" }, `is for another volume ("x")`},
		"another node":   {func(f *migrationFacts) { f.old.Spec.NodeName = "worker-2" }, "is on node worker-2"},
		"earlier object being deleted": {func(f *migrationFacts) { f.old.DeletionTimestamp = ptr.To(metav1.Now()) },
			"is being deleted: migrate the volume"},
		"no driver": {func(f *migrationFacts) { f.drivers = nil },
			"the kubelet of node worker-1 does not have the driver topolvm.io: add a device class"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := migratable("pv", "worker-1")
			test.edit(&facts)
			got := servingProblem(facts)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestALogicalVolumeIsForAPersistentVolume(t *testing.T) {
	pv := migratable("pv", "worker-1").pv
	for name, test := range map[string]struct {
		volume, imported string
		want             bool
	}{
		"found":             {volume: "id-pv", imported: "id-pv", want: true},
		"not found yet":     {imported: "id-pv", want: true},
		"another volume":    {volume: "x", imported: "id-pv"},
		"another import":    {imported: "x"},
		"created by others": {},
	} {
		lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{v1alpha1.ImportAnnotation: test.imported}},
			Status: topolvmv1.LogicalVolumeStatus{VolumeID: test.volume}}
		if got := isFor(lv, pv); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
		if isFor(lv, nil) {
			t.Errorf("%s: it is for a PersistentVolume that does not exist", name)
		}
	}
}

func TestTheTimeBetweenPassesDoublesWhileAgentsDoNotAct(t *testing.T) {
	interval := earlierInterval
	for _, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
		interval = nextInterval(interval, true)
		if got := interval.Round(time.Second); got != want*time.Second {
			t.Errorf("got %s, want %ds", got, want)
		}
	}
	if got := nextInterval(interval, false); got != earlierInterval {
		t.Errorf("got %s without anything to wait for", got)
	}
}

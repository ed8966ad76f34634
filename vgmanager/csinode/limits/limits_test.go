package limits

import (
	"fmt"
	"slices"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

const (
	podA = "0c4b6b6e-2f0a-4a55-9d5c-7f6a3c1d2e3f"
	podB = "1c4b6b6e-2f0a-4a55-9d5c-7f6a3c1d2e3f"
)

func TestPodsInPaths(t *testing.T) {
	const root = "/var/lib/kubelet"
	for path, want := range map[string]string{
		root + "/pods/" + podA + "/volumes/kubernetes.io~csi/pvc-" + podB + "/mount":             podA,
		root + "/pods/" + podA + "/volume-subpaths/pvc-" + podB + "/c/0":                         podA,
		root + "/plugins/kubernetes.io/csi/volumeDevices/publish/pvc-" + podB + "/" + podA:       podA,
		root + "/plugins/kubernetes.io/csi/volumeDevices/pvc-" + podB + "/dev/" + podA:           podA,
		root + "/plugins/kubernetes.io/csi/volumeDevices/staging/pvc-" + podB:                    "",
		root + "/plugins/kubernetes.io/csi/topolvm.io/0c4b6b6e2f0a4a559d5c7f6a3c1d2/globalmount": "",
		"/mnt/target": "",
	} {
		if got := podAt(path); got != want {
			t.Errorf("%s is of Pod %q, want %q", path, got, want)
		}
	}
}

func TestWhichLogicalVolumesAreReconciledForLimits(t *testing.T) {
	lv := &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-1",
			Annotations: map[string]string{wellknown.IOLimitsAnnotation: "readIOPS=5"}},
		Spec:   topolvmv1.LogicalVolumeSpec{NodeName: "node1", DeviceClass: "vg1"},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: "8a6e"},
	}
	r := NewReconciler(&Limiter{Node: "node1"}, nil)
	var got []string
	for name, change := range map[string]func(*topolvmv1.LogicalVolume){
		"with limits":     func(*topolvmv1.LogicalVolume) {},
		"on another node": func(lv *topolvmv1.LogicalVolume) { lv.Spec.NodeName = "node2" },
		"not created yet": func(lv *topolvmv1.LogicalVolume) { lv.Status.VolumeID = "" },
		"without limits":  func(lv *topolvmv1.LogicalVolume) { lv.Annotations = nil },
		"had limits": func(lv *topolvmv1.LogicalVolume) {
			lv.Annotations = map[string]string{wellknown.IOLimitsInForceAnnotation: "readIOPS=5"}
		},
	} {
		object := lv.DeepCopy()
		if change(object); r.ours(object) {
			got = append(got, name)
		}
	}
	if slices.Sort(got); fmt.Sprint(got) != "[had limits with limits]" {
		t.Errorf("got %q", got)
	}
	if r.ours(nil) {
		t.Error("nothing is reconciled")
	}
}

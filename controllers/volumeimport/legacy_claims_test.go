package volumeimport

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

func storageClass(name, deviceClass, fileSystem string) storagev1.StorageClass {
	return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: wellknown.DriverName,
		Parameters: map[string]string{wellknown.DeviceClassParameter: deviceClass, fsTypeParameter: fileSystem}}
}

func TestWhichStorageClassAClaimNeeds(t *testing.T) {
	for name, test := range map[string]struct {
		deviceClass, byDefault string
		classes                []storagev1.StorageClass
		want                   string
	}{
		"the same device class": {deviceClass: "ssd",
			classes: []storagev1.StorageClass{storageClass("a", "hdd", "xfs"), storageClass("lvms-ssd", "ssd", "xfs")},
			want:    "create it again with StorageClass lvms-ssd, which has the same device class (ssd)"},
		"the same file system": {deviceClass: "ssd",
			classes: []storagev1.StorageClass{storageClass("a", "ssd", "ext4"), storageClass("b", "ssd", "xfs")},
			want:    "create it again with StorageClass b,"},
		"another file system": {deviceClass: "ssd",
			classes: []storagev1.StorageClass{storageClass("b", "ssd", ""), storageClass("a", "ssd", "ext4")},
			want:    "create it again with StorageClass a,"},
		"the default by name": {deviceClass: "ssd", byDefault: "ssd",
			classes: []storagev1.StorageClass{storageClass("a", "", "xfs")},
			want:    "create it again with StorageClass a, which has the same device class (ssd)"},
		"the name of the default": {byDefault: "ssd",
			classes: []storagev1.StorageClass{storageClass("a", "hdd", "xfs"), storageClass("b", "ssd", "xfs")},
			want:    "create it again with StorageClass b, which has the same device class (ssd)"},
		"no default is known": {classes: []storagev1.StorageClass{storageClass("a", "", "xfs")},
			want: "create it again with StorageClass a, which has the same device class (the default)"},
		"none": {deviceClass: "ssd", classes: []storagev1.StorageClass{storageClass("a", "hdd", "xfs")},
			want: "delete StorageClass old, which deletes no volumes, and create one of this name with the " +
				"provisioner topolvm.io and the parameter topolvm.io/device-class: ssd. The claim then gets a volume"},
		"none, and no default": {want: "the parameter topolvm.io/device-class, whose value is a device class of the"},
	} {
		t.Run(name, func(t *testing.T) {
			old := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "old"},
				Provisioner: wellknown.EarlierDriverName, Parameters: map[string]string{
					wellknown.EarlierDeviceClassParameter: test.deviceClass, fsTypeParameter: "xfs"}}
			got := refusal(&old, append(test.classes, old), test.byDefault)
			if !strings.HasPrefix(got, "StorageClass old has the provisioner topolvm.cybozu.com") ||
				!strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestWhichPodRunsTheControllerOfTopoLVM(t *testing.T) {
	for name, test := range map[string]struct {
		container corev1.Container
		want      bool
	}{
		"chart": {corev1.Container{Command: []string{"/topolvm-controller", "--cert-dir=/certs"}}, true},
		"one program": {corev1.Container{Command: []string{"/hypertopolvm"},
			Args: []string{"topolvm-controller"}}, true},
		"node service":  {corev1.Container{Command: []string{"/topolvm-node"}}, false},
		"only the name": {corev1.Container{Name: "topolvm-controller", Command: []string{"/bin/sleep"}}, false},
		"this operator": {corev1.Container{Command: []string{"/lvms", "operator"}}, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "csi-provisioner"},
			test.container}}}
		if got := hasTopoLVMController(pod); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

package lvmcluster

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/platform"
)

var update = flag.Bool("update", false, "write the golden files again")

func TestOperandsAreAsInTheGoldenFiles(t *testing.T) {
	cluster := newTestCluster(thin("vg1"), thick("vg2"))
	selective := newTestCluster(on(thick("vg1"), "disks"), on(thick("vg2"), "more-disks"))
	selective.Spec.Tolerations = []corev1.Toleration{{Key: "storage", Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoSchedule}}
	group, err := newLVMVolumeGroup(cluster, cluster.Spec.Storage.DeviceClasses[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, operand := range map[string]any{
		"csidriver":            newCSIDriver(cluster),
		"storageclass-default": newStorageClass(cluster, thin("vg1"), true),
		"storageclass":         newStorageClass(cluster, thick("vg2"), false),
		"storageclass-options": newStorageClass(cluster, retained("vg3"), false),
		"volumesnapshotclass":  newVolumeSnapshotClass(cluster, thin("vg1")),
		"lvmvolumegroup":       group,
		"nodestatus":           ownedOperand(cluster, "LVMVolumeGroupNodeStatus", "node-1", "node-status"),
		"scc":                  newSCC(cluster),
		"daemonset-openshift": newDaemonSet(cluster, Observation{}.placement(cluster), "account-uid",
			testOptions(platform.OpenShift)),
		"daemonset-some-nodes": newDaemonSet(selective, Observation{}.placement(selective), "account-uid",
			testOptions(platform.Kubernetes)),
		"lvmvolumegroup-selected": must(newLVMVolumeGroup(selective, selective.Spec.Storage.DeviceClasses[0])),
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, operand) })
	}
}

// retained is a device class that sets every option of its StorageClass.
func retained(name string) lvmv1alpha1.DeviceClass {
	class := thick(name)
	class.StorageClassOptions = &lvmv1alpha1.StorageClassOptions{
		ReclaimPolicy: corev1.PersistentVolumeReclaimRetain, VolumeBindingMode: storagev1.VolumeBindingImmediate,
		AdditionalParameters: map[string]string{lvmv1alpha1.MkfsOptionsParameter: "-K"},
		AdditionalLabels:     map[string]string{"tier": "slow"},
	}
	return class
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// golden compares an object with its file in testdata.
func golden(t *testing.T, name string, object any) {
	t.Helper()
	got, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	goldenText(t, name+".yaml", string(got))
}

// goldenText compares a text with a file in testdata, or updates the file.
func goldenText(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); if it is meant, run the test with -update:\n%s", file, diff)
	}
}

func TestOnlyClassIsDefaultInItsVolumeGroup(t *testing.T) {
	for name, test := range map[string]struct {
		classes []lvmv1alpha1.DeviceClass
		want    any
	}{
		"alone":       {[]lvmv1alpha1.DeviceClass{thick("vg1")}, true},
		"of several":  {[]lvmv1alpha1.DeviceClass{thick("vg1"), thin("vg2")}, nil},
		"the default": {[]lvmv1alpha1.DeviceClass{thin("vg1"), thick("vg2")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newTestCluster(test.classes...)
			group := must(newLVMVolumeGroup(cluster, test.classes[0]))
			if got := group.Object["spec"].(map[string]any)["default"]; got != test.want {
				t.Errorf("default = %v, want %v", got, test.want)
			}
		})
	}
}

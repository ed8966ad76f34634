package lvmcluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/platform"
)

const testNamespace = "openshift-lvm-storage"

// newTestCluster returns an LVMCluster with device classes.
func newTestCluster(classes ...lvmv1alpha1.DeviceClass) *lvmv1alpha1.LVMCluster {
	return &lvmv1alpha1.LVMCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "my-lvmcluster", Namespace: testNamespace,
			UID: "6d2c9bd5-0000-4000-8000-1234567890ab", Generation: 1},
		Spec: lvmv1alpha1.LVMClusterSpec{Storage: lvmv1alpha1.Storage{DeviceClasses: classes}},
	}
}

func thick(name string) lvmv1alpha1.DeviceClass {
	return lvmv1alpha1.DeviceClass{
		Name:                  name,
		FilesystemType:        lvmv1alpha1.FilesystemTypeXFS,
		DeviceDiscoveryPolicy: lvmv1alpha1.DeviceDiscoveryStatic,
		DeviceSelector: &lvmv1alpha1.DeviceSelector{
			Paths: []lvmv1alpha1.DevicePath{lvmv1alpha1.DevicePath("/dev/disk/by-id/" + name)}},
	}
}

func thin(name string) lvmv1alpha1.DeviceClass {
	class := thick(name)
	class.Default = true
	class.FilesystemType = lvmv1alpha1.FilesystemTypeExt4
	class.ThinPoolConfig = &lvmv1alpha1.ThinPoolConfig{
		Name: "pool", SizePercent: 90, OverprovisionRatio: 10, HighWaterMarkPercent: 95,
		ChunkSizeCalculationPolicy:    lvmv1alpha1.SizeCalculationStatic,
		MetadataSizeCalculationPolicy: lvmv1alpha1.SizeCalculationHost,
	}
	return class
}

func on(class lvmv1alpha1.DeviceClass, label string) lvmv1alpha1.DeviceClass {
	class.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpExists}},
	}}}
	return class
}

func testOptions(kind platform.Kind) Options {
	return Options{
		Namespace: testNamespace,
		Image:     "quay.example/lvms:v5.1.0",
		Platform:  platform.Platform{Kind: kind, SCC: kind == platform.OpenShift, Snapshots: true},
	}
}

func readyNode(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady,
			Status: corev1.ConditionTrue}}},
	}
}

package operand

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/cluster/platform"
)

func testOptions(kind platform.Kind) Options {
	return Options{
		Identity: "cluster-id",
		Image:    "quay.example/lvms:v5.1.0",
		Platform: platform.Platform{Kind: kind, SCC: kind == platform.OpenShift, Snapshots: true},
	}
}

func TestOperandsAreAsInTheGoldenFiles(t *testing.T) {
	cluster := fixture.Cluster(fixture.Thin("vg1"), fixture.Thick("vg2"))
	selective := fixture.Cluster(fixture.On(fixture.Thick("vg1"), "disks"),
		fixture.On(fixture.Thick("vg2"), "more-disks"))
	selective.Spec.Tolerations = []corev1.Toleration{{Key: "storage", Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoSchedule}}
	group, err := newLVMVolumeGroup(cluster, cluster.Spec.Storage.DeviceClasses[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, operand := range map[string]any{
		"csidriver":            newCSIDriver(cluster),
		"storageclass-default": newStorageClass(cluster, fixture.Thin("vg1"), true),
		"storageclass":         newStorageClass(cluster, fixture.Thick("vg2"), false),
		"storageclass-options": newStorageClass(cluster, fixture.Retained("vg3"), false),
		"volumesnapshotclass":  volumeSnapshotClasses.of(cluster, fixture.Thin("vg1")),
		"lvmvolumegroup":       group,
		"nodestatus":           ownedOperand(cluster, "LVMVolumeGroupNodeStatus", "node-1", "node-status"),
		"scc":                  newSCC(cluster),
		"daemonset-openshift": newDaemonSet(cluster, observe.State{}.Placement(cluster), "account-uid",
			testOptions(platform.OpenShift)),
		"daemonset-some-nodes": newDaemonSet(selective, observe.State{}.Placement(selective), "account-uid",
			testOptions(platform.Kubernetes)),
		"lvmvolumegroup-selected": fixture.Must(newLVMVolumeGroup(selective, selective.Spec.Storage.DeviceClasses[0])),
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Golden(t, name+".yaml", string(fixture.Must(yaml.Marshal(operand))))
		})
	}
}

func TestNamespaceLimitsAreInTheVolumeGroup(t *testing.T) {
	class := fixture.Thick("vg1")
	limits := []lvmv1alpha1.NamespaceLimit{{Namespace: "shop", PerNode: resource.MustParse("1Gi")},
		{PerNode: resource.MustParse("0")}}
	for name, want := range map[string][]lvmv1alpha1.NamespaceLimit{"limits": limits, "none": nil} {
		class.NamespaceLimits = want
		group := fixture.Must(newLVMVolumeGroup(fixture.Cluster(class), class))
		var spec lvmv1alpha1.LVMVolumeGroupSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(group.Object["spec"].(map[string]any),
			&spec); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(spec.NamespaceLimits, want) {
			t.Errorf("%s: got %v", name, spec.NamespaceLimits)
		}
	}
}

func TestTheBandwidthOfCopiesIsInEachVolumeGroup(t *testing.T) {
	limit := resource.MustParse("10Mi")
	for name, want := range map[string]*lvmv1alpha1.VolumeCopyConfig{"limit": {BandwidthLimit: &limit}, "none": nil} {
		cluster := fixture.Cluster(fixture.Thin("vg1"), fixture.Thick("vg2"))
		cluster.Spec.VolumeCopy = want
		for _, class := range cluster.Spec.Storage.DeviceClasses {
			group := fixture.Must(newLVMVolumeGroup(cluster, class))
			var spec lvmv1alpha1.LVMVolumeGroupSpec
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(group.Object["spec"].(map[string]any),
				&spec); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(spec.VolumeCopy, want) {
				t.Errorf("%s: device class %s has %v", name, class.Name, spec.VolumeCopy)
			}
		}
	}
}

func TestOnlyClassIsDefaultInItsVolumeGroup(t *testing.T) {
	for name, test := range map[string]struct {
		classes []lvmv1alpha1.DeviceClass
		want    any
	}{
		"alone":       {[]lvmv1alpha1.DeviceClass{fixture.Thick("vg1")}, true},
		"of several":  {[]lvmv1alpha1.DeviceClass{fixture.Thick("vg1"), fixture.Thin("vg2")}, nil},
		"the default": {[]lvmv1alpha1.DeviceClass{fixture.Thin("vg1"), fixture.Thick("vg2")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fixture.Cluster(test.classes...)
			group := fixture.Must(newLVMVolumeGroup(cluster, test.classes[0]))
			if got := group.Object["spec"].(map[string]any)["default"]; got != test.want {
				t.Errorf("default = %v, want %v", got, test.want)
			}
		})
	}
}

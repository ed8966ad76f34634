package webhook

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

func withChunks(name, size string) lvmv1alpha1.DeviceClass {
	chunks := resource.MustParse(size)
	return lvmv1alpha1.DeviceClass{Name: name,
		ThinPoolConfig: &lvmv1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90, ChunkSize: &chunks},
		DeviceSelector: &lvmv1alpha1.DeviceSelector{
			Paths: []lvmv1alpha1.DevicePath{lvmv1alpha1.DevicePath("/dev/disk/by-id/" + name)}}}
}

// An update of a stored LVMCluster that violates a rule is admitted, unless it introduces a violation.
func TestOnlyWhatAChangeIntroducesIsRefused(t *testing.T) {
	api := memory.Builder().Build()
	validator := &Validator{Live: api, Cached: api, Namespace: "lvms"}
	labeled := func(class lvmv1alpha1.DeviceClass) lvmv1alpha1.DeviceClass {
		class.StorageClassOptions = &lvmv1alpha1.StorageClassOptions{AdditionalLabels: map[string]string{"rack": "a"}}
		return class
	}
	bad := withChunks("vg1", "1Ki")
	good := withChunks("vg2", "64Ki")
	twice := withChunks("vg2", "64Ki")
	twice.DeviceSelector = bad.DeviceSelector
	for name, test := range map[string]struct {
		before, after []lvmv1alpha1.DeviceClass
		want          string
	}{
		"another field": {[]lvmv1alpha1.DeviceClass{bad, good},
			[]lvmv1alpha1.DeviceClass{bad, labeled(good)}, ""},
		"in another order": {[]lvmv1alpha1.DeviceClass{bad, good},
			[]lvmv1alpha1.DeviceClass{good, labeled(bad)}, ""},
		"a path in two classes": {[]lvmv1alpha1.DeviceClass{withChunks("vg1", "64Ki"), twice},
			[]lvmv1alpha1.DeviceClass{labeled(withChunks("vg1", "64Ki")), twice}, ""},
		"made right": {[]lvmv1alpha1.DeviceClass{bad},
			[]lvmv1alpha1.DeviceClass{withChunks("vg1", "64Ki")}, ""},
		"a second violation": {[]lvmv1alpha1.DeviceClass{bad, good},
			[]lvmv1alpha1.DeviceClass{bad, withChunks("vg2", "1Ki")}, "deviceClasses[1].thinPoolConfig.chunkSize"},
		"one made right, another wrong": {[]lvmv1alpha1.DeviceClass{bad, good},
			[]lvmv1alpha1.DeviceClass{withChunks("vg1", "64Ki"), withChunks("vg2", "1Ki")},
			"deviceClasses[1].thinPoolConfig.chunkSize"},
		"another wrong value": {[]lvmv1alpha1.DeviceClass{bad},
			[]lvmv1alpha1.DeviceClass{withChunks("vg1", "2Ki")}, `"2Ki"`},
	} {
		cluster := func(classes []lvmv1alpha1.DeviceClass) *lvmv1alpha1.LVMCluster {
			return &lvmv1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "lvms"},
				Spec: lvmv1alpha1.LVMClusterSpec{Storage: lvmv1alpha1.Storage{DeviceClasses: classes}}}
		}
		_, err := validator.ValidateUpdate(t.Context(), cluster(test.before), cluster(test.after))
		expect.Error(t, name, err, test.want)
		// If an LVMCluster is created, every rule applies to the whole spec.
		if _, err := validator.ValidateCreate(t.Context(), cluster(test.before)); err == nil {
			t.Errorf("%s: a new LVMCluster with the violation is admitted", name)
		}
	}
}

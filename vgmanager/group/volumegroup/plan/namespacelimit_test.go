package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// TestNamespaceLimitsArePublished: a change of them is a change of the published class.
func TestNamespaceLimitsArePublished(t *testing.T) {
	for what, spec := range map[string]v1alpha1.LVMVolumeGroupSpec{
		"thick": {ExistingVolumeGroup: "data"},
		"thin":  {ExistingVolumeGroup: "data", ThinPoolConfig: thinSpec},
	} {
		seen := report(withPool(data("b")))
		class := publishedIn(t, spec, withPool(data("b")))
		if class.NamespaceLimits != nil {
			t.Errorf("%s: got %v without limits", what, class.NamespaceLimits)
		}
		limits := []v1alpha1.NamespaceLimit{{Namespace: "shop", PerNode: resource.MustParse("1Gi")}, {}}
		for _, step := range []struct {
			limits []v1alpha1.NamespaceLimit
			want   []deviceclass.NamespaceLimit
		}{
			{limits, []deviceclass.NamespaceLimit{{Namespace: "shop", PerNodeBytes: 1 << 30}, {}}},
			{limits[:1], []deviceclass.NamespaceLimit{{Namespace: "shop", PerNodeBytes: 1 << 30}}},
			{nil, nil},
		} {
			spec.NamespaceLimits = step.limits
			p := New(testDesired(spec), state.NodeState{Report: seen, Class: class})
			if p.Action.Kind != state.PublishClass {
				t.Fatalf("%s: got %+v", what, p.Action)
			}
			if diff := cmp.Diff(step.want, classOf(p.Action).NamespaceLimits); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
			class = classOf(p.Action)
			if p := New(testDesired(spec), state.NodeState{Report: seen,
				Class: class}); p.Action.Kind == state.PublishClass {
				t.Errorf("%s: published twice: %+v", what, p.Action)
			}
		}
	}
}

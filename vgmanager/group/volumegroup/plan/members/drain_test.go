package members

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func TestADeviceOfAStripeStays(t *testing.T) {
	three := &lvm.VG{PVs: make([]lvm.PV, 3)}
	for want, spec := range map[string]v1alpha1.LVMVolumeGroupSpec{
		"a striped thin pool requires at least 3 devices, and only 2 would remain": {
			ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool", Stripes: ptr.To[int32](3)}},
		"a striped volume requires at least 3 devices, and only 2 would remain": {
			ThickConfig: &v1alpha1.ThickConfig{Stripes: ptr.To[int32](3)}},
	} {
		if why := keepReason(state.Desired{Name: "vg1", Node: "n1", Spec: spec}, three, lvm.PV{}); why != want {
			t.Errorf("got %q, want %q", why, want)
		}
	}
}

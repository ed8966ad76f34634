//go:build env

package env

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func newRecovery(node string) *lvmv1alpha1.LVMRecovery {
	return &lvmv1alpha1.LVMRecovery{
		ObjectMeta: metav1.ObjectMeta{Name: "recovery", Namespace: Namespace},
		Spec: lvmv1alpha1.LVMRecoverySpec{NodeName: node, DeviceClassName: "a",
			Action: lvmv1alpha1.RecoveryRemoveLostDevices},
	}
}

// DeleteOrphans needs the names of volumes, which cannot be changed, and no other action has them.
func TestTheVolumesOfARecovery(t *testing.T) {
	ctx := t.Context()
	for name, test := range map[string]struct {
		action  lvmv1alpha1.RecoveryAction
		volumes []string
	}{
		"no volumes":       {lvmv1alpha1.RecoveryDeleteOrphans, nil},
		"the same twice":   {lvmv1alpha1.RecoveryDeleteOrphans, []string{"a", "a"}},
		"an empty name":    {lvmv1alpha1.RecoveryDeleteOrphans, []string{""}},
		"another action":   {lvmv1alpha1.RecoveryRemoveLostDevices, []string{"a"}},
		"too many volumes": {lvmv1alpha1.RecoveryDeleteOrphans, strings.Split(strings.Repeat("a,", 1001), ",")},
	} {
		recovery := newRecovery("n1")
		recovery.Spec.Action, recovery.Spec.Volumes = test.action, test.volumes
		if err := server.Client.Create(ctx, recovery); err == nil || !strings.Contains(err.Error(), "volumes") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	recovery := newRecovery("n1")
	recovery.Spec.Action, recovery.Spec.Volumes = lvmv1alpha1.RecoveryDeleteOrphans, []string{"a"}
	if err := server.Client.Create(ctx, recovery); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Client.Delete(context.Background(), recovery) })
	for name, volumes := range map[string][]string{"another volume": {"a", "b"}, "none": nil} {
		changed := recovery.DeepCopy()
		changed.Spec.Volumes = volumes
		if err := server.Client.Update(ctx, changed); err == nil || !strings.Contains(err.Error(), "volumes") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The approval of a plan is for one node, device class and action.
func TestARecoveryKeepsItsTarget(t *testing.T) {
	ctx := t.Context()
	recovery := newRecovery("n1")
	if err := server.Client.Create(ctx, recovery); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Client.Delete(context.Background(), recovery) })
	for name, edit := range map[string]func(*lvmv1alpha1.LVMRecoverySpec){
		"nodeName":        func(s *lvmv1alpha1.LVMRecoverySpec) { s.NodeName = "n2" },
		"deviceClassName": func(s *lvmv1alpha1.LVMRecoverySpec) { s.DeviceClassName = "b" },
		"action":          func(s *lvmv1alpha1.LVMRecoverySpec) { s.Action = "Other" },
	} {
		changed := recovery.DeepCopy()
		edit(&changed.Spec)
		err := server.Client.Update(ctx, changed)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	recovery.Spec.ApprovedPlan = "abc"
	if err := server.Client.Update(ctx, recovery); err != nil {
		t.Error(err)
	}
}

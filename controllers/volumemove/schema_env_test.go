//go:build env

package volumemove

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove/plan"
	"github.com/lvm-storage/lvm-operator/test/env"
)

// TestTheRequestOfAMoveCannotBeChanged: but the times can, within their limits.
func TestTheRequestOfAMoveCannotBeChanged(t *testing.T) {
	request := v1alpha1.VolumeMoveSpec{Claim: v1alpha1.VolumeMoveClaim{Namespace: "n", Name: "data"}, NodeName: "b"}
	for name, test := range map[string]struct {
		change func(*v1alpha1.VolumeMoveSpec)
		says   string
	}{
		"claim":    {func(s *v1alpha1.VolumeMoveSpec) { s.Claim.Name = "other" }, "claim cannot be changed"},
		"node":     {func(s *v1alpha1.VolumeMoveSpec) { s.NodeName = "c" }, "nodeName cannot be changed"},
		"no-node":  {func(s *v1alpha1.VolumeMoveSpec) { s.NodeName = "" }, "nodeName cannot be changed"},
		"max-low":  {func(s *v1alpha1.VolumeMoveSpec) { s.MaxPause = &metav1.Duration{} }, "maxPause must be between"},
		"max":      {func(s *v1alpha1.VolumeMoveSpec) { s.MaxPause = &metav1.Duration{Duration: time.Minute} }, ""},
		"keep-low": {func(s *v1alpha1.VolumeMoveSpec) { s.KeepSource.Duration = -1 }, "keepSource must be between"},
		"keep":     {func(s *v1alpha1.VolumeMoveSpec) { s.KeepSource = &metav1.Duration{} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Name: "schema-" + name, Namespace: env.Namespace},
				Spec: request}
			if err := server.Client.Create(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if m.Spec.MaxPause.Duration != plan.DefaultMaxPause ||
				m.Spec.KeepSource.Duration != plan.DefaultKeepSource {
				t.Errorf("got the defaults %+v", m.Spec)
			}
			test.change(&m.Spec)
			err := server.Client.Update(t.Context(), m)
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			if err := server.Client.Delete(t.Context(), m); err != nil {
				t.Error(err)
			}
		})
	}
}

package driver

import (
	"errors"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/version"
)

func healthy() error { return nil }

func TestProbeFailsIfTheProcessIsNotHealthy(t *testing.T) {
	answer, err := NewIdentityServer(healthy).Probe(t.Context(), &csi.ProbeRequest{})
	if err != nil || !answer.GetReady().GetValue() {
		t.Errorf("healthy: %v, %v", answer, err)
	}
	broken := NewIdentityServer(func() error { return errors.New("stuck") })
	if answer, err := broken.Probe(t.Context(), &csi.ProbeRequest{}); err == nil && answer.GetReady().GetValue() {
		t.Errorf("not healthy: %v", answer)
	}
}

func TestIdentityHasTheVersionOfThisProgram(t *testing.T) {
	info, err := NewIdentityServer(healthy).GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	if err != nil || info.GetName() != wellknown.DriverName || info.GetVendorVersion() != version.Full() {
		t.Errorf("got %v, %v, want the version %s", info, err, version.Full())
	}
}

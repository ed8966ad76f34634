package driver

import (
	"errors"
	"strings"
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

func TestIdentityHasTheServicesOfTheDriver(t *testing.T) {
	for name, test := range map[string]struct {
		server csi.IdentityServer
		want   string
	}{
		"driver": {NewIdentityServer(healthy),
			"CONTROLLER_SERVICE VOLUME_ACCESSIBILITY_CONSTRAINTS GROUP_CONTROLLER_SERVICE ONLINE OFFLINE"},
		"another name": {NewPlugin("x", healthy), "CONTROLLER_SERVICE VOLUME_ACCESSIBILITY_CONSTRAINTS ONLINE OFFLINE"},
	} {
		answer, err := test.server.GetPluginCapabilities(t.Context(), &csi.GetPluginCapabilitiesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range answer.GetCapabilities() {
			if service := c.GetService(); service != nil {
				got = append(got, service.GetType().String())
			} else {
				got = append(got, c.GetVolumeExpansion().GetType().String())
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

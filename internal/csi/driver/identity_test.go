package driver

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/version"
)

func TestIdentityHasTheVersionOfThisProgram(t *testing.T) {
	info, err := NewIdentityServer().GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	if err != nil || info.GetName() != wellknown.DriverName || info.GetVendorVersion() != version.Full() {
		t.Errorf("got %v, %v, want the version %s", info, err, version.Full())
	}
}

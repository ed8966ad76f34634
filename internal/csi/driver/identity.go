package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/topolvm/topolvm/pkg/driver"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/version"
)

// NewIdentityServer returns the CSI identity service of the driver, which also has the group controller service. The
// driver is ready unless healthy returns an error.
func NewIdentityServer(healthy func() error) csi.IdentityServer {
	return identity{NewPlugin(wellknown.DriverName, healthy)}
}

type identity struct{ csi.IdentityServer }

// GetPluginCapabilities returns the capabilities of the driver.
func (i identity) GetPluginCapabilities(ctx context.Context,
	request *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	response, err := i.IdentityServer.GetPluginCapabilities(ctx, request)
	if err != nil {
		return nil, err
	}
	response.Capabilities = append(response.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
		Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE},
	}})
	return response, nil
}

// NewPlugin returns TopoLVM's CSI identity service under a name of the driver, which is ready unless healthy returns an
// error.
func NewPlugin(name string, healthy func() error) csi.IdentityServer {
	return plugin{driver.NewIdentityServer(func() (bool, error) {
		err := healthy()
		return err == nil, err
	}), name}
}

type plugin struct {
	csi.IdentityServer
	name string
}

// GetPluginInfo returns the name of the driver, and the version of this program: TopoLVM's would be "devel".
func (p plugin) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: p.name, VendorVersion: version.Full()}, nil
}

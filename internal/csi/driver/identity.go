package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/topolvm/topolvm/pkg/driver"
)

// NewIdentityServer returns the CSI identity service of the driver, which also has the group controller service.
func NewIdentityServer() csi.IdentityServer {
	return identity{driver.NewIdentityServer(func() (bool, error) { return true, nil })}
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

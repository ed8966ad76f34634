package snapshotmetadata

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// Advertise returns an identity server whose plugin also has the capability SNAPSHOT_METADATA_SERVICE.
func Advertise(s csi.IdentityServer) csi.IdentityServer { return identity{s} }

type identity struct{ csi.IdentityServer }

// GetPluginCapabilities implements csi.IdentityServer.
func (i identity) GetPluginCapabilities(ctx context.Context,
	in *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	out, err := i.IdentityServer.GetPluginCapabilities(ctx, in)
	if err != nil {
		return nil, err
	}
	out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
		Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE}}})
	return out, nil
}

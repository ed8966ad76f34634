package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/version"
)

// NewIdentityServer returns the CSI identity service of the driver, which also has the group controller service. The
// driver is ready unless healthy returns an error.
func NewIdentityServer(healthy func() error) csi.IdentityServer {
	s := newIdentity(wellknown.DriverName, healthy)
	s.services = append(s.services, csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE)
	return s
}

// NewPlugin returns a CSI identity service under a name of the driver, with the capabilities of TopoLVM's. It is ready
// unless healthy returns an error.
func NewPlugin(name string, healthy func() error) csi.IdentityServer {
	return newIdentity(name, healthy)
}

func newIdentity(name string, healthy func() error) *identity {
	return &identity{name: name, healthy: healthy,
		services: []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE,
			csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS}}
}

type identity struct {
	csi.UnimplementedIdentityServer
	name     string
	healthy  func() error
	services []csi.PluginCapability_Service_Type
}

// GetPluginInfo returns the name of the driver, and the version of this program.
func (s *identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: s.name, VendorVersion: version.Full()}, nil
}

// GetPluginCapabilities returns the services of the driver, and that its volumes can be expanded at any time.
func (s *identity) GetPluginCapabilities(context.Context,
	*csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	response := &csi.GetPluginCapabilitiesResponse{}
	for _, service := range s.services {
		response.Capabilities = append(response.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: service}},
		})
	}
	for _, when := range []csi.PluginCapability_VolumeExpansion_Type{csi.PluginCapability_VolumeExpansion_ONLINE,
		csi.PluginCapability_VolumeExpansion_OFFLINE} {
		response.Capabilities = append(response.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_VolumeExpansion_{
				VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: when}},
		})
	}
	return response, nil
}

// Probe reports whether the driver is ready.
func (s *identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	if err := s.healthy(); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

package sidecar

import (
	"context"
	"fmt"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	csirpc "github.com/kubernetes-csi/csi-lib-utils/rpc"
	resizing "github.com/kubernetes-csi/external-resizer/v2/pkg/controller"
	csiresizer "github.com/kubernetes-csi/external-resizer/v2/pkg/resizer"
	"google.golang.org/grpc"
)

// resizer expands volumes whose claims request more: external-resizer as a Runnable.
type resizer struct{ *Sidecars }

// NeedLeaderElection returns true: only one process may write the state of an expansion.
func (r *resizer) NeedLeaderElection() bool { return true }

// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// Start runs the resizer until the context ends.
func (r *resizer) Start(ctx context.Context) error {
	if _, err := r.awaitDriver(ctx); err != nil {
		return endedOr(ctx, err)
	}
	plugin, err := csiresizer.NewResizerFromClient(&driverClient{connection: r.connection}, operationTimeout,
		r.client, r.Driver)
	if err != nil {
		return endedOr(ctx, fmt.Errorf("resizer of CSI driver %s: %w", r.Driver, err))
	}
	// The driver expands volumes that are in use, so the resizer does not have to watch Pods and delay an expansion.
	const waitForPods = false
	controller := resizing.NewResizeController(r.Driver, plugin, r.client, resyncPeriod,
		r.informers.forResizer(r.client),
		limiter[string](), waitForPods, retryMax)
	r.informers.StartWithContext(ctx)
	workers := &sync.WaitGroup{}
	controller.Run(r.Workers, ctx, workers)
	workers.Wait()
	return nil
}

// driverClient is the CSI client of the resizer, with a shared connection: the resizer's own client ends the process
// when it loses its connection.
type driverClient struct {
	connection *grpc.ClientConn
}

func (c *driverClient) GetDriverName(ctx context.Context) (string, error) {
	return csirpc.GetDriverName(ctx, c.connection)
}

func (c *driverClient) SupportsPluginControllerService(ctx context.Context) (bool, error) {
	capabilities, err := csirpc.GetPluginCapabilities(ctx, c.connection)
	return capabilities[csi.PluginCapability_Service_CONTROLLER_SERVICE], err
}

func (c *driverClient) SupportsControllerResize(ctx context.Context) (bool, error) {
	return c.can(ctx, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME)
}

// SupportsNodeResize returns false. The resizer calls it only if the controller cannot resize, and this socket has no
// node service.
func (c *driverClient) SupportsNodeResize(context.Context) (bool, error) {
	return false, nil
}

func (c *driverClient) SupportsControllerModify(ctx context.Context) (bool, error) {
	return c.can(ctx, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME)
}

func (c *driverClient) SupportsControllerSingleNodeMultiWriter(ctx context.Context) (bool, error) {
	return c.can(ctx, csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
}

func (c *driverClient) can(ctx context.Context, capability csi.ControllerServiceCapability_RPC_Type) (bool, error) {
	capabilities, err := csirpc.GetControllerCapabilities(ctx, c.connection)
	return capabilities[capability], err
}

// Expand expands a volume. It returns the new size in bytes, and whether the node must grow the file system.
func (c *driverClient) Expand(ctx context.Context, volumeID string, requestBytes int64, secrets map[string]string,
	capability *csi.VolumeCapability,
) (int64, bool, error) {
	response, err := csi.NewControllerClient(c.connection).ControllerExpandVolume(ctx,
		&csi.ControllerExpandVolumeRequest{
			VolumeId:         volumeID,
			CapacityRange:    &csi.CapacityRange{RequiredBytes: requestBytes},
			Secrets:          secrets,
			VolumeCapability: capability,
		})
	return response.GetCapacityBytes(), response.GetNodeExpansionRequired(), err
}

func (c *driverClient) Modify(ctx context.Context, volumeID string, secrets, parameters map[string]string) error {
	_, err := csi.NewControllerClient(c.connection).ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{
		VolumeId: volumeID, Secrets: secrets, MutableParameters: parameters,
	})
	return err
}

// CloseConnection does nothing: all sidecars share the connection.
func (c *driverClient) CloseConnection() {}

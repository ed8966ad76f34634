package sidecar

import (
	"context"
	"fmt"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	csirpc "github.com/kubernetes-csi/csi-lib-utils/rpc"
	resizing "github.com/kubernetes-csi/external-resizer/v2/pkg/controller"
	resizerclient "github.com/kubernetes-csi/external-resizer/v2/pkg/csi"
	csimodifier "github.com/kubernetes-csi/external-resizer/v2/pkg/modifier"
	"github.com/kubernetes-csi/external-resizer/v2/pkg/modifycontroller"
	csiresizer "github.com/kubernetes-csi/external-resizer/v2/pkg/resizer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// resizer expands volumes whose claims request more, and modifies those whose claims request another
// VolumeAttributesClass: external-resizer as a Runnable.
type resizer struct{ *Sidecars }

// NeedLeaderElection returns true: only one process may write the state of an expansion.
func (r *resizer) NeedLeaderElection() bool { return true }

// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattributesclasses,verbs=get;list;watch

// Start runs the resizer until the context ends.
func (r *resizer) Start(ctx context.Context) error {
	return r.expand(ctx, r.Driver, &driverClient{connection: r.connection})
}

// expand expands the volumes of a driver until the context ends.
func (s *Sidecars) expand(ctx context.Context, driver string, client resizerclient.Client) error {
	if _, err := s.awaitDriver(ctx); err != nil {
		return endedOr(ctx, err)
	}
	plugin, err := csiresizer.NewResizerFromClient(client, operationTimeout, s.client, driver)
	if err != nil {
		return endedOr(ctx, fmt.Errorf("resizer of CSI driver %s: %w", driver, err))
	}
	// The driver expands volumes that are in use, so the resizer does not have to watch Pods and delay an expansion.
	const waitForPods = false
	informers := s.informers.forResizer(s.client)
	controller := resizing.NewResizeController(driver, plugin, s.client, resyncPeriod, informers,
		limiter[string](), waitForPods, retryMax)
	var modify modifycontroller.ModifyController
	if driver == s.Driver && s.VolumeAttributes {
		if modify, err = s.modifier(driver, informers); err != nil {
			return endedOr(ctx, fmt.Errorf("modifier of CSI driver %s: %w", driver, err))
		}
	}
	s.informers.StartWithContext(ctx)
	workers := &sync.WaitGroup{}
	if modify != nil {
		workers.Go(func() { modify.Run(s.Workers, ctx, workers) })
	}
	controller.Run(s.Workers, ctx, workers)
	workers.Wait()
	return nil
}

// earlierResizer expands volumes of TopoLVM before 0.15, whose LogicalVolumes are of this driver: external-resizer with
// the earlier name, for the same CSI controller. It starts when the first such volume exists, and then has nothing to
// do when the last one is migrated.
type earlierResizer struct{ *Sidecars }

// NeedLeaderElection returns true, as that of resizer.
func (r *earlierResizer) NeedLeaderElection() bool { return true }

// Start waits until it is needed, and runs the resizer until the context ends.
func (r *earlierResizer) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.Earlier:
	}
	log.FromContext(ctx).Info("expanding volumes of the driver of an earlier TopoLVM", "driver",
		wellknown.EarlierDriverName)
	return r.expand(ctx, wellknown.EarlierDriverName, &earlierClient{&driverClient{connection: r.connection}})
}

// earlierClient is the CSI client of earlierResizer.
type earlierClient struct{ *driverClient }

// Expand expands a volume. A volume without a LogicalVolume of this driver is not reported as missing: the resizer
// would take this as a size that is not feasible.
func (c *earlierClient) Expand(ctx context.Context, volumeID string, requestBytes int64, secrets map[string]string,
	capability *csi.VolumeCapability,
) (int64, bool, error) {
	size, onNode, err := c.driverClient.Expand(ctx, volumeID, requestBytes, secrets, capability)
	if status.Code(err) == codes.NotFound {
		err = status.Errorf(codes.Unavailable, "no LogicalVolume of the API group %s has the volume ID %s yet: see "+
			"the events of the PersistentVolume", wellknown.DriverName, volumeID)
	}
	return size, onNode, err
}

// modifier returns the controller that modifies volumes.
func (s *Sidecars) modifier(driver string, informers *managed) (modifycontroller.ModifyController, error) {
	// The driver finds the claim of a volume by itself.
	const extraMetadata = false
	plugin, err := csimodifier.NewModifierFromClient(&driverClient{connection: s.connection}, operationTimeout,
		s.client, informers, extraMetadata, driver)
	if err != nil {
		return nil, err
	}
	return modifycontroller.NewModifyController(driver, plugin, s.client, resyncPeriod, retryMax, extraMetadata,
		informers, limiter[string]()), nil
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

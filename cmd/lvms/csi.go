package main

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/capacity"
	"github.com/lvm-storage/lvm-operator/internal/csi/clone"
	lvmsdriver "github.com/lvm-storage/lvm-operator/internal/csi/driver"
	"github.com/lvm-storage/lvm-operator/internal/csi/notice"
	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/csi/sidecar"
	"github.com/lvm-storage/lvm-operator/internal/csi/snapshotmetadata"
	"github.com/lvm-storage/lvm-operator/internal/csi/unclaimed"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// newIdentity returns the CSI identity service of the operator and of the agents: all instances of a plugin return the
// same capabilities, whichever services they have (CSI specification, "GetPluginCapabilities").
func newIdentity(monitor *liveness.Monitor) csi.IdentityServer {
	return snapshotmetadata.Advertise(lvmsdriver.NewIdentityServer(monitor.Check))
}

// addCSI adds the CSI controller and the sidecars that call it, all in this process. snapshots serves SnapshotMetadata
// next to them.
func addCSI(ctx context.Context, mgr ctrl.Manager, o *operator,
	snapshots csi.SnapshotMetadataServer) (closeSidecars func(), err error) {
	controller := lvmsdriver.NewControllerServer(objects.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Active: mgr.GetCache(), NameOf: o.volumes.Name,
	})
	if err := controller.Watch(ctx, mgr.GetCache()); err != nil {
		return nil, err
	}
	if err := capacity.New(mgr.GetClient(), mgr.GetCache(), o.namespace).SetupWithManager(mgr); err != nil {
		return nil, err
	}
	left := unclaimed.New(unclaimed.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: o.namespace, Snapshots: o.found.Snapshots,
		Recorder: mgr.GetEventRecorder("lvms-operator"),
	})
	if err := mgr.Add(left); err != nil {
		return nil, err
	}
	clones := clone.New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetCache(), o.namespace)
	if err := clones.SetupWithManager(mgr); err != nil {
		return nil, err
	}
	recorder := mgr.GetEventRecorder("lvms-operator")
	if err := errors.Join(notice.NewClaims(mgr.GetCache(), recorder).SetupWithManager(mgr),
		notice.NewVolumes(mgr.GetCache(), recorder).SetupWithManager(mgr),
		notice.NewCopies(mgr.GetCache(), mgr.GetAPIReader(), recorder).SetupWithManager(mgr)); err != nil {
		return nil, err
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(adapt.Interceptor(o.liveness),
		service.LogCalls(controller.ClaimOf)))
	csi.RegisterIdentityServer(server, newIdentity(o.liveness))
	csi.RegisterSnapshotMetadataServer(server, snapshots)
	csi.RegisterControllerServer(server, controller)
	csi.RegisterGroupControllerServer(server, lvmsdriver.NewGroupServer(controller))
	if err := mgr.Add(sidecar.NewGRPCServer(server, csiSocket)); err != nil {
		return nil, err
	}
	sidecars, err := sidecar.New(ctx, sidecar.Options{
		Config: mgr.GetConfig(), Cache: mgr.GetCache(), Driver: wellknown.DriverName, Socket: csiSocket,
		PodName: o.podName, Earlier: o.earlierServed,
		Snapshots: o.found.Snapshots, GroupSnapshots: o.found.GroupSnapshots,
		VolumeAttributes: o.found.VolumeAttributes, Metrics: metrics.Registry,
		BeforeProvisioning: left.MarkPending,
	})
	if err != nil {
		return nil, err
	}
	for _, runnable := range sidecars.Runnables() {
		if err := mgr.Add(runnable); err != nil {
			return nil, err
		}
	}
	return func() { _ = sidecars.Close() }, nil
}

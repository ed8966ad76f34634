package sidecar

import (
	"context"
	"fmt"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotscheme "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/scheme"
	snapshotinformers "github.com/kubernetes-csi/external-snapshotter/client/v8/informers/externalversions"
	groupsnapshotter "github.com/kubernetes-csi/external-snapshotter/v8/pkg/group_snapshotter"
	snapshotting "github.com/kubernetes-csi/external-snapshotter/v8/pkg/sidecar-controller"
	csisnapshotter "github.com/kubernetes-csi/external-snapshotter/v8/pkg/snapshotter"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// init adds VolumeSnapshotContents to client-go's scheme, because the library emits events on them. It must do so
// before anything else runs, because other code reads the scheme concurrently.
func init() { utilruntime.Must(snapshotscheme.AddToScheme(scheme.Scheme)) }

// groupNamePrefix is the prefix of the names of group snapshots. It is followed by the complete UID of the
// VolumeGroupSnapshot.
const groupNamePrefix = "groupsnapshot"

// snapshotNamePrefix is the prefix of snapshot names. It is followed by the complete UID of the VolumeSnapshot.
const snapshotNamePrefix = "snapshot"

// snapshotter creates and deletes snapshots and group snapshots: external-snapshotter's sidecar as a Runnable. The
// snapshot controller, which binds VolumeSnapshots to their contents, is part of the cluster.
type snapshotter struct{ *Sidecars }

// NeedLeaderElection returns true: only one process may create a snapshot.
func (s *snapshotter) NeedLeaderElection() bool { return true }

// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotcontents,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotcontents/status,verbs=update;patch
// +kubebuilder:rbac:groups=groupsnapshot.storage.k8s.io,resources=volumegroupsnapshotclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=groupsnapshot.storage.k8s.io,resources=volumegroupsnapshotcontents,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=groupsnapshot.storage.k8s.io,resources=volumegroupsnapshotcontents/status,verbs=update;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// Start runs the snapshotter until the context ends.
func (s *snapshotter) Start(ctx context.Context) error {
	driver, err := s.awaitDriver(ctx)
	if err != nil {
		return endedOr(ctx, err)
	}
	if !driver.controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT] {
		return fmt.Errorf("snapshotter: the CSI driver on %s does not support snapshots", s.Socket)
	}
	informers := snapshotinformers.NewSharedInformerFactory(s.Sidecars.snapshots, resyncPeriod)
	v1 := informers.Snapshot().V1()
	groups := informers.Groupsnapshot().V1()
	const extraMetadata = true
	controller := snapshotting.NewCSISnapshotSideCarController(
		s.Sidecars.snapshots, s.client, s.Driver, v1.VolumeSnapshotContents(), v1.VolumeSnapshotClasses(),
		csisnapshotter.NewSnapshotter(s.connection), groupsnapshotter.NewGroupSnapshotter(s.connection),
		operationTimeout, resyncPeriod, snapshotNamePrefix, wholeUID, groupNamePrefix, wholeUID, extraMetadata,
		limiter[string](), s.GroupSnapshots,
		groups.VolumeGroupSnapshotContents(), groups.VolumeGroupSnapshotClasses(), limiter[string]())
	informers.Start(ctx.Done())
	workers := &sync.WaitGroup{}
	controller.Run(s.Workers, ctx.Done(), workers)
	workers.Wait()
	informers.Shutdown()
	return nil
}

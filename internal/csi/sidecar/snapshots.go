package sidecar

import (
	"context"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	snapshottyped "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/typed/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// restoredSnapshots is a client of the provisioner that reads VolumeSnapshots without their restoreSize. With it, the
// provisioner would refuse to restore a claim that requests less, before it calls the CSI controller. But the
// restoreSize of a VolumeSnapshot that an earlier version took is the size of the volume, which is larger than its
// request, and nothing updates it. The CSI controller decides which requests are enough.
type restoredSnapshots struct{ snapshotclient.Interface }

// SnapshotV1 returns the client of the API group.
func (c restoredSnapshots) SnapshotV1() snapshottyped.SnapshotV1Interface {
	return restoredGroup{c.Interface.SnapshotV1()}
}

type restoredGroup struct {
	snapshottyped.SnapshotV1Interface
}

// VolumeSnapshots returns the client of a namespace.
func (g restoredGroup) VolumeSnapshots(namespace string) snapshottyped.VolumeSnapshotInterface {
	return restoredNamespace{g.SnapshotV1Interface.VolumeSnapshots(namespace)}
}

type restoredNamespace struct {
	snapshottyped.VolumeSnapshotInterface
}

// Get reads a VolumeSnapshot. An update of the result changes its metadata only: the status is a subresource.
func (n restoredNamespace) Get(ctx context.Context, name string,
	options metav1.GetOptions) (*snapshotv1.VolumeSnapshot, error) {
	snapshot, err := n.VolumeSnapshotInterface.Get(ctx, name, options)
	if err != nil || snapshot.Status == nil {
		return snapshot, err
	}
	snapshot.Status.RestoreSize = nil
	return snapshot, nil
}

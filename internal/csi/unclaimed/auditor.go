// Package unclaimed finds volumes that nothing in the cluster knows but their own LogicalVolume: no PersistentVolume,
// no VolumeSnapshotContent, and no claim for which they are being made. A claim that is deleted in the moment in which
// the operator is killed leaves one; so does a PersistentVolume that was kept (Retain) and then deleted by hand. It
// marks them, and removes no volume: the node agent lists what is marked with its orphans. An object whose volume a
// node has refused has none: it is deleted when its claim is gone.
package unclaimed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/csi/driver"
	"github.com/lvm-storage/lvm-operator/internal/event"
	"github.com/lvm-storage/lvm-operator/internal/paging"
)

const (
	// interval is how often the cluster is looked at.
	interval = 10 * time.Minute
	// settleTime is how long a volume must have been unclaimed before it is marked: what is being made or removed is
	// not.
	settleTime = 2 * time.Minute
)

// The names that the side-cars give to what they make end with the UID of what they make it for (external-provisioner
// and external-snapshotter, --volume-name-prefix and --snapshot-name-prefix).
const (
	volumePrefix   = "pvc-"
	snapshotPrefix = "snapshot-"
)

// Options are what an Auditor needs.
type Options struct {
	// Client writes, and Live reads from the API server.
	Client client.Writer
	Live   client.Reader
	// Snapshots: the cluster has the VolumeSnapshot API.
	Snapshots bool
	Recorder  event.Recorder
}

// Auditor marks the LogicalVolumes that are unclaimed, and takes the mark away where they no longer are.
type Auditor struct {
	Options
	now   func() time.Time
	since map[types.UID]time.Time
}

// New returns an Auditor.
func New(o Options) *Auditor {
	return &Auditor{Options: o, now: time.Now, since: map[types.UID]time.Time{}}
}

// NeedLeaderElection is true: one is enough.
func (a *Auditor) NeedLeaderElection() bool { return true }

// Start looks until ctx ends. It implements manager.Runnable.
func (a *Auditor) Start(ctx context.Context) error {
	for {
		again, err := a.audit(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "it cannot be told which volumes are unclaimed")
		}
		wait := interval
		if again {
			wait = settleTime
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumes;persistentvolumeclaims,verbs=get;list
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotcontents,verbs=list

// audit looks once. again tells that something has not been unclaimed for long enough. A read that fails changes no
// mark.
func (a *Auditor) audit(ctx context.Context) (again bool, err error) {
	known, err := a.known(ctx)
	if err != nil {
		return false, err
	}
	since := map[types.UID]time.Time{}
	var errs []error
	// What was made after its PersistentVolume was looked for is seen as unclaimed once, and is not marked for that.
	err = paging.Each(ctx, a.Live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			early, err := a.judge(ctx, &list.Items[i], known, since)
			again = again || early
			errs = append(errs, err)
		}
	})
	if err != nil {
		return again, fmt.Errorf("list LogicalVolumes: %w", err)
	}
	a.since = since
	return again, errors.Join(errs...)
}

// judge brings the mark of a LogicalVolume to what is true, and notes since when it is unclaimed. early tells that this
// is not long enough.
func (a *Auditor) judge(ctx context.Context, lv *topolvmv1.LogicalVolume, known map[string]bool,
	since map[types.UID]time.Time) (early bool, err error) {
	first, before := a.since[lv.UID]
	refused := driver.IsRefused(lv)
	unclaimed, err := a.unclaimed(ctx, lv, known)
	if err != nil {
		if before {
			since[lv.UID] = first
		}
		return false, err
	}
	if unclaimed {
		if !before {
			first = a.now()
		}
		since[lv.UID] = first
		if _, marked := lv.Annotations[v1alpha1.UnclaimedAnnotation]; !marked && a.now().Sub(first) < settleTime {
			return true, nil
		}
		if refused {
			return false, a.delete(ctx, lv)
		}
	}
	return false, a.mark(ctx, lv, unclaimed)
}

// delete deletes an object that nobody waits for any longer. An operator that is killed before it withdraws a refused
// object leaves one when the claim is deleted meanwhile. If the object has changed since it was judged, it stays.
func (a *Auditor) delete(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	err := a.Client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete LogicalVolume %s, which was refused and has no claim: %w", lv.Name, err)
	}
	log.FromContext(ctx).Info("Deleted a LogicalVolume that was refused and has no claim", "logicalVolume", lv.Name,
		"node", lv.Spec.NodeName)
	return nil
}

// unclaimed tells whether a volume that was made, or an object that was refused, is known to nothing.
func (a *Auditor) unclaimed(ctx context.Context, lv *topolvmv1.LogicalVolume, known map[string]bool) (bool, error) {
	switch {
	case lv.Status.VolumeID == "" && !driver.IsRefused(lv) || !lv.DeletionTimestamp.IsZero() ||
		known[lv.Status.VolumeID] || known[lv.Name]:
		return false, nil
	case strings.HasPrefix(lv.Name, snapshotPrefix) && !a.Snapshots:
		return false, nil // Nobody can tell.
	}
	namespace, name, named := strings.Cut(lv.Annotations[v1alpha1.ClaimAnnotation], "/")
	if !named {
		return true, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := a.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim %s/%s of LogicalVolume %s: %w", namespace, name, lv.Name, err)
	}
	return volumePrefix+string(claim.UID) != lv.Name, nil
}

// known returns what PersistentVolumes and VolumeSnapshotContents know: the handles of volumes, and the names of
// LogicalVolumes that are being made for them.
func (a *Auditor) known(ctx context.Context) (map[string]bool, error) {
	known := map[string]bool{}
	err := paging.Each(ctx, a.Live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			if source := list.Items[i].Spec.CSI; source != nil && source.Driver == v1alpha1.DriverName {
				known[source.VolumeHandle] = true
			}
		}
	})
	if err != nil || !a.Snapshots {
		return known, err
	}
	contents := &unstructured.UnstructuredList{}
	contents.SetAPIVersion("snapshot.storage.k8s.io/v1")
	contents.SetKind("VolumeSnapshotContentList")
	return known, paging.Each(ctx, a.Live, contents, func(list *unstructured.UnstructuredList) {
		for i := range list.Items {
			content := list.Items[i].Object
			for _, path := range [][]string{{"status", "snapshotHandle"}, {"spec", "source", "snapshotHandle"}} {
				if handle, _, _ := unstructured.NestedString(content, path...); handle != "" {
					known[handle] = true
				}
			}
			if uid, _, _ := unstructured.NestedString(content, "spec", "volumeSnapshotRef", "uid"); uid != "" {
				known[snapshotPrefix+uid] = true
			}
		}
	})
}

// found is a Warning event on the LogicalVolume: no PersistentVolume, no snapshot and no claim refers to its volume,
// which takes up space.
// What to do: if its data is not needed, delete the LogicalVolume; see [how to find orphans](../how-to/orphans.md).
var found = event.Warning("UnclaimedLogicalVolume", "Audit",
	"no PersistentVolume, no snapshot and no claim knows this volume on node %s (%s): it takes room; if its data is "+
		"not needed, run: kubectl delete logicalvolume %s")

// mark marks a LogicalVolume, or takes its mark away.
func (a *Auditor) mark(ctx context.Context, lv *topolvmv1.LogicalVolume, unclaimed bool) error {
	if _, marked := lv.Annotations[v1alpha1.UnclaimedAnnotation]; marked == unclaimed {
		return nil
	}
	value := "null"
	if unclaimed {
		value = `"true"`
	}
	patch := client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.UnclaimedAnnotation, value))
	if err := a.Client.Patch(ctx, lv, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("mark LogicalVolume %s: %w", lv.Name, err))
	}
	if unclaimed {
		a.Recorder.Eventf(lv, nil, found.Type, found.Reason, found.Action, found.Text, lv.Spec.NodeName,
			lv.Spec.Size.String(), lv.Name)
	}
	return nil
}

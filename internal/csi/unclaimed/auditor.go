// Package unclaimed finds volumes that nothing in the cluster knows but their own LogicalVolume: no PersistentVolume, no
// VolumeSnapshotContent, and no claim for which they are being made. A claim that is deleted in the moment in which the operator is killed
// leaves one; so does a PersistentVolume that was kept (Retain) and then deleted by hand. It marks them, and removes nothing: the node
// agent lists what is marked with its orphans.
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
	"github.com/lvm-storage/lvm-operator/internal/event"
	"github.com/lvm-storage/lvm-operator/internal/paging"
)

const (
	// interval is how often the cluster is looked at.
	interval = 10 * time.Minute
	// settleTime is how long a volume must have been unclaimed before it is marked: what is being made or removed is not.
	settleTime = 2 * time.Minute
)

// The names that the side-cars give to what they make end with the UID of what they make it for (external-provisioner and
// external-snapshotter, --volume-name-prefix and --snapshot-name-prefix).
const (
	volumePrefix   = "pvc-"
	snapshotPrefix = "snapshot-"
)

// Options are what an Auditor needs.
type Options struct {
	// Client reads LogicalVolumes from a cache, and writes. Live reads from the API server.
	Client client.Client
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

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumes;persistentvolumeclaims,verbs=get;list
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotcontents,verbs=list

// audit looks once. again tells that something has not been unclaimed for long enough. A read that fails changes no mark.
func (a *Auditor) audit(ctx context.Context) (again bool, err error) {
	// The LogicalVolumes are read first: one comes before what knows it, and goes before that.
	list := &topolvmv1.LogicalVolumeList{}
	if err := a.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list LogicalVolumes: %w", err)
	}
	if len(list.Items) == 0 {
		return false, nil
	}
	known, err := a.known(ctx)
	if err != nil {
		return false, err
	}
	since := map[types.UID]time.Time{}
	var errs []error
	for i := range list.Items {
		lv := &list.Items[i]
		unclaimed, err := a.unclaimed(ctx, lv, known)
		if err != nil {
			errs = append(errs, err)
			if first, ok := a.since[lv.UID]; ok {
				since[lv.UID] = first
			}
			continue
		}
		if unclaimed {
			if since[lv.UID] = a.since[lv.UID]; since[lv.UID].IsZero() {
				since[lv.UID] = a.now()
			}
			if _, marked := lv.Annotations[v1alpha1.UnclaimedAnnotation]; !marked && a.now().Sub(since[lv.UID]) < settleTime {
				again = true
				continue
			}
		}
		errs = append(errs, a.mark(ctx, lv, unclaimed))
	}
	a.since = since
	return again, errors.Join(errs...)
}

// unclaimed tells whether a volume that was made is known to nothing.
func (a *Auditor) unclaimed(ctx context.Context, lv *topolvmv1.LogicalVolume, known map[string]bool) (bool, error) {
	switch {
	case lv.Status.VolumeID == "" || !lv.DeletionTimestamp.IsZero() || known[lv.Status.VolumeID] || known[lv.Name]:
		return false, nil
	case strings.HasPrefix(lv.Name, snapshotPrefix) && !a.Snapshots:
		return false, nil // Nobody can tell.
	}
	// The cache has not all of it.
	live := &topolvmv1.LogicalVolume{}
	err := a.Live.Get(ctx, client.ObjectKeyFromObject(lv), live)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("LogicalVolume %s: %w", lv.Name, err)
	}
	namespace, name, named := strings.Cut(live.Annotations[v1alpha1.ClaimAnnotation], "/")
	if !named {
		return true, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err = a.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim %s/%s of LogicalVolume %s: %w", namespace, name, lv.Name, err)
	}
	return volumePrefix+string(claim.UID) != lv.Name, nil
}

// known returns what PersistentVolumes and VolumeSnapshotContents know: the handles of volumes, and the names of LogicalVolumes that are
// being made for them.
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

var found = event.Warning("UnclaimedLogicalVolume", "Audit",
	"no PersistentVolume, no snapshot and no claim knows this volume on node %s (%s): it takes room; if its data is not needed, run: kubectl delete logicalvolume %s")

// mark brings the mark of a LogicalVolume to what is true.
func (a *Auditor) mark(ctx context.Context, cached *topolvmv1.LogicalVolume, unclaimed bool) error {
	if _, marked := cached.Annotations[v1alpha1.UnclaimedAnnotation]; marked == unclaimed {
		return nil
	}
	// The cache has not all annotations: only this one is named.
	value := "null"
	if unclaimed {
		value = `"true"`
	}
	lv := cached.DeepCopy()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.UnclaimedAnnotation, value))
	if err := a.Client.Patch(ctx, lv, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("mark LogicalVolume %s: %w", lv.Name, err))
	}
	if unclaimed {
		a.Recorder.Eventf(lv, nil, found.Type, found.Reason, found.Action, found.Text, lv.Spec.NodeName, lv.Spec.Size.String(), lv.Name)
	}
	return nil
}

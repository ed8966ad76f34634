// Package unclaimed finds LogicalVolumes to which nothing in the cluster refers: no PersistentVolume, no
// VolumeSnapshotContent, and no claim for which they are being created. This happens if a claim is deleted while the
// operator is killed, or if a retained PersistentVolume is deleted by hand. The auditor marks such LogicalVolumes and
// deletes no volume; the node agent lists the marked ones with its orphans. A LogicalVolume that a node refused has no
// volume: it is deleted if its claim no longer exists. A LogicalVolume that waits for its node is marked before this
// process creates volumes, so that the node refuses it.
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/volume/snapshotref"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

const (
	// interval is the time between two audits.
	interval = 10 * time.Minute
	// settleTime is how long a volume must be unclaimed before it is marked, so that volumes that are being created or
	// deleted are not marked.
	settleTime = 2 * time.Minute
)

// Options configure an Auditor.
type Options struct {
	// Client writes. Live reads from the API server.
	Client client.Writer
	Live   client.Reader
	// Namespace is that of the operator, which has the VolumeMoves.
	Namespace string
	// Snapshots reports whether the cluster has the VolumeSnapshot API.
	Snapshots bool
	Recorder  event.Recorder
}

// Auditor marks unclaimed LogicalVolumes, and removes the mark when they are no longer unclaimed.
type Auditor struct {
	Options
	now   func() time.Time
	since map[types.UID]time.Time
	// attempts are those of MarkPending.
	attempts wait.Backoff
}

// New returns an Auditor.
func New(o Options) *Auditor {
	return &Auditor{Options: o, now: time.Now, since: map[types.UID]time.Time{},
		attempts: wait.Backoff{Duration: time.Second, Factor: 2, Steps: 4}}
}

// NeedLeaderElection returns true: one auditor is enough.
func (a *Auditor) NeedLeaderElection() bool { return true }

// Start audits until ctx ends. It implements manager.Runnable.
func (a *Auditor) Start(ctx context.Context) error {
	for {
		again, err := a.audit(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot check for unclaimed volumes")
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

// audit runs once. again reports whether a volume is unclaimed, but not long enough. If a read fails, audit changes no
// mark.
func (a *Auditor) audit(ctx context.Context) (again bool, err error) {
	ctx, end := liveness.Begin(ctx, "check for unclaimed volumes")
	defer end()
	known, err := a.known(ctx)
	if err != nil {
		return false, err
	}
	moves, err := a.moves(ctx)
	if err != nil {
		return false, err
	}
	since := map[types.UID]time.Time{}
	var errs []error
	// A volume whose PersistentVolume is created after the list of PersistentVolumes was read appears unclaimed once.
	// The settle time prevents the mark.
	err = paging.Each(ctx, a.Live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			early, err := a.judgeOne(ctx, &list.Items[i], known, moves, since)
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

// judgeOne judges a LogicalVolume, with the rules for those of VolumeMoves if it belongs to one.
func (a *Auditor) judgeOne(ctx context.Context, lv *topolvmv1.LogicalVolume, known, moves map[string]bool,
	since map[types.UID]time.Time) (early bool, err error) {
	if early, judged, err := a.judgeMove(ctx, lv, moves, since); judged || err != nil {
		return early, err
	}
	return a.judge(ctx, lv, known, since)
}

// judge updates the mark of a LogicalVolume and records since when it is unclaimed. early reports whether that is
// shorter than settleTime.
func (a *Auditor) judge(ctx context.Context, lv *topolvmv1.LogicalVolume, known map[string]bool,
	since map[types.UID]time.Time) (early bool, err error) {
	if volumespec.IsPreparation(lv) && !known[lv.Status.VolumeID] && !known[lv.Name] {
		return a.judgePreparation(ctx, lv, since)
	}
	first, before := a.since[lv.UID]
	refused := supply.IsRefused(lv)
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
		if !view.IsUnclaimed(lv) && a.now().Sub(first) < settleTime {
			return true, nil
		}
		if refused {
			return false, a.delete(ctx, lv)
		}
	}
	return false, a.mark(ctx, lv, unclaimed)
}

// delete deletes a LogicalVolume that a node refused and that has no claim. It remains if the operator is killed before
// it withdraws the refused LogicalVolume and the claim is deleted meanwhile. delete does nothing if the object has
// changed since it was judged.
func (a *Auditor) delete(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	err := a.Client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete LogicalVolume %s, which was refused and has no claim: %w", lv.Name, err)
	}
	log.FromContext(ctx).Info("deleted a refused LogicalVolume without a claim", "logicalVolume", lv.Name,
		"node", lv.Spec.NodeName)
	return nil
}

// judgePreparation deletes a snapshot that was created for a copy which is complete or does not exist. It remains if
// the operator is killed, or if the copy was withdrawn. No PersistentVolume and no VolumeSnapshotContent refers to it.
func (a *Auditor) judgePreparation(ctx context.Context, lv *topolvmv1.LogicalVolume,
	since map[types.UID]time.Time) (early bool, err error) {
	copied := view.CopyFor(lv)
	first, before := a.since[lv.UID]
	target := &topolvmv1.LogicalVolume{}
	err = a.Live.Get(ctx, client.ObjectKey{Name: copied}, target)
	if client.IgnoreNotFound(err) != nil {
		if before {
			since[lv.UID] = first
		}
		return false, fmt.Errorf("read LogicalVolume %s, for which %s was created: %w", copied, lv.Name, err)
	}
	needed := err == nil && target.Status.VolumeID == "" && target.DeletionTimestamp.IsZero()
	if needed || !lv.DeletionTimestamp.IsZero() {
		return false, nil
	}
	if !before {
		first = a.now()
	}
	since[lv.UID] = first
	if a.now().Sub(first) < settleTime {
		return true, nil
	}
	err = a.Client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion})
	if apierrors.IsConflict(err) || client.IgnoreNotFound(err) == nil {
		return false, nil
	}
	return false, fmt.Errorf("delete LogicalVolume %s, the snapshot for a copy that needs it no longer: %w", lv.Name,
		err)
}

// unclaimed reports whether nothing refers to a LogicalVolume that was created or refused.
func (a *Auditor) unclaimed(ctx context.Context, lv *topolvmv1.LogicalVolume, known map[string]bool) (bool, error) {
	switch {
	case !lv.DeletionTimestamp.IsZero() || known[lv.Status.VolumeID] || known[lv.Name]:
		return false, nil
	case lv.Status.VolumeID == "" && !supply.IsRefused(lv):
		// A client may wait for the volume, but not if it was marked before.
		if !view.IsUnclaimed(lv) {
			return false, nil
		}
		return a.abandoned(ctx, lv)
	case strings.HasPrefix(lv.Name, wellknown.SnapshotPrefix) && !a.Snapshots:
		return false, nil // Without the API it is unknown.
	}
	return a.lacksClaim(ctx, lv)
}

// lacksClaim reports whether the claim of a LogicalVolume does not exist, or is not known.
func (a *Auditor) lacksClaim(ctx context.Context, lv *topolvmv1.LogicalVolume) (bool, error) {
	key, known := view.ClaimKey(lv)
	if !known {
		return true, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := a.Live.Get(ctx, key, claim)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read claim %s of LogicalVolume %s: %w", key, lv.Name, err)
	}
	return wellknown.ClaimVolumePrefix+string(claim.UID) != lv.Name, nil
}

// known returns the volume handles to which PersistentVolumes and VolumeSnapshotContents refer, and the names of
// LogicalVolumes that are being created for them.
func (a *Auditor) known(ctx context.Context) (map[string]bool, error) {
	known := map[string]bool{}
	err := paging.Each(ctx, a.Live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			if source := list.Items[i].Spec.CSI; source != nil && view.IsDriver(source.Driver) {
				known[source.VolumeHandle] = true
			}
		}
	})
	if err != nil || !a.Snapshots {
		return known, err
	}
	return known, snapshotref.Each(ctx, a.Live, func(content snapshotref.Content) {
		for _, handleOrName := range content.Volumes {
			known[handleOrName] = true
		}
	})
}

// found is a Warning event on the LogicalVolume: no PersistentVolume, snapshot or claim refers to its volume, which
// takes up space.
// What to do: if its data is not needed, delete the LogicalVolume; see [how to find orphans](../how-to/orphans.md).
var found = event.Warning("UnclaimedLogicalVolume", "Audit",
	"no PersistentVolume, snapshot or claim uses this volume on node %s (%s): it takes up space; if its data is "+
		"not needed, run: kubectl delete logicalvolume %s")

// mark adds or removes the mark of a LogicalVolume.
func (a *Auditor) mark(ctx context.Context, lv *topolvmv1.LogicalVolume, unclaimed bool) error {
	if view.IsUnclaimed(lv) == unclaimed {
		return nil
	}
	value := "null"
	if unclaimed {
		value = `"true"`
	}
	patch := client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, wellknown.UnclaimedAnnotation, value))
	if err := a.Client.Patch(ctx, lv, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("annotate LogicalVolume %s: %w", lv.Name, err))
	}
	if unclaimed && lv.Status.VolumeID != "" {
		a.Recorder.Eventf(lv, nil, found.Type, found.Reason, found.Action, found.Text, lv.Spec.NodeName,
			lv.Spec.Size.String(), lv.Name)
	}
	return nil
}

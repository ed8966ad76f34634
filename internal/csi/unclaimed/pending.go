package unclaimed

import (
	"context"
	"errors"
	"fmt"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// MarkPending marks the LogicalVolumes that their nodes have not created yet and whose claims no longer exist: the
// operator that created them was killed, and nobody will use or delete their volumes. The node refuses to create the
// volume of a marked LogicalVolume. Call it in the leader before the provisioner starts: no client waits for a
// LogicalVolume then. If the API server does not answer, it gives up after some attempts: the volumes are then created,
// and reported as unclaimed.
func (a *Auditor) MarkPending(ctx context.Context) {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, a.attempts, func(ctx context.Context) (bool, error) {
		last = a.markAllPending(ctx)
		return last == nil, nil
	})
	if err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(last, "cannot check for LogicalVolumes that wait for their nodes and have no claim")
	}
}

func (a *Auditor) markAllPending(ctx context.Context) error {
	var errs []error
	err := paging.Each(ctx, a.Live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			if supply.IsPending(&list.Items[i]) {
				errs = append(errs, a.markPending(ctx, &list.Items[i]))
			}
		}
	})
	if err != nil {
		return fmt.Errorf("list LogicalVolumes: %w", err)
	}
	return errors.Join(errs...)
}

// markPending marks a LogicalVolume if nothing waits for it, and the node has not created its volume meanwhile.
func (a *Auditor) markPending(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if view.IsUnclaimed(lv) {
		return nil
	}
	abandoned, err := a.abandoned(ctx, lv)
	if !abandoned || err != nil {
		return err
	}
	marked := lv.DeepCopy()
	marked.Annotations[wellknown.UnclaimedAnnotation] = "true"
	err = a.Client.Patch(ctx, marked, client.MergeFromWithOptions(lv, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("annotate LogicalVolume %s, which has no claim: %w", lv.Name, err)
	}
	log.FromContext(ctx).Info("marked a LogicalVolume that was not created yet and has no claim", "logicalVolume",
		lv.Name, "node", lv.Spec.NodeName)
	return nil
}

// abandoned reports whether a LogicalVolume without a volume was created for a claim that no longer exists. A
// LogicalVolume that was restored or is imported has a volume on its node: it has a PersistentVolume of its name, or an
// annotation.
func (a *Auditor) abandoned(ctx context.Context, lv *topolvmv1.LogicalVolume) (bool, error) {
	if !strings.HasPrefix(lv.Name, wellknown.ClaimVolumePrefix) || view.Claim(lv) == "" || view.Import(lv) != "" {
		return false, nil
	}
	if lacks, err := a.lacksClaim(ctx, lv); err != nil || !lacks {
		return false, err
	}
	err := a.Live.Get(ctx, client.ObjectKey{Name: lv.Name}, &corev1.PersistentVolume{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read PersistentVolume %s: %w", lv.Name, err)
	}
	return err != nil, nil
}

package logicalvolume

import (
	"context"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
)

const (
	// workers is the number of volumes that are reconciled at the same time. Each one waits for LVM, and waiting
	// removals share a command.
	workers = 64
	// retryMin and retryMax limit the delay between two attempts for one volume.
	retryMin = 500 * time.Millisecond
	retryMax = time.Minute
)

// SetupWithManager adds the reconciler to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("logicalvolume").
		For(&topolvmv1.LogicalVolume{}, builder.WithPredicates(predicate.NewPredicateFuncs(r.ours))).
		WatchesRawSource(source.Channel(r.Copier.Ended(), &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				retryMin, retryMax),
		}).
		Complete(adapt.Reconciler(r))
}

// nodeField is the field selector for the LogicalVolumes of a node, if the CRD declares it (selectableFields).
const nodeField = "spec.nodeName"

// Selector returns a selector for the LogicalVolumes of a node. It returns nil if the API server does not support it,
// because the CRD is of an older version, or because Kubernetes is older than 1.31 and ignores selectableFields.
func Selector(ctx context.Context, live client.Reader, node string) (fields.Selector, error) {
	selector := fields.OneTermEqualSelector(nodeField, node)
	err := live.List(ctx, &topolvmv1.LogicalVolumeList{}, client.MatchingFieldsSelector{Selector: selector},
		client.Limit(1))
	if apierrors.IsBadRequest(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the LogicalVolumes of node %s: %w", node, err)
	}
	return selector, nil
}

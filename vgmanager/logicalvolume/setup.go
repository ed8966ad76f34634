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
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// workers is how many volumes are worked on at a time. Each waits for its turn at LVM, and those that are to be
	// removed go together.
	workers = 64
	// retryMin and retryMax bound the time between two attempts at one volume.
	retryMin = 500 * time.Millisecond
	retryMax = time.Minute
)

// SetupWithManager adds the reconciler to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("logicalvolume").
		For(&topolvmv1.LogicalVolume{}, builder.WithPredicates(predicate.NewPredicateFuncs(r.ours))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				retryMin, retryMax),
		}).
		Complete(r)
}

// nodeField is the field of a LogicalVolume by which the API server selects those of a node, where the CRD says so
// (selectableFields).
const nodeField = "spec.nodeName"

// Selector selects the LogicalVolumes of a node; nil if the API server cannot, because the CRD is that of an older
// version, or because Kubernetes is older than 1.31, which ignores selectableFields.
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

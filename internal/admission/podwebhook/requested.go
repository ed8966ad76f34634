package podwebhook

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/topolvm/topolvm"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// reader reads claims from the API server, because a Pod with a claim that was bound a moment ago must not be marked.
// It reads StorageClasses from a cache, or from the API server if they are not in the cache yet.
type reader struct {
	cached, live client.Reader
}

// requested returns the bytes that volumes of a Pod in a namespace request from each device class. It returns none if
// a claim of the driver is already bound, because the Pod can then run only on the node of its volume.
func (r reader) requested(ctx context.Context, namespace string, volumes []corev1.Volume) (map[string]int64, error) {
	requested := map[string]int64{}
	for i := range volumes {
		claim, err := r.claimOf(ctx, namespace, &volumes[i])
		if err != nil {
			return nil, err
		}
		if claim == nil {
			continue
		}
		class, err := r.deviceClass(ctx, claim)
		if err != nil {
			return nil, err
		}
		if class == "" {
			continue
		}
		if claim.Status.Phase != corev1.ClaimPending {
			return nil, nil
		}
		requested[class] = sum(requested[class], sizeOf(claim))
	}
	return requested, nil
}

// claimOf returns the claim of a volume, or nil if it has none or the claim does not exist: a Pod can be created before
// its claims. The claim of a generic ephemeral volume is created after the Pod, so claimOf returns its template.
func (r reader) claimOf(ctx context.Context, namespace string,
	volume *corev1.Volume) (*corev1.PersistentVolumeClaim, error) {
	switch {
	case volume.PersistentVolumeClaim != nil:
		name := volume.PersistentVolumeClaim.ClaimName
		claim := &corev1.PersistentVolumeClaim{}
		err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read PersistentVolumeClaim %s/%s: %w", namespace, name, err)
		}
		return claim, nil
	case volume.Ephemeral != nil && volume.Ephemeral.VolumeClaimTemplate != nil:
		return &corev1.PersistentVolumeClaim{Spec: volume.Ephemeral.VolumeClaimTemplate.Spec,
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}, nil
	}
	return nil, nil
}

// deviceClass returns the device class of a claim as in the annotations of Nodes, or "" if the claim has no
// StorageClass of the driver.
func (r reader) deviceClass(ctx context.Context, claim *corev1.PersistentVolumeClaim) (string, error) {
	if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName == "" {
		return "", nil
	}
	class := &storagev1.StorageClass{}
	key := client.ObjectKey{Name: *claim.Spec.StorageClassName}
	err := r.cached.Get(ctx, key, class)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, class)
	}
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read StorageClass %s: %w", key.Name, err)
	}
	if class.Provisioner != wellknown.DriverName {
		return "", nil
	}
	return cmp.Or(class.Parameters[wellknown.DeviceClassParameter], topolvm.DefaultDeviceClassAnnotationName), nil
}

// sizeOf returns the bytes that a claim requests; 1 GiB if it requests nothing.
func sizeOf(claim *corev1.PersistentVolumeClaim) int64 {
	return cmp.Or(claim.Spec.Resources.Requests.Storage().Value(), topolvm.DefaultSize)
}

// sum adds two sizes, up to the largest int64.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Package relocate has what the objects of a volume need when the volume changes its node: the PersistentVolume as it
// is recreated, because its node affinity cannot be changed, and the Pods that use its claim.
package relocate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// ProtectionFinalizer keeps a bound PersistentVolume (Kubernetes, controller pv-protection).
const ProtectionFinalizer = "kubernetes.io/pv-protection"

// PersistentVolume returns a PersistentVolume as it is created on another node: with its name, claim and volume handle.
func PersistentVolume(pv *corev1.PersistentVolume, node string) *corev1.PersistentVolume {
	finalizers := slices.DeleteFunc(slices.Clone(pv.Finalizers),
		func(f string) bool { return f == ProtectionFinalizer })
	moved := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: pv.Name, Labels: pv.Labels, Annotations: pv.Annotations,
			Finalizers: finalizers},
		Spec: *pv.Spec.DeepCopy(),
	}
	moved.Spec.NodeAffinity = Affinity(node)
	moved.Labels = maps.Clone(moved.Labels)
	metav1.SetMetaDataLabel(&moved.ObjectMeta, corev1.LabelHostname, node)
	if moved.Spec.ClaimRef != nil {
		moved.Spec.ClaimRef.ResourceVersion = ""
	}
	return moved
}

// InPlace moves a PersistentVolume to another node without recreating it, so that its claim never lacks it. It returns
// false if the API server does not permit that: it needs the feature gate MutablePVNodeAffinity (KEP-5381, alpha in
// Kubernetes 1.37), or the PersistentVolume is being deleted. It fails if the PersistentVolume has changed since it was
// read.
func InPlace(ctx context.Context, c client.Writer, pv *corev1.PersistentVolume, node string,
	policy corev1.PersistentVolumeReclaimPolicy) (bool, error) {
	if !pv.DeletionTimestamp.IsZero() {
		return false, nil
	}
	moved := pv.DeepCopy()
	moved.Spec.NodeAffinity = Affinity(node)
	moved.Spec.PersistentVolumeReclaimPolicy = policy
	metav1.SetMetaDataLabel(&moved.ObjectMeta, corev1.LabelHostname, node)
	err := c.Patch(ctx, moved, client.MergeFromWithOptions(pv, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsInvalid(err) {
		return false, nil
	}
	return err == nil, err
}

// Affinity returns the node affinity of a PersistentVolume of this driver on a node.
func Affinity(node string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: wellknown.TopologyNodeKey, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}
}

// Runs reports whether a Pod has not ended. A Pod that is not bound to a node has not ended either.
func Runs(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// Uses reports whether a Pod has a volume with a claim of its namespace.
func Uses(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim ||
			v.Ephemeral != nil && pod.Name+"-"+v.Name == claim
	})
}

// Get reads an object. It returns nil if the object does not exist.
func Get[T client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, object T) (T, error) {
	var none T
	err := reader.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("read %T %s: %w", object, key, err)
	}
	return object, nil
}

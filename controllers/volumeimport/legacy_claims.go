package volumeimport

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
)

// fsTypeParameter is the StorageClass parameter with the file system of volumes (external-provisioner).
const fsTypeParameter = "csi.storage.k8s.io/fstype"

// legacyStorageClass is a Warning event on the PersistentVolumeClaim: its StorageClass has the provisioner
// topolvm.cybozu.com, for which no volumes are created. The note names the StorageClass to use.
// What to do: recreate the claim with that StorageClass, or recreate the StorageClass; see [how to migrate
// volumes](../how-to/migrate-earlier-topolvm.md#5-replace-the-storageclasses).
var legacyStorageClass = event.Warning("EarlierStorageClass", "Provision", "no volume is created: %s")

// refusedClaims sends events for claims that wait for the provisioner of the earlier driver.
type refusedClaims struct {
	client client.Client
	// active has at least the claims that are not settled.
	active    client.Reader
	namespace string
	emitter   *event.Emitter
	// refused are the claims with the event EarlierStorageClass.
	refused map[types.UID]client.Object
}

// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch

// refuse sends an event for each claim that waits for the provisioner of the earlier driver. The claims stay
// pending. They are not passed to a provisioner that refuses them: it would not see a claim before the scheduler has
// selected a node, which it does not if TopoLVM reports no capacity.
func (r *refusedClaims) refuse(ctx context.Context, topolvm *runningTopoLVM) error {
	classes := &storagev1.StorageClassList{}
	if err := r.client.List(ctx, classes); err != nil {
		return fmt.Errorf("list StorageClasses: %w", err)
	}
	legacy := map[string]*storagev1.StorageClass{}
	for i := range classes.Items {
		if classes.Items[i].Provisioner == wellknown.EarlierDriverName {
			legacy[classes.Items[i].Name] = &classes.Items[i]
		}
	}
	pending, err := r.pending(ctx, legacy)
	if err != nil {
		return err
	}
	r.forgetOthers(pending)
	if len(pending) == 0 {
		return nil
	}
	if left, err := topolvm.runs(ctx); left || err != nil {
		return err
	}
	clusters := &v1alpha1.LVMClusterList{}
	if err := r.client.List(ctx, clusters, client.InNamespace(r.namespace)); err != nil {
		return fmt.Errorf("list LVMClusters: %w", err)
	}
	byDefault := ""
	for i := range clusters.Items {
		byDefault = cmp.Or(byDefault, classspec.Default(clusters.Items[i].Spec.Storage))
	}
	for _, claim := range pending {
		class := legacy[*claim.Spec.StorageClassName]
		r.emitter.Emit(claim, legacyStorageClass, refusal(class, classes.Items, byDefault))
		r.refused[claim.UID] = claim
	}
	return nil
}

// pending returns the claims that wait for a volume of one of the StorageClasses. Without StorageClasses, it
// reads nothing.
func (r *refusedClaims) pending(ctx context.Context,
	classes map[string]*storagev1.StorageClass) ([]*corev1.PersistentVolumeClaim, error) {
	if len(classes) == 0 {
		return nil, nil
	}
	list := &corev1.PersistentVolumeClaimList{}
	if err := r.active.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	var pending []*corev1.PersistentVolumeClaim
	for i := range list.Items {
		claim := &list.Items[i]
		if classes[ptr.Deref(claim.Spec.StorageClassName, "")] != nil && claim.Spec.VolumeName == "" &&
			claim.DeletionTimestamp.IsZero() {
			pending = append(pending, claim)
		}
	}
	return pending, nil
}

// forgetOthers removes what was stored about claims that no longer wait.
func (r *refusedClaims) forgetOthers(pending []*corev1.PersistentVolumeClaim) {
	for uid, claim := range r.refused {
		if !slices.ContainsFunc(pending, func(c *corev1.PersistentVolumeClaim) bool { return c.UID == uid }) {
			r.emitter.Forget(claim)
			delete(r.refused, uid)
		}
	}
}

// refusal returns why a StorageClass of the earlier driver has no volumes, and which StorageClass of this driver to
// use.
func refusal(class *storagev1.StorageClass, all []storagev1.StorageClass, byDefault string) string {
	wanted := cmp.Or(class.Parameters[wellknown.EarlierDeviceClassParameter], byDefault)
	var same []*storagev1.StorageClass
	for i := range all {
		c := &all[i]
		if c.Provisioner == wellknown.DriverName &&
			cmp.Or(c.Parameters[wellknown.DeviceClassParameter], byDefault) == wanted {
			same = append(same, c)
		}
	}
	// One with the same file system is the best.
	slices.SortFunc(same, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(otherFileSystem(a, class)-otherFileSystem(b, class), cmp.Compare(a.Name, b.Name))
	})
	about := fmt.Sprintf("StorageClass %s has the provisioner %s, which is only for existing volumes", class.Name,
		wellknown.EarlierDriverName)
	if len(same) > 0 {
		return fmt.Sprintf("%s: delete the claim, and create it again with StorageClass %s, which has the same device "+
			"class (%s)", about, same[0].Name, cmp.Or(wanted, "the default"))
	}
	parameter := fmt.Sprintf("the parameter %s: %s", wellknown.DeviceClassParameter, wanted)
	if wanted == "" {
		parameter = fmt.Sprintf("the parameter %s, whose value is a device class of the LVMCluster",
			wellknown.DeviceClassParameter)
	}
	return fmt.Sprintf("%s, and no StorageClass of the provisioner %s has its device class: delete StorageClass %s, "+
		"which deletes no volumes, and create one of this name with the provisioner %s and %s. The claim then gets a "+
		"volume", about, wellknown.DriverName, class.Name, wellknown.DriverName, parameter)
}

// otherFileSystem returns 1 if two StorageClasses have different file systems, and 0 otherwise.
func otherFileSystem(a, b *storagev1.StorageClass) int {
	if a.Parameters[fsTypeParameter] == b.Parameters[fsTypeParameter] {
		return 0
	}
	return 1
}

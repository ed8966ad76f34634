package volumeimport

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
)

// fsTypeParameter is the StorageClass parameter with the file system of volumes (external-provisioner).
const fsTypeParameter = "csi.storage.k8s.io/fstype"

// earlierStorageClass is a Warning event on the PersistentVolumeClaim: its StorageClass has the provisioner
// topolvm.cybozu.com, for which no volumes are created. The note names the StorageClass to use.
// What to do: recreate the claim with that StorageClass, or recreate the StorageClass; see [how to migrate
// volumes](../how-to/migrate-earlier-topolvm.md#5-replace-the-storageclasses).
var earlierStorageClass = event.Warning("EarlierStorageClass", "Provision", "no volume is created: %s")

// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch

// refuseClaims sends an event for each claim that waits for the provisioner of the earlier driver. The claims stay
// pending. They are not passed to a provisioner that refuses them: it would not see a claim before the scheduler has
// selected a node, which it does not if TopoLVM reports no capacity.
func (e *earlierVolumes) refuseClaims(ctx context.Context, topolvm *topolvmController) error {
	classes := &storagev1.StorageClassList{}
	if err := e.client.List(ctx, classes); err != nil {
		return fmt.Errorf("list StorageClasses: %w", err)
	}
	earlier := map[string]*storagev1.StorageClass{}
	for i := range classes.Items {
		if classes.Items[i].Provisioner == v1alpha1.EarlierDriverName {
			earlier[classes.Items[i].Name] = &classes.Items[i]
		}
	}
	pending, err := e.pendingClaims(ctx, earlier)
	if err != nil {
		return err
	}
	e.forgetOthers(pending)
	if len(pending) == 0 {
		return nil
	}
	if left, err := topolvm.runs(ctx); left || err != nil {
		return err
	}
	clusters := &v1alpha1.LVMClusterList{}
	if err := e.client.List(ctx, clusters, client.InNamespace(e.namespace)); err != nil {
		return fmt.Errorf("list LVMClusters: %w", err)
	}
	byDefault := ""
	for i := range clusters.Items {
		byDefault = cmp.Or(byDefault, clusters.Items[i].Spec.Storage.DefaultDeviceClass())
	}
	for _, claim := range pending {
		class := earlier[*claim.Spec.StorageClassName]
		e.emitter.Emit(claim, earlierStorageClass, refusal(class, classes.Items, byDefault))
		e.refused[claim.UID] = claim
	}
	return nil
}

// pendingClaims returns the claims that wait for a volume of one of the StorageClasses. Without StorageClasses, it
// reads nothing.
func (e *earlierVolumes) pendingClaims(ctx context.Context,
	classes map[string]*storagev1.StorageClass) ([]*corev1.PersistentVolumeClaim, error) {
	if len(classes) == 0 {
		return nil, nil
	}
	list := &corev1.PersistentVolumeClaimList{}
	if err := e.active.List(ctx, list); err != nil {
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
func (e *earlierVolumes) forgetOthers(pending []*corev1.PersistentVolumeClaim) {
	for uid, claim := range e.refused {
		if !slices.ContainsFunc(pending, func(c *corev1.PersistentVolumeClaim) bool { return c.UID == uid }) {
			e.emitter.Forget(claim)
			delete(e.refused, uid)
		}
	}
}

// refusal returns why a StorageClass of the earlier driver has no volumes, and which StorageClass of this driver to
// use.
func refusal(class *storagev1.StorageClass, all []storagev1.StorageClass, byDefault string) string {
	wanted := cmp.Or(class.Parameters[v1alpha1.EarlierDeviceClassParameter], byDefault)
	var same []*storagev1.StorageClass
	for i := range all {
		c := &all[i]
		if c.Provisioner == v1alpha1.DriverName &&
			cmp.Or(c.Parameters[v1alpha1.DeviceClassParameter], byDefault) == wanted {
			same = append(same, c)
		}
	}
	// One with the same file system is the best.
	slices.SortFunc(same, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(otherFileSystem(a, class)-otherFileSystem(b, class), cmp.Compare(a.Name, b.Name))
	})
	about := fmt.Sprintf("StorageClass %s has the provisioner %s, which is only for existing volumes", class.Name,
		v1alpha1.EarlierDriverName)
	if len(same) > 0 {
		return fmt.Sprintf("%s: delete the claim, and create it again with StorageClass %s, which has the same device "+
			"class (%s)", about, same[0].Name, cmp.Or(wanted, "the default"))
	}
	parameter := fmt.Sprintf("the parameter %s: %s", v1alpha1.DeviceClassParameter, wanted)
	if wanted == "" {
		parameter = fmt.Sprintf("the parameter %s, whose value is a device class of the LVMCluster",
			v1alpha1.DeviceClassParameter)
	}
	return fmt.Sprintf("%s, and no StorageClass of the provisioner %s has its device class: delete StorageClass %s, "+
		"which deletes no volumes, and create one of this name with the provisioner %s and %s. The claim then gets a "+
		"volume", about, v1alpha1.DriverName, class.Name, v1alpha1.DriverName, parameter)
}

// otherFileSystem returns 1 if two StorageClasses have different file systems, and 0 otherwise.
func otherFileSystem(a, b *storagev1.StorageClass) int {
	if a.Parameters[fsTypeParameter] == b.Parameters[fsTypeParameter] {
		return 0
	}
	return 1
}

// topolvmController tells whether the controller of TopoLVM runs. It reads all Pods, at most once.
type topolvmController struct {
	*earlierVolumes
	isRead, isRunning bool
	err               error
}

// runs reports whether a Pod of TopoLVM's controller exists that has not ended. Its sidecars then create, expand and
// delete the volumes of the earlier driver. They need not have a Lease, so only the Pod shows that they run.
func (t *topolvmController) runs(ctx context.Context) (bool, error) {
	if t.isRead {
		return t.isRunning, t.err
	}
	t.isRead = true
	t.err = paging.Until(ctx, t.live, &corev1.PodList{}, func(list *corev1.PodList) bool {
		for i := range list.Items {
			if pod := &list.Items[i]; relocate.Runs(pod) && hasTopoLVMController(pod) {
				t.isRunning = true
				t.tellThatControllerRuns(ctx, pod)
				return true
			}
		}
		return false
	})
	if t.err != nil {
		t.err = fmt.Errorf("list Pods to find out whether the controller of TopoLVM runs: %w", t.err)
	}
	return t.isRunning, t.err
}

// hasTopoLVMController reports whether a container runs topolvm-controller, as those of TopoLVM's chart and of LVMS
// before 4.13 do.
func hasTopoLVMController(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(slices.Concat(c.Command, c.Args),
			func(argument string) bool { return path.Base(argument) == "topolvm-controller" })
	})
}

// tellThatControllerRuns logs once for each Pod that TopoLVM's controller runs. This is not a problem.
func (e *earlierVolumes) tellThatControllerRuns(ctx context.Context, pod *corev1.Pod) {
	name := pod.Namespace + "/" + pod.Name
	if e.told[name] {
		return
	}
	e.told[name] = true
	log.FromContext(ctx).Info("creation, expansion and deletion of volumes of an earlier TopoLVM are left to it",
		"driver", v1alpha1.EarlierDriverName, "cause", "its controller runs in Pod "+name)
}

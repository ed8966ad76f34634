package logicalvolume

import (
	"context"
	"fmt"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
)

// maxAdopted is the maximum number of volumes to tag in one audit. Each one requires a command.
const maxAdopted = 10

// adopt tags the logical volumes that an older version created without tags.
func (a *Auditor) adopt(ctx context.Context, volumes []lvmd.VolumeState, objects []topolvmv1.LogicalVolume) error {
	owners := map[string]*topolvmv1.LogicalVolume{}
	for i := range objects {
		if lv := &objects[i]; lv.Status.VolumeID != "" && lv.DeletionTimestamp.IsZero() {
			owners[lv.Status.VolumeID] = lv
		}
	}
	adopted := 0
	for _, v := range volumes {
		owner := owners[v.Name]
		tagged := slices.ContainsFunc(v.Tags,
			func(tag string) bool { return strings.HasPrefix(tag, v1alpha1.VolumeUIDTagPrefix) })
		if owner == nil || tagged {
			continue
		}
		if adopted++; adopted > maxAdopted {
			a.Wake()
			return nil
		}
		claim, err := a.claim(ctx, owner)
		if err != nil {
			return err
		}
		if err := a.States.TagLV(ctx, v.Class, v.Name, tagsOf(owner, a.Cluster, claim), nil); err != nil {
			return fmt.Errorf("tag logical volume %s: %w", v.Name, err)
		}
		log.FromContext(ctx).Info("tagged a logical volume of an older version", "deviceClass", v.Class, "lv",
			v.Name, "claim", claim)
	}
	return nil
}

// claim returns the claim of a volume. If the object does not have it, claim reads the PersistentVolume with the same
// name.
func (a *Auditor) claim(ctx context.Context, lv *topolvmv1.LogicalVolume) (string, error) {
	if claim := lv.Annotations[v1alpha1.ClaimAnnotation]; claim != "" {
		return claim, nil
	}
	volume := &corev1.PersistentVolume{}
	err := a.Live.Get(ctx, client.ObjectKey{Name: lv.Name}, volume)
	if err != nil || volume.Spec.ClaimRef == nil {
		return "", client.IgnoreNotFound(err)
	}
	return volume.Spec.ClaimRef.Namespace + "/" + volume.Spec.ClaimRef.Name, nil
}

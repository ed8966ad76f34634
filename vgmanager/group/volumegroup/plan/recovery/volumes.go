package recovery

import (
	"fmt"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// Describe says which metadata a file has.
func Describe(m *textmeta.Metadata) string {
	return fmt.Sprintf("%s, change %d of the volume group, at %s: %s", m.File, m.Seqno,
		m.Created.UTC().Format("2006-01-02T15:04:05Z"), m.Description)
}

// CountKept returns the number of volumes of a group without those that are lost.
func CountKept(vg *lvm.VG, lost []v1alpha1.RecoveryVolume) int {
	kept := -len(lost)
	for i := range vg.LVs {
		if !vg.LVs[i].Attr.IsThinPool() {
			kept++
		}
	}
	return kept
}

// ClaimOf returns the claim for which a logical volume was created, according to its tags.
func ClaimOf(lv *lvm.LV) string { return state.TagOf(lv, wellknown.VolumeClaimTagPrefix) }

// Volumes returns logical volumes with their claims.
func Volumes(lvs []*lvm.LV, objects []v1alpha1.RecoveryVolume) []v1alpha1.RecoveryVolume {
	var list []v1alpha1.RecoveryVolume
	for _, lv := range lvs {
		volume := v1alpha1.RecoveryVolume{Name: lv.Name, UUID: lv.UUID, Size: int64(lv.Size)}
		for _, object := range objects {
			if object.Name == lv.Name {
				volume.Claim = object.Claim
			}
		}
		list = append(list, volume)
	}
	return list
}

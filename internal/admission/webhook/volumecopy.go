package webhook

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
)

// bandwidthPossible refuses a limit for copies that is not a whole number of bytes, or too low for a copy to end.
func bandwidthPossible(config *lvmv1alpha1.VolumeCopyConfig) field.ErrorList {
	if config == nil || config.BandwidthLimit == nil {
		return nil
	}
	if limit, whole := config.BandwidthLimit.AsInt64(); whole && limit >= classspec.MinBandwidthLimit {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "volumeCopy", "bandwidthLimit"),
		config.BandwidthLimit.String(), "must be a number of bytes per second of at least 1Mi: use a quantity like "+
			"100Mi, or remove it for no limit")}
}

// Package deletionwebhook refuses to delete a LogicalVolume to which something in the cluster refers, because its data
// would be lost. What nothing refers to can be deleted, as users of TopoLVM know it. The API server calls the webhook
// only for people: not for the operator, and not for a LogicalVolume that has no volume or whose deletion was allowed
// with an annotation.
package deletionwebhook

import (
	"context"
	"fmt"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// path is the path of the webhook on the server, which controller-runtime derives from the kind.
const path = "/validate-topolvm-io-v1-logicalvolume"

// maxShown is the number of objects that a refusal names.
const maxShown = 5

// Validator validates deletions of LogicalVolumes.
type Validator struct {
	// Live reads from the API server: a cache could miss an object that was created a moment ago.
	Live client.Reader
	// Namespace is that of the operator, which has the VolumeMoves.
	Namespace string
}

var _ admission.Validator[*topolvmv1.LogicalVolume] = &Validator{}

// SetupWithManager registers the validator with the manager's webhook server.
func (v *Validator) SetupWithManager(mgr manager.Manager) error {
	return builder.WebhookManagedBy(mgr, &topolvmv1.LogicalVolume{}).WithValidator(v).Complete()
}

// ValidateCreate allows every creation.
func (v *Validator) ValidateCreate(context.Context, *topolvmv1.LogicalVolume) (admission.Warnings, error) {
	return nil, nil
}

// ValidateUpdate allows every update.
func (v *Validator) ValidateUpdate(context.Context, *topolvmv1.LogicalVolume,
	*topolvmv1.LogicalVolume) (admission.Warnings, error) {
	return nil, nil
}

// ValidateDelete refuses the deletion if something refers to the LogicalVolume, or if that cannot be determined. A
// LogicalVolume that is being deleted already, or that has no volume, can always be deleted.
func (v *Validator) ValidateDelete(ctx context.Context, lv *topolvmv1.LogicalVolume) (admission.Warnings, error) {
	if lv.Status.VolumeID == "" || !lv.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	allow := fmt.Sprintf("If the data is not needed and nothing uses the volume, first run: kubectl annotate "+
		"logicalvolume %s %s=true", lv.Name, wellknown.AllowDeletionAnnotation)
	found, err := v.references(ctx, lv)
	if err != nil {
		return nil, fmt.Errorf("deleting LogicalVolume %s would destroy the data of its volume on node %s, and "+
			"whether something refers to it is not known: %w. Try again. %s", lv.Name, lv.Spec.NodeName, err, allow)
	}
	if len(found) == 0 {
		return nil, nil
	}
	more := ""
	if rest := len(found) - maxShown; rest > 0 {
		found, more = found[:maxShown], fmt.Sprintf(" and %d more", rest)
	}
	return nil, fmt.Errorf("deleting LogicalVolume %s would destroy the data of its volume on node %s, to which these "+
		"objects refer: %s%s. Instead, delete the PersistentVolumeClaim, PersistentVolume or VolumeSnapshot. %s",
		lv.Name, lv.Spec.NodeName, strings.Join(found, ", "), more, allow)
}

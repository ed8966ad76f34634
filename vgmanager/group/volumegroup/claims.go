package volumegroup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
)

// maxClaims is the maximum number of volumes at risk in a message.
const maxClaims = 20

// nameVolumes adds the volumes at risk, by their claims, to the problems. If a claim cannot be determined, the
// problem is reported without it.
func (r *Reconciler) nameVolumes(ctx context.Context, w plan.Desired, problems []plan.Problem) {
	concerned := func(p plan.Problem) bool { return len(p.Volumes) > 0 || p.AffectsClass }
	if !slices.ContainsFunc(problems, concerned) {
		return
	}
	volumes := r.volumes(ctx)
	claims := r.claims(ctx, problems, volumes)
	for i := range problems {
		if problems[i].AffectsClass {
			for _, volume := range volumes {
				if volume.Spec.DeviceClass == w.Name || volume.Spec.DeviceClass == "" && w.Spec.Default {
					problems[i].Volumes = append(problems[i].Volumes, volume.Status.VolumeID)
				}
			}
			claims = r.claims(ctx, problems, volumes)
		}
		if len(problems[i].Volumes) > 0 {
			problems[i].Message += "; volumes at risk: " + atRisk(problems[i].Volumes, claims)
		}
	}
}

func atRisk(volumes []string, claims map[string]string) string {
	var names []string
	for _, lv := range volumes {
		name := lv
		if claim := claims[lv]; claim != "" {
			name = fmt.Sprintf("%s (%s)", claim, lv)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > maxClaims {
		names = append(names[:maxClaims], fmt.Sprintf("and %d more", len(names)-maxClaims))
	}
	return strings.Join(names, ", ")
}

// volumes returns the LogicalVolumes of this node.
func (r *Reconciler) volumes(ctx context.Context) []topolvmv1.LogicalVolume {
	list := &topolvmv1.LogicalVolumeList{}
	if err := r.Client.List(ctx, list); err != nil {
		log.FromContext(ctx).Info("cannot look up the claims of the volumes at risk", "cause", err.Error())
		return nil
	}
	return slices.DeleteFunc(list.Items, func(v topolvmv1.LogicalVolume) bool {
		return v.Spec.NodeName != r.Node || v.Status.VolumeID == ""
	})
}

// claims returns the PersistentVolumeClaims, "namespace/name", of logical volumes.
func (r *Reconciler) claims(ctx context.Context, problems []plan.Problem,
	volumes []topolvmv1.LogicalVolume) map[string]string {
	claims := map[string]string{}
	wanted := map[string]bool{}
	for _, p := range problems {
		for _, lv := range p.Volumes {
			wanted[lv] = len(wanted) < maxClaims || wanted[lv]
		}
	}
	for i := range volumes {
		if lv := volumes[i].Status.VolumeID; wanted[lv] {
			claims[lv] = r.claimOf(ctx, &volumes[i])
		}
	}
	return claims
}

// claimOf returns the claim of the PersistentVolume with the name of the LogicalVolume.
func (r *Reconciler) claimOf(ctx context.Context, volume *topolvmv1.LogicalVolume) string {
	persistentVolume := &corev1.PersistentVolume{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: volume.Spec.Name}, persistentVolume); err != nil ||
		persistentVolume.Spec.ClaimRef == nil {
		return ""
	}
	return persistentVolume.Spec.ClaimRef.Namespace + "/" + persistentVolume.Spec.ClaimRef.Name
}

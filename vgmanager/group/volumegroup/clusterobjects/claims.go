// Package clusterobjects reads the objects of the cluster that the volume groups of a node depend on: LogicalVolumes,
// PersistentVolumes and their claims, approvals, records, and the lists of other nodes.
package clusterobjects

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
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// Objects reads objects of the cluster.
type Objects struct {
	Client client.Client
	// Live reads from the API server, not from a cache.
	Live            client.Reader
	Node, Namespace string
}

// maxClaims is the maximum number of volumes at risk in a message.
const maxClaims = 20

// NameVolumes adds the volumes at risk, by their claims, to the problems. If a claim cannot be determined, the
// problem is reported without it.
func (o *Objects) NameVolumes(ctx context.Context, d state.Desired, problems []state.Problem) {
	concerned := func(p state.Problem) bool { return len(p.Volumes) > 0 || p.AffectsClass }
	if !slices.ContainsFunc(problems, concerned) {
		return
	}
	volumes := o.volumes(ctx)
	claims := o.claims(ctx, problems, volumes)
	for i := range problems {
		if problems[i].AffectsClass {
			for _, volume := range volumes {
				if volume.Spec.DeviceClass == d.Name || volume.Spec.DeviceClass == "" && d.Spec.Default {
					problems[i].Volumes = append(problems[i].Volumes, volume.Status.VolumeID)
				}
			}
			claims = o.claims(ctx, problems, volumes)
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
func (o *Objects) volumes(ctx context.Context) []topolvmv1.LogicalVolume {
	list := &topolvmv1.LogicalVolumeList{}
	if err := o.Client.List(ctx, list); err != nil {
		log.FromContext(ctx).Info("cannot look up the claims of the volumes at risk", "cause", err.Error())
		return nil
	}
	return slices.DeleteFunc(list.Items, func(v topolvmv1.LogicalVolume) bool {
		return v.Spec.NodeName != o.Node || v.Status.VolumeID == ""
	})
}

// claims returns the PersistentVolumeClaims, "namespace/name", of logical volumes.
func (o *Objects) claims(ctx context.Context, problems []state.Problem,
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
			claims[lv] = o.claimOf(ctx, &volumes[i])
		}
	}
	return claims
}

// claimOf returns the claim of the PersistentVolume with the name of the LogicalVolume.
func (o *Objects) claimOf(ctx context.Context, volume *topolvmv1.LogicalVolume) string {
	persistentVolume := &corev1.PersistentVolume{}
	if err := o.Live.Get(ctx, client.ObjectKey{Name: volume.Spec.Name}, persistentVolume); err != nil ||
		persistentVolume.Spec.ClaimRef == nil {
		return ""
	}
	return persistentVolume.Spec.ClaimRef.Namespace + "/" + persistentVolume.Spec.ClaimRef.Name
}

// VolumesOf returns the volumes of a device class on this node according to the API, without their claims.
func (o *Objects) VolumesOf(ctx context.Context, d state.Desired) []v1alpha1.RecoveryVolume {
	var list []v1alpha1.RecoveryVolume
	for _, volume := range o.volumes(ctx) {
		if volume.Spec.DeviceClass == d.Name || volume.Spec.DeviceClass == "" && d.Spec.Default {
			list = append(list, v1alpha1.RecoveryVolume{Name: volume.Status.VolumeID, Size: volume.Spec.Size.Value()})
		}
	}
	return list
}

// AddClaims adds the claims to the lost, damaged, mounted and checked volumes of a new plan. It reads all
// PersistentVolumes once, because a plan can have many volumes. A failed read is an error, so that no plan without
// claims is approved.
func (o *Objects) AddClaims(ctx context.Context, p *v1alpha1.RecoveryPlan) error {
	if len(p.LostVolumes)+len(p.DamagedVolumes)+len(p.MountedVolumes)+len(p.CheckedVolumes) == 0 {
		return nil
	}
	claims := map[string]string{}
	err := paging.Each(ctx, o.Live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			source, claim := list.Items[i].Spec.CSI, list.Items[i].Spec.ClaimRef
			if source != nil && view.IsDriver(source.Driver) && claim != nil {
				claims[source.VolumeHandle] = claim.Namespace + "/" + claim.Name
			}
		}
	})
	if err != nil {
		return fmt.Errorf("read the claims of the volumes in a plan: %w", err)
	}
	for _, volumes := range [][]v1alpha1.RecoveryVolume{p.LostVolumes, p.DamagedVolumes, p.MountedVolumes,
		p.CheckedVolumes} {
		for i := range volumes {
			if claim, bound := claims[volumes[i].Name]; bound {
				volumes[i].Claim = claim
			}
		}
	}
	return nil
}

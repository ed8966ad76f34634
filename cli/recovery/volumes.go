package recovery

import (
	"fmt"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// volumesOfClaims returns the names of the logical volumes of claims in LVM, and where all of them are.
func volumesOfClaims(all []topolvmv1.LogicalVolume, claims []string, f session.TargetFlags) ([]string,
	session.TargetFlags, error) {
	var names []string
	for _, claim := range claims {
		if namespace, name, _ := strings.Cut(claim, "/"); namespace == "" || name == "" {
			return nil, f, fmt.Errorf("--claim %s has no namespace: give NAMESPACE/NAME", claim)
		}
		lv := volumeOfClaim(all, claim)
		if lv == nil {
			return nil, f, fmt.Errorf("no LogicalVolume on a node names the claim %s. If the volume was created by "+
				"upstream LVMS or TopoLVM, give --node, --class and --volume instead: kubectl get pv has the volume "+
				"handle", claim)
		}
		var err error
		if f.Node, err = same("node", claim, f.Node, lv.Spec.NodeName); err != nil {
			return nil, f, err
		}
		// A LogicalVolume without a device class is in the default one, which may be any.
		if lv.Spec.DeviceClass != "" {
			if f.Class, err = same("device class", claim, f.Class, lv.Spec.DeviceClass); err != nil {
				return nil, f, err
			}
		}
		names = append(names, lv.Status.VolumeID)
	}
	return names, f, nil
}

func volumeOfClaim(all []topolvmv1.LogicalVolume, claim string) *topolvmv1.LogicalVolume {
	for i := range all {
		lv := &all[i]
		isSnapshot := lv.Spec.AccessType == "ro" && lv.Spec.Source != ""
		isPartOfMove := view.Move(lv) != ""
		if view.Claim(lv) == claim && lv.Status.VolumeID != "" && !isSnapshot &&
			!isPartOfMove && lv.DeletionTimestamp == nil {
			return lv
		}
	}
	return nil
}

func same(what, claim, before, now string) (string, error) {
	if before != "" && before != now {
		return "", fmt.Errorf("the claim %s is on the %s %s, and not on %s: run the command once for each "+
			"%s", claim, what,
			now, before, what)
	}
	return now, nil
}

// volumeNames returns names of logical volumes without the volume group, each once. The status has names with it.
func volumeNames(given []string, group string) []string {
	var names []string
	for _, name := range given {
		if name = strings.TrimPrefix(name, group+"/"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// parseImports returns the volumes and claims of arguments like NAME or NAME=NAMESPACE/CLAIM.
func parseImports(given []string, group string) ([]string, []v1alpha1.RecoveryClaim, error) {
	var names []string
	var claims []v1alpha1.RecoveryClaim
	for _, argument := range given {
		name, claim, hasClaim := strings.Cut(argument, "=")
		name = strings.TrimPrefix(name, group+"/")
		if slices.Contains(names, name) {
			return nil, nil, fmt.Errorf("--volume %s is given twice", name)
		}
		names = append(names, name)
		if !hasClaim {
			continue
		}
		namespace, claimName, _ := strings.Cut(claim, "/")
		if namespace == "" || claimName == "" {
			return nil, nil, fmt.Errorf("--volume %s: %q is not a claim: give NAME=NAMESPACE/CLAIM", argument, claim)
		}
		claims = append(claims, v1alpha1.RecoveryClaim{Volume: name, Namespace: namespace, Name: claimName})
	}
	return names, claims, nil
}

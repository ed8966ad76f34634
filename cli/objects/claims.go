package objects

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// QualifyClaims returns the claims of arguments like NAME or NAMESPACE/NAME, each once, as NAMESPACE/NAME.
func QualifyClaims(args []string, namespace string) ([]string, error) {
	var claims []string
	for _, arg := range args {
		of, name, isQualified := strings.Cut(arg, "/")
		switch {
		case !isQualified && namespace == "":
			return nil, fmt.Errorf("the namespace of the claim %s is missing: give it with -n, or as NAMESPACE/%s", arg,
				arg)
		case !isQualified:
			of = namespace
			name = arg
		case namespace != "" && of != namespace:
			return nil, fmt.Errorf("the claim %s is not in the namespace %s of -n: give only one of the two namespaces",
				arg, namespace)
		}
		if of == "" || name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%q is not a claim: give NAME or NAMESPACE/NAME", arg)
		}
		if claim := of + "/" + name; !slices.Contains(claims, claim) {
			claims = append(claims, claim)
		}
	}
	return claims, nil
}

// DriverOf returns the CSI driver of a PersistentVolume, or "".
func DriverOf(pv *corev1.PersistentVolume) string {
	if pv.Spec.CSI == nil {
		return ""
	}
	return pv.Spec.CSI.Driver
}

// ClaimOfVolume returns the claim of a PersistentVolume as NAMESPACE/NAME, or "".
func ClaimOfVolume(pv *corev1.PersistentVolume) string {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name
}

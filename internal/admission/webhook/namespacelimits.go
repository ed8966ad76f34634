package webhook

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// namespaceLimitsPossible refuses limits of namespaces that are not a whole number of bytes from 0.
func namespaceLimitsPossible(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for i, class := range classes {
		for j, limit := range class.NamespaceLimits {
			if size, whole := limit.PerNode.AsInt64(); whole && size >= 0 {
				continue
			}
			at := classesPath.Index(i).Child("namespaceLimits").Index(j).Child("perNode")
			violations = append(violations, field.Invalid(at, limit.PerNode.String(), fmt.Sprintf("device class %q: "+
				"must be a number of bytes that is not negative: use a quantity like 100Gi, or 0 to allow no volume",
				class.Name)))
		}
	}
	return violations
}

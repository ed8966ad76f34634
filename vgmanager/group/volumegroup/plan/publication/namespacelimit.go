package publication

import (
	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// namespaceLimits returns the limits of namespaces as the engine has them, or nil if there are none.
func namespaceLimits(limits []v1alpha1.NamespaceLimit) []deviceclass.NamespaceLimit {
	var list []deviceclass.NamespaceLimit
	for i := range limits {
		list = append(list, deviceclass.NamespaceLimit{Namespace: limits[i].Namespace,
			PerNodeBytes: uint64(max(0, limits[i].PerNode.Value()))})
	}
	return list
}

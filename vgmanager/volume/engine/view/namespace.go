package view

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
)

// namespaceOf returns the namespace of a volume with these tags; "" if no claim is known: TopoLVM sets no tags, and the
// agent adds them to its volumes later.
func namespaceOf(tags []string) string {
	for _, tag := range tags {
		if claim, ok := strings.CutPrefix(tag, wellknown.VolumeClaimTagPrefix); ok {
			namespace, _, _ := strings.Cut(claim, "/")
			return namespace
		}
	}
	return ""
}

// limitOf returns the limit of a namespace, or nil if it has none.
func limitOf(limits []deviceclass.NamespaceLimit, namespace string) *deviceclass.NamespaceLimit {
	for _, name := range []string{namespace, ""} {
		at := slices.IndexFunc(limits, func(n deviceclass.NamespaceLimit) bool { return n.Namespace == name })
		if at >= 0 {
			return &limits[at]
		}
	}
	return nil
}

// used returns the total size of the volumes and snapshots that a namespace has in the class. Like the capacity, it
// counts the full size of thin volumes and snapshots, because every block of them can be written.
func used(v Class, namespace string) lvm.Bytes {
	var sum lvm.Bytes
	for i := range v.VG.LVs {
		if lv := &v.VG.LVs[i]; v.Has(lv) && namespaceOf(lv.Tags) == namespace {
			sum += lv.Size
		}
	}
	return sum
}

// AdmitNamespace returns ResourceExhausted if more bytes for a volume with these tags exceed the limit of its
// namespace. A volume without a namespace is not limited.
func (v Class) AdmitNamespace(tags []string, more lvm.Bytes) error {
	namespace := namespaceOf(tags)
	if namespace == "" {
		return nil
	}
	limit := limitOf(v.Config.NamespaceLimits, namespace)
	if limit == nil {
		return nil
	}
	used := used(v, namespace)
	if uint64(max(0, used+more)) <= limit.PerNodeBytes {
		return nil
	}
	return fault.New(fault.ResourceExhausted, "device class %s: namespace %s has %s of volumes and snapshots on "+
		"this node, and with %s more it would exceed its limit of %s on each node (namespaceLimits of the device "+
		"class): delete volumes or snapshots of the namespace, request less, or ask an administrator to raise the "+
		"limit", v.Config.Name, namespace, sizeText(uint64(used)), sizeText(uint64(more)), sizeText(limit.PerNodeBytes))
}

// sizeText returns a size as people write it, for example 10Gi.
func sizeText(bytes uint64) string {
	return resource.NewQuantity(int64(min(bytes, 1<<62)), resource.BinarySI).String()
}

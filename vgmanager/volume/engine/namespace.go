package engine

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// TagClaim precedes the claim or VolumeSnapshot of a volume in its tag, as NAMESPACE/NAME.
const TagClaim = "lvms.pvc="

// maxNamespaceLimits is the maximum number of limits of a class.
const maxNamespaceLimits = 32

// namespaceOf returns the namespace of a volume with these tags; "" if no claim is known: TopoLVM sets no tags, and the
// agent adds them to its volumes later.
func namespaceOf(tags []string) string {
	for _, tag := range tags {
		if claim, ok := strings.CutPrefix(tag, TagClaim); ok {
			namespace, _, _ := strings.Cut(claim, "/")
			return namespace
		}
	}
	return ""
}

// limitOf returns the limit of a namespace, or nil if it has none.
func limitOf(limits []deviceclass.NamespaceLimit, namespace string) *deviceclass.NamespaceLimit {
	for _, name := range []string{namespace, ""} {
		at := slices.IndexFunc(limits, func(l deviceclass.NamespaceLimit) bool { return l.Namespace == name })
		if at >= 0 {
			return &limits[at]
		}
	}
	return nil
}

// used returns the total size of the volumes and snapshots that a namespace has in the class. Like the capacity, it
// counts the full size of thin volumes and snapshots, because every block of them can be written.
func (l classView) used(namespace string) lvm.Bytes {
	var sum lvm.Bytes
	for i := range l.vg.LVs {
		if lv := &l.vg.LVs[i]; l.has(lv) && namespaceOf(lv.Tags) == namespace {
			sum += lv.Size
		}
	}
	return sum
}

// admitNamespace returns ResourceExhausted if more bytes for a volume with these tags exceed the limit of its
// namespace. A volume without a namespace is not limited.
func (l classView) admitNamespace(tags []string, more lvm.Bytes) error {
	namespace := namespaceOf(tags)
	if namespace == "" {
		return nil
	}
	limit := limitOf(l.class.NamespaceLimits, namespace)
	if limit == nil {
		return nil
	}
	used := l.used(namespace)
	if uint64(max(0, used+more)) <= limit.PerNodeBytes {
		return nil
	}
	return status.Errorf(codes.ResourceExhausted, "device class %s: namespace %s has %s of volumes and snapshots on "+
		"this node, and with %s more it would exceed its limit of %s on each node (namespaceLimits of the device "+
		"class): delete volumes or snapshots of the namespace, request less, or ask an administrator to raise the "+
		"limit", l.class.Name, namespace, sizeText(uint64(used)), sizeText(uint64(more)), sizeText(limit.PerNodeBytes))
}

// sizeText returns a size as people write it, for example 10Gi.
func sizeText(bytes uint64) string {
	return resource.NewQuantity(int64(min(bytes, 1<<62)), resource.BinarySI).String()
}

// validateLimits returns the invalid key of a class and the problem, or "".
func validateLimits(limits []deviceclass.NamespaceLimit) (key, problem string) {
	if len(limits) > maxNamespaceLimits {
		return "namespace-limits", fmt.Sprintf("has %d limits of namespaces, at most %d are possible", len(limits),
			maxNamespaceLimits)
	}
	seen := map[string]bool{}
	for i, limit := range limits {
		if seen[limit.Namespace] {
			return fmt.Sprintf("namespace-limits[%d].namespace", i), fmt.Sprintf("has two limits for namespace %q",
				limit.Namespace)
		}
		seen[limit.Namespace] = true
	}
	return "", ""
}

package webhook

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
)

// poolsClosed returns warnings for thin pools that accept no new volumes after a change, because the provisioned size
// exceeds the new overprovision ratio, or the usage exceeds the new high-water mark. Existing volumes are not affected.
func (i inventory) poolsClosed(before, after []lvmv1alpha1.DeviceClass) []string {
	var all []string
	for n, class := range after {
		config := class.ThinPoolConfig
		at := slices.IndexFunc(before, func(c lvmv1alpha1.DeviceClass) bool { return c.Name == class.Name })
		if config == nil || at < 0 || before[at].ThinPoolConfig == nil {
			continue
		}
		old := before[at].ThinPoolConfig
		path := classesPath.Index(n).Child("thinPoolConfig")
		if config.OverprovisionRatio < old.OverprovisionRatio {
			// The division avoids an overflow of the product.
			nodes := i.nodesOfPools(class.Name, func(pool *lvmv1alpha1.ThinPoolStatus) bool {
				return (promised(pool)-1)/int64(config.OverprovisionRatio) >= pool.Size.Value()
			})
			if len(nodes) > 0 {
				all = append(all, fmt.Sprintf("%s: device class %q: the provisioned size of the volumes on %s "+
					"exceeds %d times the size of the thin pool: existing volumes are not affected, but new "+
					"volumes, snapshots and expansions are rejected there until space is freed",
					path.Child("overprovisionRatio"), class.Name, shown(nodes), config.OverprovisionRatio))
			}
		}
		if mark := int32(config.HighWaterMarkPercent); mark < int32(old.HighWaterMarkPercent) {
			nodes := i.nodesOfPools(class.Name, func(pool *lvmv1alpha1.ThinPoolStatus) bool {
				return max(pool.DataPercent, pool.MetadataPercent) >= mark
			})
			if len(nodes) > 0 {
				all = append(all, fmt.Sprintf("%s: device class %q: thin pools already use %d%% or more on %s: new "+
					"volumes, snapshots and expansions are rejected there until space is freed",
					path.Child("highWaterMarkPercent"), class.Name, mark, shown(nodes)))
			}
		}
	}
	return all
}

// metadataKept refuses to reduce the metadata size: the metadata of a thin pool can only grow.
func metadataKept(before, after []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for n, class := range after {
		at := slices.IndexFunc(before, func(c lvmv1alpha1.DeviceClass) bool { return c.Name == class.Name })
		if at < 0 {
			continue
		}
		was := metadataAsked(before[at].ThinPoolConfig)
		is := metadataAsked(class.ThinPoolConfig)
		if was != nil && is != nil && is.Cmp(*was) < 0 {
			violations = append(violations, field.Invalid(classesPath.Index(n).Child("thinPoolConfig", "metadataSize"),
				is.String(), fmt.Sprintf(
					"was %s: the metadata of a thin pool cannot be reduced", was.String())))
		}
	}
	return violations
}

// unusedSize is a size of a thin pool that its calculation policy does not use.
type unusedSize struct {
	name  string
	value *resource.Quantity
}

// unusedSizes returns the sizes that LVM chooses although they are set. An unset policy for chunks is Static, and an
// unset policy for metadata is Host.
func unusedSizes(pool *lvmv1alpha1.ThinPoolConfig) []unusedSize {
	var unused []unusedSize
	if pool == nil {
		return nil
	}
	if pool.ChunkSize != nil && pool.ChunkSizeCalculationPolicy == lvmv1alpha1.SizeCalculationHost {
		unused = append(unused, unusedSize{"chunkSize", pool.ChunkSize})
	}
	if pool.MetadataSize != nil && pool.MetadataSizeCalculationPolicy != lvmv1alpha1.SizeCalculationStatic {
		unused = append(unused, unusedSize{"metadataSize", pool.MetadataSize})
	}
	return unused
}

// sizesUsed refuses to set a size that the calculation policy does not use. It allows a size that the device class had
// before, because upstream checks the policy only when an LVMCluster is created.
func sizesUsed(before, after []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for n, class := range after {
		var old *lvmv1alpha1.ThinPoolConfig
		at := slices.IndexFunc(before, func(c lvmv1alpha1.DeviceClass) bool { return c.Name == class.Name })
		if at >= 0 {
			old = before[at].ThinPoolConfig
		}
		for _, size := range unusedSizes(class.ThinPoolConfig) {
			if old != nil && (equality.Semantic.DeepEqual(size.value, old.ChunkSize) && size.name == "chunkSize" ||
				equality.Semantic.DeepEqual(size.value, old.MetadataSize) && size.name == "metadataSize") {
				continue
			}
			violations = append(violations, field.Invalid(
				classesPath.Index(n).Child("thinPoolConfig", size.name), size.value.String(), fmt.Sprintf(
					"%s requires %sCalculationPolicy Static: with Host, LVM chooses the size", size.name, size.name)))
		}
	}
	return violations
}

// sizesIgnored returns a warning for each size that the calculation policy does not use.
func sizesIgnored(classes []lvmv1alpha1.DeviceClass) []string {
	var all []string
	for _, class := range classes {
		for _, size := range unusedSizes(class.ThinPoolConfig) {
			all = append(all, fmt.Sprintf("device class %q: thinPoolConfig.%s %s has no effect, because "+
				"%sCalculationPolicy is Host", class.Name, size.name, size.value, size.name))
		}
	}
	return all
}

// maxDeviceName is the maximum length of the name of a device-mapper device (DM_NAME_LEN in linux/dm-ioctl.h, without
// the final zero).
const maxDeviceName = 127

// poolNamesPossible checks that the devices of the thin pools can have the names that LVM gives them: VG-POOL-tpool,
// VG-POOL_tdata and VG-POOL_tmeta, with each hyphen of a name doubled.
func poolNamesPossible(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for n, class := range classes {
		if class.ThinPoolConfig == nil || class.ExistingVolumeGroup != "" {
			continue
		}
		name := class.ThinPoolConfig.Name
		length := len(strings.ReplaceAll(class.Name+name, "-", "--")) + len("-") + len("-tpool")
		if length > maxDeviceName {
			violations = append(violations, field.Invalid(classesPath.Index(n).Child("thinPoolConfig", "name"), name,
				fmt.Sprintf("is too long: with the name of the device class, the device of the thin pool would have a "+
					"name of %d characters, and the kernel allows %d: choose a shorter name", length, maxDeviceName)))
		}
	}
	return violations
}

// chunksKept refuses to change the chunk size of a device class with a thin pool on any node: it is fixed when the pool
// is created.
func (i inventory) chunksKept(before, after []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for n, class := range after {
		at := slices.IndexFunc(before, func(c lvmv1alpha1.DeviceClass) bool { return c.Name == class.Name })
		if at < 0 || class.ThinPoolConfig == nil || before[at].ThinPoolConfig == nil ||
			sameChunks(before[at].ThinPoolConfig, class.ThinPoolConfig) {
			continue
		}
		if nodes := i.nodesOfPools(class.Name, func(*lvmv1alpha1.ThinPoolStatus) bool { return true }); len(nodes) > 0 {
			violations = append(violations, field.Forbidden(classesPath.Index(n).Child("thinPoolConfig",
				"chunkSize"), fmt.Sprintf(
				"device class %q already has a thin pool on %s, and the chunk size of a thin pool cannot be "+
					"changed: restore the old value, or create a device class with the new chunk size on other "+
					"devices",
				class.Name, shown(nodes))))
		}
	}
	return violations
}

// sameChunks reports whether two configurations request the same chunk size. An unset policy is Static.
func sameChunks(a, b *lvmv1alpha1.ThinPoolConfig) bool {
	host := func(c *lvmv1alpha1.ThinPoolConfig) bool {
		return c.ChunkSizeCalculationPolicy == lvmv1alpha1.SizeCalculationHost
	}
	return host(a) == host(b) && equality.Semantic.DeepEqual(a.ChunkSize, b.ChunkSize)
}

// metadataAsked returns the requested metadata size of a thin pool, or nil if LVM chooses it.
func metadataAsked(config *lvmv1alpha1.ThinPoolConfig) *resource.Quantity {
	switch {
	case config == nil || config.MetadataSizeCalculationPolicy != lvmv1alpha1.SizeCalculationStatic:
		return nil
	case config.MetadataSize == nil:
		return resource.NewQuantity(classspec.DefaultMetadataSize, resource.BinarySI)
	}
	return config.MetadataSize
}

// promised returns the provisioned size of all volumes of a pool in bytes, or 0 if it is unknown.
func promised(pool *lvmv1alpha1.ThinPoolStatus) int64 {
	if pool.VirtualSize == nil {
		return 0
	}
	return pool.VirtualSize.Value()
}

// nodesOfPools returns the sorted names of the nodes on which the thin pool of a device class fulfills a condition.
func (i inventory) nodesOfPools(class string, is func(*lvmv1alpha1.ThinPoolStatus) bool) []string {
	var nodes []string
	for node, status := range i.statuses {
		for n := range status.Status.NodeStatus {
			entry := &status.Status.NodeStatus[n]
			if entry.Name == class && entry.ThinPool != nil && is(entry.ThinPool) {
				nodes = append(nodes, node)
			}
		}
	}
	slices.Sort(nodes)
	return nodes
}

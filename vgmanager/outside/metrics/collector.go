// Package metrics exposes what the node agent observed to Prometheus: volume groups, redundancy, devices, and its own
// commands. The values are from the last node status in the cache: a scrape starts no process, calls no API server,
// and does not wait for LVM.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
)

// readLimit is the time limit of one read of the cache, which is in memory.
const readLimit = time.Second

// The metrics of RAID have upstream's names.
var (
	observed = metric.NewGauge("lvms_node_status_observed",
		"1 if the last observation of the node's devices succeeded, 0 if it failed and the node status has the "+
			"devices of an earlier observation.", "node")
	groupState = metric.NewGauge("lvms_volume_group_state",
		"1 for the current state of the volume group of a device class, 0 for the others (Progressing, Ready, "+
			"Degraded, Failed).", "node", "device_class", "state")
	free = metric.NewGauge("lvms_volume_group_free_bytes",
		"Free space of the volume group before redundancy, in bytes.", "node", "device_class")
	areaSize = metric.NewGauge("lvms_volume_group_metadata_size_bytes",
		"Size of LVM's metadata area of the volume group, in bytes. LVM can use half of it.", "node", "device_class")
	areaFree = metric.NewGauge("lvms_volume_group_metadata_free_bytes",
		"How much LVM's metadata of the volume group can grow, in bytes.", "node", "device_class")
	missing = metric.NewGauge("lvms_volume_group_missing_devices",
		"Number of devices of the volume group that are missing.", "node", "device_class")
	failing = metric.NewGauge("lvms_volume_group_failing_devices",
		"Number of devices of the volume group that return errors or do not answer.", "node", "device_class")
	virtual = metric.NewGauge("lvms_thinpool_virtual_bytes",
		"Sum of the virtual sizes of the volumes of the thin pool, in bytes. Divided by "+
			"topolvm_thinpool_size_bytes, it is the overcommitment ratio.", "node", "device_class")
	metadataSize = metric.NewGauge("lvms_thinpool_metadata_size_bytes",
		"Size of the thin pool's metadata, in bytes.", "node", "device_class")
	raidHealth = metric.NewGauge("lvms_raid_health_status",
		"Redundancy of the device class: 0 healthy, 1 degraded (a volume lacks a device or is not in sync), 2 failed "+
			"(the data of a volume cannot be read).", "node", "device_class")
	raidSyncing = metric.NewGauge("lvms_raid_sync_in_progress",
		"1 while a volume is being synchronized, 0 otherwise.", "node", "device_class")
	raidMembers = metric.NewGauge("lvms_raid_member_count",
		"Number of physical volumes of the volume group.", "node", "device_class")
	raidDegraded = metric.NewGauge("lvms_raid_degraded_count",
		"Number of physical volumes of the volume group that are missing or failing.", "node", "device_class")
	raidSynced = metric.NewGauge("lvms_raid_sync_percent",
		"Synchronized part of the volume that is least in sync, in percent.", "node", "device_class")
	deviceState = metric.NewGauge("lvms_device_state",
		"1 for the current state of a block device of the node (Available, InUse, Excluded, Missing, Failing, "+
			"Unknown). No series for the other states.",
		"node", "device", "device_id", "state")
	unmanaged = metric.NewGauge("lvms_unmanaged_volume_group_devices",
		"Number of block devices of the node in volume groups that LVMS does not manage, without the disks of the "+
			"operating system.", "node")
	excluded = metric.NewGauge("lvms_excluded_devices",
		"Number of block devices of the node that no device class can use, by reason. A device with several reasons "+
			"is counted for each of them.", "node", "reason")
)

// Families are all metrics of the Collector.
var Families = []metric.Family{observed, groupState, free, areaSize, areaFree, missing, failing, virtual, metadataSize,
	raidHealth, raidSyncing, raidMembers, raidDegraded, raidSynced, deviceState, excluded, unmanaged}

// states are the states for which a volume group has a series. A removed volume group has none.
var states = []v1alpha1.VGState{v1alpha1.VGStatusProgressing, v1alpha1.VGStatusReady, v1alpha1.VGStatusDegraded,
	v1alpha1.VGStatusFailed}

// Collector exposes the status of a node. It implements prometheus.Collector.
type Collector struct {
	client          client.Reader
	node, namespace string
}

// New returns a Collector for a node. The client reads from a cache.
func New(c client.Reader, node, namespace string) *Collector {
	return &Collector{client: c, node: node, namespace: namespace}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	metric.Describe(to, Families)
}

// Collect implements prometheus.Collector. If the status cannot be read, there are no series, because a missing value
// is not 0.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: c.node}, status); err != nil {
		if client.IgnoreNotFound(err) != nil {
			log.Log.Error(err, "cannot read the node status: the metrics of volume groups and devices are missing",
				"node", c.node)
		}
		return
	}
	observed.Send(to, number(meta.IsStatusConditionTrue(status.Status.Conditions,
		v1alpha1.ConditionDevicesObserved)), c.node)
	for i := range status.Status.NodeStatus {
		c.collectGroup(to, &status.Status.NodeStatus[i])
	}
	c.collectDevices(to, status.Status.Devices)
}

func (c *Collector) collectGroup(to chan<- prometheus.Metric, group *v1alpha1.VGStatus) {
	if group.Status == v1alpha1.VGStatusRemoved {
		return
	}
	for _, state := range states {
		groupState.Send(to, number(group.Status == state), c.node, group.Name, string(state))
	}
	count := map[v1alpha1.PhysicalVolumeState]int{}
	for _, volume := range group.PhysicalVolumes {
		count[volume.State]++
	}
	missing.Send(to, float64(count[v1alpha1.PhysicalVolumeMissing]), c.node, group.Name)
	failing.Send(to, float64(count[v1alpha1.PhysicalVolumeFailing]), c.node, group.Name)
	if group.Free != nil {
		free.Send(to, float64(group.Free.Value()), c.node, group.Name)
	}
	if area := group.MetadataArea; area != nil {
		areaSize.Send(to, float64(area.Size.Value()), c.node, group.Name)
		areaFree.Send(to, float64(area.Free.Value()), c.node, group.Name)
	}
	if pool := group.ThinPool; pool != nil {
		metadataSize.Send(to, float64(pool.MetadataSize.Value()), c.node, group.Name)
		if pool.VirtualSize != nil {
			virtual.Send(to, float64(pool.VirtualSize.Value()), c.node, group.Name)
		}
	}
	if group.RAIDStatus != nil {
		c.collectRAID(to, group.Name, group.RAIDStatus)
	}
}

// health has upstream's values.
var health = map[v1alpha1.RAIDState]float64{v1alpha1.RAIDHealthy: 0, v1alpha1.RAIDDegraded: 1, v1alpha1.RAIDFailed: 2}

func (c *Collector) collectRAID(to chan<- prometheus.Metric, class string, status *v1alpha1.RAIDStatus) {
	if value, ok := health[status.Status]; ok {
		raidHealth.Send(to, value, c.node, class)
	}
	raidMembers.Send(to, float64(status.MemberCount), c.node, class)
	raidDegraded.Send(to, float64(status.DegradedMemberCount), c.node, class)
	synced := int32(100)
	if status.MinSyncPercent != nil {
		synced = *status.MinSyncPercent
	}
	raidSyncing.Send(to, number(synced < 100), c.node, class)
	raidSynced.Send(to, float64(synced), c.node, class)
}

// Codes of reasons, as in vgmanager/disk/device.
const (
	inVolumeGroup = "InVolumeGroup"
	isOSDisk      = "IsOSDisk"
)

func (c *Collector) collectDevices(to chan<- prometheus.Metric, devices []v1alpha1.DeviceStatus) {
	reasons := map[string]int{}
	foreign := 0
	seen := map[string]bool{}
	for i := range devices {
		d := &devices[i]
		// A missing device is listed under its last name, which another device may have now.
		key := d.Name + "\n" + d.ID + "\n" + string(d.State)
		if seen[key] {
			continue
		}
		seen[key] = true
		deviceState.Send(to, 1, c.node, d.Name, d.ID, string(d.State))
		if d.State != v1alpha1.DeviceExcluded {
			continue
		}
		codes := map[string]bool{}
		for _, reason := range d.Reasons {
			codes[reason.Code] = true
		}
		for code := range codes {
			reasons[code]++
		}
		if codes[inVolumeGroup] && !codes[isOSDisk] {
			foreign++
		}
	}
	unmanaged.Send(to, float64(foreign), c.node)
	for reason, n := range reasons {
		excluded.Send(to, float64(n), c.node, reason)
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

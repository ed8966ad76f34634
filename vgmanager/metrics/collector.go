// Package metrics tells Prometheus what the node agent has found: volume groups, redundancy, devices, and its own commands. All of it is
// what was last written into the node status, read from a cache: a scrape starts no process, asks no API server, and waits for no LVM.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// readLimit is for one read of the cache, which is in memory.
const readLimit = time.Second

// family is one metric. Names and units follow https://prometheus.io/docs/practices/naming/; those of RAID are upstream's.
type family struct {
	name, help string
	labels     []string
}

var (
	observed = family{"lvms_node_status_observed",
		"1 if the list of the node's devices is what is there, 0 if the node could not be looked at and the list is what was seen before.", []string{"node"}}
	groupState = family{"lvms_volume_group_state",
		"1 for the state that the volume group of a device class is in, 0 for the others (Progressing, Ready, Degraded, Failed).", []string{"node", "device_class", "state"}}
	missing = family{"lvms_volume_group_missing_devices",
		"Number of devices of the volume group that are not there.", []string{"node", "device_class"}}
	failing = family{"lvms_volume_group_failing_devices",
		"Number of devices of the volume group that give errors or do not answer.", []string{"node", "device_class"}}
	virtual = family{"lvms_thinpool_virtual_bytes",
		"Sum of the sizes, in bytes, that the volumes of the thin pool promise. Divided by topolvm_thinpool_size_bytes it is the ratio of overcommitment.", []string{"node", "device_class"}}
	raidHealth = family{"lvms_raid_health_status",
		"Redundancy of the device class: 0 healthy, 1 degraded (a volume lacks a device or is not in sync), 2 failed (the data of a volume cannot be read).", []string{"node", "device_class"}}
	raidSyncing = family{"lvms_raid_sync_in_progress",
		"1 while a volume is being brought in sync.", []string{"node", "device_class"}}
	raidMembers = family{"lvms_raid_member_count",
		"Number of physical volumes of the volume group.", []string{"node", "device_class"}}
	raidDegraded = family{"lvms_raid_degraded_count",
		"Number of physical volumes of the volume group that are missing or failing.", []string{"node", "device_class"}}
	raidSynced = family{"lvms_raid_sync_percent",
		"How far the volume that is least in sync is, in percent.", []string{"node", "device_class"}}
	deviceState = family{"lvms_device_state",
		"1 for the state of a block device of the node (Available, InUse, Excluded, Missing, Failing, Unknown).", []string{"node", "device", "device_id", "state"}}
	excluded = family{"lvms_excluded_devices",
		"Number of block devices of the node that no device class can use, by reason; a device counts for each of its reasons.", []string{"node", "reason"}}
)

// families are all metrics of the collector.
var families = []family{observed, groupState, missing, failing, virtual, raidHealth, raidSyncing, raidMembers, raidDegraded, raidSynced, deviceState, excluded}

func (f family) desc() *prometheus.Desc { return prometheus.NewDesc(f.name, f.help, f.labels, nil) }

func (f family) gauge(to chan<- prometheus.Metric, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(f.desc(), prometheus.GaugeValue, value, labels...)
}

// states are those that a volume group has a series for. One that was removed has none.
var states = []v1alpha1.VGState{v1alpha1.VGStatusProgressing, v1alpha1.VGStatusReady, v1alpha1.VGStatusDegraded, v1alpha1.VGStatusFailed}

// Collector reads the status of a node. It implements prometheus.Collector.
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
	for _, f := range families {
		to <- f.desc()
	}
}

// Collect implements prometheus.Collector. A status that cannot be read has no series: absent is not zero.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: c.node}, status); err != nil {
		if client.IgnoreNotFound(err) != nil {
			log.Log.Error(err, "metrics of volume groups and devices are missing: the node status cannot be read", "node", c.node)
		}
		return
	}
	observed.gauge(to, number(meta.IsStatusConditionTrue(status.Status.Conditions, v1alpha1.ConditionDevicesObserved)), c.node)
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
		groupState.gauge(to, number(group.Status == state), c.node, group.Name, string(state))
	}
	count := map[v1alpha1.PhysicalVolumeState]int{}
	for _, volume := range group.PhysicalVolumes {
		count[volume.State]++
	}
	missing.gauge(to, float64(count[v1alpha1.PhysicalVolumeMissing]), c.node, group.Name)
	failing.gauge(to, float64(count[v1alpha1.PhysicalVolumeFailing]), c.node, group.Name)
	if pool := group.ThinPool; pool != nil && pool.VirtualSize != nil {
		virtual.gauge(to, float64(pool.VirtualSize.Value()), c.node, group.Name)
	}
	if group.RAIDStatus != nil {
		c.collectRAID(to, group.Name, group.RAIDStatus)
	}
}

// health are upstream's numbers.
var health = map[v1alpha1.RAIDState]float64{v1alpha1.RAIDHealthy: 0, v1alpha1.RAIDDegraded: 1, v1alpha1.RAIDFailed: 2}

func (c *Collector) collectRAID(to chan<- prometheus.Metric, class string, status *v1alpha1.RAIDStatus) {
	if value, ok := health[status.Status]; ok {
		raidHealth.gauge(to, value, c.node, class)
	}
	raidMembers.gauge(to, float64(status.MemberCount), c.node, class)
	raidDegraded.gauge(to, float64(status.DegradedMemberCount), c.node, class)
	synced := int32(100)
	if status.MinSyncPercent != nil {
		synced = *status.MinSyncPercent
	}
	raidSyncing.gauge(to, number(synced < 100), c.node, class)
	raidSynced.gauge(to, float64(synced), c.node, class)
}

func (c *Collector) collectDevices(to chan<- prometheus.Metric, devices []v1alpha1.DeviceStatus) {
	reasons := map[string]int{}
	seen := map[string]bool{}
	for i := range devices {
		d := &devices[i]
		// A device that is missing is listed under the name that it had, which another one may have by now.
		key := d.Name + "\n" + d.ID + "\n" + string(d.State)
		if seen[key] {
			continue
		}
		seen[key] = true
		deviceState.gauge(to, 1, c.node, d.Name, d.ID, string(d.State))
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
	}
	for reason, n := range reasons {
		excluded.gauge(to, float64(n), c.node, reason)
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

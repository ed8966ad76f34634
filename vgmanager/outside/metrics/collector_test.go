package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
)

// cached is a cache with one node status, or an error.
type cached struct {
	client.Reader
	status *v1alpha1.LVMVolumeGroupNodeStatus
	err    error
	reads  *int
}

func (c cached) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	*c.reads++
	status, ok := object.(*v1alpha1.LVMVolumeGroupNodeStatus)
	if !ok || key.Namespace != "ns" || key.Name != "node1" {
		return fmt.Errorf("asked for %T %s", object, key)
	}
	if c.err == nil {
		c.status.DeepCopyInto(status)
	}
	return c.err
}

// series returns the collected series as NAME{VALUES} VALUE, sorted.
func series(t *testing.T, status v1alpha1.LVMVolumeGroupNodeStatusStatus, err error) []string {
	t.Helper()
	reads := 0
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(cached{status: &v1alpha1.LVMVolumeGroupNodeStatus{Status: status}, err: err,
		reads: &reads}, "node1", "ns"))
	gathered, gatherErr := registry.Gather()
	if gatherErr != nil {
		t.Fatal(gatherErr)
	}
	var all []string
	for _, f := range gathered {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetName()+"="+l.GetValue())
			}
			all = append(all, fmt.Sprintf("%s{%s} %g", f.GetName(), strings.Join(values, ","), m.GetGauge().GetValue()))
		}
	}
	if reads != 1 {
		t.Errorf("%d reads", reads)
	}
	slices.Sort(all)
	return all
}

func seen() []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.ConditionDevicesObserved, Status: metav1.ConditionTrue}}
}

func TestThinClass(t *testing.T) {
	got := series(t, v1alpha1.LVMVolumeGroupNodeStatusStatus{Conditions: seen(), NodeStatus: []v1alpha1.VGStatus{{
		Name: "vg1", Status: v1alpha1.VGStatusDegraded,
		PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{{State: v1alpha1.PhysicalVolumeReady},
			{State: v1alpha1.PhysicalVolumeMissing}, {State: v1alpha1.PhysicalVolumeFailing},
			{State: v1alpha1.PhysicalVolumeFailing}},
		Free: ptr.To(resource.MustParse("1Gi")),
		MetadataArea: &v1alpha1.MetadataAreaStatus{Size: resource.MustParse("1020Ki"),
			Free: resource.MustParse("506Ki")},
		ThinPool: &v1alpha1.ThinPoolStatus{VirtualSize: ptr.To(resource.MustParse("3Gi")),
			MetadataSize: resource.MustParse("1Mi")},
	}, {Name: "gone", Status: v1alpha1.VGStatusRemoved}}}, nil)
	want := []string{
		"lvms_node_status_observed{node=node1} 1",
		"lvms_thinpool_metadata_size_bytes{device_class=vg1,node=node1} 1.048576e+06",
		"lvms_thinpool_virtual_bytes{device_class=vg1,node=node1} 3.221225472e+09",
		"lvms_unmanaged_volume_group_devices{node=node1} 0",
		"lvms_volume_group_failing_devices{device_class=vg1,node=node1} 2",
		"lvms_volume_group_free_bytes{device_class=vg1,node=node1} 1.073741824e+09",
		"lvms_volume_group_metadata_free_bytes{device_class=vg1,node=node1} 518144",
		"lvms_volume_group_metadata_size_bytes{device_class=vg1,node=node1} 1.04448e+06",
		"lvms_volume_group_missing_devices{device_class=vg1,node=node1} 1",
		"lvms_volume_group_state{device_class=vg1,node=node1,state=Degraded} 1",
		"lvms_volume_group_state{device_class=vg1,node=node1,state=Failed} 0",
		"lvms_volume_group_state{device_class=vg1,node=node1,state=Progressing} 0",
		"lvms_volume_group_state{device_class=vg1,node=node1,state=Ready} 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRedundancy(t *testing.T) {
	for name, tt := range map[string]struct {
		status v1alpha1.RAIDStatus
		want   string // health, syncing, percent, members, degraded
	}{
		"healthy": {v1alpha1.RAIDStatus{Status: v1alpha1.RAIDHealthy, MemberCount: 3,
			MinSyncPercent: ptr.To(int32(100))}, "0 0 100 3 0"},
		"no volumes yet": {v1alpha1.RAIDStatus{Status: v1alpha1.RAIDHealthy, MemberCount: 2}, "0 0 100 2 0"},
		"syncing": {v1alpha1.RAIDStatus{Status: v1alpha1.RAIDDegraded, MemberCount: 2,
			MinSyncPercent: ptr.To(int32(41))}, "1 1 41 2 0"},
		"lost a device": {v1alpha1.RAIDStatus{Status: v1alpha1.RAIDDegraded, MemberCount: 2, DegradedMemberCount: 1,
			MinSyncPercent: ptr.To(int32(100))}, "1 0 100 2 1"},
		"failed": {v1alpha1.RAIDStatus{Status: v1alpha1.RAIDFailed, MemberCount: 2, DegradedMemberCount: 2,
			MinSyncPercent: ptr.To(int32(0))}, "2 1 0 2 2"},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]string{}
			for _, s := range series(t, v1alpha1.LVMVolumeGroupNodeStatusStatus{
				NodeStatus: []v1alpha1.VGStatus{{Name: "r", Status: v1alpha1.VGStatusReady,
					RAIDStatus: &tt.status}}}, nil) {
				metric, value, _ := strings.Cut(s, "{device_class=r,node=node1} ")
				values[metric] = value
			}
			got := strings.Join([]string{values["lvms_raid_health_status"], values["lvms_raid_sync_in_progress"],
				values["lvms_raid_sync_percent"], values["lvms_raid_member_count"],
				values["lvms_raid_degraded_count"]}, " ")
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestDevices(t *testing.T) {
	reasons := func(codes ...string) []v1alpha1.DeviceReason {
		var list []v1alpha1.DeviceReason
		for _, code := range codes {
			list = append(list, v1alpha1.DeviceReason{Code: code})
		}
		return list
	}
	got := series(t, v1alpha1.LVMVolumeGroupNodeStatusStatus{Devices: []v1alpha1.DeviceStatus{
		{Name: "/dev/sda", ID: "wwn:1", State: v1alpha1.DeviceExcluded, Reasons: reasons("Mounted", "HasFilesystem")},
		{Name: "/dev/sdb", ID: "wwn:2", State: v1alpha1.DeviceExcluded, Reasons: reasons("Mounted", "Mounted")},
		{Name: "/dev/sdc", State: v1alpha1.DeviceInUse, Reasons: reasons("Mounted")},
		// The same name twice without an identity must give one series, not an error of the scrape.
		{Name: "/dev/sdd", State: v1alpha1.DeviceMissing}, {Name: "/dev/sdd", State: v1alpha1.DeviceMissing},
		{Name: "/dev/sdd", State: v1alpha1.DeviceAvailable},
		{Name: "/dev/sde", State: v1alpha1.DeviceExcluded, Reasons: reasons("InVolumeGroup")},
		{Name: "/dev/sdf", State: v1alpha1.DeviceExcluded, Reasons: reasons("InVolumeGroup", "IsOSDisk")},
	}}, nil)
	want := []string{
		"lvms_device_state{device=/dev/sda,device_id=wwn:1,node=node1,state=Excluded} 1",
		"lvms_device_state{device=/dev/sdb,device_id=wwn:2,node=node1,state=Excluded} 1",
		"lvms_device_state{device=/dev/sdc,device_id=,node=node1,state=InUse} 1",
		"lvms_device_state{device=/dev/sdd,device_id=,node=node1,state=Available} 1",
		"lvms_device_state{device=/dev/sdd,device_id=,node=node1,state=Missing} 1",
		"lvms_device_state{device=/dev/sde,device_id=,node=node1,state=Excluded} 1",
		"lvms_device_state{device=/dev/sdf,device_id=,node=node1,state=Excluded} 1",
		"lvms_excluded_devices{node=node1,reason=HasFilesystem} 1",
		"lvms_excluded_devices{node=node1,reason=Mounted} 2",
		"lvms_excluded_devices{node=node1,reason=InVolumeGroup} 2",
		"lvms_excluded_devices{node=node1,reason=IsOSDisk} 1",
		"lvms_node_status_observed{node=node1} 0",
		"lvms_unmanaged_volume_group_devices{node=node1} 1",
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNoStatusNoSeries checks that a status that does not exist or cannot be read has no series.
func TestNoStatusNoSeries(t *testing.T) {
	for _, err := range []error{apierrors.NewNotFound(schema.GroupResource{Resource: "x"}, "node1"),
		errors.New("the cache is not synced")} {
		if got := series(t, v1alpha1.LVMVolumeGroupNodeStatusStatus{}, err); len(got) != 0 {
			t.Errorf("%v: got %v", err, got)
		}
	}
}

// TestNamesFollowTheConventions checks names, units and help texts by Prometheus' rules (promlint).
func TestNamesFollowTheConventions(t *testing.T) {
	reads := 0
	full := &v1alpha1.LVMVolumeGroupNodeStatus{Status: v1alpha1.LVMVolumeGroupNodeStatusStatus{
		NodeStatus: []v1alpha1.VGStatus{{Name: "a", Free: ptr.To(resource.MustParse("1Gi")),
			ThinPool:   &v1alpha1.ThinPoolStatus{VirtualSize: ptr.To(resource.MustParse("1Gi"))},
			RAIDStatus: &v1alpha1.RAIDStatus{Status: v1alpha1.RAIDHealthy}}},
		Devices: []v1alpha1.DeviceStatus{{Name: "/dev/sda", State: v1alpha1.DeviceExcluded,
			Reasons: []v1alpha1.DeviceReason{{Code: "Mounted"}}}},
	}}
	collector := New(cached{status: full, reads: &reads}, "node1", "ns")
	problems, err := testutil.CollectAndLint(collector)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		// Upstream's names are kept.
		if !strings.HasPrefix(p.Metric, "lvms_raid_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if n := testutil.CollectAndCount(collector); n < len(Families) {
		t.Errorf("%d series of %d metrics: one is never told", n, len(Families))
	}
}

// TestCodesAreThoseOfTheDevices checks that the codes are those of the inventory.
func TestCodesAreThoseOfTheDevices(t *testing.T) {
	if inVolumeGroup != string(device.InVolumeGroup) || isOSDisk != string(device.IsOSDisk) {
		t.Error("the codes of package device have changed")
	}
}

package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
)

// fleet returns a cluster of nodes with 8 disks in each device class. Of every hundred nodes, one is Failed and ten are
// Degraded.
func fleet(t *testing.T, nodeCount, classCount int, excluded int) []lvmv1alpha1.DeviceClassStatus {
	t.Helper()
	var nodes []*corev1.Node
	reports := map[string][]lvmv1alpha1.VGStatus{}
	cluster := fixture.Cluster()
	for c := range classCount {
		cluster.Spec.Storage.DeviceClasses = append(cluster.Spec.Storage.DeviceClasses,
			lvmv1alpha1.DeviceClass{Name: fmt.Sprintf("vg%d", c)})
	}
	for i := range nodeCount {
		name := fmt.Sprintf("worker-%04d.cluster.example.com", i)
		nodes = append(nodes, fixture.Node(name, nil))
		for _, class := range cluster.Spec.Storage.DeviceClasses {
			reports[name] = append(reports[name], fleetEntry(class.Name, i, excluded))
		}
	}
	classes, err := deviceClassStatuses(cluster, stateOfNodes(nodes, reports))
	if err != nil {
		t.Fatal(err)
	}
	return classes
}

func fleetEntry(class string, node, excluded int) lvmv1alpha1.VGStatus {
	entry := fixture.VG(class, lvmv1alpha1.VGStatusReady, "")
	switch {
	case node%100 == 0:
		entry = fixture.VG(class, lvmv1alpha1.VGStatusFailed, strings.Repeat("a long reason; ", 40))
	case node%10 == 0:
		entry = fixture.VG(class, lvmv1alpha1.VGStatusDegraded, strings.Repeat("a long reason; ", 40))
	}
	entry.ObservedGeneration = 7
	entry.UUID = "wJBM8n-pLyu-fxzD-iQVk-tJvr-OI5T-WoXVtA"
	for j := range 8 {
		entry.Devices = append(entry.Devices, fmt.Sprintf("/dev/nvme%dn1", j))
		entry.PhysicalVolumes = append(entry.PhysicalVolumes, lvmv1alpha1.PhysicalVolumeStatus{
			UUID: fmt.Sprintf("%032d-%d", node, j), Name: "/dev/nvme0n1",
			Path: "/dev/disk/by-id/nvme-eui.00253858911b2e0f", State: "Ready"})
		entry.WipedDevices = append(entry.WipedDevices,
			lvmv1alpha1.WipedDevice{ID: fmt.Sprint("wwn:", j), Name: "/dev/nvme0n1"})
	}
	for j := range excluded {
		entry.Excluded = append(entry.Excluded,
			lvmv1alpha1.ExcludedDevice{Name: fmt.Sprintf("/dev/sd%c", 'a'+j),
				Reasons: []string{"HasSignature: carries xfs, uuid 57751e28-4ec2-49fe-9ad3-cfed55dcbac8"}})
	}
	entry.Conditions = []metav1.Condition{{Type: "DevicesHealthy", Status: metav1.ConditionTrue,
		Reason: "DevicesHealthy"}}
	return entry
}

func jsonSize(t *testing.T, object any) int {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

// statesOf counts the volume groups by state.
func statesOf(classes []lvmv1alpha1.DeviceClassStatus) map[lvmv1alpha1.VGState]int {
	counts := map[lvmv1alpha1.VGState]int{}
	eachEntry(classes, func(entry *lvmv1alpha1.VGStatus) { counts[entry.Status]++ })
	return counts
}

func TestStatusFitsIntoAnObject(t *testing.T) {
	const (
		failed   = lvmv1alpha1.VGStatusFailed
		degraded = lvmv1alpha1.VGStatusDegraded
		ready    = lvmv1alpha1.VGStatusReady
	)
	for name, tt := range map[string]struct {
		nodes, classes, excluded int
		want                     map[lvmv1alpha1.VGState]int
		hasExcluded, hasDevices  bool
	}{
		"three nodes": {3, 2, 8, map[lvmv1alpha1.VGState]int{failed: 2, ready: 4}, true, true},
		"a thousand nodes": {1000, 1, 0,
			map[lvmv1alpha1.VGState]int{failed: 10, degraded: 90, ready: 900}, false, true},
		"with many excluded devices": {1000, 1, 8,
			map[lvmv1alpha1.VGState]int{failed: 10, degraded: 90, ready: 900}, false, true},
		"with four device classes": {1000, 4, 8,
			map[lvmv1alpha1.VGState]int{failed: 40, degraded: 360, ready: 3600}, false, false},
		"with all device classes": {1000, 24, 1,
			map[lvmv1alpha1.VGState]int{failed: 240, degraded: 760}, false, false},
		"two thousand, of eight classes": {2000, 8, 0,
			map[lvmv1alpha1.VGState]int{failed: 160, degraded: 1440}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			classes := fleet(t, tt.nodes, tt.classes, tt.excluded)
			before := jsonSize(t, classes)
			got, err := truncate(classes)
			if err != nil {
				t.Fatal(err)
			}
			if size := jsonSize(t, got); size > statusLimit {
				t.Errorf("%d bytes, the limit is %d", size, statusLimit)
			}
			if diff := cmp.Diff(tt.want, statesOf(got)); diff != "" {
				t.Error(diff)
			}
			entry := got[0].NodeStatus[0]
			if (len(entry.Excluded) > 0) != tt.hasExcluded || (len(entry.Devices) > 0) != tt.hasDevices {
				t.Errorf("the first one has %+v", entry)
			}
			if jsonSize(t, classes) != before {
				t.Error("what the conditions are made of was changed")
			}
			if entry.PhysicalVolumes != nil || entry.WipedDevices != nil {
				t.Error("physical volumes and wiped devices are in the node status only")
			}
		})
	}
}

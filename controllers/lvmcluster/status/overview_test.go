package status

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func sized(status lvmv1alpha1.VGState, size, free, pool string) lvmv1alpha1.VGStatus {
	quantity := func(s string) *resource.Quantity {
		if s == "" {
			return nil
		}
		q := resource.MustParse(s)
		return &q
	}
	entry := lvmv1alpha1.VGStatus{Name: "vg1", Status: status, Size: quantity(size), Free: quantity(free)}
	if pool != "" {
		entry.ThinPool = &lvmv1alpha1.ThinPoolStatus{Name: "pool", Free: quantity(pool)}
	}
	return entry
}

func TestOverview(t *testing.T) {
	for name, tt := range map[string]struct {
		entries          []lvmv1alpha1.VGStatus
		groups, size, is string
	}{
		"nothing":   {nil, "0/0", "-", "-"},
		"not known": {[]lvmv1alpha1.VGStatus{sized("", "", "", "")}, "0/1", "-", "-"},
		"size without free": {[]lvmv1alpha1.VGStatus{sized(lvmv1alpha1.VGStatusReady, "1Gi", "", "")},
			"1/1", "-", "-"},
		"thick": {[]lvmv1alpha1.VGStatus{sized(lvmv1alpha1.VGStatusReady, "4092Mi", "92Mi", "")}, "1/1",
			"4092Mi", "92Mi"},
		"thin": {[]lvmv1alpha1.VGStatus{sized(lvmv1alpha1.VGStatusReady, "4092Mi", "412Mi", "3672Mi")},
			"1/1", "4092Mi", "4084Mi"},
		"full": {[]lvmv1alpha1.VGStatus{sized(lvmv1alpha1.VGStatusReady, "4092Mi", "0", "0")},
			"1/1", "4092Mi", "0"},
		"a broken one counts": {[]lvmv1alpha1.VGStatus{sized(lvmv1alpha1.VGStatusReady, "8Gi", "1Gi", ""),
			sized(lvmv1alpha1.VGStatusDegraded, "8Gi", "1Gi", ""), sized(lvmv1alpha1.VGStatusFailed, "", "", "")},
			"1/3", "16Gi", "2Gi"},
		"rounded down": {[]lvmv1alpha1.VGStatus{sized(lvmv1alpha1.VGStatusReady, "20000000000", "10737418239", "")},
			"1/1", "18Gi", "10239Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			class := lvmv1alpha1.DeviceClassStatus{Name: "vg1"}
			for i, entry := range tt.entries {
				class.NodeStatus = append(class.NodeStatus,
					lvmv1alpha1.NodeStatus{Node: fmt.Sprint("n", i%2), VGStatus: entry})
			}
			status := lvmv1alpha1.LVMClusterStatus{Size: resource.NewQuantity(1, resource.BinarySI)}
			o := overviewOf([]lvmv1alpha1.DeviceClassStatus{class})
			o.write(&status)
			shown := func(q *resource.Quantity) string {
				if q == nil {
					return "-"
				}
				return q.String()
			}
			if status.VolumeGroups != tt.groups || shown(status.Size) != tt.size || shown(status.Free) != tt.is {
				t.Errorf("got %s, %s, %s", status.VolumeGroups, shown(status.Size), shown(status.Free))
			}
		})
	}
}

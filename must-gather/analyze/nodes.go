package analyze

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// nodesNotReady finds nodes with storage that are not ready. Problems of everything that runs there follow from it.
func nodesNotReady(f *Facts) []Finding {
	var found []Finding
	known := sets.New[string]()
	for i := range f.Nodes {
		known.Insert(f.Nodes[i].Name)
	}
	for _, node := range sets.List(storageNodes(f)) {
		claims := claimsOn(f, node)
		held := fmt.Sprintf("its %d volumes cannot be used: %s", len(claims), some(claims, 8))
		switch len(claims) {
		case 0:
			held = "no volume is on it"
		case 1:
			held = "its volume cannot be used: " + claims[0]
		}
		c := notReady(f, node)
		switch {
		case c != nil:
			found = append(found, Finding{Severity: verdict.Critical, Runbook: "LVMSAgentDown",
				Text: fmt.Sprintf("node %s has not been ready since %s (%s: %s); %s", node,
					at(c.LastTransitionTime.Time),
					c.Reason, c.Message, held),
				Do: "repair the node; if it is permanently lost, see docs/how-to/lose-a-node.md"})
		case whole(f, "nodes") && len(f.Nodes) > 0 && !known.Has(node) && len(claims) > 0:
			found = append(found, Finding{Severity: verdict.Critical,
				Text: fmt.Sprintf("node %s no longer exists; %s", node, held), Do: "docs/how-to/lose-a-node.md"})
		}
	}
	return found
}

// devicesMoved finds paths of a device class that no longer resolve to their device, which now has another name.
func devicesMoved(f *Facts) []Finding {
	var found []Finding
	for i := range f.NodeStatuses {
		status := &f.NodeStatuses[i]
		for _, vg := range status.Status.NodeStatus {
			for _, pv := range vg.PhysicalVolumes {
				if pv.Path == "" || pv.DeviceID == "" {
					continue
				}
				device := deviceBehind(status.Status.Devices, pv.DeviceID)
				if device == nil || leads(device, pv.Path) {
					continue
				}
				found = append(found, Finding{Severity: verdict.Warning,
					Text: fmt.Sprintf(
						"device class %s names %s on node %s, which no longer exists: the device (%s) is now %s",
						vg.Name, pv.Path, status.Name, pv.DeviceID, device.Name),
					Do: "name the device by a link of /dev/disk/by-id instead: " + some(device.ByID, 2)})
			}
		}
	}
	return found
}

func deviceBehind(devices []v1alpha1.DeviceStatus, id string) *v1alpha1.DeviceStatus {
	at := slices.IndexFunc(devices, func(d v1alpha1.DeviceStatus) bool {
		return d.ID == id && d.State != v1alpha1.DeviceMissing
	})
	if at < 0 {
		return nil
	}
	return &devices[at]
}

// leads reports whether a path resolves to a device. It assumes so for links that are not listed, which are those
// outside of by-id and by-path.
func leads(d *v1alpha1.DeviceStatus, path string) bool {
	byID, isID := strings.CutPrefix(path, "/dev/disk/by-id/")
	byPath, isPath := strings.CutPrefix(path, "/dev/disk/by-path/")
	switch {
	case isID:
		return slices.Contains(d.ByID, byID)
	case isPath:
		return slices.Contains(d.ByPath, byPath)
	case strings.Count(path, "/") > 2:
		return true
	}
	return path == d.Name || path == d.KernelName
}

// Usage of a pool, in percent, from which there is a finding. At 95 % it accepts no new volume (the default of
// highWaterMarkPercent).
const (
	noteworthy = 75
	nearFull   = 85
	full       = 95
)

func poolFill(f *Facts) []Finding {
	var found []Finding
	for i := range f.NodeStatuses {
		for _, vg := range f.NodeStatuses[i].Status.NodeStatus {
			if vg.ThinPool == nil {
				continue
			}
			for part, percent := range map[string]int32{"data": vg.ThinPool.DataPercent,
				"metadata": vg.ThinPool.MetadataPercent} {
				severity := fillSeverity(percent)
				if severity == "" {
					continue
				}
				runbook := map[string]string{"data": "LVMSThinPoolDataFull",
					"metadata": "LVMSThinPoolMetadataFull"}[part]
				found = append(found, Finding{Severity: severity, Runbook: runbook,
					Text: fmt.Sprintf("the %s of thin pool %s/%s on node %s is %d %% full (size %s)", part, vg.Name,
						vg.ThinPool.Name, f.NodeStatuses[i].Name, percent, sizeOf(vg.ThinPool, part)),
					Do: "add a device to the device class, or delete volumes or snapshots: " +
						"writes fail when it is full"})
			}
		}
	}
	slices.SortFunc(found, func(a, b Finding) int { return strings.Compare(a.Text, b.Text) })
	return found
}

func sizeOf(pool *v1alpha1.ThinPoolStatus, part string) string {
	if part == "metadata" {
		return pool.MetadataSize.String()
	}
	return pool.Size.String()
}

func fillSeverity(percent int32) verdict.Severity {
	switch {
	case percent >= full:
		return verdict.Critical
	case percent >= nearFull:
		return verdict.Warning
	case percent >= noteworthy:
		return verdict.Info
	}
	return ""
}

// driversNotRegistered finds nodes with a running agent on which the driver is not registered, so that no volume can be
// mounted there.
func driversNotRegistered(f *Facts) []Finding {
	if !whole(f, "csinodes") {
		return nil
	}
	registered := sets.New[string]()
	for i := range f.CSINodes {
		for _, driver := range f.CSINodes[i].Spec.Drivers {
			if driver.Name == wellknown.DriverName {
				registered.Insert(f.CSINodes[i].Name)
			}
		}
	}
	var found []Finding
	for _, pod := range podsOf(f, agentName) {
		node := pod.Spec.NodeName
		if len(f.CSINodes) > 0 && pod.Status.Phase == corev1.PodRunning && notReady(f, node) == nil &&
			!registered.Has(node) {
			found = append(found, Finding{Severity: verdict.Warning,
				Text: fmt.Sprintf("the kubelet of node %s has not registered the CSI driver %s: no volume can be "+
					"mounted there",
					node, wellknown.DriverName),
				Do: "see the log of pod " + pod.Name + ", and nodes/" + node + "/journal-kubelet.log"})
		}
	}
	return found
}

// trouble matches lines of the kernel log about device errors.
var trouble = regexp.MustCompile(
	`(?i)(I/O error|medium error|critical target error|device offlined|rejecting I/O to (?:offline|dead) device|device-mapper: (?:thin|raid|space map)[^:]*:.*(?:fail|error|out of|abort|read-only|switch)|XFS .*(?:corrupt|error|shutdown)|EXT4-fs error|blocked for more than \d+ seconds)`)

// suspect reports whether a line contains one of the texts that trouble requires. This is much faster than the
// expression.
func suspect(line string) bool {
	return slices.ContainsFunc([]string{"rror", "ERROR", "ffline", "rejecting I/O", "device-mapper", "XFS", "EXT4-fs",
		"blocked for"}, func(part string) bool { return strings.Contains(line, part) })
}

var device = regexp.MustCompile(`(?:dev |device |\[)((?:sd[a-z]+|nvme\d+n\d+|vd[a-z]+|ubd[a-z]+|dm-\d+)\d*)`)

// kernelLog finds device errors in the kernel log of each node, with one finding for each device.
func kernelLog(f *Facts) []Finding {
	var found []Finding
	for _, node := range sets.List(sets.KeySet(f.Kernel)) {
		count := map[string]int{}
		last := map[string]string{}
		for _, line := range f.Kernel[node] {
			name := "a device"
			if m := device.FindStringSubmatch(line); m != nil {
				name = m[1]
			}
			count[name]++
			last[name] = line
		}
		for _, name := range sets.List(sets.KeySet(count)) {
			found = append(found, Finding{Severity: verdict.Warning, Runbook: "LVMSDeviceFailing",
				Text: fmt.Sprintf("the kernel of node %s has %d lines about errors of %s, the last: %s", node,
					count[name], name, last[name])})
		}
	}
	return found
}

package volumegroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/clusterobjects"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/noderecord"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// wipeRecords keeps the wipes of a device class. A new class with the name of a deleted one is another consent.
type wipeRecords struct {
	noderecord.Records[[]state.WipeRecord]
}

func newWipeRecords(dir string) wipeRecords {
	return wipeRecords{noderecord.New[[]state.WipeRecord](dir, "wiped", "the devices that were wiped for device class")}
}

// put adds a record, or replaces the record of the same consent and disk.
func (r wipeRecords) put(class string, record state.WipeRecord) error {
	list, err := r.Read(class)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(o state.WipeRecord) bool {
		return o.Class == record.Class &&
			o.ID == record.ID
	})
	return r.Write(class, append(list, record))
}

// completed marks the wipes of devices as done that are blank now: an agent that was killed after a wipe did not. It is
// called before the devices are used.
func (r wipeRecords) completed(desired state.Desired, s state.NodeState, devices []device.Device) error {
	for _, record := range s.Records.Wiped {
		if record.Done || record.Class != string(desired.UID) ||
			!slices.ContainsFunc(devices, func(d device.Device) bool { return record.IsOf(s, d) }) {
			continue
		}
		record.Done = true
		if err := r.put(desired.Name, record); err != nil {
			return err
		}
	}
	return nil
}

// wiper wipes devices of this node, and destroys the volume groups on them.
type wiper struct {
	lvm      LVM
	devices  Devices
	objects  *clusterobjects.Objects
	entries  *statusEntries
	events   *eventLog
	records  wipeRecords
	stateDir string
	now      func() time.Time
}

// carried returns a function that reads a device right before it is wiped.
func (x *wiper) carried(desired state.Desired,
	target state.WipeTarget) func(context.Context, device.Device, bool) (string, error) {
	return func(ctx context.Context, d device.Device, labeled bool) (string, error) {
		pvs, err := x.lvm.ReadLabels(ctx, d.Name)
		if err != nil {
			return "", err
		}
		return selection.ProtectedByLabels(desired, target, pvs, d.Number, labeled), nil
	}
}

// wipe destroys the signatures on one device. It writes the record first. Device.Wipe checks the device again.
func (x *wiper) wipe(ctx context.Context, d state.Desired, s state.NodeState, target state.WipeTarget) error {
	if !target.IsNamed() {
		if err := x.notWipedElsewhere(ctx, d, s, target.Device); err != nil {
			return err
		}
	}
	if err := selection.CheckPeers(d, s, target.Device); err != nil {
		return err
	}
	if err := x.objects.ConfirmApproved(ctx, d, s, target.Device); err != nil {
		return err
	}
	volumes, err := x.checkGroups(ctx, d, target)
	if err != nil {
		return err
	}
	record := selection.NewWipeRecord(d, s, target, x.now())
	record.Found = append(record.Found, volumes...)
	record.Backup = filepath.Join(x.stateDir, "wiped", d.Name+"-"+record.Time.UTC().Format("20060102-150405.000"))
	options := device.WipeOptions{
		Device: target.Device, PVs: state.PhysicalVolumes(s.Report), BackupDir: record.Backup,
		Protected: func(pv device.PV) string { return selection.Protected(d, s.Report, target, pv) },
		Carried:   x.carried(d, target),
	}
	if approval := selection.ApprovalOf(d, s, target.Device, target.Reasons); d.Spec.Approval != "" && approval != nil {
		record.Approved = approval.Spec.Fingerprint
		record.Blank = s.Disks.Fingerprints.Blank(target.Device)
		options.Fingerprint = s.Disks.Fingerprints.Of(target.Device, target.Reasons)
		options.Reasons = target.Reasons
	}
	if err := x.recordWipe(ctx, d, record); err != nil {
		return err
	}
	if err := x.backUpGroups(ctx, target, record.Backup); err != nil {
		return err
	}
	result, reasons, err := x.devices.Wipe(ctx, options)
	if len(reasons) > 0 {
		return errors.Join(fmt.Errorf("device %s of node %s was not wiped: it %s", target.Path, d.Node,
			device.Messages(reasons)), x.withdrawWipe(ctx, d, record))
	}
	if err != nil {
		return fmt.Errorf("wipe device %s of node %s: %w", target.Path, d.Node, err)
	}
	record.Done = true
	if err := x.records.put(d.Name, record); err != nil {
		return err
	}
	allowed := "forceWipeDevicesAndDestroyAllData allows"
	if len(target.Groups) > 0 {
		allowed = "wipeVolumeGroups allows"
	}
	contained := append(describeAll(result.Found), volumes...)
	x.events.emit(d, corev1.EventTypeWarning, state.EventDeviceWiped, fmt.Sprintf(
		"device %s (%s) of node %s was wiped for device class %s, as %s: it contained %s; a backup of the overwritten "+
			"data is in %s on the node",
		target.Path, record.ID, d.Node, d.Name, allowed, strings.Join(contained, ", "), record.Backup))
	return nil
}

// recordWipe records a wipe that is about to start, on the node and in the node status, which a node that is installed
// again does not lose.
func (x *wiper) recordWipe(ctx context.Context, d state.Desired, record state.WipeRecord) error {
	if err := x.records.put(d.Name, record); err != nil {
		return err
	}
	err := x.changeWiped(ctx, d, func(list []v1alpha1.WipedDevice) []v1alpha1.WipedDevice {
		return selection.WithWipe(list, record)
	})
	if err != nil {
		return fmt.Errorf("device %s of node %s was not wiped: record the wipe for device class %s: %w", record.Name,
			d.Node, d.Name, err)
	}
	return nil
}

// withdrawWipe removes the record of a wipe that changed nothing from the node status.
func (x *wiper) withdrawWipe(ctx context.Context, d state.Desired, record state.WipeRecord) error {
	return x.changeWiped(ctx, d, func(list []v1alpha1.WipedDevice) []v1alpha1.WipedDevice {
		return selection.WithoutWipe(list, record)
	})
}

// changeWiped changes the wiped devices in the node status.
func (x *wiper) changeWiped(ctx context.Context, d state.Desired,
	change func([]v1alpha1.WipedDevice) []v1alpha1.WipedDevice) error {
	nodeStatus, err := x.entries.nodeStatus(ctx, x.objects.Live)
	if err != nil {
		return err
	}
	if !hasEntry(nodeStatus, d.Name) {
		return fmt.Errorf("node status %s has no entry of the device class", x.objects.Node)
	}
	entry := entryOf(nodeStatus, d.Name)
	entry.WipedDevices = change(entry.WipedDevices)
	return x.entries.replaceEntry(ctx, nodeStatus, d.Name, &entry)
}

// deactivateGroup deactivates a volume group whose devices are about to be wiped. It checks it again before.
func (x *wiper) deactivateGroup(ctx context.Context, d state.Desired, s state.NodeState, a state.Action) error {
	target, _ := a.Target.(state.WipeTarget)
	if err := selection.CheckPeers(d, s, target.Device); err != nil {
		return err
	}
	if _, err := x.checkGroups(ctx, d, target); err != nil {
		return err
	}
	return x.lvm.Apply(ctx, a.Change)
}

// checkGroups reads the volume groups that a wipe destroys again, from their devices, and the objects of the cluster.
// It returns an error if one of the groups must not be destroyed, and otherwise descriptions of the groups.
func (x *wiper) checkGroups(ctx context.Context, d state.Desired, target state.WipeTarget) ([]string, error) {
	if len(target.Groups) == 0 {
		return nil, nil
	}
	owners := x.objects.ReadOwners(ctx)
	var described []string
	for _, g := range target.Groups {
		report, err := x.lvm.ReadDevices(ctx, device.Names(g.Devices)...)
		if err != nil {
			return nil, fmt.Errorf("check volume group %s of node %s before it is destroyed: %w", g.Name, d.Node, err)
		}
		at := slices.IndexFunc(report.VGs, func(vg lvm.VG) bool { return vg.UUID == g.UUID })
		if at < 0 {
			return nil, errors.New(selection.DestructionProblem(g, nil, owners))
		}
		if problem := selection.DestructionProblem(g, &report.VGs[at], owners); problem != "" {
			return nil, fmt.Errorf("device %s of node %s was not wiped: %s", target.Path, d.Node, problem)
		}
		described = append(described, selection.DescribeDestroyed(&report.VGs[at]))
	}
	return described, nil
}

// backUpGroups saves the metadata of the volume groups that a wipe destroys.
func (x *wiper) backUpGroups(ctx context.Context, target state.WipeTarget, dir string) error {
	if len(target.Groups) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("back up the metadata of volume groups before a wipe: %w", err)
	}
	for _, g := range target.Groups {
		backup := lvm.GroupBackup{Group: g.Other(), File: filepath.Join(dir, g.UUID+".vg")}
		if err := x.lvm.Apply(ctx, backup); err != nil {
			return err
		}
	}
	return nil
}

func describeAll(signatures []device.Signature) []string {
	var list []string
	for _, s := range signatures {
		text := s.Type
		if s.UUID != "" {
			text += " " + s.UUID
		}
		list = append(list, text)
	}
	return list
}

// notWipedElsewhere checks the records that outlive the Node object, because a reinstalled machine does not have the
// files.
func (x *wiper) notWipedElsewhere(ctx context.Context, desired state.Desired, s state.NodeState,
	d device.Device) error {
	records := &corev1.ConfigMap{}
	err := x.objects.Live.Get(ctx, client.ObjectKey{Namespace: x.objects.Namespace,
		Name: removednode.WipedDevices}, records)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the record of wiped devices (ConfigMap %s) before a wipe: %w",
			removednode.WipedDevices, err)
	}
	for _, key := range slices.Sorted(maps.Keys(records.Data)) {
		known := removednode.WipedDevice{}
		if err := json.Unmarshal([]byte(records.Data[key]), &known); err != nil {
			return fmt.Errorf("the record %s of wiped devices (ConfigMap %s) cannot be read: %w; nothing is wiped",
				key, removednode.WipedDevices, err)
		}
		record := state.WipeRecord{ID: known.ID, Names: known.Names}
		if known.DeviceClass != desired.Name || known.ClassUID != string(desired.UID) || !record.IsOf(s, d) {
			continue
		}
		return fmt.Errorf("disk %s of node %s was already wiped for device class %s before its Node was registered "+
			"again; nothing is wiped a second time: to wipe it, run wipefs on the node", known.ID,
			desired.Node, desired.Name)
	}
	return nil
}

package volumegroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
)

// wipeRecord records on the node the wipe of one disk for one device class. It is written before the wipe starts.
type wipeRecord struct {
	// Class is the UID of the LVMVolumeGroup with the consent.
	Class string `json:"class"`
	// ID is the identity of the disk.
	ID string `json:"id"`
	// Name, Found and Backup are information for users.
	Name   string    `json:"name"`
	Found  []string  `json:"found,omitempty"`
	Backup string    `json:"backup,omitempty"`
	Time   time.Time `json:"time"`
	// Done: the disk was wiped. If it is false, the agent crashed during the wipe. A retry may wipe only the
	// signatures in the record.
	Done bool `json:"done"`
}

// wipeRecords keeps the records of a device class in a file on the node.
type wipeRecords struct{ dir string }

func (r wipeRecords) path(class string) string { return filepath.Join(r.dir, "wiped-"+class+".json") }

func (r wipeRecords) read(class string) ([]wipeRecord, error) {
	data, err := os.ReadFile(r.path(class))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var records []wipeRecord
	if err == nil {
		err = json.Unmarshal(data, &records)
	}
	if err != nil {
		return nil, fmt.Errorf("record of the devices that were wiped for device class %s: %w", class, err)
	}
	return records, nil
}

// put adds a record, or replaces the record of the same consent and disk.
func (r wipeRecords) put(class string, record wipeRecord) error {
	records, err := r.read(class)
	if err != nil {
		return err
	}
	records = slices.DeleteFunc(records, func(o wipeRecord) bool {
		return o.Class == record.Class &&
			o.ID == record.ID
	})
	data, err := json.Marshal(append(records, record))
	if err != nil {
		return err
	}
	if err := lvmd.ReplaceFile(r.path(class), data); err != nil {
		return fmt.Errorf("record the wipe of %s for device class %s: %w", record.Name, class, err)
	}
	return nil
}

// forget deletes the records of a deleted device class. A new class with the same name is another consent.
func (r wipeRecords) forget(class string) error {
	if err := os.Remove(r.path(class)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the wipes of device class %s: %w", class, err)
	}
	return nil
}

// key returns the key of a disk for wipe records. It does not use an identity that a wipe destroys. A disk
// without a WWN or serial number is identified by the path that names it, so that an error can only prevent a wipe.
func (t wipeTarget) key(s Seen) string {
	if id := s.Identities[t.Device.Number]; strings.HasPrefix(id, "wwn:") || strings.HasPrefix(id, "serial:") {
		return id
	}
	return "path:" + t.Path
}

// wipeRefusal returns why a device is not wiped although its selector allows it, or "".
func wipeRefusal(w Wanted, s Seen, target wipeTarget) string {
	if w.WipedBefore {
		return "devices of this device class were wiped on this node by an earlier version already; nothing is wiped " +
			"a second time"
	}
	if why := protectedOn(w, s, target.Device); why != "" {
		return why
	}
	key := target.key(s)
	for _, record := range s.Wiped {
		if record.ID != key || record.Class != string(w.UID) {
			continue
		}
		if record.Done || !isSubset(target.found(), record.Found) {
			return fmt.Sprintf("this disk (%s) was wiped for the device class on %s already, and what it carries now "+
				"came after that; nothing is wiped a second time",
				key, record.Time.UTC().Format("2006-01-02 15:04 UTC"))
		}
	}
	return ""
}

// unresolvedPV is the reason for a physical volume whose volume group is not known.
const unresolvedPV = "it is a physical volume, and LVM cannot tell which volume group it belongs to"

// protectedOn returns why a device is not wiped because of a physical volume on it or on one of its partitions, or
// "".
func protectedOn(w Wanted, s Seen, d device.Device) string {
	pvs := PhysicalVolumes(s.Report)
	for _, part := range s.Devices {
		if part.Number != d.Number && !slices.Contains(d.Partitions, part.Name) {
			continue
		}
		why := ""
		if pv, listed := pvs[part.Number]; listed {
			why = protected(w, s.Report, pv)
		} else if part.Signature == device.SignatureLVM {
			why = s.Hidden.protected(w, part.Number)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// protected returns why a physical volume that LVM lists is not wiped, or "".
func protected(w Wanted, report *lvm.Report, pv device.PV) string {
	if pv.Group == "" {
		if pv.InUse {
			return unresolvedPV
		}
		return ""
	}
	vg := report.VG(pv.Group)
	if vg == nil {
		return fmt.Sprintf("it is a physical volume of volume group %s, which cannot be examined", pv.Group)
	}
	return protectedGroup(w, pv.Group, vg.Tags)
}

// protectedByLabels returns why a device is not wiped according to the labels that were just read from it, or "".
// labeled: the device has the signature of a physical volume.
func protectedByLabels(w Wanted, pvs []lvm.LabeledPV, number device.Number, labeled bool) string {
	at := slices.IndexFunc(pvs, func(pv lvm.LabeledPV) bool { return device.NewNumber(pv.Major, pv.Minor) == number })
	switch {
	case at >= 0:
		return protectedLabel(w, pvs[at])
	case labeled:
		return unresolvedPV
	}
	return ""
}

// protectedLabel returns why a physical volume is not wiped according to the label on its device, or "".
func protectedLabel(w Wanted, pv lvm.LabeledPV) string {
	switch {
	case pv.Unresolved:
		return unresolvedPV
	case pv.VGName == "":
		return ""
	}
	return protectedGroup(w, pv.VGName, pv.VGTags)
}

// protectedGroup returns why the physical volumes of a volume group are not wiped, or "". The volume groups of this
// product are protected, from this and from other nodes, and so is a group with the name of the device class.
func protectedGroup(w Wanted, name string, tags []string) string {
	switch {
	case isOfProduct(tags):
		return fmt.Sprintf("it is a physical volume of volume group %s, which belongs to this product (tags %s)", name,
			strings.Join(tags, ", "))
	case name == w.Name:
		return fmt.Sprintf("it is a physical volume of volume group %s itself", name)
	}
	return ""
}

// isOfProduct returns true if a volume group with these tags belongs to this product, in any cluster.
func isOfProduct(tags []string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool {
		return tag == v1alpha1.OwnerTag || strings.HasPrefix(tag, v1alpha1.ClusterTagPrefix)
	})
}

// carried returns a function that reads a device right before it is wiped.
func (r *Reconciler) carried(w Wanted) func(context.Context, device.Device, bool) (string, error) {
	return func(ctx context.Context, d device.Device, labeled bool) (string, error) {
		pvs, err := r.LVM.ReadLabels(ctx, d.Name)
		if err != nil {
			return "", err
		}
		return protectedByLabels(w, pvs, d.Number, labeled), nil
	}
}

// found returns the sorted reasons against the device, for wipe records.
func (t wipeTarget) found() []string {
	var found []string
	for _, r := range t.Reasons {
		found = append(found, r.String())
	}
	slices.Sort(found)
	return found
}

func isSubset(list, of []string) bool {
	return !slices.ContainsFunc(list, func(e string) bool { return !slices.Contains(of, e) })
}

// wipe destroys the signatures on one device. It writes the record first. Device.Wipe checks the device again.
func (r *Reconciler) wipe(ctx context.Context, w Wanted, s Seen, target wipeTarget) error {
	key := target.key(s)
	if err := r.notWipedElsewhere(ctx, w, key); err != nil {
		return err
	}
	now := r.now()
	record := wipeRecord{
		Class: string(w.UID), ID: key, Name: target.Path, Found: target.found(), Time: now,
		Backup: filepath.Join(r.StateDir, "wiped", w.Name+"-"+now.UTC().Format("20060102-150405.000")),
	}
	if err := r.wipes.put(w.Name, record); err != nil {
		return err
	}
	result, reasons, err := r.Devices.Wipe(ctx, device.WipeOptions{
		Device: target.Device, PVs: PhysicalVolumes(s.Report), BackupDir: record.Backup,
		Protected: func(pv device.PV) string { return protected(w, s.Report, pv) },
		Carried:   r.carried(w),
	})
	if len(reasons) > 0 {
		return fmt.Errorf("device %s of node %s was not wiped: it %s", target.Path, w.Node, device.Messages(reasons))
	}
	if err != nil {
		return fmt.Errorf("wipe device %s of node %s: %w", target.Path, w.Node, err)
	}
	record.Done = true
	if err := r.wipes.put(w.Name, record); err != nil {
		return err
	}
	r.tell(w, corev1.EventTypeWarning, EventDeviceWiped, fmt.Sprintf(
		"device %s (%s) of node %s was wiped for device class %s, as forceWipeDevicesAndDestroyAllData asks: it "+
			"carried %s; what was overwritten is kept in %s on the node",
		target.Path, key, w.Node, w.Name, strings.Join(describeAll(result.Found), ", "), record.Backup))
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

// notWipedElsewhere checks the record that outlives the Node object, because a reinstalled machine does not have the
// files.
func (r *Reconciler) notWipedElsewhere(ctx context.Context, w Wanted, key string) error {
	records := &corev1.ConfigMap{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: v1alpha1.WipedDevicesConfigMap}, records)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the record of wiped devices (ConfigMap %s) before a wipe: %w",
			v1alpha1.WipedDevicesConfigMap, err)
	}
	entry, ok := records.Data[v1alpha1.WipedDeviceKey(w.Name, key)]
	if !ok {
		return nil
	}
	known := struct {
		ClassUID string `json:"classUID"`
	}{}
	if err := json.Unmarshal([]byte(entry), &known); err == nil && known.ClassUID != string(w.UID) {
		return nil
	}
	return fmt.Errorf("disk %s of node %s was wiped for device class %s before its Node was registered again; nothing "+
		"is wiped a second time: if that is meant, wipe it by hand", key, w.Node, w.Name)
}

// wipedDevices returns the records for the status.
func wipedDevices(w Wanted, s Seen) []v1alpha1.WipedDevice {
	var list []v1alpha1.WipedDevice
	for _, record := range s.Wiped {
		if record.Done && record.Class == string(w.UID) {
			list = append(list, v1alpha1.WipedDevice{ID: record.ID, Name: record.Name, Found: record.Found,
				Backup: record.Backup, Time: metav1.NewTime(record.Time.Truncate(time.Second))})
		}
	}
	slices.SortFunc(list, func(a, b v1alpha1.WipedDevice) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Package lvmtest has an in-memory LVM for tests, which fulfills the contract of the real one.
package lvmtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// ExtentSize is LVM's default.
const ExtentSize lvm.Bytes = 4 << 20

// Fake is an in-memory LVM that fulfills the contract (package contract). The exported functions that LVM does not have change what is below
// LVM: disks that are added, removed and fail, and data that is copied. It is safe for concurrent use.
type Fake struct {
	mu     sync.Mutex
	serial int
	disks  map[string]*disk
	groups map[string]*group
	faults map[string]error
	// archive are the volume groups that were deleted.
	archive map[string]archived
	// earlier is the earlier metadata of volume groups, the oldest first.
	earlier map[string][]earlier
	calls   map[string]int
	noRAID  bool
	// namesakes are additional volume groups whose names may already be in use.
	namesakes map[string]lvm.VG
	// accepted are the missing physical volumes whose loss is accepted, by volume group.
	accepted map[string][]string
}

type disk struct {
	size         lvm.Bytes
	grown        lvm.Bytes // since the physical volume was created
	major, minor uint32
	signature    string
	uuid         string // of the physical volume, or empty
	group        string
	detached     bool
	// hidden: the devices file does not have the disk.
	hidden bool
	// torn: the headers are damaged.
	torn     bool
	cordoned bool
	tags     []string
}

type group struct {
	uuid  string
	tags  []string
	disks []string
	lvs   map[string]*volume
	// spare is the spare metadata volume for pool repair. It has the size of the largest metadata.
	spare part
	moves []*move
	// changes counts the changes of logical volumes.
	changes uint64
	area    lvm.MetadataArea
}

type volume struct {
	lvm.LV
	kind byte // '-', 't', 'V', 'r'
	ro   bool
	on   bool
	// skip: the volume is not activated.
	skip bool
	// parts are the extents of the volume, or of its hidden volumes.
	parts []*part
	// open: the volume is open.
	open bool
	// metadata is the state of the metadata of a pool. deviceID is the ID of a thin volume in it.
	metadata metadata
	deviceID uint64
	// transaction is the number of transactions of a pool that LVM knows. kernel is what the metadata of the pool has,
	// or nil if it never had a volume.
	transaction uint64
	kernel      *kernelPool
	// stale: an image missed writes while its disk was detached.
	stale bool
}

// part is a set of extents with a name.
type part struct {
	// suffix is the suffix of the hidden volume, for example "_rimage_0". It is empty for the volume's own extents.
	suffix string
	// on is the number of extents on each disk.
	on map[string]int
}

// New returns a fake without disks.
func New() *Fake {
	return &Fake{
		disks: map[string]*disk{}, groups: map[string]*group{}, faults: map[string]error{}, calls: map[string]int{},
		archive: map[string]archived{}, earlier: map[string][]earlier{},
		accepted: map[string][]string{}, namesakes: map[string]lvm.VG{},
	}
}

// AddDisk attaches a blank disk with the device number 98:minor.
func (f *Fake) AddDisk(path string, size lvm.Bytes, minor uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disks[path] = &disk{size: size, major: 98, minor: minor}
}

// Sign writes a signature to a disk. An empty one clears it.
func (f *Fake) Sign(path, signature string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disks[path].signature = signature
}

// Detach removes a disk. Attach adds it again.
func (f *Fake) Detach(path string) { f.setDetached(path, true) }

// Attach adds a detached disk again. Active RAID volumes do not use it until they are refreshed.
func (f *Fake) Attach(path string) { f.setDetached(path, false) }

func (f *Fake) setDetached(path string, detached bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.disks[path]
	d.detached = detached
	if g := f.groups[d.group]; g != nil && detached {
		for _, v := range g.lvs {
			v.stale = v.stale || v.kind == 'r' && v.on && v.isOn(path)
		}
	}
}

// Hide makes LVM not list a disk, like a disk that is not in the devices file. DevicesFileAdd reverts it.
func (f *Fake) Hide(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disks[path].hidden = true
}

// AddNamesake attaches a volume group whose name may already be in use. It comes first in reports. TakeNamesake
// removes it.
func (f *Fake) AddNamesake(vg lvm.VG) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.namesakes[vg.Name] = vg
}

// TakeNamesake removes what AddNamesake attached.
func (f *Fake) TakeNamesake(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.namesakes, name)
}

// Reboot deactivates every logical volume, as on a node without autoactivation, and ends the polling of moves.
func (f *Fake) Reboot() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.groups {
		for _, v := range g.lvs {
			v.on = false
		}
	}
	f.killPollers()
}

// Edit changes a logical volume without LVM, for example its usage or health.
func (f *Fake) Edit(vg, lv string, edit func(*lvm.LV)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(&f.groups[vg].lvs[lv].LV)
}

// SetMetadataArea sets the metadata area of a volume group, which has a size only if it was given at creation.
func (f *Fake) SetMetadataArea(vg string, area lvm.MetadataArea) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups[vg].area = area
}

// Untag removes all tags of a volume group.
func (f *Fake) Untag(vg string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups[vg].tags = nil
}

// WithoutRAID sets whether the kernel lacks RAID support.
func (f *Fake) WithoutRAID(lacks bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noRAID = lacks
}

// Fail makes a command (the name of a method) fail until Fail is called with nil.
func (f *Fake) Fail(command string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[command] = err
}

// Calls returns how often each command was called.
func (f *Fake) Calls() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

// begin counts a command and returns its injected error. The caller holds the lock.
func (f *Fake) begin(command, object string) error {
	f.calls[command]++
	if err := f.faults[command]; err != nil {
		return fmt.Errorf("%s %s: %w", command, object, err)
	}
	return nil
}

func (f *Fake) newUUID() string {
	f.serial++
	return fmt.Sprintf("uuid-%06d", f.serial)
}

// ReadLabels implements lvm.LVM.
func (f *Fake) ReadLabels(_ context.Context, devices ...string) ([]lvm.LabeledPV, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("ReadLabels", strings.Join(devices, ", ")); err != nil {
		return nil, err
	}
	var pvs []lvm.LabeledPV
	for _, path := range devices {
		d := f.disks[path]
		if d == nil || d.detached || d.uuid == "" {
			continue
		}
		pv := lvm.LabeledPV{Name: path, UUID: d.uuid, Major: d.major, Minor: d.minor}
		if g := f.groups[d.group]; g != nil {
			pv.VGName, pv.VGUUID, pv.VGTags = d.group, g.uuid, slices.Clone(g.tags)
		}
		pvs = append(pvs, pv)
	}
	return pvs, nil
}

// Recent implements lvm.LVM. The fake always returns a new report.
func (f *Fake) Recent(ctx context.Context, _ time.Duration) (*lvm.Report, error) {
	return f.Report(ctx)
}

// Report implements lvm.LVM.
func (f *Fake) Report(context.Context) (*lvm.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("Report", "of all"); err != nil {
		return nil, err
	}
	report := &lvm.Report{VGs: slices.Collect(maps.Values(f.namesakes))}
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		if vg := f.reportVG(name); vg.MissingPVs < len(vg.PVs) {
			report.VGs = append(report.VGs, vg)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(f.disks)) {
		if d := f.disks[path]; d.uuid != "" && d.group == "" && !d.detached && !d.hidden {
			report.Unassigned = append(report.Unassigned, f.reportPV(path))
		}
	}
	return report, nil
}

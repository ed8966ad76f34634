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

// Fake is an in-memory LVM that fulfills the contract (package contract). It is safe for concurrent use.
type Fake struct{ Node }

// Node is what is below LVM: disks that are added, removed and fail, and what is on them, which others change too.
type Node struct {
	mu      sync.Mutex
	serial  int
	disks   disks
	groups  map[string]*group
	faults  map[string]error
	archive map[string]archived  // the volume groups that were deleted
	earlier map[string][]earlier // the earlier metadata of volume groups, the oldest first
	calls   map[string]int
	noRAID  bool

	namesakes map[string]lvm.VG   // additional volume groups whose names may already be in use
	accepted  map[string][]string // the missing physical volumes whose loss is accepted, by volume group
}

// disks are the disks of the node by path.
type disks map[string]*disk

type disk struct {
	size         lvm.Bytes
	grown        lvm.Bytes // since the physical volume was created
	major, minor uint32
	signature    string
	uuid         string // of the physical volume, or empty
	group        string
	detached     bool
	hidden       bool // the devices file does not have the disk
	torn         bool // the headers are damaged
	unfinished   bool // a killed command has labeled it for a group and written no metadata
	cordoned     bool
	tags         []string
}

type group struct {
	// node are all disks of the node.
	node  disks
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
	return &Fake{Node{
		disks: disks{}, groups: map[string]*group{}, faults: map[string]error{}, calls: map[string]int{},
		archive: map[string]archived{}, earlier: map[string][]earlier{},
		accepted: map[string][]string{}, namesakes: map[string]lvm.VG{},
	}}
}

// AddDisk attaches a blank disk with the device number 98:minor.
func (node *Node) AddDisk(path string, size lvm.Bytes, minor uint32) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.disks[path] = &disk{size: size, major: 98, minor: minor}
}

// Sign writes a signature to a disk. An empty one clears it.
func (node *Node) Sign(path, signature string) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.disks[path].signature = signature
}

// Detach removes a disk. Attach adds it again.
func (node *Node) Detach(path string) { setDetached(node, path, true) }

// Attach adds a detached disk again. Active RAID volumes do not use it until they are refreshed.
func (node *Node) Attach(path string) { setDetached(node, path, false) }

func setDetached(node *Node, path string, detached bool) {
	node.mu.Lock()
	defer node.mu.Unlock()
	d := node.disks[path]
	d.detached = detached
	if g := node.groups[d.group]; g != nil && detached {
		for _, v := range g.lvs {
			v.stale = v.stale || v.kind == 'r' && v.on && v.isOn(path)
		}
	}
}

// Hide makes LVM not list a disk, like a disk that is not in the devices file. DevicesFileAdd reverts it.
func (node *Node) Hide(path string) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.disks[path].hidden = true
}

// AddNamesake attaches a volume group whose name may already be in use. It comes first in reports. TakeNamesake
// removes it.
func (node *Node) AddNamesake(vg lvm.VG) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.namesakes[vg.Name] = vg
}

// TakeNamesake removes what AddNamesake attached.
func (node *Node) TakeNamesake(name string) {
	node.mu.Lock()
	defer node.mu.Unlock()
	delete(node.namesakes, name)
}

// Reboot deactivates every logical volume, as on a node without autoactivation, and ends the polling of moves.
func (node *Node) Reboot() {
	node.mu.Lock()
	defer node.mu.Unlock()
	for _, g := range node.groups {
		for _, v := range g.lvs {
			v.on = false
		}
	}
	killPollers(node)
}

// Edit changes a logical volume without LVM, for example its usage or health.
func (node *Node) Edit(vg, lv string, edit func(*lvm.LV)) {
	node.edit(vg, lv, func(v *volume) { edit(&v.LV) })
}

func (node *Node) edit(vg, lv string, edit func(*volume)) {
	node.mu.Lock()
	defer node.mu.Unlock()
	edit(node.groups[vg].lvs[lv])
}

// SetMetadataArea sets the metadata area of a volume group, which has a size only if it was given at creation.
func (node *Node) SetMetadataArea(vg string, area lvm.MetadataArea) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.groups[vg].area = area
}

// WithoutRAID sets whether the kernel lacks RAID support.
func (node *Node) WithoutRAID(lacks bool) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.noRAID = lacks
}

// Fail makes a command (the name of a change or of a method) fail until Fail is called with nil.
func (node *Node) Fail(command string, err error) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.faults[command] = err
}

// Calls returns how often each command was called.
func (node *Node) Calls() map[string]int {
	node.mu.Lock()
	defer node.mu.Unlock()
	return maps.Clone(node.calls)
}

// begin counts a command and returns its injected error. The caller holds the lock.
func begin(node *Node, command, object string) error {
	node.calls[command]++
	if err := node.faults[command]; err != nil {
		return fmt.Errorf("%s %s: %w", command, object, err)
	}
	return nil
}

func newUUID(node *Node) string {
	node.serial++
	return fmt.Sprintf("uuid-%06d", node.serial)
}

// ReadLabels implements lvmexec.LVM.
func (f *Fake) ReadLabels(_ context.Context, devices ...string) ([]lvm.LabeledPV, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := begin(&f.Node, "ReadLabels", strings.Join(devices, ", ")); err != nil {
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
			pv.VGName = d.group
			pv.VGUUID = g.uuid
			pv.VGTags = slices.Clone(g.tags)
		}
		pvs = append(pvs, pv)
	}
	return pvs, nil
}

// Recent implements lvmexec.LVM. The fake always returns a new report.
func (f *Fake) Recent(ctx context.Context, _ time.Duration) (*lvm.Report, error) {
	return f.Report(ctx)
}

// Report implements lvmexec.LVM.
func (f *Fake) Report(context.Context) (*lvm.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := begin(&f.Node, "Report", "of all"); err != nil {
		return nil, err
	}
	report := &lvm.Report{VGs: slices.Collect(maps.Values(f.namesakes))}
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		if vg := reportVG(&f.Node, name); vg.MissingPVs < len(vg.PVs) {
			report.VGs = append(report.VGs, vg)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(f.disks)) {
		if d := f.disks[path]; d.uuid != "" && d.group == "" && !d.detached && !d.hidden {
			report.Unassigned = append(report.Unassigned, reportPV(&f.Node, path))
		}
	}
	return report, nil
}

// Package lvmtest has LVM in memory for tests, and the contract that it and the real LVM fulfil.
package lvmtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// ExtentSize is LVM's default.
const ExtentSize lvm.Bytes = 4 << 20

// Fake is LVM in memory. It fulfils Contract; the exported functions beside LVM's own change what is under LVM: disks that
// come, go and break. It is safe for concurrent use.
type Fake struct {
	mu     sync.Mutex
	serial int
	disks  map[string]*disk
	groups map[string]*group
	faults map[string]error
	calls  map[string]int
}

type disk struct {
	size         lvm.Bytes
	major, minor uint32
	signature    string
	uuid         string // of the physical volume; empty for none
	group        string
	detached     bool
}

type group struct {
	uuid  string
	tags  []string
	disks []string
	lvs   map[string]*volume
}

type volume struct {
	lvm.LV
	kind byte // '-', 't', 'V'
	ro   bool
	on   bool
}

// New returns a fake without disks.
func New() *Fake {
	return &Fake{disks: map[string]*disk{}, groups: map[string]*group{}, faults: map[string]error{}, calls: map[string]int{}}
}

// AddDisk attaches a blank disk with the device number 98:minor.
func (f *Fake) AddDisk(path string, size lvm.Bytes, minor uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disks[path] = &disk{size: size, major: 98, minor: minor}
}

// Sign writes a signature on a disk; an empty one clears it.
func (f *Fake) Sign(path, signature string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disks[path].signature = signature
}

// Detach takes a disk away, Attach brings it back.
func (f *Fake) Detach(path string) { f.setDetached(path, true) }

// Attach brings a disk back.
func (f *Fake) Attach(path string) { f.setDetached(path, false) }

func (f *Fake) setDetached(path string, detached bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disks[path].detached = detached
}

// Reboot leaves every logical volume inactive, as on a node without autoactivation.
func (f *Fake) Reboot() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.groups {
		for _, v := range g.lvs {
			v.on = false
		}
	}
}

// Edit changes a logical volume behind LVM's back: its fill, its health.
func (f *Fake) Edit(vg, lv string, edit func(*lvm.LV)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(&f.groups[vg].lvs[lv].LV)
}

// Untag removes all tags of a volume group.
func (f *Fake) Untag(vg string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups[vg].tags = nil
}

// Fail makes a command (the name of a method) fail until it is called with nil.
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

// begin counts a command and returns its fault. The caller holds the lock.
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

// Recent implements the reader of lvm.LVM. The fake's reports are free, so each is new.
func (f *Fake) Recent(ctx context.Context, _ time.Duration) (*lvm.Report, error) {
	return f.Report(ctx)
}

// Report implements the reader of lvm.LVM.
func (f *Fake) Report(context.Context) (*lvm.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("Report", "of all"); err != nil {
		return nil, err
	}
	report := &lvm.Report{}
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		if vg := f.reportVG(name); vg.MissingPVs < len(vg.PVs) {
			report.VGs = append(report.VGs, vg)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(f.disks)) {
		if d := f.disks[path]; d.uuid != "" && d.group == "" && !d.detached {
			report.Unassigned = append(report.Unassigned, f.reportPV(path, ""))
		}
	}
	return report, nil
}

func (f *Fake) reportVG(name string) lvm.VG {
	g := f.groups[name]
	vg := lvm.VG{Name: name, UUID: g.uuid, ExtentSize: ExtentSize, Tags: slices.Clone(g.tags), Attr: "wz--n-"}
	for _, path := range g.disks {
		pv := f.reportPV(path, name)
		vg.Size += pv.Size
		if pv.Missing {
			vg.MissingPVs++
		}
		vg.PVs = append(vg.PVs, pv)
	}
	vg.Free = f.free(g)
	if vg.MissingPVs > 0 {
		vg.Attr = "wz-pn-"
	}
	for _, lv := range slices.Sorted(maps.Keys(g.lvs)) {
		vg.LVs = append(vg.LVs, reportLV(g.lvs[lv]))
	}
	return vg
}

func (f *Fake) reportPV(path, vg string) lvm.PV {
	d := f.disks[path]
	pv := lvm.PV{Name: path, UUID: d.uuid, VGName: vg, Size: d.size, Major: d.major, Minor: d.minor, InUse: vg != ""}
	if vg != "" {
		pv.Size = usable(d.size)
	}
	if d.detached {
		pv.Name, pv.Missing, pv.Major, pv.Minor = "[unknown]", true, 0, 0
	}
	return pv
}

func reportLV(v *volume) lvm.LV {
	lv := v.LV
	attr := []byte("-wi-------")
	attr[0] = v.kind
	if v.ro {
		attr[1] = 'r'
	}
	if v.on {
		attr[4] = 'a'
		lv.Major, lv.Minor = 254, 1
	} else {
		lv.DataPercent, lv.MetadataPercent = nil, nil
	}
	lv.Attr = lvm.LVAttr(attr)
	return lv
}

// usable is what a disk brings into a volume group: whole extents behind the first MiB.
func usable(size lvm.Bytes) lvm.Bytes { return (size - 1<<20) / ExtentSize * ExtentSize }

func (f *Fake) free(g *group) lvm.Bytes {
	var free lvm.Bytes
	spare := lvm.Bytes(0)
	for _, path := range g.disks {
		free += usable(f.disks[path].size)
	}
	for _, v := range g.lvs {
		if v.kind != 'V' {
			free -= v.Size + v.MetadataSize
			spare = max(spare, v.MetadataSize)
		}
	}
	return free - spare
}

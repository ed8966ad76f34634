//go:build lab

package device

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/direct"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/ondisk"
)

// pvLab is a volume group on two mapped devices with small metadata areas.
type pvLab struct {
	*lab
	names   []string
	devices []ondisk.Device
}

func newPVLab(t *testing.T) *pvLab {
	t.Helper()
	p := &pvLab{lab: newLab(t)}
	const sectors = 120_000
	for i := range 2 {
		name := p.mapping(fmt.Sprintf("pv%d", i), fmt.Sprintf("0 %d linear %s %d", sectors, p.disk, 8192+i*sectors))
		d := p.device(name)
		p.names = append(p.names, name)
		p.devices = append(p.devices, ondisk.Device{Path: d.KernelName, Number: string(d.Number)})
		p.lvm("pvcreate", "--metadatasize", "64k", "--dataalignment", "64k", name)
	}
	p.lvm(append([]string{"vgcreate", "looked"}, p.names...)...)
	t.Cleanup(func() { p.lvm("vgremove", "--force", "looked") })
	return p
}

func (p *pvLab) lvm(args ...string) string {
	p.Helper()
	// Warnings about entries of the devices file are on stderr.
	out, err := nodelvm.Command("/usr/sbin/lvm", args...).Output()
	if err != nil {
		p.Fatalf("lvm %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// read returns the UUIDs and the number of the last change that the devices have.
func (p *pvLab) read() (uuids []string, seqno string, err error) {
	found, err := p.n.ReadPhysicalVolumes(p.Context(), p.devices)
	for line := range strings.Lines(string(found.Metadata)) {
		if number, is := strings.CutPrefix(strings.TrimSpace(line), "seqno = "); is {
			seqno = number
		}
	}
	return found.UUIDs, seqno, err
}

// TestLabPhysicalVolumesAreRead compares the devices with LVM's report, as often as it takes until the metadata has
// wrapped around the end of its area.
func TestLabPhysicalVolumesAreRead(t *testing.T) {
	p := newPVLab(t)
	want := strings.Fields(p.lvm("pvs", "--noheadings", "--options", "pv_uuid", "--sort", "pv_name",
		"--select", "vg_name=looked"))
	p.lvm("lvcreate", "--name", "a", "--extents", "1", "--wipesignatures", "n", "looked")
	for n := range 100 {
		p.lvm("lvchange", "--addtag", fmt.Sprintf("tag-with-a-long-name-%d", n), "looked/a")
		uuids, seqno, err := p.read()
		if last := p.lvm("vgs", "--noheadings", "--options", "vg_seqno", "looked"); err != nil || seqno != last ||
			!slices.Equal(uuids, want) {
			t.Fatalf("change %d: got %v, %s, %v, want %v, %s", n, uuids, seqno, err, want, last)
		}
	}
}

// TestLabPhysicalVolumesThatCannotBeRead has reasons for which LVM would not find a physical volume, or the metadata on
// two devices differs.
func TestLabPhysicalVolumesThatCannotBeRead(t *testing.T) {
	p := newPVLab(t)
	refused := func(what, want string) {
		t.Helper()
		for range 2 {
			if _, _, err := p.read(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", what, err, want)
			}
		}
	}
	// The first blocks of a physical volume, with its label and the header of its metadata area.
	first := make([]byte, 2*direct.BlockSize)
	f, err := os.OpenFile(p.devices[0].Path, os.O_RDWR|os.O_SYNC, 0)
	p.ok(err)
	defer f.Close()
	_, err = f.ReadAt(first, 0)
	p.ok(err)
	write := func(b []byte) {
		t.Helper()
		_, err := f.WriteAt(b, 0)
		p.ok(err)
		p.ok(f.Sync())
	}
	damaged := slices.Clone(first)
	damaged[512+40] ^= 1
	write(damaged)
	refused("a label with an error", "the checksum of the label is wrong")
	write(make([]byte, len(first)))
	refused("a label that is gone", "has no label")
	write(first)
	if _, _, err := p.read(); err != nil {
		t.Error(err)
	}
	// A write to this device was lost, or LVM was killed between the two.
	p.lvm("vgchange", "--addtag", "x", "looked")
	write(first)
	refused("an older header", "different metadata")
	p.lvm("vgchange", "--addtag", "y", "looked")
	if _, _, err := p.read(); err != nil {
		t.Errorf("after LVM repaired it: %v", err)
	}
	other := p.devices[0]
	p.devices[0].Number = p.devices[1].Number
	refused("another device at the path", "belongs to another device")
	p.devices[0] = other
}

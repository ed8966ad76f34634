//go:build lab

package thinmeta

import (
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// labPool is a thin pool with chunks of 64 KiB in the volume group "live" of a lab node.
type labPool struct{ *testing.T }

func (p labPool) run(name string, args ...string) string {
	p.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		p.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (p labPool) lvm(args ...string) string {
	p.Helper()
	return p.run("/usr/sbin/lvm", args...)
}

// disk returns a blank disk of the lab node.
func (p labPool) disk() string {
	p.Helper()
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		p.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node")
	}
	return disk
}

// write writes chunks of a volume, from one on.
func (p labPool) write(volume string, first, count int) {
	p.Helper()
	p.run("/usr/bin/dd", "if=/dev/urandom", "of=/dev/live/"+volume, "bs=64k", fmt.Sprint("seek=", first),
		fmt.Sprint("count=", count), "oflag=direct", "conv=notrunc", "status=none")
}

func (p labPool) snapshot(of, name string) {
	p.Helper()
	p.lvm("lvcreate", "-qq", "--snapshot", "--permission", "r", "--setactivationskip", "n", "--name", name, "live/"+of)
}

func (p labPool) message(text string) {
	p.run("/usr/sbin/dmsetup", "message", "live-pool-tpool", "0", text)
}

// id returns the ID of a thin device.
func (p labPool) id(volume string) uint64 {
	p.Helper()
	text := strings.TrimSpace(p.lvm("lvs", "--noheadings", "-o", "thin_id", "live/"+volume))
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		p.Fatal(err)
	}
	return id
}

// open reserves the metadata snapshot and opens it.
func (p labPool) open() *Snapshot {
	p.Helper()
	p.message("reserve_metadata_snap")
	status := strings.Fields(p.run("/usr/sbin/dmsetup", "status", "live-pool-tpool"))
	root, rootErr := strconv.ParseUint(status[6], 10, 64)
	_, total, _ := strings.Cut(status[5], "/")
	chunks, err := strconv.ParseUint(total, 10, 64)
	if err = errors.Join(rootErr, err); err != nil {
		p.Fatalf("the held root and the chunks of %v: %v", status, err)
	}
	pool := Pool{Device: "/dev/mapper/live-pool_tmeta", ChunkSectors: 128, Chunks: chunks}
	s, err := OpenSnapshot(p.Context(), pool, root)
	if err != nil {
		p.Fatal(err)
	}
	return s
}

func (p labPool) close(s *Snapshot) {
	p.Helper()
	if err := s.Close(); err != nil {
		p.Error(err)
	}
	p.message("release_metadata_snap")
}

// thinDelta returns the chunks in which thin_delta says that two devices differ.
func (p labPool) thinDelta(base, target uint64) []uint64 {
	p.Helper()
	out := p.run("/usr/sbin/thin_delta", "--metadata-snap", "--snap1", fmt.Sprint(base), "--snap2", fmt.Sprint(target),
		"/dev/mapper/live-pool_tmeta")
	type part struct {
		XMLName xml.Name
		Begin   uint64 `xml:"begin,attr"`
		Length  uint64 `xml:"length,attr"`
	}
	var delta struct {
		Diff struct {
			Parts []part `xml:",any"`
		} `xml:"diff"`
	}
	if err := xml.Unmarshal([]byte(out), &delta); err != nil {
		p.Fatalf("%v: %s", err, out)
	}
	var ranges []Range
	for _, part := range delta.Diff.Parts {
		if part.XMLName.Local != "same" {
			ranges = append(ranges, Range{part.Begin, part.Length})
		}
	}
	return chunksOf(ranges)
}

// TestLabDeltaAgreesWithThinDelta compares with thin_delta, for all pairs of volumes, while the origin is written.
func TestLabDeltaAgreesWithThinDelta(t *testing.T) {
	p := labPool{t}
	disk := p.disk()
	p.lvm("vgcreate", "-qq", "live", disk)
	t.Cleanup(func() { p.lvm("vgremove", "-qq", "--force", "--yes", "live") })
	p.lvm("lvcreate", "-qq", "-L", "240M", "--chunksize", "64k", "--poolmetadatasize", "4M", "-T", "live/pool")
	p.lvm("lvcreate", "-qq", "-V", "256M", "-T", "live/pool", "-n", "origin")
	p.snapshot("origin", "empty")
	for i := range 12 { // not in order, with gaps
		p.write("origin", i*311%2000, 1+i*7)
	}
	p.snapshot("origin", "first")
	p.write("origin", 0, 1)
	p.write("origin", 500, 40)
	p.write("origin", 2400, 300)
	p.run("/usr/sbin/blkdiscard", "--offset", fmt.Sprint(620<<16), "--length", fmt.Sprint(20<<16), "/dev/live/origin")
	p.snapshot("origin", "second")
	p.lvm("lvextend", "-qq", "-L", "512M", "live/origin")
	p.write("origin", 8000, 5)
	p.snapshot("origin", "third")
	p.lvm("lvcreate", "-qq", "-V", "64M", "-T", "live/pool", "-n", "other")
	p.write("other", 3, 500)

	ids := map[string]uint64{}
	for _, volume := range []string{"empty", "first", "second", "third", "other"} {
		ids[volume] = p.id(volume)
	}
	s := p.open()
	for round := range 2 {
		for base := range ids {
			for target := range ids {
				got, err := s.delta(t, ids[base], ids[target], 0)
				want := p.thinDelta(ids[base], ids[target])
				if diff := cmp.Diff(want, chunksOf(got)); err != nil || diff != "" {
					t.Errorf("round %d, from %s to %s: %v, %s", round, base, target, err, diff)
				}
			}
			got, err := s.allocated(t, ids[base], 0)
			// The volume without a chunk differs from another one by what that has.
			if diff := cmp.Diff(p.thinDelta(ids["empty"], ids[base]), chunksOf(got)); err != nil || diff != "" {
				t.Errorf("round %d, %s: %v, %s", round, base, err, diff)
			}
		}
		// What the pool does now is not in the metadata snapshot.
		p.write("origin", 100+round*1000, 700)
		p.lvm("lvcreate", "-qq", "-V", "64M", "-T", "live/pool", "-n", fmt.Sprint("new", round))
	}
	if got, err := s.allocated(t, p.id("new1"), 0); err == nil {
		t.Errorf("a volume that is newer than the metadata snapshot: %v", got)
	}
	p.close(s)
	for range 3 { // the kernel can reuse the blocks of the released one
		s = p.open()
		got, err := s.delta(t, ids["first"], ids["third"], 0)
		if diff := cmp.Diff(p.thinDelta(ids["first"], ids["third"]), chunksOf(got)); err != nil || diff != "" {
			t.Errorf("the next metadata snapshot: %v, %s", err, diff)
		}
		p.close(s)
	}
}

// TestLabDeltaOfALargeVolume: a volume with 16 GiB of data, in chunks of 64 KiB. Its pool has the metadata on a disk,
// and no data: what is written there is dropped.
func TestLabDeltaOfALargeVolume(t *testing.T) {
	const chunks, changed = 16 << 30 >> 16, 100
	p := labPool{t}
	const real, dropped = 240 << 11, 17 << 21 // sectors
	p.run("/usr/sbin/dmsetup", "create", "large", "--table",
		fmt.Sprintf("0 %d linear %s 8192\n%d %d zero", real, p.disk(), real, dropped))
	t.Cleanup(func() { p.run("/usr/sbin/dmsetup", "remove", "--retry", "large") })
	const device = "/dev/mapper/large"
	p.lvm("vgcreate", "-qq", "live", device)
	t.Cleanup(func() { p.lvm("vgremove", "-qq", "--force", "--yes", "live") })
	p.lvm("lvcreate", "-qq", "-y", "-l", "50", "-n", "meta", "live", device+":0-49")
	p.lvm("lvcreate", "-qq", "-y", "-Zn", "-Wn", "-L", "16512M", "-n", "pool", "live", device+":60-")
	p.lvm("lvconvert", "-qq", "-y", "--type", "thin-pool", "--chunksize", "64k", "-Zn", "--poolmetadataspare", "n",
		"--poolmetadata", "live/meta", "live/pool")
	p.lvm("lvcreate", "-qq", "-V", "16G", "-T", "live/pool", "-n", "origin")
	begin := time.Now()
	p.run("/usr/bin/dd", "if=/dev/zero", "of=/dev/live/origin", "bs=4M", "oflag=direct", "count=4096", "status=none")
	t.Logf("wrote %d chunks in %s", chunks, time.Since(begin))
	p.snapshot("origin", "first")
	for i := range changed {
		p.write("origin", i*(chunks/changed), 1)
	}
	p.snapshot("origin", "second")
	first, second := p.id("first"), p.id("second")
	s := p.open()
	defer p.close(s)
	measure := func(what string, read func() ([]Range, error)) []Range {
		s.reads = 0
		begin = time.Now()
		got, err := read()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s: %d ranges, %d blocks read, %s", what, len(got), s.reads, time.Since(begin))
		return got
	}
	whole := measure("allocated", func() ([]Range, error) { return s.allocated(t, second, 0) })
	if n := len(chunksOf(whole)); n != chunks {
		t.Errorf("%d chunks are allocated, want %d", n, chunks)
	}
	allReads := s.reads
	got := measure("delta", func() ([]Range, error) { return s.delta(t, first, second, 0) })
	if diff := cmp.Diff(p.thinDelta(first, second), chunksOf(got)); diff != "" || len(got) != changed {
		t.Errorf("%d ranges, %s", len(got), diff)
	}
	// On both sides a leaf for each change, and the nodes above them.
	if most := 2 * 4 * changed; s.reads > most || s.reads > allReads/2 {
		t.Errorf("%d blocks read for the delta, want at most %d, and %d for the volume", s.reads, most, allReads)
	}
}

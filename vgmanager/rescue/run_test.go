package rescue

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const (
	sector = 512
	block  = 64 << 10
)

// disk is a source in memory with sectors that cannot be read.
type disk struct {
	content []byte
	// bad has the number of reads that fail for a sector; -1 for all.
	bad   map[int64]int
	reads []Range
	// after is called before each read. An error ends the copy.
	before func() error
}

func newDisk(size int, bad ...Range) *disk {
	d := &disk{content: make([]byte, size), bad: map[int64]int{}}
	_, _ = rand.NewChaCha8([32]byte{1}).Read(d.content)
	for _, r := range bad {
		for at := r.Start; at < r.End(); at += sector {
			d.bad[at/sector] = -1
		}
	}
	return d
}

func (d *disk) Read(_ context.Context, r Range) ([]byte, bool, error) {
	if d.before != nil {
		if err := d.before(); err != nil {
			return nil, true, err
		}
	}
	d.reads = append(d.reads, r)
	var err error
	for s := r.Start / sector; s < (r.End()+sector-1)/sector; s++ {
		if left := d.bad[s]; left != 0 {
			err = unix.EIO
			if r.Length <= sector && left > 0 {
				d.bad[s]--
			}
		}
	}
	return d.content[r.Start:r.End()], false, err
}

// newCopier returns a copier to a new file in a folder, which continues if the folder has a map.
func newCopier(t *testing.T, d *disk, folder string, retries int) *copier {
	t.Helper()
	path := filepath.Join(folder, "map")
	record, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(folder, "copy"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	target := &Target{file: f, blank: record == nil}
	if record == nil {
		record = &Record{Source: "source", Target: "copy", Smallest: sector, Map: NewMap(int64(len(d.content)))}
	}
	if err := target.resize(int64(len(d.content))); err != nil {
		t.Fatal(err)
	}
	return &copier{source: d, target: target, record: record, path: path, show: newProgress(io.Discard, record.Map),
		delay: time.Millisecond, interval: time.Hour,
		plan: NewPlanner(int64(len(d.content)), block, sector, retries)}
}

// check compares the copy and the map file with the disk. Sectors in want are lost.
func check(t *testing.T, d *disk, folder string, want []Range) {
	t.Helper()
	record, err := Load(filepath.Join(folder, "map"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, record.Map.Missing()); diff != "" || record.Map.Bytes(Pending) != 0 {
		t.Fatalf("%d bytes are pending; missing (-want +got):\n%s", record.Map.Bytes(Pending), diff)
	}
	expected := slices.Clone(d.content)
	for _, r := range want {
		clear(expected[r.Start:r.End()])
	}
	got, err := os.ReadFile(filepath.Join(folder, "copy"))
	if err != nil || !bytes.Equal(got, expected) {
		t.Fatalf("the copy differs from what can be read: %v", err)
	}
}

func TestExactlyTheBadSectorsAreLost(t *testing.T) {
	const size = 40 * block
	for name, bad := range map[string][]Range{
		"none":             nil,
		"the first":        {{0, sector}},
		"the last":         {{size - sector, sector}},
		"over two blocks":  {{3*block - sector, 2 * sector}},
		"a large region":   {{5 * block, 20 * block}},
		"several in block": {{7 * block, sector}, {7*block + 3*sector, sector}, {8*block - sector, sector}},
		"both ends":        {{0, 3 * block}, {size - 2*block - sector, 2*block + sector}},
		"all":              {{0, size}},
	} {
		t.Run(name, func(t *testing.T) {
			d, folder := newDisk(size, bad...), t.TempDir()
			if err := newCopier(t, d, folder, 0).run(t.Context()); err != nil {
				t.Fatal(err)
			}
			check(t, d, folder, bad)
			again := newDisk(size, bad...)
			if err := newCopier(t, again, folder, 0).run(t.Context()); err != nil || len(again.reads) > 0 {
				t.Errorf("a complete copy was read again: %d reads, %v", len(again.reads), err)
			}
		})
	}
}

func TestASizeThatIsNoMultipleOfABlock(t *testing.T) {
	const size = 3*block + 5*sector
	d, folder := newDisk(size, Range{size - 2*sector, sector}), t.TempDir()
	if err := newCopier(t, d, folder, 2).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, d, folder, []Range{{size - 2*sector, sector}})
}

func TestGoodDataIsReadBeforeABadRegionIsNarrowed(t *testing.T) {
	const size = 400 * block
	bad := Range{100 * block, 200 * block}
	d := newDisk(size, bad)
	if err := newCopier(t, d, t.TempDir(), 0).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	good, failed := int64(0), 0
	for _, r := range d.reads {
		if r.End() <= bad.Start || r.Start >= bad.End() {
			good += r.Length
		} else if good < size-bad.Length {
			failed++
		}
	}
	if good != size-bad.Length || failed > 60 {
		t.Errorf("%d reads of the bad region before all good data was saved, want few of 200", failed)
	}
}

func TestLostSectorsAreReadAgain(t *testing.T) {
	for retries, want := range map[int][]Range{0: {{block, sector}}, 1: {{block, sector}}, 2: nil} {
		d, folder := newDisk(4*block), t.TempDir()
		d.bad[block/sector] = 2 // fails twice at the smallest size
		if err := newCopier(t, d, folder, retries).run(t.Context()); err != nil {
			t.Fatal(err)
		}
		check(t, d, folder, want)
	}
}

var errKilled = errors.New("killed")

func TestACopyThatIsKilledAtAnyReadContinues(t *testing.T) {
	bad := []Range{{2*block + sector, sector}, {4 * block, 5 * sector}}
	whole := newDisk(6*block, bad...)
	if err := newCopier(t, whole, t.TempDir(), 1).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for kill := 0; kill < len(whole.reads); kill += 3 {
		d, folder := newDisk(6*block, bad...), t.TempDir()
		d.before = func() error {
			if len(d.reads) == kill {
				return errKilled
			}
			return nil
		}
		// copy, and not run, because a killed process does not save the map at its end.
		c := newCopier(t, d, folder, 1)
		c.interval = time.Duration(kill % 2 * int(time.Hour)) // saves after each read, or never
		if err := c.copy(t.Context()); !errors.Is(err, errKilled) {
			t.Fatalf("killed at read %d: %v", kill, err)
		}
		d.before = nil
		// Without a map, the file is new, unless data was written to it.
		if _, err := os.Stat(filepath.Join(folder, "map")); err != nil {
			if err := os.Remove(filepath.Join(folder, "copy")); err != nil {
				t.Fatal(err)
			}
		}
		if err := newCopier(t, d, folder, 1).run(t.Context()); err != nil {
			t.Fatal(err)
		}
		check(t, d, folder, bad)
		if again := len(d.reads) - len(whole.reads); again > len(whole.reads) {
			t.Errorf("killed at read %d: %d more reads", kill, again)
		}
	}
}

// failingTarget fails to sync once.
type failingTarget struct {
	writer
	syncs int
}

func (f *failingTarget) Sync() error {
	if f.syncs++; f.syncs == 2 {
		return unix.EIO
	}
	return f.writer.Sync()
}

func TestTheMapDoesNotCallSavedWhatTheTargetFailedToWrite(t *testing.T) {
	d, folder := newDisk(8*block), t.TempDir()
	c := newCopier(t, d, folder, 0)
	c.interval = time.Nanosecond // saves after each read
	c.target = &failingTarget{writer: c.target}
	if err := c.run(t.Context()); !errors.Is(err, unix.EIO) {
		t.Fatalf("got %v", err)
	}
	record, err := Load(c.path)
	if err != nil || record.Map.Bytes(Saved) != block {
		t.Errorf("the map has %v saved, want only what was synced before: %v", record, err)
	}
}

func TestAWriteThatFailsEndsTheCopyAndItContinues(t *testing.T) {
	d, folder := newDisk(8*block), t.TempDir()
	c := newCopier(t, d, folder, 0)
	c.target = fullTarget{c.target, 3 * block}
	if err := c.run(t.Context()); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	if err := newCopier(t, d, folder, 0).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, d, folder, nil)
}

type fullTarget struct {
	writer
	space int64
}

func (f fullTarget) Write(data []byte, at int64) error {
	if at+int64(len(data)) > f.space {
		return unix.ENOSPC
	}
	return f.writer.Write(data, at)
}

func TestZerosBecomeHoles(t *testing.T) {
	for name, resumed := range map[string]bool{"new": false, "resumed": true} {
		t.Run(name, func(t *testing.T) {
			d, folder := newDisk(16*block), t.TempDir()
			clear(d.content[2*block : 14*block])
			if resumed {
				stale := newDisk(16 * block)
				if err := newCopier(t, stale, folder, 0).run(t.Context()); err != nil {
					t.Fatal(err)
				}
				record, _ := Load(filepath.Join(folder, "map"))
				record.Map = NewMap(16 * block)
				if err := record.Save(filepath.Join(folder, "map")); err != nil {
					t.Fatal(err)
				}
			}
			if err := newCopier(t, d, folder, 0).run(t.Context()); err != nil {
				t.Fatal(err)
			}
			check(t, d, folder, nil)
			var stat unix.Stat_t
			if err := unix.Stat(filepath.Join(folder, "copy"), &stat); err != nil || stat.Blocks*512 > 6*block {
				t.Errorf("the copy has %d bytes on disk, %v", stat.Blocks*512, err)
			}
		})
	}
}

// A range that was written by a process that was killed, and that is lost now, must not have old data.
func TestLostRangesAreZerosAfterAResume(t *testing.T) {
	folder := t.TempDir()
	if err := newCopier(t, newDisk(4*block), folder, 0).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	record, _ := Load(filepath.Join(folder, "map"))
	record.Map = NewMap(4 * block)
	if err := record.Save(filepath.Join(folder, "map")); err != nil {
		t.Fatal(err)
	}
	bad := []Range{{block, 3 * sector}}
	d := newDisk(4*block, bad...)
	if err := newCopier(t, d, folder, 0).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, d, folder, bad)
}

func FuzzCopy(f *testing.F) {
	f.Add([]byte{0, 1, 200, 7}, uint8(1))
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, bad []byte, retries uint8) {
		const sectors = 2048
		m := NewMap(sectors * sector)
		isBad := make([]bool, sectors)
		for i := 0; i+1 < len(bad); i += 2 {
			for s := range int(bad[i+1]) {
				isBad[(int(bad[i])*8+s)%sectors] = true
			}
		}
		p := NewPlanner(m.Size(), block, sector, int(retries%4))
		for reads := 0; ; reads++ {
			next, found := p.Next(m)
			if !found {
				break
			}
			if reads > 8*sectors {
				t.Fatal("it does not end")
			}
			if slices.Contains(isBad[next.Start/sector:next.End()/sector], true) {
				p.Failed(m, next.Range)
			} else {
				p.Saved(m, next.Range)
			}
		}
		for _, e := range m.entries {
			for s := e.Start / sector; s < e.End()/sector; s++ {
				if e.State == Pending || (e.State == Lost) != isBad[s] {
					t.Fatalf("sector %d is %s", s, e.State)
				}
			}
		}
	})
}

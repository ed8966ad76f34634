//go:build lab

package copies

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
)

// TestLabTheTimeOfDifferences grows with the changes, not with the size of the volume: 100 changed chunks of a volume
// of 16 GiB are copied about as fast as those of one of 1 GiB.
func TestLabTheTimeOfDifferences(t *testing.T) {
	took := map[int]time.Duration{}
	for _, size := range []int{1 << 10, 16 << 10} {
		t.Run(fmt.Sprint(size>>10, " GiB"), func(t *testing.T) {
			m := newMove(t, "y")
			m.origin(size)
			step := size * 16 / 400 // 400 chunks all over the volume
			m.writeChunks(0, 400, 1, step)
			m.snapshot()
			m.receive(true)
			took[size] = m.differences(400, 4, step)
			m.compareChunks(step)
		})
	}
	ratio := took[16<<10].Seconds() / took[1<<10].Seconds()
	t.Logf("16 GiB take %.2f times as long as 1 GiB", ratio)
	if ratio > 3 {
		t.Errorf("the time grows with the size of the volume: %v", took)
	}
}

// TestLabTheTimeOfMoreDifferences grows at most as much as the changes: 1000 changed chunks are compared with 100.
func TestLabTheTimeOfMoreDifferences(t *testing.T) {
	m := newMove(t, "y")
	m.origin(1 << 10)
	const step = 2 // Two of them are in a chunk of the target, whose pool is small.
	m.writeChunks(0, 1000, 1, step)
	m.snapshot()
	m.receive(true)
	few := m.differences(1000, 10, step)
	many := m.differences(1000, 1, step)
	m.compareChunks(step)
	ratio := many.Seconds() / few.Seconds()
	t.Logf("1000 changed chunks take %.2f times as long as 100", ratio)
	if ratio > 15 {
		t.Errorf("the time grows faster than the changes: %s and %s", few, many)
	}
}

// differences changes every chunk of a number of them, with the distance step, and copies the changes. It does so two
// times, and returns the shorter time.
func (m *move) differences(chunks, every, step int) time.Duration {
	m.Helper()
	changed := uint64(chunks / every)
	var best Progress
	for round := range 2 {
		m.writeChunks(round%every, chunks, every, step)
		m.snapshot()
		got := m.receive(true)
		if got.Sent < changed*64<<10 || got.Sent > changed*64<<10*12/10 {
			m.Errorf("%d KiB were sent for %d changed chunks of 64 KiB", got.Sent>>10, changed)
		}
		if best.Took == 0 || got.Took < best.Took {
			best = got
		}
	}
	m.Logf("%d changed chunks: %s, %d KiB", changed, best.Took, best.Sent>>10)
	return best.Took
}

// writeChunks writes random data to every of a number of chunks of 64 KiB, from number from on. step is the distance of
// two chunks, in chunks.
func (m *move) writeChunks(from, chunks, every, step int) {
	m.Helper()
	device := m.open("from", "origin", openTarget)
	for i := from; i < chunks; i += every {
		chunk := make([]byte, 64<<10)
		for j := range chunk {
			chunk[j] = byte(m.random.Uint32())
		}
		_, err := device.WriteAt(chunk, int64(i*step)*64<<10)
		m.must(err)
	}
	m.must(errors.Join(device.Flush(), device.Close()))
}

// compareChunks compares the chunks that were written, and the one behind each of them.
func (m *move) compareChunks(step int) {
	m.Helper()
	source := m.open("from", fmt.Sprintf("s%d", m.round), openSource)
	target := m.open("thin", movedName, openSource)
	for i := range 400 {
		var parts [2][128 << 10]byte
		for j, device := range []*blockDevice{source, target} {
			_, err := device.ReadAt(parts[j][:], int64(i*step)*64<<10)
			m.must(err)
		}
		if parts[0] != parts[1] {
			m.Errorf("the copy differs at chunk %d", i*step)
		}
	}
	m.must(errors.Join(source.Close(), target.Close()))
}

// open opens the device of a logical volume.
func (m *move) open(class, name string,
	open func(blockdevice.Identity) (*blockDevice, error)) *blockDevice {
	m.Helper()
	d, err := m.engine.Device(m.Context(), class, name)
	m.must(err)
	device, err := open(blockdevice.Identity{Path: d.Path, Number: d.Number, Size: uint64(d.Size)})
	m.must(err)
	return device
}

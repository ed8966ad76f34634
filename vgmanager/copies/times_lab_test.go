//go:build lab

package copies

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/volumecopy"
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
			write := func(from, every int) {
				device := m.open("from", "origin", volumecopy.OpenTarget)
				for i := from; i < 400; i += every {
					chunk := make([]byte, 64<<10)
					for j := range chunk {
						chunk[j] = byte(m.random.Uint32())
					}
					_, err := device.WriteAt(chunk, int64(i*step)*64<<10)
					m.must(err)
				}
				m.must(errors.Join(device.Flush(), device.Close()))
			}
			write(0, 1)
			m.snapshot()
			m.receive(true)
			var best Progress
			rounds := 3
			if testing.Short() {
				rounds = 1
			}
			for round := range rounds {
				write(round, 4) // 100 of them
				m.snapshot()
				got := m.receive(true)
				if got.Sent < 100*64<<10 || got.Sent > 120*64<<10 {
					t.Errorf("%d KiB were sent for 100 changed chunks of 64 KiB", got.Sent>>10)
				}
				if best.Took == 0 || got.Took < best.Took {
					best = got
				}
			}
			m.compareChunks(step)
			took[size] = best.Took
			t.Logf("100 changed chunks: %s, %d KiB", best.Took, best.Sent>>10)
		})
	}
	ratio := took[16<<10].Seconds() / took[1<<10].Seconds()
	t.Logf("16 GiB take %.2f times as long as 1 GiB", ratio)
	if ratio > 3 {
		t.Errorf("the time grows with the size of the volume: %v", took)
	}
}

// compareChunks compares the chunks that were written, and the one behind each of them.
func (m *move) compareChunks(step int) {
	m.Helper()
	source := m.open("from", fmt.Sprintf("s%d", m.round), volumecopy.OpenSource)
	target := m.open("thin", movedName, volumecopy.OpenSource)
	for i := range 400 {
		var parts [2][128 << 10]byte
		for j, device := range []*volumecopy.BlockDevice{source, target} {
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
	open func(volumecopy.Identity) (*volumecopy.BlockDevice, error)) *volumecopy.BlockDevice {
	m.Helper()
	d, err := m.engine.Device(m.Context(), class, name)
	m.must(err)
	device, err := open(volumecopy.Identity{Path: d.Path, Number: d.Number, Size: uint64(d.Size)})
	m.must(err)
	return device
}

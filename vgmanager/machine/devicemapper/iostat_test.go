package devicemapper

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// diskstats is /proc/diskstats of a Linux 6.1 with a disk, a logical volume that was used, and one that was not. Linux
// 4.18 has no counters of discards and flushes.
const diskstats = `   8       0 sda 70021 31 4571234 88123 4521 9 991240 7712 0 61200 95835 0 0 0 0 88 0
 254       3 dm-3 1201 0 96216 480 702 0 204800 4294967295 0 900 2500 12 0 8192 1 0 0
 254     258 dm-5 0 0 0 0 0 0 0 0 0 0 0
`

// counting returns a Reader for a simulated kernel with statistics.
func counting(t testing.TB, k *kernel, text string) *Reader {
	t.Helper()
	r := newReader(t, k)
	r.diskstats = filepath.Join(t.TempDir(), "diskstats")
	if err := os.WriteFile(r.diskstats, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStatisticsAreThoseOfTheVolumesByName(t *testing.T) {
	k := example()
	r := counting(t, k, diskstats)
	for range 2 {
		got, err := r.Statistics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := Statistics{"vg1-l": {}, "vg1-t": {
			Reads: 1201, ReadBytes: 96216 * 512, ReadTime: 480 * time.Millisecond,
			Writes: 702, WrittenBytes: 100 << 20, WriteTime: 4294967295 * time.Millisecond,
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if counted, ok := got.Volume("vg1", "t"); !ok || counted != want["vg1-t"] {
			t.Errorf("got %+v, %t", counted, ok)
		}
		// It is listed, but has no statistics: unknown is not 0.
		if counted, ok := got.Volume("vg1", "new"); ok {
			t.Errorf("got %+v", counted)
		}
		if counted, ok := got.Volume("vg1", "inactive"); ok {
			t.Errorf("got %+v", counted)
		}
	}
	if calls := k.calls.Load(); calls != 2 {
		t.Errorf("%d system calls for two reads, want 2", calls)
	}
}

func TestStatisticsOfAVolumeWithHyphens(t *testing.T) {
	k := &kernel{devices: []mapped{{number: 254<<8 | 3, name: "my--vg-0a--1b"}}}
	got, err := counting(t, k, diskstats).Statistics(t.Context())
	if counted, ok := got.Volume("my-vg", "0a-1b"); err != nil || !ok || counted.Reads != 1201 {
		t.Errorf("got %+v, %t, %v", counted, ok, err)
	}
}

// TestStatisticsThatCannotBeReadAreAnError checks that nothing is reported then, not even the lines that were read.
func TestStatisticsThatCannotBeReadAreAnError(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "no counters": " 254 3 dm-3\n", "too few": diskstats + " 254 9 dm-7 1 2 3 4 5 6 7\n",
		"negative": strings.Replace(diskstats, "1201", "-1", 1), "a word": strings.Replace(diskstats, "702", "many", 1),
		"too large": strings.Replace(diskstats, "480", "18446744073709551616", 1),
		"too long":  strings.Repeat(diskstats, maxStatistics/len(diskstats)+1),
	} {
		if got, err := counting(t, example(), text).Statistics(t.Context()); err == nil || got != nil {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	absent := counting(t, example(), diskstats)
	absent.diskstats += ".absent"
	if got, err := absent.Statistics(t.Context()); !errors.Is(err, os.ErrNotExist) || got != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	refused := example()
	refused.err = unix.EPERM
	if got, err := counting(t, refused, diskstats).Statistics(t.Context()); !errors.Is(err, unix.EPERM) ||
		got != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestANodeWithoutMappedDevicesHasNoStatistics(t *testing.T) {
	got, err := counting(t, &kernel{}, diskstats).Statistics(t.Context())
	if err != nil || len(got) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzDecodeStatistics(f *testing.F) {
	f.Add([]byte(diskstats))
	f.Fuzz(func(t *testing.T, text []byte) {
		names := map[string]string{"254:3": "vg1-t"}
		if found, err := decodeStatistics(text, names); len(found) > len(names) || err != nil && found != nil {
			t.Errorf("got %v, %v", found, err)
		}
	})
}

// FuzzDecodeNames checks that no answer of the kernel makes the decoder read outside of it.
func FuzzDecodeNames(f *testing.F) {
	f.Add(listAnswer(example().devices...))
	f.Add(listAnswer())
	f.Fuzz(func(t *testing.T, data []byte) {
		names, err := decodeNames(data)
		numbers, listErr := decodeNumbers(data)
		if err == nil && (listErr != nil || len(names) > len(numbers)) {
			t.Errorf("%d names, %d numbers, %v", len(names), len(numbers), listErr)
		}
	})
}

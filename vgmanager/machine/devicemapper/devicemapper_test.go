package devicemapper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// mapped is a device of the simulated kernel.
type mapped struct {
	number     uint64
	name, uuid string
	flags      uint32
	targets    []Target // result of the status
	table      []Target // result of the table
}

// kernel simulates drivers/md/dm-ioctl.c, with the same structures.
type kernel struct {
	devices []mapped
	calls   atomic.Int32
	hangs   chan struct{} // blocks status requests until it is closed
	err     error
}

// newReader returns a Reader for the simulated kernel.
func newReader(t testing.TB, k *kernel) *Reader {
	t.Helper()
	r := New()
	r.control = filepath.Join(t.TempDir(), "control")
	if err := os.WriteFile(r.control, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.ioctl = k.ioctl
	return r
}

func (k *kernel) ioctl(_, code uintptr, buffer []byte) error {
	k.calls.Add(1)
	if k.err != nil {
		return k.err
	}
	if got := binary.NativeEndian.Uint32(buffer[atDataSize:]); int(got) != len(buffer) ||
		binary.NativeEndian.Uint32(buffer) != 4 {
		return unix.EINVAL
	}
	if code == commandList.code() {
		write(buffer, 0, listData(k.devices))
		return nil
	}
	for _, d := range k.devices {
		asked := binary.NativeEndian.Uint64(buffer[atNumber:])
		if asked == d.number || asked == 0 && text(buffer[atName:atName+nameLength]) == d.name {
			binary.NativeEndian.PutUint64(buffer[atNumber:], d.number)
			return k.about(d, code, buffer)
		}
	}
	return unix.ENXIO
}

func (k *kernel) about(d mapped, code uintptr, buffer []byte) error {
	asked := flagsOf(buffer)
	copy(buffer[atName:], d.name+"\x00")
	copy(buffer[atUUID:], d.uuid+"\x00")
	binary.NativeEndian.PutUint32(buffer[atFlags:], d.flags)
	if code == commandDevice.code() {
		return nil
	}
	if asked&flagNoFlush == 0 {
		return errors.New("a thin pool would write its metadata")
	}
	targets := d.targets
	if asked&flagStatusTable != 0 {
		targets = d.table
	} else if k.hangs != nil {
		<-k.hangs
	}
	write(buffer, len(targets), targetData(targets))
	return nil
}

// write writes a result after the header, or sets the flag that the buffer is too small.
func write(buffer []byte, count int, data []byte) {
	if headerSize+len(data) > len(buffer) {
		binary.NativeEndian.PutUint32(buffer[atFlags:], flagBufferFull)
		return
	}
	binary.NativeEndian.PutUint32(buffer[atDataStart:], headerSize)
	binary.NativeEndian.PutUint32(buffer[atDataSize:], uint32(headerSize+len(data)))
	binary.NativeEndian.PutUint32(buffer[atCount:], uint32(count))
	copy(buffer[headerSize:], data)
}

func listData(devices []mapped) []byte {
	var data []byte
	for i, d := range devices {
		entry := make([]byte, nameSize, 64)
		binary.NativeEndian.PutUint64(entry, d.number)
		entry = aligned(append(append(entry, d.name...), 0))
		if i < len(devices)-1 {
			binary.NativeEndian.PutUint32(entry[8:], uint32(len(entry)))
		}
		data = append(data, entry...)
	}
	return data
}

func targetData(targets []Target) []byte {
	var data []byte
	for _, target := range targets {
		spec := make([]byte, specSize, 256)
		binary.NativeEndian.PutUint64(spec, target.Start)
		binary.NativeEndian.PutUint64(spec[8:], target.Length)
		copy(spec[24:], target.Type)
		spec = aligned(append(append(spec, target.Params...), 0))
		binary.NativeEndian.PutUint32(spec[20:], uint32(len(data)+len(spec)))
		data = append(data, spec...)
	}
	return data
}

func aligned(data []byte) []byte {
	for len(data)%8 != 0 {
		data = append(data, 0)
	}
	return data
}

// answer returns a buffer with targets.
func answer(targets ...Target) []byte {
	data := targetData(targets)
	buffer := make([]byte, headerSize+len(data))
	write(buffer, len(targets), data)
	return buffer
}

func listAnswer(devices ...mapped) []byte {
	data := listData(devices)
	buffer := make([]byte, headerSize+len(data))
	write(buffer, 0, data)
	return buffer
}

// example returns a kernel with typical devices: a pool on a RAID volume, a thin volume, a suspended volume and an
// encrypted disk.
func example() *kernel {
	return &kernel{devices: []mapped{
		{number: 254<<8 | 3, name: "vg1-t", uuid: "LVM-a", table: []Target{{Type: "thin"}},
			targets: []Target{{Type: "thin", Params: "0 -"}}},
		{number: 254 << 8, name: "vg1-p_tdata", uuid: "LVM-b-tdata", table: []Target{{Type: "raid"}}},
		{number: 254<<8 | 1, name: "vg1-p-tpool", uuid: "LVM-c-tpool", table: []Target{{Type: "thin-pool"}},
			targets: []Target{{Length: 2048, Type: "thin-pool",
				Params: "1 18/1024 512/4096 - rw no_discard_passdown queue_if_no_space - 1024 "}}},
		{number: 254<<8 | 1<<20 | 2, name: "vg1-l", uuid: "LVM-d", flags: flagSuspended | flagReadOnly,
			table: []Target{{Type: "linear"}, {Start: 8, Type: "linear"}, {Start: 16, Type: "striped"}}},
		{number: 253 << 8, name: "secret", uuid: "CRYPT-LUKS2-e", table: []Target{{Type: "crypt", Params: "key"}}},
		{number: 254<<8 | 9, name: "vg1-new", uuid: "LVM-f"},
	}}
}

func TestList(t *testing.T) {
	k := example()
	got, err := newReader(t, k).List(t.Context())
	want := []Device{
		{Name: "secret", UUID: "CRYPT-LUKS2-e", Number: "253:0"},
		{Name: "vg1-l", UUID: "LVM-d", Number: "254:258", Suspended: true, ReadOnly: true,
			Types: []string{"linear", "striped"}},
		{Name: "vg1-new", UUID: "LVM-f", Number: "254:9"},
		{Name: "vg1-p-tpool", UUID: "LVM-c-tpool", Number: "254:1", Types: []string{"thin-pool"}},
		{Name: "vg1-p_tdata", UUID: "LVM-b-tdata", Number: "254:0", Types: []string{"raid"}},
		{Name: "vg1-t", UUID: "LVM-a", Number: "254:3", Types: []string{"thin"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	// One for the names, two for each of five volumes, and one for the encrypted disk, whose table is not requested.
	if calls := k.calls.Load(); calls != 12 {
		t.Errorf("%d system calls, want 12", calls)
	}
}

func TestMappedSectors(t *testing.T) {
	k := example()
	r := newReader(t, k)
	k.devices[0].targets[0].Params = "256 1023"
	if got, err := r.MappedSectors(t.Context(), "vg1", "t"); err != nil || got != 256 {
		t.Errorf("got %d, %v", got, err)
	}
	for _, name := range []string{"nosuch", "p-tpool", strings.Repeat("x", nameLength)} {
		_, err := r.MappedSectors(t.Context(), "vg1", name)
		if err == nil || errors.Is(err, ErrNotFound) != (name == "nosuch" || name == "p-tpool") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := r.MappedSectors(t.Context(), "vg1", "new"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("a device without a table: %v", err)
	}
	k.err = unix.EPERM
	if _, err := r.MappedSectors(t.Context(), "vg1", "t"); !errors.Is(err, unix.EPERM) {
		t.Errorf("got %v", err)
	}
}

func TestAPoolIsReportedAsSuspended(t *testing.T) {
	for _, flags := range []uint32{0, flagSuspended} {
		k := example()
		k.devices[2].flags = flags
		state, err := newReader(t, k).ThinPool(t.Context(), "vg1", "p")
		if err != nil || state.Suspended != (flags != 0) || state.TransactionID != 1 {
			t.Errorf("got %+v, %v", state, err)
		}
	}
}

func TestAnEmptyListIsNoError(t *testing.T) {
	if got, err := newReader(t, &kernel{}).List(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestNamed(t *testing.T) {
	k := example()
	r := newReader(t, k)
	got, err := r.Named(t.Context(), "secret")
	if want := (Device{Name: "secret", UUID: "CRYPT-LUKS2-e", Number: "253:0"}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, name := range []string{"absent", strings.Repeat("n", nameLength)} {
		if got, err := r.Named(t.Context(), name); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	k.err = unix.EPERM
	if got, err := r.Named(t.Context(), "secret"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("after a failed read: got %+v, %v", got, err)
	}
}

func TestADeviceThatGoesAwayIsLeftOut(t *testing.T) {
	k := example()
	r := newReader(t, k)
	r.ioctl = func(control, code uintptr, buffer []byte) error {
		if binary.NativeEndian.Uint64(buffer[atNumber:]) == 254<<8|3 {
			return unix.ENXIO
		}
		return k.ioctl(control, code, buffer)
	}
	got, err := r.List(t.Context())
	if err != nil || len(got) != len(k.devices)-1 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := r.Status(t.Context(), "254:3"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAnAnswerThatDoesNotFitIsAskedForAgain(t *testing.T) {
	k := &kernel{}
	for i := range uint64(1000) {
		k.devices = append(k.devices, mapped{number: 254<<8 | i&0xff | i&^0xff<<12, name: fmt.Sprintf("vg1-%040d", i),
			uuid: "LVM-x", table: []Target{{Type: "thin"}}})
	}
	k.devices[7].targets = []Target{{Type: "x", Params: strings.Repeat("y", 100<<10)}}
	r := newReader(t, k)
	if got, err := r.List(t.Context()); err != nil || len(got) != 1000 {
		t.Errorf("%d devices, %v", len(got), err)
	}
	if got, err := r.Status(t.Context(), "254:7"); err != nil || len(got[0].Params) != 100<<10 {
		t.Errorf("%v", err)
	}
	r.ioctl = func(_, _ uintptr, buffer []byte) error {
		binary.NativeEndian.PutUint32(buffer[atFlags:], flagBufferFull)
		return nil
	}
	if got, err := r.List(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("got %v, %v of an answer that never fits", got, err)
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	r := New()
	r.control = filepath.Join(t.TempDir(), "nosuch")
	if got, err := r.List(t.Context()); err == nil {
		t.Errorf("got %v", got)
	}
	if got, err := r.Status(t.Context(), "253:0"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, %v", got, err)
	}
	k := example()
	k.err = unix.EPERM
	for range 2 {
		if got, err := newReader(t, k).List(t.Context()); !errors.Is(err, unix.EPERM) || got != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
	for _, number := range []string{"", "1", "x:1", "1:", "5000:1", "1:2:3", "-1:0"} {
		if got, err := newReader(t, example()).Status(t.Context(), number); err == nil {
			t.Errorf("%q: got %v", number, got)
		}
	}
}

func TestADeviceThatHangsIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := example()
		k.hangs = make(chan struct{})
		r := newReader(t, k)
		r.calls = bounded.New(200*time.Millisecond, 3)
		for i := range 3 {
			if got, err := r.Status(t.Context(), "254:1"); err == nil ||
				!strings.Contains(err.Error(), "has not answered") {
				t.Errorf("got %v, %v", got, err)
			}
			if calls := k.calls.Load(); calls != 1 {
				t.Errorf("round %d: %d questions for one device", i, calls)
			}
		}
		if _, err := r.List(t.Context()); err != nil {
			t.Errorf("the others: %v", err)
		}
		close(k.hangs)
		synctest.Wait()
		if _, err := r.Status(t.Context(), "254:1"); err != nil {
			t.Errorf("it answers again, and is not asked: %v", err)
		}
	})
}

func TestTheContextEndsAQuestion(t *testing.T) {
	k := example()
	k.hangs = make(chan struct{})
	defer close(k.hangs)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newReader(t, k).Status(ctx, "254:1"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkList lists 1,000 thin volumes, without the time in the kernel.
func BenchmarkList(b *testing.B) {
	k := example()
	for i := range uint64(1000) {
		k.devices = append(k.devices, mapped{number: 254<<8 | 16 | i<<20, name: fmt.Sprintf("vg1-%d", i), uuid: "LVM-x",
			table: []Target{{Type: "thin", Params: "254:1 1"}}})
	}
	r := newReader(b, k)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.List(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(k.calls.Load())/float64(b.N), "ioctls/op")
}

// Package thinmeta checks the metadata of a thin pool and predicts what a repair can save. It changes nothing.
//
// It runs the node's thin_check and thin_dump (package thin-provisioning-tools or device-mapper-persistent-data) on the
// metadata volume of an inactive pool. thin_dump --repair and thin_repair read damaged metadata in the same way, so the
// volumes that thin_dump prints are those that thin_repair saves.
//
// It also reads the trees of damaged metadata itself (trees), because thin_repair 1.x discards all volumes of a tree
// with one damaged node, and returns to an earlier state instead. If it finds more, Salvage writes what it finds as the
// input of thin_restore.
//
// Of an active pool, it reads the metadata snapshot: which chunks a thin device has, and in which chunks two of them
// differ (Snapshot). There, a damaged node is an error.
package thinmeta

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

const (
	thinCheck = "/usr/sbin/thin_check"
	thinDump  = "/usr/sbin/thin_dump"
	// timeLimit is the time limit of one program. The metadata of a large pool on slow disks can take hours.
	timeLimit = 24 * time.Hour
	// maxDevices is the maximum number of thin devices of a pool. LVM's limit for device IDs is 2^24.
	maxDevices = 1 << 20
	// flagNeedsCheck is the flag in the superblock that requires a check (drivers/md/dm-thin-metadata.c).
	flagNeedsCheck = 1
)

// ErrNotInstalled: the node does not have the programs.
var ErrNotInstalled = errors.New("thin_check and thin_dump are not installed on the node: install " +
	"thin-provisioning-tools (Debian) or device-mapper-persistent-data (RHEL)")

// blockSize is the size of a block of the metadata in bytes (drivers/md/dm-thin-metadata.h).
const blockSize = 4096

// readLimit is the time limit to read one block.
const readLimit = 30 * time.Second

// reads has the reads that have not returned, by device.
var reads = bounded.New(readLimit, maxReads)

const maxReads = 4

// IsBlank returns true if the first block of the metadata on a device has only zeros. If a pool with such metadata is
// activated, LVM skips thin_check (_pool_callback in lib/activate/dev_manager.c), and the kernel writes new, empty
// metadata (__open_or_format_metadata in drivers/md/dm-thin-metadata.c).
func IsBlank(ctx context.Context, device string) (bool, error) {
	type answer struct {
		blank bool
		err   error
	}
	got, err := bounded.Do(ctx, reads, device, func(context.Context) answer {
		blank, err := isBlank(device)
		return answer{blank, err}
	})
	if err = errors.Join(err, got.err); err != nil {
		return false, fmt.Errorf("read the first block of the metadata of a thin pool, %s: %w", device, err)
	}
	return got.blank, nil
}

func isBlank(device string) (bool, error) {
	f, err := os.Open(device)
	if err != nil {
		return false, err
	}
	block := make([]byte, blockSize)
	_, err = io.ReadFull(f, block)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	return bytes.Equal(block, make([]byte, blockSize)), nil
}

// Pool is what LVM's own metadata says about a thin pool.
type Pool struct {
	// Device is the path of the active metadata volume.
	Device string
	// TransactionID is the number of LVM's transactions.
	TransactionID uint64
	// ChunkSectors is the size of a block in sectors of 512 bytes, and Chunks is the number of blocks.
	ChunkSectors, Chunks uint64
}

// RepairOptions returns the options of thin_dump and thin_repair that replace a superblock that cannot be read.
func (p Pool) RepairOptions() []string {
	return []string{
		"--transaction-id", strconv.FormatUint(p.TransactionID, 10),
		"--data-block-size", strconv.FormatUint(p.ChunkSectors, 10),
		"--nr-data-blocks", strconv.FormatUint(p.Chunks, 10),
	}
}

// Metadata is the result of an inspection.
type Metadata struct {
	// Intact: thin_check found no error. Problem is what it printed otherwise.
	Intact  bool
	Problem string
	// NeedsCheck: the flag is set that makes the kernel refuse changes until the metadata was checked.
	NeedsCheck bool
	// SuperblockLost: a repair requires the options RepairOptions.
	SuperblockLost bool
	// TransactionID is the number of transactions according to the superblock, and Chunks is the number of blocks of
	// the data. Chunks is 0 if it is not known.
	TransactionID, Chunks uint64
	// Salvaged: thin_repair would not write what the superblock refers to, or less of it, so Salvage does.
	Salvaged bool
	// RepairError is why the node's thin_repair cannot write metadata, or empty. Salvage does then, without volumes if
	// there is no superblock.
	RepairError string
	// Earlier: the volumes are from an earlier state of the metadata, because the present one has fewer. Blocks that
	// were written since then can have the data of other volumes.
	Earlier bool
	// Devices are the thin devices that a repair saves, by device ID.
	Devices map[uint64]Device
}

// Device is a thin device in the metadata of a pool.
type Device struct {
	// Recorded is the number of mapped blocks that the metadata records for the device. Found is the number of mappings
	// that can be read. The device has lost blocks if Found is less.
	Recorded, Found uint64
}

// Inspect checks and reads the metadata of a pool.
func Inspect(ctx context.Context, runner host.Streamer, pool Pool) (*Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	m := &Metadata{}
	if err := m.inspect(ctx, runner, pool); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Metadata) inspect(ctx context.Context, runner host.Streamer, pool Pool) error {
	var err error
	if m.Intact, m.Problem, err = check(ctx, runner, pool.Device); err != nil {
		return err
	}
	if m.Intact {
		return m.inspectByDump(ctx, runner, pool)
	}
	present, err := readTrees(ctx, pool)
	if errors.Is(err, errNoSuperblock) {
		err = m.inspectByDump(ctx, runner, pool)
		if !failsAlways(err) {
			return err
		}
		m.RepairError = reason(err)
		m.Salvaged = true
		m.TransactionID = pool.TransactionID
		m.Chunks = pool.Chunks
		m.Devices = map[uint64]Device{}
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(m.compare(ctx, runner, pool, present), present.file.Close())
}

// inspectByDump uses what thin_repair would write.
func (m *Metadata) inspectByDump(ctx context.Context, runner host.Streamer, pool Pool) error {
	dumped, err := dump(ctx, runner, pool.Device)
	if err != nil && !m.Intact && ctx.Err() == nil {
		m.SuperblockLost = true
		dumped, err = dump(ctx, runner, pool.Device, pool.RepairOptions()...)
	}
	if err != nil {
		return fmt.Errorf("read the metadata of a thin pool: %w", err)
	}
	m.use(dumped)
	return nil
}

// compare uses what thin_repair would write, or the present trees if it would not write them.
func (m *Metadata) compare(ctx context.Context, runner host.Streamer, pool Pool, present *trees) error {
	version0, err := isVersion0(ctx, runner)
	if err != nil {
		return err
	}
	if version0 {
		if err = m.inspectByDump(ctx, runner, pool); failsAlways(err) {
			m.RepairError = reason(err)
			m.SuperblockLost = false
			m.choose(present, nil)
			return nil
		}
		m.record(present)
		return err
	}
	dumped, err := dump(ctx, runner, pool.Device)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		// thin_repair would fail, too
		dumped = nil
		m.RepairError = reason(err)
	}
	m.choose(present, dumped)
	return nil
}

// record uses the number of blocks that the present metadata records for each device, if it has more.
func (m *Metadata) record(present *trees) {
	for id, d := range m.Devices {
		d.Recorded = max(d.Recorded, present.details[id].mapped)
		m.Devices[id] = d
	}
}

func (m *Metadata) use(dumped *contents) {
	m.Chunks = dumped.chunks
	m.Devices = dumped.devices
	m.TransactionID = dumped.transaction
	m.NeedsCheck = dumped.flags&flagNeedsCheck != 0
}

// choose uses what thin_repair would write if that is what the superblock refers to, or has volumes that the present
// trees lack. dumped is nil if thin_repair would fail.
func (m *Metadata) choose(present *trees, dumped *contents) {
	m.Chunks = present.super.chunks
	m.TransactionID = present.super.transaction
	m.NeedsCheck = present.super.flags&flagNeedsCheck != 0
	m.Devices = present.devices
	if dumped != nil && maps.Equal(dumped.devices, present.devices) {
		return
	}
	m.Salvaged = true
	if dumped == nil || !lacks(present.devices, dumped.devices) {
		return
	}
	m.Salvaged = false
	m.Earlier = true
	m.Devices = dumped.devices
	m.record(present)
}

// lacks returns true if a device is only in other.
func lacks(devices, other map[uint64]Device) bool {
	for id := range other {
		if _, has := devices[id]; !has {
			return true
		}
	}
	return false
}

// check returns whether thin_check finds no error. If it found one, thin_check exits with 1 (thin_check(8)), and
// version 1.1 with a code of sysexits.h, mostly 64. It also does that if it cannot read the device; then thin_dump
// fails as well.
func check(ctx context.Context, runner host.Runner, device string) (intact bool, problem string, err error) {
	_, err = runner.Run(ctx, thinCheck, device)
	var failure *host.Error
	switch {
	case err == nil:
		return true, "", nil
	case !errors.As(err, &failure) || ctx.Err() != nil:
	case isNotInstalled(failure):
		return false, "", fmt.Errorf("%w: %w", ErrNotInstalled, err)
	case failure.ExitCode == 1 || failure.ExitCode >= 64 && failure.ExitCode <= 78:
		return false, failure.Stderr, nil
	}
	return false, "", fmt.Errorf("check the metadata of a thin pool: %w", err)
}

// isNotInstalled returns true if the program does not exist. nsenter exits with 127 then (nsenter.c).
func isNotInstalled(failure *host.Error) bool {
	return failure.ExitCode == 127 || failure.ExitCode == -1 && failure.Signal() == 0
}

// failsAlways returns true if a program reported an error or crashed, as thin_dump 0.9.0 does for some metadata. It
// returns false if the program did not start, or if something else ended it.
func failsAlways(err error) bool {
	var failure *host.Error
	if !errors.As(err, &failure) || isNotInstalled(failure) {
		return false
	}
	switch failure.Signal() {
	case 0:
		return failure.ExitCode > 0 && failure.ExitCode < 128
	case unix.SIGSEGV, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE, unix.SIGILL:
		return true
	}
	return false
}

// reason returns why a program failed.
func reason(err error) string {
	var failure *host.Error
	if errors.As(err, &failure) {
		return failure.Error()
	}
	return err.Error()
}

// dump reads the metadata as thin_repair would.
func dump(ctx context.Context, runner host.Streamer, device string, options ...string) (*contents, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, writer := io.Pipe()
	read := make(chan error, 1)
	c := newContents()
	go func() {
		err := c.decode(reader)
		if err != nil {
			cancel()
		}
		_ = reader.CloseWithError(err)
		read <- err
	}()
	err := runner.Stream(ctx, writer, thinDump, append(append([]string{"--repair"}, options...), device)...)
	// Without an error, the reader gets the end of the file. Otherwise, its error wraps err.
	_ = writer.CloseWithError(err)
	if err := <-read; err != nil {
		return nil, err
	}
	return c, nil
}

// contents is what thin_dump prints.
type contents struct {
	transaction, flags uint64
	chunks             uint64
	devices            map[uint64]Device
	// shared is the number of mappings of each part that several devices have, by its name (only version 1.x).
	shared map[string]uint64
}

func newContents() *contents {
	return &contents{devices: map[uint64]Device{}, shared: map[string]uint64{}}
}

// decode reads the XML of thin_dump (thin_dump(8)) without storing it.
func (c *contents) decode(from io.Reader) error {
	decoder := xml.NewDecoder(from)
	r := dumpReader{contents: c}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			if !r.superblock {
				return errors.New("thin_dump printed no superblock")
			}
			return nil
		}
		if err == nil {
			err = r.read(token)
		}
		if err != nil {
			return fmt.Errorf("output of thin_dump: %w", err)
		}
	}
}

// dumpReader reads the elements that thin_dump prints.
type dumpReader struct {
	*contents
	// superblock is set after the superblock was read.
	superblock bool
	// device is the device whose mappings are read.
	device uint64
	// part is the part that several devices have, while it is read.
	part string
}

func (r *dumpReader) read(token xml.Token) error {
	if end, is := token.(xml.EndElement); is && end.Name.Local == "def" {
		r.part = ""
	}
	start, is := token.(xml.StartElement)
	if !is {
		return nil
	}
	e := element{start, nil}
	switch start.Name.Local {
	case "superblock":
		r.superblock = true
		r.transaction = e.number("transaction")
		r.flags = e.optional("flags")
		r.chunks = e.optional("nr_data_blocks")
	case "device":
		r.device = e.number("dev_id")
		r.devices[r.device] = Device{Recorded: e.number("mapped_blocks")}
	case "single_mapping":
		r.found(r.part, r.device, 1)
	case "range_mapping":
		r.found(r.part, r.device, e.number("length"))
	case "def":
		r.part = e.text("name")
		r.shared[r.part] = 0
	case "ref":
		name := e.text("name")
		if _, known := r.shared[name]; !known && e.err == nil {
			e.err = fmt.Errorf("element ref has the unknown name %q", name)
		}
		r.found("", r.device, r.shared[name])
	}
	if e.err == nil && len(r.devices) > maxDevices {
		e.err = fmt.Errorf("more than %d thin devices", maxDevices)
	}
	return e.err
}

// found adds mappings to the part with a name, or to the device.
func (c *contents) found(part string, device, blocks uint64) {
	if part != "" {
		c.shared[part] += blocks
		return
	}
	d := c.devices[device]
	d.Found += blocks
	c.devices[device] = d
}

// element is an XML element. It records the first missing or malformed attribute as the error.
type element struct {
	xml.StartElement
	err error
}

func (e *element) number(name string) uint64 {
	for _, a := range e.Attr {
		if a.Name.Local != name {
			continue
		}
		n, err := strconv.ParseUint(a.Value, 10, 64)
		if err != nil && e.err == nil {
			e.err = fmt.Errorf("%s of element %s is %q, want a number", name, e.Name.Local, a.Value)
		}
		return n
	}
	if e.err == nil {
		e.err = fmt.Errorf("element %s has no %s", e.Name.Local, name)
	}
	return 0
}

// text returns an attribute that must not be empty.
func (e *element) text(name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name && a.Value != "" {
			return a.Value
		}
	}
	if e.err == nil {
		e.err = fmt.Errorf("element %s has no %s", e.Name.Local, name)
	}
	return ""
}

// optional returns a number, or 0 if the element does not have it: older versions of thin_dump omit flags.
func (e *element) optional(name string) uint64 {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return e.number(name)
		}
	}
	return 0
}

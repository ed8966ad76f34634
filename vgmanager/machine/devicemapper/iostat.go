package devicemapper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// maxStatistics is the maximum size of /proc/diskstats in bytes. A line has about 100 bytes.
const maxStatistics = 16 << 20

// IO is what the kernel has counted for a mapped device since the device was created (Linux,
// Documentation/admin-guide/iostats.rst). Requests are those that reach the device, before the devices below split or
// merge them, and are counted when they complete. Discards and flushes are not included.
type IO struct {
	// Reads and Writes are the numbers of completed requests.
	Reads, Writes uint64
	// ReadBytes and WrittenBytes are multiples of 512 bytes.
	ReadBytes, WrittenBytes uint64
	// ReadTime and WriteTime are the sums of the times that the requests took, including those in the devices below.
	// The kernel counts milliseconds in 32 bits: they begin again at 0 after 49 days of request time.
	ReadTime, WriteTime time.Duration
}

// Statistics are the I/O statistics of the mapped devices of a node at one moment, by name in device-mapper.
type Statistics map[string]IO

// Volume returns the statistics of a logical volume. ok is false if the volume is not active.
func (s Statistics) Volume(vg, lv string) (counted IO, ok bool) {
	counted, ok = s[VolumeName(vg, lv)]
	return counted, ok
}

// Statistics reads the I/O statistics of all mapped devices: one request to the kernel for the names, and one read of
// /proc/diskstats, which reads no disk. Names are of the moment, not of an earlier report: a number can have been
// given to another device since.
func (r *Reader) Statistics(ctx context.Context) (Statistics, error) {
	found, err := ask(ctx, r, "statistics", r.statistics)
	if err != nil {
		return nil, fmt.Errorf("read the I/O statistics of mapped devices: %w", err)
	}
	return found, nil
}

func (r *Reader) statistics() (Statistics, error) {
	control, err := r.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }()
	answer, err := r.request(control, commandList, subject{}, nil)
	if err != nil {
		return nil, err
	}
	names, err := decodeNames(answer)
	if err != nil {
		return nil, err
	}
	text, err := readAtMost(r.diskstats, maxStatistics)
	if err != nil {
		return nil, err
	}
	found, err := decodeStatistics(text, names)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.diskstats, err)
	}
	return found, nil
}

// decodeStatistics decodes /proc/diskstats. It returns the statistics by name of the devices whose names it is given,
// by MAJOR:MINOR.
func decodeStatistics(text []byte, names map[string]string) (Statistics, error) {
	found := make(Statistics, len(names))
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < firstCounter+counters {
			return nil, fmt.Errorf("the line %q has fewer than %d fields", line, firstCounter+counters)
		}
		name, mapped := names[string(fields[0])+":"+string(fields[1])]
		if !mapped {
			continue
		}
		counted, err := decodeIO(fields[firstCounter:])
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", name, err)
		}
		found[name] = counted
	}
	return found, nil
}

// The fields of a line of /proc/diskstats: major, minor, name, and then the counters, of which the first eight are
// used.
const (
	firstCounter = 3
	counters     = 8
)

// decodeIO decodes the counters: reads, merged reads, sectors read, milliseconds of reads, and the same for writes. A
// sector has 512 bytes, whatever the device has.
func decodeIO(fields [][]byte) (IO, error) {
	var n [counters]uint64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(string(fields[i]), 10, 64); err != nil {
			return IO{}, fmt.Errorf("counter %d is %q, want a number", i+1, fields[i])
		}
	}
	return IO{
		Reads: n[0], ReadBytes: n[2] * 512, ReadTime: time.Duration(n[3]) * time.Millisecond,
		Writes: n[4], WrittenBytes: n[6] * 512, WriteTime: time.Duration(n[7]) * time.Millisecond,
	}, nil
}

// readAtMost reads a file. It returns an error if the file is longer than the limit or empty: the kernel always has
// block devices.
func readAtMost(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case len(content) == 0:
		return nil, errors.New(name + " is empty")
	case int64(len(content)) > limit:
		return nil, fmt.Errorf("%s is longer than %d bytes", name, limit)
	}
	return content, nil
}

package devicemapper

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Modes of a thin pool.
const (
	ModeReadWrite = "rw"
	ModeReadOnly  = "ro"
	// ModeOutOfData: writes that require new blocks are queued, or fail if ErrorIfNoSpace is set.
	ModeOutOfData = "out_of_data_space"
	// ModeFailed: the pool cannot be used. ModeError: its status could not be read.
	ModeFailed = "Fail"
	ModeError  = "Error"
)

// ThinPool is the status of a thin pool (Linux, Documentation/admin-guide/device-mapper/thin-provisioning.rst). If
// Mode is ModeFailed or ModeError, the other fields are not set.
type ThinPool struct {
	Mode string
	// NeedsCheck: the metadata requires thin_check before it can be written.
	NeedsCheck bool
	// ErrorIfNoSpace: a write without free space fails at once.
	ErrorIfNoSpace bool
	TransactionID  uint64
	// UsedMetadata and TotalMetadata are in blocks of 4 KiB. UsedData and TotalData are in blocks of the pool.
	UsedMetadata, TotalMetadata, UsedData, TotalData uint64
	// HeldRoot is the block of 4 KiB of the metadata that is the root of the metadata snapshot. It is 0 if none is
	// reserved.
	HeldRoot uint64
	// MetadataLowWaterMark is in blocks of 4 KiB. It is 0 on kernels before 4.19.
	MetadataLowWaterMark uint64
	// Suspended: I/O of the pool is suspended. It is set in every Mode, and is not part of the status line.
	Suspended bool
}

// HasFailed returns true if the kernel has no state of the pool.
func (p ThinPool) HasFailed() bool { return p.Mode == ModeFailed || p.Mode == ModeError }

// DataPercent returns the usage of the data in percent, rounded down. It returns 0 if the usage is not known.
func (p ThinPool) DataPercent() int { return percent(p.UsedData, p.TotalData) }

// MetadataPercent returns the usage of the metadata in percent, rounded down. It returns 0 if the usage is not known.
func (p ThinPool) MetadataPercent() int { return percent(p.UsedMetadata, p.TotalMetadata) }

func percent(used, total uint64) int {
	if total == 0 {
		return 0
	}
	return int(used * 100 / total)
}

// ParseThinPool parses the status line of a thin pool:
//
//	TRANSACTION USED/TOTAL(metadata) USED/TOTAL(data) HELD-ROOT rw|ro|out_of_data_space DISCARD
//	error|queue_if_no_space needs_check|- LOW
func ParseThinPool(params string) (ThinPool, error) {
	fields := strings.Fields(params)
	if len(fields) == 1 && (fields[0] == ModeFailed || fields[0] == ModeError) {
		return ThinPool{Mode: fields[0]}, nil
	}
	if len(fields) < 5 {
		return ThinPool{}, fmt.Errorf("invalid status of a thin pool: %q", params)
	}
	if !slices.Contains([]string{ModeReadWrite, ModeReadOnly, ModeOutOfData}, fields[4]) {
		return ThinPool{}, fmt.Errorf("status of a thin pool is %q: %q is not a mode", params, fields[4])
	}
	rest := fields[5:]
	p := ThinPool{Mode: fields[4], NeedsCheck: slices.Contains(rest, "needs_check"),
		ErrorIfNoSpace: slices.Contains(rest, "error_if_no_space")}
	var err error
	if p.TransactionID, err = strconv.ParseUint(fields[0], 10, 64); err != nil {
		return ThinPool{}, fmt.Errorf("status of a thin pool is %q: its transaction: %w", params, err)
	}
	if p.UsedMetadata, p.TotalMetadata, err = fraction(fields[1]); err != nil {
		return ThinPool{}, fmt.Errorf("status of a thin pool is %q: its metadata: %w", params, err)
	}
	if p.UsedData, p.TotalData, err = fraction(fields[2]); err != nil {
		return ThinPool{}, fmt.Errorf("status of a thin pool is %q: its data: %w", params, err)
	}
	if fields[3] != "-" {
		if p.HeldRoot, err = strconv.ParseUint(fields[3], 10, 64); err != nil {
			return ThinPool{}, fmt.Errorf("status of a thin pool is %q: its held root: %w", params, err)
		}
	}
	if len(rest) >= 4 {
		if p.MetadataLowWaterMark, err = strconv.ParseUint(rest[3], 10, 64); err != nil {
			return ThinPool{}, fmt.Errorf("status of a thin pool is %q: its low water mark: %w", params, err)
		}
	}
	return p, nil
}

// ParseThin returns the number of sectors of 512 bytes of a thin volume that have blocks in its pool, from its status
// line: MAPPED HIGHEST|-. It returns an error if the pool has failed.
func ParseThin(params string) (uint64, error) {
	fields := strings.Fields(params)
	if len(fields) != 2 {
		return 0, fmt.Errorf("status of a thin volume is %q, without the number of its mapped sectors", params)
	}
	mapped, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("status of a thin volume is %q: its mapped sectors: %w", params, err)
	}
	return mapped, nil
}

// RAID is the status of a RAID volume (Linux, Documentation/admin-guide/device-mapper/dm-raid.rst).
type RAID struct {
	// Level is raid1, raid5_ls, raid6_zr, raid10, and so on.
	Level string
	// Health has a character for each device: A in sync, a alive and not in sync, D failed, - missing.
	Health string
	// SyncedSectors is the number of sectors in sync, of TotalSectors.
	SyncedSectors, TotalSectors uint64
	// Action is idle, frozen, resync, recover, check, repair or reshape. It is empty on kernels before 3.11, which do
	// not report it.
	Action string
	// MismatchCount is the number of sectors that differed in the last check.
	MismatchCount uint64
}

// InSync returns true if all sectors are in sync.
func (r RAID) InSync() bool { return r.SyncedSectors == r.TotalSectors }

// ParseRAID parses the status line of a RAID volume: LEVEL DEVICES HEALTH SYNCED/TOTAL ACTION MISMATCHES ...
func ParseRAID(params string) (RAID, error) {
	fields := strings.Fields(params)
	if len(fields) < 4 {
		return RAID{}, fmt.Errorf("invalid status of a RAID volume: %q", params)
	}
	devices, err := strconv.Atoi(fields[1])
	if err != nil || devices != len(fields[2]) || strings.Trim(fields[2], "AaD-") != "" {
		return RAID{}, fmt.Errorf("status of a RAID volume is %q: its health is not a letter for each device", params)
	}
	r := RAID{Level: fields[0], Health: fields[2]}
	if r.SyncedSectors, r.TotalSectors, err = fraction(fields[3]); err != nil {
		return RAID{}, fmt.Errorf("status of a RAID volume is %q: its sync progress: %w", params, err)
	}
	if len(fields) > 4 {
		r.Action = fields[4]
	}
	if len(fields) > 5 {
		if r.MismatchCount, err = strconv.ParseUint(fields[5], 10, 64); err != nil {
			return RAID{}, fmt.Errorf("status of a RAID volume is %q: its mismatches: %w", params, err)
		}
	}
	return r, nil
}

// Mirror is the status of a mirror. LVM uses mirrors to move extents between devices (Linux, drivers/md/dm-raid1.c).
type Mirror struct {
	// Health has a character for each device: A alive, D write failed, S out of sync, R read failed, F flush failed,
	// U unknown.
	Health string
	// SyncedRegions is the number of copied regions, of TotalRegions.
	SyncedRegions, TotalRegions uint64
}

// ParseMirror parses the status line of a mirror: DEVICES NUMBER... SYNCED/TOTAL 1 HEALTH LOG...
func ParseMirror(params string) (Mirror, error) {
	fields := strings.Fields(params)
	if len(fields) == 0 {
		return Mirror{}, fmt.Errorf("status of a mirror is empty")
	}
	devices, err := strconv.ParseUint(fields[0], 10, 16)
	at := int(devices) + 1
	if err != nil || devices == 0 || len(fields) < at+3 {
		return Mirror{}, fmt.Errorf("status of a mirror is %q: it lists a wrong number of devices", params)
	}
	m := Mirror{Health: fields[at+2]}
	if fields[at+1] != "1" || len(m.Health) != int(devices) || strings.Trim(m.Health, "ADSRFU") != "" {
		return Mirror{}, fmt.Errorf("status of a mirror is %q: its health is not a letter for each device", params)
	}
	if m.SyncedRegions, m.TotalRegions, err = fraction(fields[at]); err != nil {
		return Mirror{}, fmt.Errorf("status of a mirror is %q: its sync progress: %w", params, err)
	}
	return m, nil
}

// fraction parses PART/WHOLE. It accepts parts below 2^56, so that 100 times the part does not overflow.
func fraction(text string) (part, whole uint64, err error) {
	before, after, ok := strings.Cut(text, "/")
	part, err1 := strconv.ParseUint(before, 10, 56)
	whole, err2 := strconv.ParseUint(after, 10, 56)
	if !ok || err1 != nil || err2 != nil || whole == 0 || part > whole {
		return 0, 0, fmt.Errorf("%q is not a fraction", text)
	}
	return part, whole, nil
}

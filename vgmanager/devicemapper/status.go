package devicemapper

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ThinPool is the status of a thin pool (Linux, Documentation/admin-guide/device-mapper/thin-provisioning.rst).
type ThinPool struct {
	// Mode: rw, ro, out_of_data_space; Fail when the pool is out of use, Error when its status could not be read.
	Mode string
	// NeedsCheck: the metadata is marked for thin_check.
	NeedsCheck bool
	// MetadataPercent and DataPercent are how full it is, in whole percent, rounded down; 0 when it failed.
	MetadataPercent, DataPercent int
}

// ParseThinPool reads the status line of a thin pool.
func ParseThinPool(params string) (ThinPool, error) {
	fields := strings.Fields(params)
	if len(fields) == 1 && (fields[0] == "Fail" || fields[0] == "Error") {
		return ThinPool{Mode: fields[0]}, nil
	}
	if len(fields) < 5 {
		return ThinPool{}, fmt.Errorf("status of a thin pool is %q", params)
	}
	metadata, err := fraction(fields[1])
	if err != nil {
		return ThinPool{}, err
	}
	data, err := fraction(fields[2])
	if err != nil {
		return ThinPool{}, err
	}
	pool := ThinPool{MetadataPercent: metadata, DataPercent: data, NeedsCheck: slices.Contains(fields, "needs_check")}
	for _, mode := range []string{"rw", "ro", "out_of_data_space"} {
		if slices.Contains(fields[4:], mode) {
			pool.Mode = mode
		}
	}
	if pool.Mode == "" {
		return ThinPool{}, fmt.Errorf("status of a thin pool is %q: it has no mode", params)
	}
	return pool, nil
}

// RAID is the status of a RAID volume (Linux, Documentation/admin-guide/device-mapper/dm-raid.rst).
type RAID struct {
	// Level: raid1, raid5_ls, raid6_zr, raid10, …
	Level string
	// Health has a letter for each device: A in sync, a alive and not in sync, D failed, - not there.
	Health string
	// InSync: nothing is left to synchronise.
	InSync bool
}

// ParseRAID reads the status line of a RAID volume.
func ParseRAID(params string) (RAID, error) {
	fields := strings.Fields(params)
	if len(fields) < 4 {
		return RAID{}, fmt.Errorf("status of a RAID volume is %q", params)
	}
	devices, err := strconv.Atoi(fields[1])
	if err != nil || devices != len(fields[2]) || strings.Trim(fields[2], "AaD-") != "" {
		return RAID{}, fmt.Errorf("status of a RAID volume is %q: its health is not a letter for each device", params)
	}
	synced, total, ok := strings.Cut(fields[3], "/")
	if !ok || !isNumber(synced) || !isNumber(total) {
		return RAID{}, fmt.Errorf("status of a RAID volume is %q: %q is not SYNCED/TOTAL", params, fields[3])
	}
	return RAID{Level: fields[0], Health: fields[2], InSync: synced == total}, nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 64)
	return err == nil
}

// fraction reads USED/TOTAL as percent.
func fraction(text string) (int, error) {
	used, total, ok := strings.Cut(text, "/")
	u, err1 := strconv.ParseUint(used, 10, 56)
	t, err2 := strconv.ParseUint(total, 10, 56)
	if !ok || err1 != nil || err2 != nil || t == 0 || u > t {
		return 0, fmt.Errorf("%q is not USED/TOTAL", text)
	}
	return int(u * 100 / t), nil
}

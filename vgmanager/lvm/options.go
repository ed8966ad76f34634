package lvm

import (
	"fmt"
	"strconv"
	"strings"
)

// Layout describes how lvcreate distributes the extents of a volume over physical volumes.
type Layout struct {
	// Type is the segment type in LVM's terms: "linear", "striped", "raid1", and so on.
	Type string
	// Images is the number of parts of equal size, each on separate physical volumes. It is 1 for a linear volume.
	Images int
	// Data is the number of images that hold data. The others hold copies or parity. The size of a volume is Data
	// times the size of an image.
	Data int
	// Meta is true if each image has a metadata volume.
	Meta bool
}

// NewLayout returns the layout for options of lvcreate, with LVM's defaults for missing options. It supports --type,
// -m or --mirrors, and -i or --stripes, as two arguments or as one with "=". It treats an unknown type as linear.
//
// The defaults are from lvmraid(7) and were verified: raid4 and raid5 have 2 stripes, raid6 has 3, raid10 has 2 with
// 1 mirror, raid1 has 1 mirror.
func NewLayout(options []string) (Layout, error) {
	kind := optionValue(options, "--type", "")
	mirrors, err := optionNumber(options, "--mirrors", "-m")
	if err != nil {
		return Layout{}, err
	}
	stripes, err := optionNumber(options, "--stripes", "-i")
	if err != nil {
		return Layout{}, err
	}
	layout := newLayout(kind, mirrors, stripes)
	switch {
	case layout.Type == "raid10" && mirrors > 1:
		return Layout{}, fmt.Errorf("raid10 has %d mirrors, but LVM supports only one: %w", mirrors, ErrInvalid)
	case layout.Type == "raid1" && stripes > 1:
		return Layout{}, fmt.Errorf("raid1 has %d stripes, but LVM supports none: %w", stripes, ErrInvalid)
	}
	return layout, nil
}

// newLayout returns the layout of a type. -1 stands for a number that is not set.
func newLayout(kind string, mirrors, stripes int) Layout {
	// "raid5_ls" is raid5 with one of several parity layouts.
	level, _, _ := strings.Cut(kind, "_")
	or := func(n, otherwise int) int {
		if n > 0 {
			return n
		}
		return otherwise
	}
	switch {
	case level == "raid1", kind == "mirror", kind == "" && mirrors > 0 && stripes <= 1:
		return Layout{Type: "raid1", Images: or(mirrors, 1) + 1, Data: 1, Meta: true}
	case level == "raid10", kind == "" && mirrors > 0:
		data := or(stripes, 2)
		return Layout{Type: "raid10", Images: data * (or(mirrors, 1) + 1), Data: data, Meta: true}
	case level == "raid4", level == "raid5":
		data := or(stripes, 2)
		return Layout{Type: level, Images: data + 1, Data: data, Meta: true}
	case level == "raid6":
		data := or(stripes, 3)
		return Layout{Type: level, Images: data + 2, Data: data, Meta: true}
	case level == "raid0":
		data := or(stripes, 2)
		return Layout{Type: level, Images: data, Data: data, Meta: kind == "raid0_meta"}
	case kind == "striped" || kind == "" && stripes > 1:
		return Layout{Type: "striped", Images: or(stripes, 1), Data: or(stripes, 1)}
	}
	return Layout{Type: "linear", Images: 1, Data: 1}
}

// optionValue returns the last value of an option, or "" if it is not set.
func optionValue(options []string, long, short string) string {
	value := ""
	for i, o := range options {
		switch name, rest, joined := strings.Cut(o, "="); {
		case joined && name == long:
			value = rest
		case (o == long || short != "" && o == short) && i+1 < len(options):
			value = options[i+1]
		case short != "" && !strings.HasPrefix(o, "--") && strings.HasPrefix(o, short) && o != short:
			value = strings.TrimPrefix(o, short)
		}
	}
	return value
}

// maxLayoutNumber is LVM's limit of stripes. The limit for RAID is lower.
const maxLayoutNumber = 128

// optionNumber returns the number of an option, or -1 if it is not set.
func optionNumber(options []string, long, short string) (int, error) {
	value := optionValue(options, long, short)
	if value == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxLayoutNumber {
		return 0, fmt.Errorf("option %s of lvcreate is %q, want a number up to %d: %w", long, value,
			maxLayoutNumber, ErrInvalid)
	}
	return n, nil
}

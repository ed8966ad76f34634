package textmeta

import (
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LV is a logical volume in text metadata.
type LV struct {
	Name, UUID string
	// Visible is false for internal volumes.
	Visible  bool
	Segments []Segment
}

// Segment is a range of logical extents of a volume.
type Segment struct {
	// Type is LVM's segment type. LVM writes linear segments as "striped" with one stripe.
	Type string
	// Start and Count are logical extents.
	Start, Count uint64
	// StripeSize is in sectors, 0 for a single stripe.
	StripeSize uint64
	// Areas are the first physical extents of the stripes.
	Areas []Area
	// Parts are the names of the volumes that the segment consists of: images, and data and metadata of a pool.
	Parts []string
	// TransactionID is the number of transactions of a thin pool, or that at which a thin volume was created. ChunkSize
	// is in sectors.
	TransactionID, ChunkSize uint64
	// ThinPool is the pool of a thin volume, and DeviceID its ID in the metadata of the pool.
	ThinPool string
	DeviceID uint64
	// Messages is the number of messages that LVM has queued for a thin pool (lib/thin/thin.c).
	Messages int
}

// Area is a run of physical extents.
type Area struct {
	// PV is the UUID of the physical volume.
	PV    string
	First uint64
}

// Volume returns the logical volume with this name, or nil.
func (m *Metadata) Volume(name string) *LV {
	at := slices.IndexFunc(m.Volumes, func(lv LV) bool { return lv.Name == name })
	if at < 0 {
		return nil
	}
	return &m.Volumes[at]
}

// Extents returns the number of logical extents.
func (v *LV) Extents() uint64 {
	var sum uint64
	for _, s := range v.Segments {
		sum += s.Count
	}
	return sum
}

// decoder is text metadata that is being read.
type decoder struct {
	Metadata
	hash hash.Hash
	// at is the section that is being read.
	at section
	// list is the key of a list with several lines that is being read, or "". elements are its elements.
	list     string
	elements []string
	// pvs are the UUIDs of the physical volumes by their names in the text, for example "pv0".
	pvs map[string]string
	// areas are lists of names and extents by segment, which are resolved at the end.
	areas []areas
}

// areas is the list of the stripes of a segment.
type areas struct {
	volume, segment int
	list            []string
}

// deviceHint is the key of the last device of a physical volume, which can change without a change of the metadata.
const deviceHint = "device"

// add adds a line of the section of the volume group to the digest.
func (d *decoder) add(at section, key, line string) {
	if line == "" || key == deviceHint || len(at) == 0 && !strings.HasSuffix(line, " {") {
		return
	}
	_, _ = fmt.Fprintf(d.hash, "%q\n", line)
}

func (d *decoder) enter(at section) {
	switch {
	case at.is(1, "") && d.VG == "":
		d.VG = at[0]
	case at.is(3, "logical_volumes"):
		d.LVs = append(d.LVs, at[2])
		d.Volumes = append(d.Volumes, LV{Name: at[2]})
	case at.is(4, "logical_volumes"):
		lv := &d.Volumes[len(d.Volumes)-1]
		lv.Segments = append(lv.Segments, Segment{})
	case at.is(5, "logical_volumes") && strings.HasPrefix(at[4], "message"):
		d.segment().Messages++
	}
}

// segment returns the segment that is being read.
func (d *decoder) segment() *Segment {
	lv := &d.Volumes[len(d.Volumes)-1]
	return &lv.Segments[len(lv.Segments)-1]
}

// element reads a line of a list with several lines.
func (d *decoder) element(at section, line string) {
	if line != "]" {
		d.elements = append(d.elements, elements(line)...)
		return
	}
	if at.is(4, "logical_volumes") && slices.Contains([]string{"stripes", "mirrors", "raids"}, d.list) {
		lv := len(d.Volumes) - 1
		d.areas = append(d.areas, areas{lv, len(d.Volumes[lv].Segments) - 1, d.elements})
	}
	d.list = ""
	d.elements = nil
}

// elements returns the elements of a list in one line, without quotes. LVM's names and flags have no commas and no
// escapes.
func elements(line string) []string {
	var list []string
	for _, e := range strings.Split(strings.Trim(line, "[] "), ",") {
		if e = strings.Trim(strings.TrimSpace(e), `"`); e != "" {
			list = append(list, e)
		}
	}
	return list
}

// resolve replaces the names of physical volumes in the stripes of segments by their UUIDs.
func (d *decoder) resolve() error {
	for _, a := range d.areas {
		s := &d.Volumes[a.volume].Segments[a.segment]
		for i := 0; i < len(a.list); i++ {
			uuid, is := d.pvs[a.list[i]]
			if !is {
				if _, err := strconv.ParseUint(a.list[i], 10, 64); err != nil {
					s.Parts = append(s.Parts, a.list[i])
				}
				continue
			}
			i++
			if i == len(a.list) {
				return fmt.Errorf("volume %s has no extent on physical volume %s", d.Volumes[a.volume].Name, uuid)
			}
			first, err := strconv.ParseUint(a.list[i], 10, 64)
			if err != nil {
				return fmt.Errorf("volume %s: extent %q on physical volume %s: %w", d.Volumes[a.volume].Name, a.list[i],
					uuid, err)
			}
			s.Areas = append(s.Areas, Area{PV: uuid, First: first})
		}
	}
	return nil
}

func (d *decoder) set(at section, key, value string) error {
	var err error
	switch {
	case len(at) == 0 && key == "description":
		d.Description, err = strconv.Unquote(value)
	case len(at) == 0 && key == "creation_time":
		var seconds uint64
		seconds, err = unsigned(value)
		d.Created = time.Unix(int64(seconds), 0)
	case at.is(1, "") && key == "id":
		d.UUID, err = strconv.Unquote(value)
	case at.is(1, "") && key == "seqno":
		d.Seqno, err = unsigned(value)
	case at.is(3, "physical_volumes"):
		err = d.setPV(at[2], key, value)
	case at.is(3, "logical_volumes"):
		err = d.setVolume(key, value)
	case at.is(4, "logical_volumes"):
		err = d.setSegment(at[2], key, value)
	}
	if err != nil {
		return fmt.Errorf("%s is %s: %w", key, value, err)
	}
	return nil
}

func (d *decoder) setPV(name, key, value string) error {
	switch key {
	case "id":
		uuid, err := strconv.Unquote(value)
		d.PVs = append(d.PVs, uuid)
		d.pvs[name] = uuid
		return err
	case "status", "flags":
		if slices.Contains(elements(value), "MISSING") {
			d.MissingPVs = append(d.MissingPVs, d.pvs[name])
		}
	}
	return nil
}

func (d *decoder) setVolume(key, value string) (err error) {
	v := &d.Volumes[len(d.Volumes)-1]
	switch key {
	case "id":
		v.UUID, err = strconv.Unquote(value)
	case "status":
		v.Visible = slices.Contains(elements(value), "VISIBLE")
	}
	return err
}

func (d *decoder) setSegment(volume, key, value string) error {
	s := d.segment()
	var err error
	switch key {
	case "type":
		s.Type, err = strconv.Unquote(value)
		if s.Type == "thin-pool" {
			d.ThinPools = append(d.ThinPools, volume)
		}
	case "start_extent":
		s.Start, err = unsigned(value)
	case "extent_count":
		s.Count, err = unsigned(value)
	case "stripe_size":
		s.StripeSize, err = unsigned(value)
	case "transaction_id":
		s.TransactionID, err = unsigned(value)
	case "chunk_size":
		s.ChunkSize, err = unsigned(value)
	case "device_id":
		s.DeviceID, err = unsigned(value)
	case "thin_pool":
		s.ThinPool, err = strconv.Unquote(value)
	case "metadata", "pool":
		var part string
		part, err = strconv.Unquote(value)
		s.Parts = append(s.Parts, part)
	}
	return err
}

func unsigned(value string) (uint64, error) {
	return strconv.ParseUint(strings.TrimSpace(value), 10, 64)
}

// Package textmeta reads LVM's text metadata.
package textmeta

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Metadata is what LVM's text metadata says about a volume group (lib/format_text/import_vsn1.c).
type Metadata struct {
	VG, UUID string
	// Seqno counts the changes of the volume group.
	Seqno uint64
	// Created is when LVM wrote a backup, and Description is the command that did. Both are empty for metadata from a
	// device.
	Created     time.Time
	Description string
	// PVs are the UUIDs of the physical volumes. LVs are the names of all logical volumes, including hidden ones, and
	// ThinPools those of the thin pools.
	PVs, LVs, ThinPools []string
	// MissingPVs are the UUIDs of the physical volumes that LVM had marked as missing.
	MissingPVs []string
	// Volumes are all logical volumes, including hidden ones, in the order of the text.
	Volumes []LV
	// Digest is a hash of everything but the hints to devices and what LVM writes around the metadata.
	Digest string
	// File is the file on the node, or empty for metadata from a device. Text is its content.
	File string
	Text []byte
}

// Has returns true if the volume group has the physical volume.
func (m *Metadata) Has(pv string) bool { return slices.Contains(m.PVs, pv) }

// PoolsOf returns the thin volumes among logical volumes, by pool.
func (m *Metadata) PoolsOf(names []string) map[string][]string {
	pools := map[string][]string{}
	for _, name := range names {
		if lv := m.Volume(name); lv != nil && len(lv.Segments) > 0 && lv.Segments[0].ThinPool != "" {
			pool := lv.Segments[0].ThinPool
			pools[pool] = append(pools[pool], name)
		}
	}
	return pools
}

// QueuedMessages returns the number of queued messages of a thin pool.
func (m *Metadata) QueuedMessages(pool string) int {
	lv := m.Volume(pool)
	if lv == nil || len(lv.Segments) == 0 {
		return 0
	}
	return lv.Segments[0].Messages
}

// section is a section of text metadata that is being read: the names from the outermost section.
type section []string

func (s section) is(depth int, name string) bool {
	return len(s) == depth && (depth < 2 || s[1] == name)
}

// Decode reads text metadata of one volume group. LVM writes each value, and the start and end of each section,
// in a line of its own.
func Decode(text []byte) (*Metadata, error) {
	d := &decoder{hash: sha256.New(), pvs: map[string]string{}}
	m := &d.Metadata
	for i, line := range strings.Split(strings.TrimRight(string(text), "\x00"), "\n") {
		if err := d.read(strings.TrimSpace(withoutComment(line))); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	switch {
	case len(d.at) > 0 || d.list != "":
		return nil, errors.New("the text is incomplete")
	case m.VG == "" || m.UUID == "" || m.Seqno == 0 || len(m.PVs) == 0:
		return nil, errors.New("the text is not the metadata of a volume group")
	}
	if err := d.resolve(); err != nil {
		return nil, err
	}
	m.Digest = hex.EncodeToString(d.hash.Sum(nil))
	return m, nil
}

// read reads a line without comment and surrounding white space.
func (d *decoder) read(line string) error {
	key, value, assigned := strings.Cut(line, " = ")
	d.add(d.at, key, line)
	switch {
	case d.list != "":
		d.element(d.at, line)
	case assigned && value == "[":
		d.list = key
	case assigned:
		return d.set(d.at, key, value)
	case line == "}" && len(d.at) == 0:
		return errors.New("it ends a section that was not started")
	case line == "}":
		d.at = d.at[:len(d.at)-1]
	case strings.HasSuffix(line, " {"):
		d.at = append(d.at, strings.TrimSuffix(line, " {"))
		d.enter(d.at)
	}
	return nil
}

// withoutComment removes a comment, which starts with # outside of a string.
func withoutComment(line string) string {
	quoted := false
	escaped := false
	for i, c := range line {
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case c == '#' && !quoted:
			return line[:i]
		}
	}
	return line
}

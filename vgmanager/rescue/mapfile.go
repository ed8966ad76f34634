package rescue

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// mapTitle is the first line of a map file.
	mapTitle = "# lvms rescue map 1"
	// maxRanges limits the entries of a map.
	maxRanges = 1 << 20
	// maxMapBytes limits a map file: each entry is a line of at most 64 bytes.
	maxMapBytes = maxRanges*64 + 1<<20
)

// Record is the content of a map file: what is copied to where, and the map.
type Record struct {
	// Source and Target are paths, for the reader. SourceID and TargetID identify the device or file after a restart of
	// the node; they are empty if it has no identity.
	Source, SourceID, Target, TargetID string
	// Smallest is the size of the reads with which ranges were given up, in bytes.
	Smallest int64
	Map      *Map
}

// Encode returns the content of the map file.
func (r *Record) Encode() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\nsource %q\nsource-id %q\ntarget %q\ntarget-id %q\n", mapTitle, r.Source, r.SourceID,
		r.Target, r.TargetID)
	fmt.Fprintf(&out, "smallest %d\nsize %d\n", r.Smallest, r.Map.Size())
	fmt.Fprintln(&out, "# start, length, state; for pending: size of the smallest failed read; for lost: failed reads")
	for _, e := range r.Map.entries {
		fmt.Fprintf(&out, "%d %d %s", e.Start, e.Length, e.State)
		if e.Number != 0 {
			fmt.Fprintf(&out, " %d", e.Number)
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// Decode parses a map file. It refuses a map with gaps.
func Decode(content []byte) (*Record, error) {
	if !bytes.HasPrefix(content, []byte(mapTitle+"\n")) {
		return nil, errors.New("it is not a map of lvms rescue")
	}
	r := &Record{Map: &Map{}}
	size := int64(0)
	header := map[string]any{"source": &r.Source, "source-id": &r.SourceID, "target": &r.Target,
		"target-id": &r.TargetID, "smallest": &r.Smallest, "size": &size}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for n := 1; lines.Scan(); n++ {
		if err := r.decode(header, lines.Text()); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for name := range header {
		return nil, fmt.Errorf("it has no line %q", name)
	}
	entries := r.Map.entries
	if len(entries) == 0 || r.Map.Size() != size || r.Smallest <= 0 {
		return nil, fmt.Errorf("it does not cover the size of %d bytes: it was cut", size)
	}
	r.Map.entries = merged(entries)
	return r, nil
}

// decode parses one line. It removes header lines that were found from header.
func (r *Record) decode(header map[string]any, line string) error {
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	name, value, _ := strings.Cut(line, " ")
	into, known := header[name]
	if !known {
		return r.decodeEntry(strings.Fields(line))
	}
	delete(header, name)
	var err error
	switch into := into.(type) {
	case *string:
		*into, err = strconv.Unquote(value)
	case *int64:
		*into, err = strconv.ParseInt(value, 10, 64)
	}
	return err
}

func (r *Record) decodeEntry(fields []string) error {
	if len(fields) < 3 || len(fields) > 4 {
		return errors.New("want start, length, state")
	}
	numbers := [3]int64{}
	for i, at := range []int{0, 1, 3} {
		if at >= len(fields) {
			continue
		}
		value, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil || value < 0 {
			return fmt.Errorf("%q is not a number of bytes", fields[at])
		}
		numbers[i] = value
	}
	e := Entry{Range: Range{numbers[0], numbers[1]}, State: Saved + Lost, Number: numbers[2]}
	for state, name := range stateNames {
		if name == fields[2] {
			e.State = State(state)
		}
	}
	return r.add(e, fields[2])
}

// add appends an entry, whose state has a name, if it is possible after those before it.
func (r *Record) add(e Entry, name string) error {
	end := int64(0)
	if n := len(r.Map.entries); n > 0 {
		end = r.Map.entries[n-1].End()
	}
	switch {
	case int(e.State) >= len(stateNames):
		return fmt.Errorf("unknown state %q", name)
	case e.Start != end || e.Length == 0 || e.End() < e.Start:
		return fmt.Errorf("range %d+%d does not begin at the end of the range before, %d", e.Start, e.Length, end)
	case e.State == Saved && e.Number != 0, e.State == Lost && e.Number == 0:
		return fmt.Errorf("number %d does not fit to the state %s", e.Number, e.State)
	case len(r.Map.entries) >= maxRanges:
		return fmt.Errorf("more than %d ranges", maxRanges)
	}
	r.Map.entries = append(r.Map.entries, e)
	return nil
}

// Load reads a map file. It returns nil if the file does not exist.
func Load(path string) (*Record, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxMapBytes {
		return nil, fmt.Errorf("map %s is not a map of lvms rescue", path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read map: %w", err)
	}
	r, err := Decode(content)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return r, nil
}

// Save replaces a map file. After a crash the file has either the old or the new content.
func (r *Record) Save(path string) error {
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("save map: %w", err)
	}
	_, err = f.Write(r.Encode())
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("save map %s: %w", path, err)
	}
	return nil
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

package rescue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Options are those of the command.
type Options struct {
	From, To, Map   string
	OverwriteDevice bool
	RetryLost       bool
}

// opened are the target and the record of the copy.
type opened struct {
	target *Target
	record *Record
}

// open opens the target and loads or creates the map. It refuses everything that could destroy data.
func open(o Options, p places, source *Source, smallest int64) (*opened, error) {
	record, err := Load(o.Map)
	if err != nil {
		return nil, err
	}
	if err := p.apart(o.From, "folder of the map", filepath.Dir(o.Map)); err != nil {
		return nil, err
	}
	identity, err := p.identity(o.From)
	if err != nil {
		return nil, err
	}
	if record != nil {
		if err := record.fits(o, identity, source.size); err != nil {
			return nil, err
		}
	}
	target, id, err := openTarget(o, p, source, record)
	if err != nil {
		return nil, err
	}
	if record == nil {
		record = &Record{Source: o.From, SourceID: identity, Target: o.To, TargetID: id, Smallest: smallest,
			Map: NewMap(source.size)}
	} else if record.TargetID != id {
		return nil, errors.Join(fmt.Errorf("map %s belongs to another target: to %q, and not to %q: name the target "+
			"that it belongs to, or another map", o.Map, record.TargetID, id), target.Close())
	}
	record.narrow(o.RetryLost, smallest)
	if err := errors.Join(record.Save(o.Map), target.resize(source.size)); err != nil {
		return nil, errors.Join(err, target.Close())
	}
	return &opened{target, record}, nil
}

// fits returns an error if the map does not belong to the source.
func (r *Record) fits(o Options, identity string, size int64) error {
	if r.SourceID != identity || (identity == "" && r.Source != o.From) || r.Map.Size() != size {
		return fmt.Errorf("map %s belongs to another source: %s (%q) of %d bytes, and not %s (%q) of %d bytes: name "+
			"another map and another target", o.Map, r.Source, r.SourceID, r.Map.Size(), o.From, identity, size)
	}
	return nil
}

// narrow makes lost ranges pending if they are to be read again, or now with smaller reads.
func (r *Record) narrow(again bool, smallest int64) {
	switch {
	case again:
		r.Map.Reset(0)
		r.Smallest = smallest
	case smallest < r.Smallest:
		r.Map.Reset(r.Smallest)
		r.Smallest = smallest
	default:
		r.Smallest = max(r.Smallest, smallest)
	}
}

// openTarget opens and locks the target, and returns its identity.
func openTarget(o Options, p places, source *Source, record *Record) (*Target, string, error) {
	info, err := os.Stat(o.To)
	switch {
	case errors.Is(err, fs.ErrNotExist) && record != nil:
		return nil, "", fmt.Errorf("map %s has saved ranges, but the target %s does not exist: delete the map to "+
			"begin again", o.Map, o.To)
	case errors.Is(err, fs.ErrNotExist):
		return openFile(o, p, record)
	case err != nil:
		return nil, "", fmt.Errorf("target: %w", err)
	case info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice:
		return openDevice(o, p, source)
	case !info.Mode().IsRegular():
		return nil, "", fmt.Errorf("target %s is neither a file nor a block device", o.To)
	case record == nil && info.Size() > 0:
		return nil, "", fmt.Errorf("target %s exists and no map %s says that it is an unfinished copy: name a file "+
			"that does not exist", o.To, o.Map)
	}
	return openFile(o, p, record)
}

func openFile(o Options, p places, record *Record) (*Target, string, error) {
	if err := p.apart(o.From, "folder of the target", filepath.Dir(o.To)); err != nil {
		return nil, "", err
	}
	f, err := os.OpenFile(o.To, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("open the target: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, "", errors.Join(fmt.Errorf("target %s: another rescue is writing to it, or waits for the source: "+
			"%w", o.To, err), f.Close())
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return nil, "", errors.Join(fmt.Errorf("target %s: %w", o.To, err), f.Close())
	}
	return &Target{file: f, blank: record == nil}, fmt.Sprintf("inode %d", stat.Ino), nil
}

// openDevice opens a block device that nothing uses.
func openDevice(o Options, p places, source *Source) (*Target, string, error) {
	if err := p.apart(o.From, "target", o.To); err != nil {
		return nil, "", err
	}
	if !o.OverwriteDevice {
		return nil, "", fmt.Errorf("target %s is a block device, whose content would be destroyed: add "+
			"--overwrite-device if that is what you want", o.To)
	}
	f, err := os.OpenFile(o.To, os.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, "", fmt.Errorf("target %s is in use: it is mounted, has volumes on it, or another rescue writes "+
			"to it", o.To)
	}
	if err != nil {
		return nil, "", fmt.Errorf("open the target: %w", err)
	}
	t := &Target{file: f, device: true}
	size, err := t.size()
	if err == nil && size < source.size {
		err = fmt.Errorf("it has %d bytes, and the source has %d: name a larger device", size, source.size)
	}
	id := ""
	if err == nil {
		id, err = p.identity(o.To)
	}
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("target %s: %w", o.To, err), f.Close())
	}
	if id == "" {
		id = "device " + o.To
	}
	return t, id, nil
}

// resize gives a file the size of the source.
func (t *Target) resize(size int64) error {
	if t.device {
		return nil
	}
	if err := t.file.Truncate(size); err != nil {
		return fmt.Errorf("set the size of the target: %w", err)
	}
	return t.Sync()
}

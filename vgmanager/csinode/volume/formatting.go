package volume

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// This file records that the formatting of a volume has begun. An interrupted mkfs leaves a partial file system, which
// must not count as data. The tag of a new volume does not prove that: LVM metadata that is restored later
// (vgcfgrestore) would have it again on a volume that contains data.
//
// The record is a file on the node with the UUID of the logical volume. It is created without an LVM process, never
// restored with the metadata, and a snapshot does not inherit it. Earlier versions recorded volumes without
// wellknown.NewTag, and encrypted ones, with the tag wellknown.FormattingTagPrefix. It is still read.

// formattingFile precedes the volume ID in the name of a file in the state folder.
const formattingFile = "formatting-"

// IsFormatting reports whether the formatting of a volume has begun and may be incomplete, so that its content is not
// data.
func (v Volume) IsFormatting() bool {
	if isFormatted(v.LV.Tags) {
		return false
	}
	_, tagged := v.Tagged(wellknown.FormattingTagPrefix)
	return tagged || v.Recorded
}

// isFormatted reports whether the tags of a volume say that it has a complete file system.
func isFormatted(tags []string) bool {
	return slices.ContainsFunc(tags,
		func(tag string) bool { return strings.HasPrefix(tag, wellknown.FormattedTagPrefix) })
}

// Record says that the formatting of a volume has begun: it is the content of the file of a volume.
type Record struct {
	// UUID is that of the logical volume. Earlier versions wrote no UUID, and only for new volumes.
	UUID string
	// IsNew: the volume had the tag of a new one. Without the tag, it was used since.
	IsNew bool
}

// Records has the records of volumes whose formatting has begun. Directory implements it.
type Records interface {
	// Recorded returns the record of a volume, or nil.
	Recorded(id string) (*Record, error)
	// Record creates the record of a volume and Forget removes it; both are durable when they return, and succeed if
	// there is nothing to do.
	Record(id string, r Record) error
	Forget(id string) error
}

// Holds reports whether a record is of the logical volume with a UUID and tags.
func (r *Record) Holds(uuid string, tags []string) bool {
	return r != nil && (r.UUID == "" || r.UUID == uuid) && (!r.IsNew || slices.Contains(tags, wellknown.NewTag)) &&
		!isFormatted(tags)
}

// readRecord reads whether the formatting of a volume has begun.
func (f *Finder) readRecord(ctx context.Context, v *Volume) error {
	found, err := f.Records.Recorded(v.ID)
	if err != nil {
		return status.Errorf(codes.Internal, "volume %s on node %s: check whether its formatting has begun: %v", v.ID,
			f.Node, err)
	}
	if found == nil {
		return nil
	}
	uuid, err := f.uuidOf(ctx, *v)
	v.Recorded = err == nil && found.Holds(uuid, v.LV.Tags)
	return err
}

func (f *Finder) uuidOf(ctx context.Context, v Volume) (string, error) {
	uuid, err := f.LVM.UUID(ctx, v.Class, v.ID)
	if err != nil {
		return "", fmt.Errorf("read the UUID of volume %s on node %s: %w", v.ID, f.Node, err)
	}
	return uuid, nil
}

// BeginFormatting records that the content of a volume is not data from now on, until Formatted is called.
func (f *Finder) BeginFormatting(ctx context.Context, v *Volume) error {
	if v.IsFormatting() {
		return nil
	}
	uuid, err := f.uuidOf(ctx, *v)
	if err != nil {
		return err
	}
	if err := f.Records.Record(v.ID, Record{UUID: uuid, IsNew: v.IsNew()}); err != nil {
		return status.Errorf(codes.Internal, "volume %s on node %s: record that its formatting begins: %v", v.ID,
			f.Node, err)
	}
	v.Recorded = true
	return nil
}

// Formatted tags a volume with its new file system, which is complete. From now on it may contain user data.
func (f *Finder) Formatted(ctx context.Context, v Volume, fileSystem string) error {
	if err := f.LVM.TagLV(ctx, v.Class, v.ID, []string{wellknown.FormattedTagPrefix + fileSystem},
		v.UnusedTags()); err != nil {
		return fmt.Errorf("tag volume %s on node %s as formatted: %w", v.ID, f.Node, err)
	}
	return f.Forget(v.ID)
}

// Forget removes the record of a volume, if there is one.
func (f *Finder) Forget(id string) error {
	if err := f.Records.Forget(id); err != nil {
		return status.Errorf(codes.Internal, "volume %s on node %s: remove the record that it is being formatted: %v",
			id, f.Node, err)
	}
	return nil
}

// Directory is the folder of the node with the records of volumes that are being formatted. It survives a restart of
// the node.
type Directory string

// formattingFile returns the path of the record of a volume. An ID from a status that was edited can have any
// characters.
func (d Directory) formattingFile(id string) string {
	return filepath.Join(string(d), formattingFile+url.PathEscape(id))
}

// Recorded implements Records.
func (d Directory) Recorded(id string) (*Record, error) {
	text, err := os.ReadFile(d.formattingFile(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	uuid, tag, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return &Record{UUID: uuid, IsNew: uuid == "" || tag == wellknown.NewTag}, nil
}

// Record implements Records.
func (d Directory) Record(id string, r Record) error {
	text := r.UUID
	if r.IsNew {
		text += " " + wellknown.NewTag
	}
	file, err := os.OpenFile(d.formattingFile(id), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text + "\n")
	return errors.Join(err, file.Sync(), file.Close(), d.sync())
}

// Forget implements Records.
func (d Directory) Forget(id string) error {
	err := os.Remove(d.formattingFile(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.sync()
}

func (d Directory) sync() error {
	dir, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

package csinode

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

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// This file records that the formatting of a volume has begun. An interrupted mkfs leaves a partial file system, which
// must not count as data. The tag of a new volume does not prove that: LVM metadata that is restored later
// (vgcfgrestore) would have it again on a volume that contains data.
//
// The record is a file on the node with the UUID of the logical volume. It is created without an LVM process, never
// restored with the metadata, and a snapshot does not inherit it. Earlier versions recorded volumes without
// v1alpha1.NewTag, and encrypted ones, with the tag v1alpha1.FormattingTagPrefix. It is still read.

// formattingFile precedes the volume ID in the name of a file in the state folder.
const formattingFile = "formatting-"

func (v volume) isNew() bool { return slices.Contains(v.lv.GetTags(), v1alpha1.NewTag) }

// isFormatting reports whether the formatting of a volume has begun and may be incomplete, so that its content is not
// data.
func (v volume) isFormatting() bool {
	if isFormatted(v.lv.GetTags()) {
		return false
	}
	_, tagged := v.tagged(v1alpha1.FormattingTagPrefix)
	return tagged || v.recorded
}

// isFormatted reports whether the tags of a volume say that it has a complete file system.
func isFormatted(tags []string) bool {
	return slices.ContainsFunc(tags,
		func(tag string) bool { return strings.HasPrefix(tag, v1alpha1.FormattedTagPrefix) })
}

// formattingRecord is the content of the file of a volume.
type formattingRecord struct {
	// uuid is that of the logical volume. Earlier versions wrote no UUID, and only for new volumes.
	uuid string
	// isNew: the volume had the tag of a new one. Without the tag, it was used since.
	isNew bool
}

// holds reports whether a record is of the logical volume with a UUID and tags.
func (r *formattingRecord) holds(uuid string, tags []string) bool {
	return r != nil && (r.uuid == "" || r.uuid == uuid) && (!r.isNew || slices.Contains(tags, v1alpha1.NewTag)) &&
		!isFormatted(tags)
}

// readRecord reads whether the formatting of a volume has begun.
func (s *NodeServer) readRecord(ctx context.Context, v *volume) error {
	found, err := s.disks.recorded(v.id)
	if err != nil {
		return status.Errorf(codes.Internal, "volume %s on node %s: check whether its formatting has begun: %v", v.id,
			s.Node, err)
	}
	if found == nil {
		return nil
	}
	uuid, err := s.uuidOf(ctx, *v)
	v.recorded = err == nil && found.holds(uuid, v.lv.GetTags())
	return err
}

func (s *NodeServer) uuidOf(ctx context.Context, v volume) (string, error) {
	uuid, err := s.Volumes.UUID(ctx, v.class, v.id)
	if err != nil {
		return "", fmt.Errorf("read the UUID of volume %s on node %s: %w", v.id, s.Node, err)
	}
	return uuid, nil
}

// beginFormatting records that the content of a volume is not data from now on, until formatted is called.
func (s *NodeServer) beginFormatting(ctx context.Context, v *volume) error {
	if v.isFormatting() {
		return nil
	}
	uuid, err := s.uuidOf(ctx, *v)
	if err != nil {
		return err
	}
	if err := s.disks.record(v.id, formattingRecord{uuid: uuid, isNew: v.isNew()}); err != nil {
		return status.Errorf(codes.Internal, "volume %s on node %s: record that its formatting begins: %v", v.id,
			s.Node, err)
	}
	v.recorded = true
	return nil
}

// HoldUnformatted keeps the formatting of a volume from beginning until release is called. It returns Aborted if the
// formatting has begun, or other work on the volume is in progress, and Unavailable if that cannot be read. uuid and
// tags are those of its logical volume.
func (s *NodeServer) HoldUnformatted(id, uuid string, tags []string) (release func(), err error) {
	if err := s.locks.Enter(id); err != nil {
		return nil, err
	}
	found, err := s.disks.recorded(id)
	switch {
	case err != nil:
		err = status.Errorf(codes.Unavailable, "volume %s on node %s: check whether its formatting has begun: %v", id,
			s.Node, err)
	case found.holds(uuid, tags):
		err = status.Errorf(codes.Aborted, "volume %s on node %s has no snapshot yet, because its file system is not "+
			"complete: a Pod that uses it completes it", id, s.Node)
	default:
		return func() { s.locks.Leave(id) }, nil
	}
	s.locks.Leave(id)
	return nil, err
}

// formatted tags a volume with its new file system, which is complete. From now on it may contain user data.
func (s *NodeServer) formatted(ctx context.Context, v volume, fileSystem string) error {
	if err := s.Volumes.TagLV(ctx, v.class, v.id, []string{v1alpha1.FormattedTagPrefix + fileSystem},
		v.unusedTags()); err != nil {
		return fmt.Errorf("tag volume %s on node %s as formatted: %w", v.id, s.Node, err)
	}
	return s.forget(v.id)
}

// forget removes the record of a volume, if there is one.
func (s *NodeServer) forget(id string) error {
	if err := s.disks.forget(id); err != nil {
		return status.Errorf(codes.Internal, "volume %s on node %s: remove the record that it is being formatted: %v",
			id, s.Node, err)
	}
	return nil
}

// Removed removes what this node has recorded about a volume that no longer exists.
func (s *NodeServer) Removed(id string) error { return s.forget(id) }

// formattingFile returns the path of the record of a volume. An ID from a status that was edited can have any
// characters.
func (d nodeDisks) formattingFile(id string) string {
	return filepath.Join(d.stateDir, formattingFile+url.PathEscape(id))
}

func (d nodeDisks) recorded(id string) (*formattingRecord, error) {
	text, err := os.ReadFile(d.formattingFile(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	uuid, tag, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return &formattingRecord{uuid: uuid, isNew: uuid == "" || tag == v1alpha1.NewTag}, nil
}

func (d nodeDisks) record(id string, r formattingRecord) error {
	text := r.uuid
	if r.isNew {
		text += " " + v1alpha1.NewTag
	}
	file, err := os.OpenFile(d.formattingFile(id), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text + "\n")
	return errors.Join(err, file.Sync(), file.Close(), syncDirectory(d.stateDir))
}

func (d nodeDisks) forget(id string) error {
	err := os.Remove(d.formattingFile(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDirectory(d.stateDir)
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

package csinode

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// This file records that the formatting of a volume has begun. An interrupted mkfs leaves a partial file system, which
// must not count as data. The tag of a new volume does not prove that: LVM metadata that is restored later
// (vgcfgrestore) would have it again on a volume that contains data.
//
// A new volume has a file on the node, which is created without an LVM process and never restored with the metadata.
// Other volumes have the tag v1alpha1.FormattingTagPrefix: those of TopoLVM and of older versions, and encrypted
// volumes, whose decrypted blocks are random data.

// formattingFile precedes the volume ID in the name of a file in the state folder.
const formattingFile = "formatting-"

func (v volume) isNew() bool { return slices.Contains(v.lv.GetTags(), v1alpha1.NewTag) }

// isFormatting reports whether the formatting of a volume has begun and may be incomplete, so that its content is not
// data.
func (v volume) isFormatting() bool {
	_, tagged := v.tagged(v1alpha1.FormattingTagPrefix)
	return tagged || v.recorded
}

// readRecord reads whether the formatting of a new volume has begun. Without the tag of a new volume, a record has no
// meaning.
func (s *NodeServer) readRecord(v *volume) error {
	if !v.isNew() {
		return nil
	}
	var err error
	if v.recorded, err = s.disks.recorded(v.id); err != nil {
		return status.Errorf(codes.Internal, "volume %s on node %s: check whether its formatting has begun: %v", v.id,
			s.Node, err)
	}
	return nil
}

// beginFormatting records that the content of a volume is not data from now on, until formatted is called.
func (s *NodeServer) beginFormatting(ctx context.Context, v *volume, fileSystem string) error {
	if v.isNew() && !v.isEncrypted() {
		if v.recorded {
			return nil
		}
		if err := s.disks.record(v.id); err != nil {
			return status.Errorf(codes.Internal, "volume %s on node %s: record that its formatting begins: %v", v.id,
				s.Node, err)
		}
		v.recorded = true
		return nil
	}
	tag := v1alpha1.FormattingTagPrefix + fileSystem
	if slices.Contains(v.lv.GetTags(), tag) {
		return nil
	}
	old := v.unusedTags()
	if err := s.Volumes.TagLV(ctx, v.class, v.id, []string{tag}, old); err != nil {
		return fmt.Errorf("tag volume %s on node %s as being formatted: %w", v.id, s.Node, err)
	}
	v.lv.Tags = append(slices.DeleteFunc(slices.Clone(v.lv.Tags),
		func(t string) bool { return slices.Contains(old, t) }), tag)
	return nil
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

func (d nodeDisks) recorded(id string) (bool, error) {
	_, err := os.Lstat(d.formattingFile(id))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (d nodeDisks) record(id string) error {
	file, err := os.OpenFile(d.formattingFile(id), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close(), syncDirectory(d.stateDir))
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

package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// HoldUnformattedWith sets what keeps the formatting of a volume from beginning until release is called. It returns
// Aborted if the formatting has begun. Without it, only tags say that a volume is being formatted.
func (s *Snapshotter) HoldUnformattedWith(hold func(name, uuid string, tags []string) (release func(), err error)) {
	s.holdUnformatted = hold
}

// HoldUnformatted keeps the formatting of a volume from beginning until release is called, so that its data does not
// become a partial file system. A volume that was formatted, or is read-only, is never formatted, so nothing holds it.
// It returns Aborted if the formatting has begun and is not complete, and NotFound if the volume does not exist.
func (s *Snapshotter) HoldUnformatted(ctx context.Context, class, name string) (release func(), err error) {
	err = s.onVolume(ctx, class, name, func(v view.Class, lv *lvm.LV) (err error) {
		release, err = s.hold(ctx, v, lv)
		return err
	})
	return release, err
}

// hold implements HoldUnformatted. Until release is called, the volume has the tags of lv.
func (s *Snapshotter) hold(ctx context.Context, v view.Class, lv *lvm.LV) (release func(), err error) {
	has := func(prefix string) bool {
		return slices.ContainsFunc(lv.Tags, func(tag string) bool { return strings.HasPrefix(tag, prefix) })
	}
	nothing := func() {}
	switch {
	case has(wellknown.FormattedTagPrefix), lv.Attr.ReadOnly():
		return nothing, nil
	case has(wellknown.FormattingTagPrefix):
		return nil, fault.New(fault.Aborted, "logical volume %s/%s has no snapshot yet, because its file system "+
			"is not complete: a Pod that uses it completes it", v.VG.Name, lv.Name)
	case s.holdUnformatted == nil:
		return nothing, nil
	}
	release, err = s.holdUnformatted(lv.Name, lv.UUID, lv.Tags)
	if err != nil {
		return nil, err
	}
	if err := s.unchanged(ctx, v, lv); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// unchanged returns Aborted if the tags of a volume have changed since lv was read.
func (s *Snapshotter) unchanged(ctx context.Context, v view.Class, lv *lvm.LV) error {
	tags, err := s.tagsOf(ctx, v.VG.Name, lv.Name)
	if err == nil && !slices.Equal(tags, lv.Tags) {
		err = fault.New(fault.Aborted, "the tags of logical volume %s/%s have changed during the request",
			v.VG.Name, lv.Name)
	}
	return err
}

package engine

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// The tags of the API, which the engine does not import.
const (
	FormattedTagPrefix  = "lvms.formatted="
	FormattingTagPrefix = "lvms.formatting="
)

// HoldUnformattedWith sets what keeps the formatting of a volume from beginning until release is called. It returns
// Aborted if the formatting has begun. Without it, only tags say that a volume is being formatted.
func (e *Engine) HoldUnformattedWith(hold func(name, uuid string, tags []string) (release func(), err error)) {
	e.holdUnformatted = hold
}

// HoldUnformatted keeps the formatting of a volume from beginning until release is called, so that its data does not
// become a partial file system. A volume that was formatted, or is read-only, is never formatted, so nothing holds it.
// It returns Aborted if the formatting has begun and is not complete, and NotFound if the volume does not exist.
func (e *Engine) HoldUnformatted(ctx context.Context, class, name string) (release func(), err error) {
	err = e.upkeep(ctx, class, name, func(l classView) (err error) {
		release, err = e.hold(ctx, l, l.volume(name))
		return err
	})
	return release, err
}

// hold implements HoldUnformatted. Until release is called, the volume has the tags of lv.
func (e *Engine) hold(ctx context.Context, l classView, lv *lvm.LV) (release func(), err error) {
	has := func(prefix string) bool {
		return slices.ContainsFunc(lv.Tags, func(tag string) bool { return strings.HasPrefix(tag, prefix) })
	}
	nothing := func() {}
	switch {
	case has(FormattedTagPrefix), lv.Attr.ReadOnly():
		return nothing, nil
	case has(FormattingTagPrefix):
		return nil, status.Errorf(codes.Aborted, "logical volume %s/%s has no snapshot yet, because its file system "+
			"is not complete: a Pod that uses it completes it", l.vg.Name, lv.Name)
	case e.holdUnformatted == nil:
		return nothing, nil
	}
	release, err = e.holdUnformatted(lv.Name, lv.UUID, lv.Tags)
	if err != nil {
		return nil, err
	}
	if err := e.unchanged(ctx, l, lv); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// unchanged returns Aborted if the tags of a volume have changed since lv was read.
func (e *Engine) unchanged(ctx context.Context, l classView, lv *lvm.LV) error {
	tags, err := e.TagsOf(ctx, l.vg.Name, lv.Name)
	if err == nil && !slices.Equal(tags, lv.Tags) {
		err = status.Errorf(codes.Aborted, "the tags of logical volume %s/%s have changed during the request",
			l.vg.Name, lv.Name)
	}
	return err
}

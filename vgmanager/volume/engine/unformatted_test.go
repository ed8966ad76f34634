package engine

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/groupsnapshot"
)

// setTags replaces the tags of the volume "a".
func setTags(t *testing.T, e *Engine, fake *lvmtest.Fake, tags ...string) {
	t.Helper()
	present := lvOf(t, fake, "a").Tags
	not := func(list, of []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(tag string) bool { return slices.Contains(of, tag) })
	}
	if !slices.Equal(present, tags) {
		must(t, e.TagLV(t.Context(), "thin", "a", not(tags, present), not(present, tags)))
	}
}

// snapshotRequest requests the snapshot "s" of the volume "a".
func snapshotRequest() NewSnapshot { return pendingRequest(nil) }

// TestASnapshotHasTheTagsOfItsData: the file system of the source becomes complete after the pending snapshot was
// created, and before it gets its data. With the tags of the beginning, the data would be formatted.
func TestASnapshotHasTheTagsOfItsData(t *testing.T) {
	for name, test := range map[string]struct {
		before, after, want []string
		noSource            bool
	}{
		"formatted meanwhile": {before: []string{wellknown.NewTag}, after: []string{"lvms.formatted=ext4"},
			want: []string{"x", "lvms.formatted=ext4"}},
		"used meanwhile":    {before: []string{wellknown.NewTag}, want: []string{"x"}},
		"still new":         {before: []string{wellknown.NewTag}, after: []string{wellknown.NewTag}, want: []string{"x", wellknown.NewTag}},
		"formatted before":  {before: []string{"lvms.formatted=xfs"}, after: []string{"lvms.formatted=xfs"}, want: []string{"x", "lvms.formatted=xfs"}},
		"not of its data":   {after: []string{"lvms.uid=1", "lvms.formatted=xfs"}, want: []string{"x", "lvms.formatted=xfs"}},
		"new, no source":    {before: []string{wellknown.NewTag}, noSource: true, want: []string{"x"}},
		"in use, no source": {before: []string{"lvms.formatted=xfs"}, noSource: true, want: []string{"x", "lvms.formatted=xfs"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, fake := newGroup(t)
			setTags(t, e, fake, test.before...)
			must(t, e.PrepareSnapshot(t.Context(), pendingRequest(nil)))
			setTags(t, e, fake, test.after...)
			if test.noSource {
				must(t, fake.Apply(t.Context(), lvm.LVRemove{VG: "thin", Names: []string{"a"}}))
			}
			slices.Sort(test.want)
			for range 2 {
				must(t, e.KeepSnapshot(t.Context(), "thin", "s"))
				if got := slices.Sorted(slices.Values(lvOf(t, fake, "s").Tags)); !slices.Equal(got, test.want) {
					t.Errorf("got the tags %q, want %q", got, test.want)
				}
			}
		})
	}
}

// TestASnapshotOfAnOlderVersionCannotBeFormatted: an older agent began the formatting of the source before it created
// the pending snapshot.
func TestASnapshotOfAnOlderVersionCannotBeFormatted(t *testing.T) {
	for _, noSource := range []bool{false, true} {
		e, fake := newGroup(t)
		must(t, e.PrepareSnapshot(t.Context(), pendingRequest(nil)))
		must(t, e.TagLV(t.Context(), "thin", "s", []string{"lvms.formatting=ext4", wellknown.NewTag}, nil))
		setTags(t, e, fake, "lvms.formatted=ext4")
		want := []string{"lvms.formatted=ext4", "x"}
		if noSource {
			must(t, fake.Apply(t.Context(), lvm.LVRemove{VG: "thin", Names: []string{"a"}}))
			want = []string{"x"}
		}
		// The tags change in one commit, and a failed one changes nothing.
		fake.Fail("LVChangeTags", lvm.ErrBusy)
		if err := e.KeepSnapshot(t.Context(), "thin", "s"); err == nil || !isPending(lvOf(t, fake, "s")) {
			t.Errorf("got %v and %q", err, lvOf(t, fake, "s").Tags)
		}
		fake.Fail("LVChangeTags", nil)
		changes := fake.Calls()["LVChangeTags"]
		must(t, e.KeepSnapshot(t.Context(), "thin", "s"))
		if got := slices.Sorted(slices.Values(lvOf(t, fake, "s").Tags)); !slices.Equal(got, want) {
			t.Errorf("got the tags %q, want %q", got, want)
		}
		if n := fake.Calls()["LVChangeTags"] - changes; n != 1 {
			t.Errorf("the tags were changed %d times", n)
		}
	}
}

// TestARestoreOfASnapshotOfAnOlderVersionIsNotFormatted: the tag of a snapshot can be older than its data. Nobody
// formats a read-only snapshot, so it is not held.
func TestARestoreOfASnapshotOfAnOlderVersionIsNotFormatted(t *testing.T) {
	e, fake := newGroup(t)
	_, err := e.CreateLVSnapshot(t.Context(), snapshotRequest())
	must(t, err)
	must(t, e.TagLV(t.Context(), "thin", "s", []string{"lvms.formatting=ext4"}, nil))
	e.HoldUnformattedWith(func(name, _ string, _ []string) (func(), error) {
		return nil, status.Errorf(codes.Aborted, "%s is held", name)
	})
	for range 2 {
		_, err := e.CreateLVSnapshot(t.Context(), pendingRequest(func(r *NewSnapshot) {
			r.Name = "restored"
			r.Source = "s"
			r.ReadOnly = false
		}))
		must(t, err)
		if got := lvOf(t, fake, "restored").Tags; !slices.Equal(got, []string{"x"}) {
			t.Errorf("got the tags %q", got)
		}
	}
}

// TestAVolumeThatIsBeingFormattedHasNoSnapshot, neither a single one nor one of a group.
func TestAVolumeThatIsBeingFormattedHasNoSnapshot(t *testing.T) {
	refused := status.Error(codes.Aborted, "its file system is not complete")
	for name, test := range map[string]struct {
		tags []string
		err  error
		code codes.Code
		held int
	}{
		"a tag":                 {tags: []string{"lvms.formatting=ext4"}, code: codes.Aborted},
		"a record":              {tags: []string{wellknown.NewTag}, err: refused, code: codes.Aborted, held: 1},
		"a record of an old":    {err: refused, code: codes.Aborted, held: 1},
		"not read":              {err: status.Error(codes.Unavailable, "EIO"), code: codes.Unavailable, held: 2},
		"new":                   {tags: []string{wellknown.NewTag}, held: 1},
		"a block volume":        {held: 1},
		"formatted":             {tags: []string{"lvms.formatted=ext4"}},
		"both tags, so it ends": {tags: []string{"lvms.formatted=ext4", "lvms.formatting=ext4"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, request := range []func(e *Engine) error{
				func(e *Engine) error {
					_, err := e.CreateLVSnapshot(t.Context(), snapshotRequest())
					return err
				},
				func(e *Engine) error { return e.PrepareSnapshot(t.Context(), pendingRequest(nil)) },
				func(e *Engine) error {
					release, err := e.HoldUnformatted(t.Context(), "thin", "a")
					if err == nil {
						release()
					}
					return err
				},
			} {
				e, fake := newGroup(t)
				setTags(t, e, fake, test.tags...)
				uuid := lvOf(t, fake, "a").UUID
				held, released := 0, 0
				e.HoldUnformattedWith(func(name, of string, tags []string) (func(), error) {
					held++
					if name != "a" || of != uuid || uuid == "" || !slices.Equal(tags, test.tags) {
						t.Errorf("held %s %s %q", name, of, tags)
					}
					return func() { released++ }, test.err
				})
				wantCode(t, "first", request(e), test.code)
				if held != test.held || test.err == nil && released != held {
					t.Errorf("held %d times, released %d times", held, released)
				}
				wantCode(t, "second", request(e), test.code)
				if test.err != nil && lvOf(t, fake, "s") != nil {
					t.Error("a snapshot was created")
				}
			}
		})
	}
}

// TestATagThatChangesBeforeTheVolumeIsHeld: the snapshot would have the tags of an earlier moment.
func TestATagThatChangesBeforeTheVolumeIsHeld(t *testing.T) {
	e, fake := newGroup(t)
	setTags(t, e, fake, wellknown.NewTag)
	released := 0
	change := func() { setTags(t, e, fake, "lvms.formatted=ext4") }
	e.HoldUnformattedWith(func(string, string, []string) (func(), error) {
		change()
		return func() { released++ }, nil
	})
	_, err := e.CreateLVSnapshot(t.Context(), snapshotRequest())
	wantCode(t, "changed", err, codes.Aborted)
	if released != 1 || lvOf(t, fake, "s") != nil {
		t.Errorf("released %d times", released)
	}
	for range 2 {
		_, err = e.CreateLVSnapshot(t.Context(), snapshotRequest())
		must(t, err)
	}
	if got := lvOf(t, fake, "s").Tags; !slices.Contains(got, "lvms.formatted=ext4") || slices.Contains(got, wellknown.NewTag) {
		t.Errorf("got the tags %q", got)
	}
}

// TestASourceIsHeldWhileItsSnapshotIsCreated, also if the creation fails.
func TestASourceIsHeldWhileItsSnapshotIsCreated(t *testing.T) {
	for _, failure := range []error{nil, lvm.ErrMissingPV} {
		e, fake := newGroup(t)
		setTags(t, e, fake, wellknown.NewTag)
		fake.Fail("LVCreateSnapshot", failure)
		held := 0
		var before []int
		e.HoldUnformattedWith(func(string, string, []string) (func(), error) {
			held++
			begun := fake.Calls()["LVCreateSnapshot"]
			return func() {
				held--
				before = append(before, fake.Calls()["LVCreateSnapshot"]-begun)
			}, nil
		})
		_, err := e.CreateLVSnapshot(t.Context(), snapshotRequest())
		if (err == nil) != (failure == nil) {
			t.Errorf("got %v", err)
		}
		if held != 0 || len(before) == 0 || slices.Contains(before, 0) {
			t.Errorf("held %d times, with %v commands meanwhile", held, before)
		}
	}
}

func TestTheUUIDOfAVolume(t *testing.T) {
	e, fake := newGroup(t)
	for range 2 {
		got, err := e.UUID(t.Context(), "thin", "a")
		must(t, err)
		if want := lvOf(t, fake, "a").UUID; got != want || got == "" {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	_, err := e.UUID(t.Context(), "thin", "nosuch")
	wantCode(t, "no volume", err, codes.NotFound)
	_, err = e.HoldUnformatted(t.Context(), "thin", "nosuch")
	wantCode(t, "hold no volume", err, codes.NotFound)
	fake.Fail("Report", errors.New("broken"))
	if _, err := e.UUID(t.Context(), "thin", "nosuch"); err == nil || status.Code(err) == codes.NotFound {
		t.Errorf("got %v", err)
	}
}

// TestAPendingTagIsRemovedWithTheOthers: a snapshot is never usable with tags of an earlier moment.
func TestAPendingTagIsRemovedWithTheOthers(t *testing.T) {
	e, fake := newGroup(t)
	setTags(t, e, fake, wellknown.NewTag)
	must(t, e.PrepareSnapshot(t.Context(), pendingRequest(nil)))
	if got := lvOf(t, fake, "s").Tags; !slices.Contains(got, wellknown.NewTag) || !slices.Contains(got, groupsnapshot.PendingTag) {
		t.Errorf("got the tags %q", got)
	}
	changes := fake.Calls()["LVChangeTags"]
	must(t, e.KeepSnapshot(t.Context(), "thin", "s"))
	if n := fake.Calls()["LVChangeTags"] - changes; n != 1 {
		t.Errorf("the tags were changed %d times", n)
	}
}

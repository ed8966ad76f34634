package engine

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/groupsnapshot"
)

// newGroup returns an engine with the thin volume "a" of 8 MiB.
func newGroup(t *testing.T) (*Engine, *lvmtest.Fake) {
	t.Helper()
	e, fake := newEngine(t)
	_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "thin", Size: 8 * mib})
	must(t, err)
	return e, fake
}

func pendingRequest(change func(*NewSnapshot)) NewSnapshot {
	request := NewSnapshot{Name: "s", Class: "thin", Source: "a", ReadOnly: true,
		Size: 8 * mib, Tags: []string{"x"}}
	if change != nil {
		change(&request)
	}
	return request
}

func lvOf(t *testing.T, fake *lvmtest.Fake, name string) *lvm.LV {
	t.Helper()
	report, err := fake.Report(t.Context())
	must(t, err)
	return report.VG("thin").LV(name)
}

func TestAPendingSnapshotIsInactiveUntilItIsKept(t *testing.T) {
	e, fake := newGroup(t)
	for range 2 {
		must(t, e.PrepareSnapshot(t.Context(), pendingRequest(nil)))
		lv := lvOf(t, fake, "s")
		expect.Equal(t, "Attr.Active()", lv.Attr.Active(), false)
		expect.Equal(t, "Attr.ReadOnly()", lv.Attr.ReadOnly(), true)
		expect.Equal(t, "Attr.SkipsActivation()", lv.Attr.SkipsActivation(), true)
		expect.Equal(t, "Origin", lv.Origin, "a")
		expect.Equal(t, "Contains(lv.Tags, groupsnapshot.PendingTag)", slices.Contains(lv.Tags, groupsnapshot.PendingTag),
			true)
		expect.Equal(t, `Contains(lv.Tags, "x")`, slices.Contains(lv.Tags, "x"), true)
	}
	for range 2 {
		must(t, e.KeepSnapshot(t.Context(), "thin", "s"))
		if lv := lvOf(t, fake, "s"); !lv.Attr.Active() || lv.Attr.SkipsActivation() ||
			!slices.Equal(lv.Tags, []string{"x"}) {
			t.Fatalf("got %+v", lv)
		}
	}
	wantCode(t, "prepare a complete snapshot", e.PrepareSnapshot(t.Context(), pendingRequest(nil)),
		codes.AlreadyExists)
	wantCode(t, "keep what does not exist", e.KeepSnapshot(t.Context(), "thin", "nosuch"), codes.NotFound)
	if n := fake.Calls()["LVCreateSnapshot"]; n != 1 {
		t.Errorf("%d snapshots were created", n)
	}
}

// TestAPendingSnapshotIsNotUsed: its data is not that of its group.
func TestAPendingSnapshotIsNotUsed(t *testing.T) {
	e, fake := newGroup(t)
	must(t, e.PrepareSnapshot(t.Context(), pendingRequest(nil)))
	_, err := e.CreateLVSnapshot(t.Context(), pendingRequest(nil))
	wantCode(t, "as a snapshot", err, codes.Aborted)
	_, err = e.CreateLVSnapshot(t.Context(), pendingRequest(func(r *NewSnapshot) {
		r.Name = "restored"
		r.Source = "s"
		r.ReadOnly = false
	}))
	wantCode(t, "as a source", err, codes.Aborted)
	_, err = e.CreateLV(t.Context(), NewVolume{Name: "s", Class: "thin", Size: 8 * mib})
	wantCode(t, "as a volume", err, codes.Aborted)
	wantCode(t, "as a source of a group", e.PrepareSnapshot(t.Context(),
		pendingRequest(func(r *NewSnapshot) { r.Name, r.Source = "t", "s" })), codes.Aborted)
	wantCode(t, "of another source", e.PrepareSnapshot(t.Context(),
		pendingRequest(func(r *NewSnapshot) { r.Source = "b" })), codes.Aborted)
	for range 2 {
		err := e.RemoveLV(t.Context(), "thin", "s")
		if status.Code(err) != codes.NotFound {
			must(t, err)
		}
		if lv := lvOf(t, fake, "s"); lv != nil {
			t.Errorf("got %+v", lv)
		}
	}
	_, err = e.CreateLVSnapshot(t.Context(), pendingRequest(nil))
	must(t, err)
}

func TestAPendingSnapshotIsAdmittedLikeAnyOther(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*NewSnapshot)
		code   codes.Code
	}{
		"larger":        {func(r *NewSnapshot) { r.Size = 16 * mib }, codes.InvalidArgument},
		"smaller":       {func(r *NewSnapshot) { r.Size = 4 * mib }, codes.OutOfRange},
		"no source":     {func(r *NewSnapshot) { r.Source = "b" }, codes.NotFound},
		"thick":         {func(r *NewSnapshot) { r.Class = "thick" }, codes.Unimplemented},
		"unknown class": {func(r *NewSnapshot) { r.Class = "x" }, codes.NotFound},
	} {
		e, fake := newGroup(t)
		for range 2 {
			wantCode(t, name, e.PrepareSnapshot(t.Context(), pendingRequest(test.change)), test.code)
		}
		if n := fake.Calls()["LVCreateSnapshot"]; n > 0 {
			t.Errorf("%s: %d snapshots were created", name, n)
		}
	}
}

// TestAFailureDoesNotLosePending: the tag is removed last.
func TestAFailureDoesNotLosePending(t *testing.T) {
	for _, command := range []string{"LVAllowActivation", "LVActivate", "LVChangeTags"} {
		e, fake := newGroup(t)
		must(t, e.PrepareSnapshot(t.Context(), pendingRequest(nil)))
		fake.Fail(command, lvm.ErrMissingPV)
		wantCode(t, command, e.KeepSnapshot(t.Context(), "thin", "s"), codes.Unavailable)
		if lv := lvOf(t, fake, "s"); !isPending(lv) {
			t.Errorf("%s: got %+v", command, lv)
		}
		fake.Fail(command, nil)
		must(t, e.KeepSnapshot(t.Context(), "thin", "s"))
	}
}

// TestAPendingSnapshotIsNotErased: it may have no data that could be activated, and nobody has written to it.
func TestAPendingSnapshotIsNotErased(t *testing.T) {
	e, _ := newGroup(t)
	class, _ := e.Class("thin")
	class.EraseOnDelete = deviceclass.EraseDiscard
	must(t, e.Publish(class))
	must(t, e.PrepareSnapshot(t.Context(), pendingRequest(nil)))
	for range 2 {
		erasure, err := e.Erasure(t.Context(), "thin", "s", false)
		must(t, err)
		if erasure != nil {
			t.Errorf("got %+v", erasure)
		}
	}
}

func TestTheVolumeGroupOfAClass(t *testing.T) {
	e, _ := newGroup(t)
	if vg, err := e.VolumeGroup("thin"); vg != "thin" || err != nil {
		t.Errorf("got %q, %v", vg, err)
	}
	_, err := e.VolumeGroup("nosuch")
	wantCode(t, "unknown class", err, codes.NotFound)
}

package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
)

const moved = "vol"

var errLVM = errors.New("exit status 5")

func moveTarget(size int64) CopyTarget {
	return CopyTarget{Class: "thin", Name: moved, UID: "t", Size: size, Source: "s1",
		Tags: []string{"lvms.uid=t", "lvms.pv=move", "lvms.cluster=c"}}
}

// newTarget returns an engine with the logical volume of a target.
func newTarget(t *testing.T) (*Engine, *lvmtest.Fake) {
	t.Helper()
	e, fake := newEngine(t)
	must(t, e.EnsureTarget(t.Context(), moveTarget(10*mib)))
	return e, fake
}

func seeTags(t *testing.T, what string, fake *lvmtest.Fake, name string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, tagsOf(t, fake, "thin", name)); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

func sizeIn(t *testing.T, fake *lvmtest.Fake, name string) int64 {
	t.Helper()
	report, err := fake.Report(t.Context())
	must(t, err)
	return int64(report.VG("thin").LV(name).Size)
}

// TestTheRoundsOfATarget follows the tags of a target, with each call repeated as after a kill.
func TestTheRoundsOfATarget(t *testing.T) {
	e, fake := newTarget(t)
	ctx := t.Context()
	owner := []string{"lvms.uid=t", "lvms.pv=move", "lvms.cluster=c", wellknown.CopyingTag, wellknown.SparseTag}
	see := func(what string, want lvtag.Round, tags ...string) {
		t.Helper()
		seeTags(t, what, fake, moved, append(tags, owner...)...)
		want.Sparse = true
		if got, err := lvtag.RoundOf(tagsOf(t, fake, "thin", moved)); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, want)
		}
	}
	for range 2 {
		must(t, e.EnsureTarget(ctx, moveTarget(10*mib)))
		see("created", lvtag.Round{Source: "s1"}, "lvms.copy-of=s1")
	}
	for range 2 {
		must(t, e.CopiedInRound(ctx, "thin", moved, "t", 4*mib))
		see("copied", lvtag.Round{Source: "s1", Copied: 4 * mib}, "lvms.copy-of=s1", "lvms.copied=4194304")
	}
	must(t, e.CopiedInRound(ctx, "thin", moved, "t", 8*mib))
	for range 2 {
		must(t, e.CompleteRound(ctx, "thin", moved, "t", "s1", []string{wellknown.NewTag, "lvms.uid=another"}))
		see("complete", lvtag.Round{Base: "s1"}, "lvms.base=s1", wellknown.NewTag)
	}
	for range 2 {
		must(t, e.EnsureTarget(ctx, moveTarget(20*mib)))
		must(t, e.BeginRound(ctx, "thin", moved, "t", "s2"))
		see("begun", lvtag.Round{Source: "s2", Base: "s1"}, "lvms.base=s1", "lvms.copy-of=s2", wellknown.NewTag)
	}
	if size := sizeIn(t, fake, moved); size != 20*mib {
		t.Errorf("%d bytes", size)
	}
	must(t, e.CompleteRound(ctx, "thin", moved, "t", "s2", []string{"lvms.formatted=xfs", "lvms.encryption=luks2"}))
	see("complete", lvtag.Round{Base: "s2"}, "lvms.base=s2", "lvms.formatted=xfs", "lvms.encryption=luks2")
}

// unzeroed are volume groups whose pools do not set new chunks to zero.
type unzeroed struct{ *lvmtest.Fake }

func (u unzeroed) Report(ctx context.Context) (*lvm.Report, error) {
	report, err := u.Fake.Report(ctx)
	if err != nil {
		return nil, err
	}
	for i := range report.VGs {
		for j := range report.VGs[i].LVs {
			report.VGs[i].LVs[j].Zeroes = false
		}
	}
	return report, nil
}

func (u unzeroed) Recent(ctx context.Context, _ time.Duration) (*lvm.Report, error) {
	return u.Report(ctx)
}

// TestATargetInAPoolThatDoesNotZero is not sparse: what is not written is not known.
func TestATargetInAPoolThatDoesNotZero(t *testing.T) {
	e, fake := newEngine(t)
	e.lvm = unzeroed{fake}
	must(t, e.EnsureTarget(t.Context(), moveTarget(10*mib)))
	seeTags(t, "created", fake, moved, "lvms.uid=t", "lvms.pv=move", "lvms.cluster=c", wellknown.CopyingTag, "lvms.copy-of=s1")
}

// TestTheLogicalVolumeOfATargetIsAdoptedOnce in one command.
func TestTheLogicalVolumeOfATargetIsAdoptedOnce(t *testing.T) {
	e, fake := newTarget(t)
	ctx := t.Context()
	tags := []string{"lvms.uid=v", "lvms.pv=pvc-1", "lvms.pvc=ns/a", "lvms.cluster=c"}
	if _, err := e.Adopt(ctx, "thin", moved, "t", tags); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a target that is not complete: %v", err)
	}
	must(t, e.CompleteRound(ctx, "thin", moved, "t", "s1", []string{"lvms.formatted=xfs"}))
	must(t, e.BeginRound(ctx, "thin", moved, "t", "s2"))
	if _, err := e.Adopt(ctx, "thin", moved, "t", tags); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a target in a round: %v", err)
	}
	must(t, e.CompleteRound(ctx, "thin", moved, "t", "s2", []string{"lvms.formatted=xfs"}))
	if _, err := e.Adopt(ctx, "thin", moved, "another", tags); !errors.Is(err, ErrNotTarget) {
		t.Errorf("another target: %v", err)
	}
	before := fake.Calls()["LVChangeTags"]
	for range 2 {
		size, err := e.Adopt(ctx, "thin", moved, "t", tags)
		if err != nil || size != 12*mib {
			t.Errorf("%d, %v", size, err)
		}
		seeTags(t, "adopted", fake, moved, append([]string{"lvms.formatted=xfs"}, tags...)...)
	}
	if commands := fake.Calls()["LVChangeTags"] - before; commands != 1 {
		t.Errorf("%d commands", commands)
	}
	// The target is no longer the owner.
	for what, err := range map[string]error{
		"ensure":   e.EnsureTarget(ctx, moveTarget(40*mib)),
		"begin":    e.BeginRound(ctx, "thin", moved, "t", "s3"),
		"record":   e.CopiedInRound(ctx, "thin", moved, "t", 0),
		"complete": e.CompleteRound(ctx, "thin", moved, "t", "s3", nil),
		"abandon":  e.AbandonTarget(ctx, "thin", moved, "t"),
		"remove":   e.RemoveTarget(ctx, "thin", moved, "t"),
	} {
		if !errors.Is(err, ErrNotTarget) || status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: %v", what, err)
		}
	}
	if size := sizeIn(t, fake, moved); size != 12*mib {
		t.Errorf("%d bytes", size)
	}
	if _, err := e.Adopt(ctx, "thin", "nosuch", "t", tags); status.Code(err) != codes.NotFound {
		t.Errorf("nothing to adopt: %v", err)
	}
}

func TestATargetIsRemoved(t *testing.T) {
	e, fake := newTarget(t)
	ctx := t.Context()
	for _, err := range []error{e.RemoveTarget(ctx, "thin", moved, "another"),
		e.AbandonTarget(ctx, "thin", moved, "another")} {
		if !errors.Is(err, ErrNotTarget) {
			t.Errorf("another target: %v", err)
		}
	}
	must(t, e.AbandonTarget(ctx, "thin", moved, "t"))
	must(t, e.RemoveTarget(ctx, "thin", moved, "t"))
	wantCode(t, "twice", e.RemoveTarget(ctx, "thin", moved, "t"), codes.NotFound)
	wantCode(t, "an unknown class", e.RemoveTarget(ctx, "nosuch", moved, "t"), codes.FailedPrecondition)
	report, err := fake.Report(ctx)
	must(t, err)
	if report.VG("thin").LV(moved) != nil {
		t.Error("not removed")
	}
}

func TestATargetWhoseErasureHasBegunIsNotAdopted(t *testing.T) {
	e, fake := newTarget(t)
	ctx := t.Context()
	must(t, e.CompleteRound(ctx, "thin", moved, "t", "s1", nil))
	class := thinClass("thin", 10)
	class.EraseOnDelete = "Discard"
	must(t, e.Publish(class))
	for range 2 {
		must(t, e.AbandonTarget(ctx, "thin", moved, "t"))
	}
	if got := tagsOf(t, fake, "thin", moved); !slices.Contains(got, wellknown.ErasedTagPrefix+"0") {
		t.Errorf("tags %q", got)
	}
	_, err := e.Adopt(ctx, "thin", moved, "t", []string{"lvms.uid=v"})
	wantCode(t, "adopt", err, codes.FailedPrecondition)
	must(t, e.RemoveTarget(ctx, "thin", moved, "t"))
}

func TestAFencedVolumeIsRetired(t *testing.T) {
	e, fake := newEngine(t)
	ctx := t.Context()
	r := Retirement{Class: "thin", Name: moved, NewName: "k", Move: "m",
		Tags: []string{"lvms.uid=k", "lvms.pv=moved-m", "lvms.cluster=c"}}
	_, err := e.Retire(ctx, r)
	wantCode(t, "no volume", err, codes.NotFound)
	create := func(name string, tags ...string) {
		t.Helper()
		must(t, fake.Apply(ctx, lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: name,
			VirtualSize: lvm.Bytes(12 * mib), Tags: append(tags, "lvms.uid=v", "lvms.pv=pvc-1", "lvms.formatted=xfs")}))
	}
	create(moved)
	for _, move := range []string{"", "another"} {
		if move != "" {
			must(t, e.TagLV(ctx, "thin", moved, []string{wellknown.FencedTagPrefix + move}, nil))
		}
		_, err = e.Retire(ctx, r)
		wantCode(t, "fenced for "+move, err, codes.FailedPrecondition)
	}
	must(t, e.TagLV(ctx, "thin", moved, []string{wellknown.FencedTagPrefix + "m"}, []string{wellknown.FencedTagPrefix + "another"}))
	_, err = e.ResizeLV(ctx, "thin", moved, 40*mib)
	wantCode(t, "expansion while it is fenced", err, codes.FailedPrecondition)
	// An agent is killed after the first command.
	fake.Fail("LVChangeTags", errLVM)
	if _, err = e.Retire(ctx, r); err == nil {
		t.Error("no error")
	}
	fake.Fail("LVChangeTags", nil)
	// Meanwhile, the volume comes back: the new logical volume with its name is not touched.
	create(moved, wellknown.FencedTagPrefix+"m")
	for range 2 {
		size, err := e.Retire(ctx, r)
		if err != nil || size != 12*mib {
			t.Errorf("%d, %v", size, err)
		}
		seeTags(t, "retired", fake, "k", append([]string{"lvms.formatted=xfs"}, r.Tags...)...)
	}
	seeTags(t, "another with the name", fake, moved, wellknown.FencedTagPrefix+"m", "lvms.formatted=xfs", "lvms.pv=pvc-1",
		"lvms.uid=v")
	if calls := fake.Calls()["LVRename"]; calls != 1 {
		t.Errorf("%d renames", calls)
	}
}

// TestARetiredVolumeIsAdopted: it gets its name back, unless its removal has begun or there is another one with the
// name.
func TestARetiredVolumeIsAdopted(t *testing.T) {
	e, fake := newEngine(t)
	ctx := t.Context()
	create := func(name string, tags ...string) {
		t.Helper()
		must(t, fake.Apply(ctx, lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: name,
			VirtualSize: lvm.Bytes(12 * mib), Tags: append(tags, "lvms.pv=moved-m", "lvms.formatted=xfs")}))
	}
	tags := []string{"lvms.uid=v", "lvms.pv=pvc-1", "lvms.cluster=c"}
	create("k", "lvms.uid=k", wellknown.ErasedTagPrefix+"0")
	_, err := e.Adopt(ctx, "thin", moved, "k", tags)
	wantCode(t, "its removal has begun", err, codes.FailedPrecondition)
	must(t, e.TagLV(ctx, "thin", "k", nil, []string{wellknown.ErasedTagPrefix + "0"}))
	create(moved, "lvms.uid=x")
	if _, err := e.Adopt(ctx, "thin", moved, "k", tags); !errors.Is(err, ErrNotTarget) {
		t.Errorf("another with the name: %v", err)
	}
	must(t, fake.Apply(ctx, lvm.LVRemove{VG: "thin", Names: []string{moved}}))
	fake.Fail("LVChangeTags", errLVM)
	if _, err = e.Adopt(ctx, "thin", moved, "k", tags); err == nil {
		t.Error("no error")
	}
	fake.Fail("LVChangeTags", nil)
	for range 2 {
		size, err := e.Adopt(ctx, "thin", moved, "k", tags)
		if err != nil || size != 12*mib {
			t.Errorf("%d, %v", size, err)
		}
		seeTags(t, "adopted", fake, moved, append([]string{"lvms.formatted=xfs"}, tags...)...)
	}
	if calls := fake.Calls()["LVRename"]; calls != 1 {
		t.Errorf("%d renames", calls)
	}
}

// TestMovesWhenTheReadFails: nothing is changed, and nothing is absent.
func TestMovesWhenTheReadFails(t *testing.T) {
	e, fake := newTarget(t)
	ctx := t.Context()
	before := fake.Calls()
	fake.Fail("Report", errLVM)
	_, adopt := e.Adopt(ctx, "thin", moved, "t", nil)
	_, retire := e.Retire(ctx, Retirement{Class: "thin", Name: moved, NewName: "k", Move: "m"})
	for what, err := range map[string]error{"adopt": adopt, "retire": retire,
		"remove": e.RemoveTarget(ctx, "thin", moved, "t"), "abandon": e.AbandonTarget(ctx, "thin", moved, "t")} {
		if err == nil || status.Code(err) == codes.NotFound || errors.Is(err, ErrNotTarget) {
			t.Errorf("%s: %v", what, err)
		}
	}
	fake.Fail("Report", nil)
	for _, command := range []string{"LVRemove", "LVRename", "LVChangeTags"} {
		if fake.Calls()[command] != before[command] {
			t.Errorf("%s was called", command)
		}
	}
	seeTags(t, "after", fake, moved, "lvms.uid=t", "lvms.pv=move", "lvms.cluster=c", wellknown.CopyingTag, wellknown.SparseTag,
		"lvms.copy-of=s1")
}

// TestAVolumeThatIsFencedIsNotExtended, and the message says for what.
func TestAVolumeThatIsFencedIsNotExtended(t *testing.T) {
	e, _ := newEngine(t)
	ctx := t.Context()
	_, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "thick", Size: 8 * mib})
	must(t, err)
	for fence, says := range map[string]string{"m": "by the VolumeMove with the UID m: it is extended there",
		"clone-u": "to the LogicalVolume with the UID u, a clone of it: it is extended when that is complete"} {
		must(t, e.TagLV(ctx, "thick", "a", []string{wellknown.FencedTagPrefix + fence}, nil))
		_, err := e.ResizeLV(ctx, "thick", "a", 40*mib)
		wantCode(t, fence, err, codes.FailedPrecondition)
		if !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
		must(t, e.TagLV(ctx, "thick", "a", nil, []string{wellknown.FencedTagPrefix + fence}))
	}
}

// TestAFencedDevice is returned only for the move for which the volume is fenced, from a new report.
func TestAFencedDevice(t *testing.T) {
	e, fake := newEngine(t)
	ctx := t.Context()
	_, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "thick", Size: 8 * mib})
	must(t, err)
	get := func(what, name, move string, code codes.Code) {
		t.Helper()
		for range 2 {
			d, err := e.FencedDevice(ctx, "thick", name, move)
			wantCode(t, what, err, code)
			if err == nil {
				expect.Equal(t, what+": Name", d.Name, "a")
				expect.Equal(t, what+": Size", d.Size, 8*mib)
				expect.Equal(t, what+": ThinPool", d.ThinPool, "")
				expect.Equal(t, what+": ReadOnly", d.ReadOnly, false)
			}
		}
	}
	get("not fenced", "a", "m", codes.FailedPrecondition)
	get("for no move", "a", "", codes.FailedPrecondition)
	must(t, e.TagLV(ctx, "thick", "a", []string{wellknown.FencedTagPrefix + "m"}, nil))
	get("fenced", "a", "m", codes.OK)
	get("another move", "a", "n", codes.FailedPrecondition)
	get("a clone", "a", "clone-m", codes.FailedPrecondition)
	get("another volume", "b", "m", codes.NotFound)
	// Another program removes the tag.
	must(t, fake.Apply(ctx, lvm.LVChangeTags{VG: "thick", Name: "a", Remove: []string{wellknown.FencedTagPrefix + "m"}}))
	get("tag removed", "a", "m", codes.FailedPrecondition)
	must(t, e.TagLV(ctx, "thick", "a", []string{wellknown.FencedTagPrefix + "m", wellknown.CopyingTag}, nil))
	get("without its data", "a", "m", codes.FailedPrecondition)
	must(t, e.TagLV(ctx, "thick", "a", nil, []string{wellknown.CopyingTag}))
	fake.Fail("Report", errLVM)
	if _, err := e.FencedDevice(ctx, "thick", "a", "m"); err == nil || status.Code(err) == codes.NotFound {
		t.Errorf("the read failed: %v", err)
	}
}

package logicalvolume

import (
	"fmt"
	"slices"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// thickTarget creates the target "t" of the move of the thick volume "v" of node2.
func (w *world) thickTarget() {
	w.Helper()
	w.ask("v", topolvmv1.LogicalVolumeSpec{NodeName: "node2", DeviceClass: "thick", Size: size(12)})
	v := w.get("v")
	v.Status.VolumeID = movedVolume
	w.must(w.api.Status().Update(w.Context(), v))
	w.ask("t", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(12), Source: "v"})
	w.annotate("t", wellknown.MoveAnnotation, "m", wellknown.MoveVolumeAnnotation, movedVolume,
		wellknown.FenceTimeAnnotation, "x")
}

func (w *world) seeThickTarget(what string, more ...string) {
	w.Helper()
	w.see(what, "thick/uid-v 12")
	want := append(more, "lvms.uid="+string(w.get("t").UID), "lvms.pv=t", "lvms.pvc=ns/t", "lvms.cluster=c1",
		wellknown.CopyingTag)
	slices.Sort(want)
	if got := w.tags("thick", movedVolume); !slices.Equal(got, want) {
		w.Errorf("%s: tags %q, want %q", what, got, want)
	}
}

var thickCopy = moveOperation{ask: (*world).thickTarget, object: "t", check: func(w *world, what string) {
	w.seeThickTarget(what, "lvms.base=v", "lvms.formatted=xfs")
	r := w.record()
	expect.Equal(w, what+": Finished", r.Finished, true)
	expect.Equal(w, what+": Source", r.Source, "v")
	expect.Equal(w, what+": Base", r.Base, "")
	expect.Equal(w, what+": Error", r.Error, "")
	expect.Equal(w, what+": SizeBytes", r.SizeBytes, 12<<20)
	if last := w.copier.targets[len(w.copier.targets)-1]; last.Chunk != 0 || last.Round.Source != "v" ||
		last.Round.Base != "" || last.Round.Sparse {
		w.Errorf("%s: copied %+v", what, last)
	}
}}

// TestAThickTargetThatDiffersIsWrittenAgain: it is not removed, because it would not be erased.
func TestAThickTargetThatDiffersIsWrittenAgain(t *testing.T) {
	for name, prepare := range map[string]func(w *world){
		"differs": func(w *world) { w.copier.err = fmt.Errorf("x: %w", copies.ErrDiffers) },
		"parts of another source": func(w *world) {
			e := w.agent().Volumes
			w.must(e.EnsureTarget(w.Context(), engine.CopyTarget{Class: "thick", Name: movedVolume,
				UID: string(w.get("t").UID), Size: 12 << 20, Source: "other", Tags: []string{"lvms.uid=" +
					string(w.get("t").UID), "lvms.pv=t", "lvms.pvc=ns/t", "lvms.cluster=c1"}}))
			w.must(e.CopiedInRound(w.Context(), "thick", movedVolume, string(w.get("t").UID), 4<<20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.thickTarget()
			prepare(w)
			_, err := w.once(w.agent(), "t")
			if differs := w.copier.err != nil; differs != (err != nil) {
				t.Errorf("got %v", err)
			}
			w.seeThickTarget("again", "lvms.copy-of=v")
			if r := w.record(); r.Finished {
				t.Errorf("%+v", r)
			}
			w.copier.err = nil
			w.must(w.run(w.agent(), "t"))
			w.seeThickTarget("complete", "lvms.base=v", "lvms.formatted=xfs")
			if last := w.copier.targets[len(w.copier.targets)-1]; last.Done != 0 {
				t.Errorf("copied from %d", last.Done)
			}
		})
	}
}

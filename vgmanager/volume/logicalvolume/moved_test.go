package logicalvolume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/audit"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
)

const movedVolume = "uid-v"

// annotate changes annotations of an object like the operator. An empty value removes one.
func (w *world) annotate(object string, pairs ...string) {
	w.Helper()
	lv := w.get(object)
	for i := 0; i < len(pairs); i += 2 {
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, pairs[i], pairs[i+1])
		if pairs[i+1] == "" {
			delete(lv.Annotations, pairs[i])
		}
	}
	w.must(w.api.Update(w.Context(), lv))
}

// snapshots creates snapshots of a volume of node2.
func (w *world) snapshots(names ...string) {
	w.Helper()
	for _, name := range names {
		w.ask(name, topolvmv1.LogicalVolumeSpec{NodeName: "node2", DeviceClass: "thin", Size: size(12), AccessType: "ro",
			Source: "v"})
	}
}

// target creates the target "t" of a move, with the source s1.
func (w *world) target() {
	w.Helper()
	w.snapshots("s1", "s2", "s3")
	spec := thin(12)
	spec.Source = "s1"
	w.ask("t", spec)
	w.annotate("t", wellknown.MoveAnnotation, "m", wellknown.MoveVolumeAnnotation, movedVolume)
}

// round gives the target another source and base.
func (w *world) round(source, base string) {
	w.Helper()
	lv := w.get("t")
	lv.Spec.Source = source
	metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.CopyBaseAnnotation, base)
	w.must(w.api.Update(w.Context(), lv))
}

// record returns the record of the round of the target.
func (w *world) record() view.CopyRecord {
	w.Helper()
	record, err := view.Copied(w.get("t"))
	w.must(err)
	return record
}

// volumeHere is the volume after its move to this node.
func (w *world) volumeHere(node string) {
	w.Helper()
	w.ask("v", topolvmv1.LogicalVolumeSpec{NodeName: node, DeviceClass: "thin", Size: size(12)})
	lv := w.get("v")
	lv.Status.VolumeID = movedVolume
	current := size(12)
	lv.Status.CurrentSize = &current
	w.must(w.api.Status().Update(w.Context(), lv))
}

func (w *world) seeTags(what, volume string, want ...string) {
	w.Helper()
	slices.Sort(want)
	if got := w.tags("thin", volume); !slices.Equal(got, want) {
		w.Errorf("%s: tags %q, want %q", what, got, want)
	}
}

func targetTags(w *world, more ...string) []string {
	return append(more, "lvms.uid="+string(w.get("t").UID), "lvms.pv=t", "lvms.pvc=ns/t", "lvms.cluster=c1",
		wellknown.CopyingTag, wellknown.SparseTag)
}

// moveOperation is a step of a move, with what must be true after it.
type moveOperation struct {
	before, ask func(w *world)
	object      string
	check       func(w *world, what string)
}

var moveOperations = map[string]moveOperation{
	"first round": {ask: (*world).target, object: "t", check: func(w *world, what string) {
		w.see(what, "thin/uid-v 12")
		w.seeTags(what, movedVolume, targetTags(w, "lvms.base=s1", "lvms.formatted=xfs")...)
		r := w.record()
		expect.Equal(w, what+": Finished", r.Finished, true)
		expect.Equal(w, what+": Source", r.Source, "s1")
		expect.Equal(w, what+": Base", r.Base, "")
		expect.Equal(w, what+": Error", r.Error, "")
		expect.Equal(w, what+": CopiedBytes", r.CopiedBytes, 12<<20)
		expect.Equal(w, what+": ComparedBytes", r.ComparedBytes, 12<<20)
		expect.Equal(w, what+": SizeBytes", r.SizeBytes, 12<<20)
		if lv := w.get("t"); lv.Status.VolumeID != "" || lv.Status.Code != codes.OK {
			w.Errorf("%s: status %+v", what, lv.Status)
		}
	}},
	"next round of a larger volume": {before: (*world).target, ask: func(w *world) {
		lv := w.get("t")
		lv.Spec.Size = size(20)
		w.must(w.api.Update(w.Context(), lv))
		w.round("s2", "s1")
	}, object: "t", check: func(w *world, what string) {
		w.see(what, "thin/uid-v 20")
		w.seeTags(what, movedVolume, targetTags(w, "lvms.base=s2", "lvms.formatted=xfs")...)
		if r := w.record(); !r.Finished || r.Source != "s2" || r.Error != "" {
			w.Errorf("%s: %+v", what, r)
		}
		if last := w.copier.targets[len(w.copier.targets)-1]; last.Round.Source != "s2" || last.Round.Base != "s1" ||
			!last.Round.Sparse {
			w.Errorf("%s: copied %+v", what, last.Round)
		}
	}},
	"a base that the target does not have": {before: (*world).target, ask: func(w *world) { w.round("s3", "s2") },
		object: "t", check: func(w *world, what string) {
			w.see(what, "thin/uid-v 12")
			w.seeTags(what, movedVolume, targetTags(w, "lvms.base=s3", "lvms.formatted=xfs")...)
			if last := w.copier.targets[len(w.copier.targets)-1]; last.Round.Source != "s3" || last.Round.Base != "" {
				w.Errorf("%s: copied %+v", what, last.Round)
			}
		}},
	"copy of a thick volume": thickCopy,
	"removal of a target": {before: (*world).target,
		ask:    func(w *world) { w.must(w.api.Delete(w.Context(), w.get("t"))) },
		object: "t", check: func(w *world, what string) {
			w.see(what)
			w.seeNoObject(what, "t")
			if len(w.forgotten) > 0 {
				w.Errorf("%s: forgot %q, which is the name of the volume", what, w.forgotten)
			}
		}},
	"adoption": {before: (*world).target, ask: func(w *world) {
		w.volumeHere("node1")
		w.annotate("v", wellknown.AdoptAnnotation, string(w.get("t").UID), wellknown.ClaimAnnotation, "ns/claim")
	}, object: "v", check: func(w *world, what string) {
		w.see(what, "thin/uid-v 12")
		v := w.get("v")
		w.seeTags(what, movedVolume, "lvms.uid="+string(v.UID), "lvms.pv=v", "lvms.pvc=ns/claim", "lvms.cluster=c1",
			"lvms.formatted=xfs")
		if _, left := v.Annotations[wellknown.AdoptAnnotation]; left || v.Status.Code != codes.OK {
			w.Errorf("%s: %+v", what, v)
		}
	}},
	"removal of an adopted target": {before: func(w *world) {
		w.target()
		w.must(w.run(w.agent(), "t"))
		w.volumeHere("node1")
		w.annotate("v", wellknown.AdoptAnnotation, string(w.get("t").UID))
		w.must(w.run(w.agent(), "v"))
	}, ask: func(w *world) { w.must(w.api.Delete(w.Context(), w.get("t"))) },
		object: "t", check: func(w *world, what string) {
			w.see(what, "thin/uid-v 12")
			w.seeNoObject(what, "t")
		}},
	"retirement": {before: (*world).earlier, ask: (*world).retired, object: "k", check: func(w *world, what string) {
		k := w.get("k")
		w.see(what, "thin/"+string(k.UID)+" 12")
		w.seeTags(what, string(k.UID), "lvms.uid="+string(k.UID), "lvms.pv=k", "lvms.pvc=ns/k", "lvms.cluster=c1",
			"lvms.formatted=xfs")
		if k.Status.VolumeID != string(k.UID) || k.Status.CurrentSize.Value() != 12<<20 || k.Status.Code != codes.OK {
			w.Errorf("%s: status %+v", what, k.Status)
		}
	}},
	"return of a retired volume": {before: (*world).kept, ask: (*world).takeBack, object: "v",
		check: func(w *world, what string) {
			w.see(what, "thin/uid-v 12")
			v := w.get("v")
			w.seeTags(what, movedVolume, "lvms.uid="+string(v.UID), "lvms.pv=v", "lvms.pvc=ns/v", "lvms.cluster=c1",
				"lvms.formatted=xfs")
			if v.Annotations[wellknown.AdoptAnnotation] != "" || v.Status.Code != codes.OK {
				w.Errorf("%s: %+v", what, v)
			}
		}},
	"removal of the owner of what is returned": {before: func(w *world) {
		w.kept()
		w.takeBack()
		w.must(w.run(w.agent(), "v"))
	}, ask: func(w *world) { w.must(w.api.Delete(w.Context(), w.get("k"))) }, object: "k",
		check: func(w *world, what string) {
			w.see(what, "thin/uid-v 12")
			w.seeNoObject(what, "k")
		}},
	"retirement on a node that was lost": {before: func(w *world) {
		w.earlier()
		w.must(w.agent().Volumes.TagLV(w.Context(), "thin", movedVolume, nil, []string{wellknown.FencedTagPrefix + "m"}))
	}, ask: func(w *world) {
		w.retired()
		w.annotate("k", wellknown.MoveBackAnnotation, "node1")
	}, object: "k", check: func(w *world, what string) {
		w.see(what, "thin/"+string(w.get("k").UID)+" 12")
	}},
	"removal of what is not retired yet": {before: (*world).earlier, ask: func(w *world) {
		w.retired()
		k := w.get("k")
		k.Finalizers = []string{wellknown.LogicalVolumeFinalizer}
		w.must(w.api.Update(w.Context(), k))
		w.must(w.api.Delete(w.Context(), k))
	}, object: "k", check: func(w *world, what string) {
		w.see(what)
		w.seeNoObject(what, "k")
	}},
}

func (w *world) seeNoObject(what, name string) {
	w.Helper()
	err := w.api.Get(w.Context(), client.ObjectKey{Name: name}, &topolvmv1.LogicalVolume{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		w.Errorf("%s: object %s still exists (%v)", what, name, err)
	}
}

// earlier creates the fenced logical volume of a volume that was moved to node2.
func (w *world) earlier() {
	w.Helper()
	w.volumeHere("node2")
	e := w.agent().Volumes
	w.must(e.EnsureTarget(w.Context(), engine.CopyTarget{Class: "thin", Name: movedVolume, UID: "x", Size: 12 << 20,
		Tags: []string{"lvms.uid=x"}, Source: "s"}))
	w.must(e.TagLV(w.Context(), "thin", movedVolume, []string{"lvms.uid=uid-v-1", "lvms.pv=v", "lvms.pvc=ns/v",
		"lvms.cluster=c1", "lvms.formatted=xfs", wellknown.FencedTagPrefix + "m"}, []string{"lvms.uid=x",
		wellknown.CopyingTag, wellknown.SparseTag, "lvms.copy-of=s"}))
}

// retired creates the object that gets this logical volume.
func (w *world) retired() {
	w.Helper()
	spec := thin(12)
	spec.Source = wellknown.RetiredSource
	w.ask("k", spec)
	w.annotate("k", wellknown.MoveAnnotation, "m", wellknown.RetireAnnotation, movedVolume+"/m")
}

// kept retires the logical volume, which is to be that of the volume again.
func (w *world) kept() {
	w.Helper()
	w.earlier()
	w.retired()
	w.must(w.run(w.agent(), "k"))
	w.annotate("k", wellknown.MoveBackAnnotation, "node2")
}

// takeBack switches the volume back to the node.
func (w *world) takeBack() {
	w.Helper()
	v := w.get("v")
	v.Spec.NodeName = "node1"
	w.must(w.api.Update(w.Context(), v))
	w.annotate("v", wellknown.AdoptAnnotation, string(w.get("k").UID))
}

// TestWhatIsToReturnIsNotRemoved: not even if its owner is deleted.
func TestWhatIsToReturnIsNotRemoved(t *testing.T) {
	w := newWorld(t)
	w.kept()
	w.must(w.api.Delete(t.Context(), w.get("k")))
	_ = w.run(w.agent(), "k")
	k := w.get("k")
	w.see("kept", "thin/"+string(k.UID)+" 12")
	if !strings.Contains(k.Status.Message, "is moved back to this node") {
		t.Errorf("status %+v", k.Status)
	}
	w.takeBack()
	w.must(w.run(w.agent(), "v"))
	w.must(w.run(w.agent(), "k"))
	w.see("returned", "thin/uid-v 12")
	w.seeNoObject("returned", "k")
}

// TestWhatIsToReturnIsRemovedWithItsVolume: nothing needs it when the volume was deleted before it has adopted it. It
// is not removed while this is not known, or a PersistentVolume still is for the volume.
func TestWhatIsToReturnIsRemovedWithItsVolume(t *testing.T) {
	w := newWorld(t)
	w.kept()
	w.takeBack()
	w.must(w.api.Delete(t.Context(), w.get("k")))
	v := w.get("v")
	v.Finalizers = nil
	w.must(w.api.Update(t.Context(), v))
	w.must(client.IgnoreNotFound(w.api.Delete(t.Context(), v)))
	k := w.get("k")
	stays := func(what, says string) {
		t.Helper()
		_ = w.run(w.agent(), "k")
		w.see(what, "thin/"+string(k.UID)+" 12")
		if got := w.get("k").Status.Message; !strings.Contains(got, says) {
			t.Errorf("%s: %q", what, got)
		}
	}
	pv := w.persistentVolume("v", movedVolume, corev1.VolumeBound)
	stays("with a PersistentVolume", "PersistentVolume v (phase")
	w.must(w.api.Delete(t.Context(), pv))
	w.must(w.run(w.agent(), "k"))
	w.see("gone")
	w.seeNoObject("gone", "k")
}

// start prepares an operation, and requests it.
func (o moveOperation) start(w *world) {
	if o.before != nil {
		o.before(w)
		if o.object == "t" {
			w.must(w.run(w.agent(), "t"))
		}
		if strings.HasPrefix(o.object, "v") {
			w.must(w.run(w.agent(), "t"))
		}
	}
	o.ask(w)
}

// TestAMoveIsKilledAtEveryPoint ends the process before and after each LVM command and each write to the API of each
// step of a move.
func TestAMoveIsKilledAtEveryPoint(t *testing.T) {
	moveAtEveryPoint(t, newWorld, func(string) bool { return true })
}

func moveAtEveryPoint(t *testing.T, newWorld func(*testing.T) *world, counts func(point string) bool) {
	for name, o := range moveOperations {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			o.start(w)
			var points []string
			w.point = func(what string) error {
				points = append(points, what)
				return nil
			}
			w.must(w.run(w.agent(), o.object))
			w.point = nil
			o.check(w, "undisturbed")
			if len(points) < 2 {
				t.Fatalf("only the points %q", points)
			}
			t.Logf("%d points: %q", len(points), points)
			for at, point := range points {
				if counts(point) {
					o.killedAt(newWorld(t), at)
				}
			}
		})
	}
}

func (o moveOperation) killedAt(w *world, at int) {
	o.start(w)
	passed, where := 0, ""
	w.point = func(what string) error {
		if passed++; passed <= at {
			return nil
		}
		if where == "" {
			where = what
		}
		return errKilled
	}
	_ = w.run(w.agent(), o.object)
	w.point = nil
	what := fmt.Sprintf("killed %s (point %d)", where, at)
	if err := w.run(w.agent(), o.object); err != nil {
		w.Errorf("%s: the next process: %v", what, err)
	}
	o.check(w, what)
}

// TestWhatATargetNeedsForARound decides from its tags.
func TestWhatATargetNeedsForARound(t *testing.T) {
	for name, tt := range map[string]struct {
		tags         lvtag.Round
		source, base string
		unzeroed     bool
		want         roundStep
	}{
		"a new one":                      {lvtag.Round{Source: "s1"}, "s1", "", false, roundContinue},
		"a new one, base ignored":        {lvtag.Round{Source: "s2"}, "s2", "s1", false, roundContinue},
		"a killed first round":           {lvtag.Round{Source: "s1", Copied: 5}, "s1", "", false, roundContinue},
		"a killed next round":            {lvtag.Round{Source: "s2", Base: "s1", Copied: 5}, "s2", "s1", false, roundContinue},
		"it has the base":                {lvtag.Round{Base: "s1"}, "s2", "s1", false, roundBegin},
		"it has the source":              {lvtag.Round{Base: "s2"}, "s2", "s1", false, roundComplete},
		"it has another base":            {lvtag.Round{Base: "s1"}, "s3", "s2", false, roundRestart},
		"no base is wanted":              {lvtag.Round{Base: "s1"}, "s2", "", false, roundRestart},
		"parts of another source":        {lvtag.Round{Source: "s2", Base: "s1"}, "s3", "s1", false, roundRestart},
		"parts of a first other source":  {lvtag.Round{Source: "s1"}, "s2", "s1", false, roundRestart},
		"another base since it began":    {lvtag.Round{Source: "s3", Base: "s1"}, "s3", "s2", false, roundRestart},
		"no tags":                        {lvtag.Round{}, "s1", "", false, roundRestart},
		"sparse":                         {lvtag.Round{Base: "s1", Sparse: true}, "s2", "s1", false, roundBegin},
		"the pool no longer zeroes":      {lvtag.Round{Base: "s1", Sparse: true}, "s2", "s1", true, roundRestart},
		"complete, no longer zeroes":     {lvtag.Round{Base: "s2", Sparse: true}, "s2", "s1", true, roundComplete},
		"all chunks are provided":        {lvtag.Round{Base: "s1"}, "s2", "s1", true, roundBegin},
		"a sparse round, no longer zero": {lvtag.Round{Source: "s1", Sparse: true}, "s1", "", true, roundRestart},
	} {
		if got := planRound(tt.tags, tt.source, tt.base, !tt.unzeroed); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// TestTheProgressOfARoundIsRecorded, and an error too, until the next attempt succeeds.
func TestTheProgressOfARoundIsRecorded(t *testing.T) {
	w := newWorld(t)
	w.target()
	w.copier.at = &copies.Progress{Copied: 4 << 20, Compared: 1 << 20, Size: 12 << 20, Sent: 77}
	result, err := w.once(w.agent(), "t")
	w.must(err)
	r := w.record()
	expect.Equal(t, "Finished", r.Finished, false)
	expect.Equal(t, "CopiedBytes", r.CopiedBytes, 4<<20)
	expect.Equal(t, "ComparedBytes", r.ComparedBytes, 1<<20)
	expect.Equal(t, "SizeBytes", r.SizeBytes, 12<<20)
	expect.Equal(t, "SentBytes", r.SentBytes, 77)
	expect.NotZero(t, "RequeueAfter", result.RequeueAfter)
	w.copier.err = errors.New("connection reset by peer")
	if _, err := w.once(w.agent(), "t"); err == nil {
		t.Error("no error")
	}
	if r := w.record(); r.Finished || !strings.Contains(r.Error, "connection reset") || r.CopiedBytes != 4<<20 {
		t.Errorf("%+v", r)
	}
	w.copier.err, w.copier.at = nil, nil
	w.must(w.run(w.agent(), "t"))
	if r := w.record(); !r.Finished || r.Error != "" {
		t.Errorf("%+v", r)
	}
	before := w.get("t").ResourceVersion
	w.must(w.run(w.agent(), "t"))
	if after := w.get("t").ResourceVersion; after != before {
		t.Error("a complete round was written again")
	}
	// A round that was never written is not that of another source.
	w.annotate("t", wellknown.CopiedAnnotation, "")
	w.must(w.run(w.agent(), "t"))
	if r := w.record(); !r.Finished || r.SizeBytes != 12<<20 {
		t.Errorf("%+v", r)
	}
}

// TestATargetThatDiffersIsCopiedAgain: all of it.
func TestATargetThatDiffersIsCopiedAgain(t *testing.T) {
	w := newWorld(t)
	w.target()
	w.must(w.run(w.agent(), "t"))
	w.round("s2", "s1")
	w.copier.err = fmt.Errorf("x: %w", copies.ErrDiffers)
	if _, err := w.once(w.agent(), "t"); err == nil {
		t.Error("no error")
	}
	w.see("removed")
	if r := w.record(); r.Finished || r.Error == "" {
		t.Errorf("%+v", r)
	}
	w.copier.err = nil
	w.must(w.run(w.agent(), "t"))
	w.see("again", "thin/uid-v 12")
	if last := w.copier.targets[len(w.copier.targets)-1]; last.Round.Base != "" || last.Done != 0 {
		t.Errorf("copied %+v from %d", last.Round, last.Done)
	}
}

// TestATargetThatMustNotBeRemoved has the only data of a volume that was moved to it.
func TestATargetThatMustNotBeRemoved(t *testing.T) {
	w := newWorld(t)
	w.target()
	w.must(w.run(w.agent(), "t"))
	w.volumeHere("node1")
	w.annotate("v", wellknown.AdoptAnnotation, string(w.get("t").UID))
	w.must(w.api.Delete(t.Context(), w.get("t")))
	_ = w.run(w.agent(), "t")
	w.see("kept", "thin/uid-v 12")
	if lv := w.get("t"); !strings.Contains(lv.Status.Message, "has not adopted it yet") {
		t.Errorf("status %+v", lv.Status)
	}
	// The list failed: nothing is removed.
	w.annotate("v", wellknown.AdoptAnnotation, "")
	r := w.agent()
	r.Live = interceptor.NewClient(w.api.(client.WithWatch), interceptor.Funcs{List: func(context.Context,
		client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("timeout")
	}})
	_ = w.run(r, "t")
	w.see("kept", "thin/uid-v 12")
	w.must(w.run(w.agent(), "t"))
	w.see("removed")
}

// TestWhatIsNotAdopted: nothing is created in its place, and the next attempt succeeds when it can.
func TestWhatIsNotAdopted(t *testing.T) {
	w := newWorld(t)
	w.target()
	w.copier.at = &copies.Progress{Copied: 4 << 20, Size: 12 << 20}
	w.must(w.run(w.agent(), "t"))
	w.volumeHere("node1")
	w.annotate("v", wellknown.AdoptAnnotation, string(w.get("t").UID))
	_ = w.run(w.agent(), "v")
	v := w.get("v")
	if v.Annotations[wellknown.AdoptAnnotation] == "" || v.Status.Code != codes.FailedPrecondition {
		t.Errorf("a round in progress: %+v", v)
	}
	w.seeTags("not adopted", movedVolume, targetTags(w, "lvms.copy-of=s1", "lvms.copied=4194304")...)
	w.must(w.lvm.Apply(t.Context(), lvm.LVRemove{VG: "thin", Names: []string{movedVolume}}))
	_ = w.run(w.agent(), "v")
	w.see("nothing is created")
	if v := w.get("v"); v.Status.Code != codes.Unavailable || v.Annotations[wellknown.AdoptAnnotation] == "" {
		t.Errorf("no logical volume: %+v", v)
	}
}

// TestAnAdoptedVolumeHasTheSizeThatItHas: it is extended if the volume was extended after the last round.
func TestAnAdoptedVolumeHasTheSizeThatItHas(t *testing.T) {
	w := newWorld(t)
	w.target()
	w.must(w.run(w.agent(), "t"))
	w.volumeHere("node1")
	v := w.get("v")
	v.Spec.Size = size(24)
	w.must(w.api.Update(t.Context(), v))
	current := size(24)
	v.Status.CurrentSize = &current
	w.must(w.api.Status().Update(t.Context(), v))
	w.annotate("v", wellknown.AdoptAnnotation, string(w.get("t").UID))
	w.must(w.run(w.agent(), "v"))
	w.see("extended", "thin/uid-v 24")
}

// TestWhatIsNotRetired: the volume is here, or has not adopted its logical volume, or that is not known.
func TestWhatIsNotRetired(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w *world, r *Reconciler)
		says   string
	}{
		"the volume is here": {func(w *world, _ *Reconciler) {
			v := w.get("v")
			v.Spec.NodeName = "node1"
			w.must(w.api.Update(w.Context(), v))
		}, "is on node node1"},
		"not adopted yet": {func(w *world, _ *Reconciler) { w.annotate("v", wellknown.AdoptAnnotation, "uid-t") },
			"does not use its logical volume of LogicalVolume v yet"},
		"another move": {func(w *world, _ *Reconciler) {
			w.annotate("k", wellknown.RetireAnnotation, movedVolume+"/other")
		}, `is not fenced for the VolumeMove with the UID "other"`},
		"not valid": {func(w *world, _ *Reconciler) { w.annotate("k", wellknown.RetireAnnotation, movedVolume) },
			"must be VOLUME-ID/UID"},
		"no logical volume": {func(w *world, _ *Reconciler) {
			w.annotate("k", wellknown.RetireAnnotation, "nosuch/m")
		}, "no logical volume nosuch"},
		"the object was lost": {func(w *world, _ *Reconciler) {
			w.must(w.api.Delete(w.Context(), w.get("v")))
			w.must(w.api.Create(w.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}))
		}, "PersistentVolume v does"},
		"the read failed": {func(_ *world, r *Reconciler) {
			r.Live = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context,
				c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if key.Name == "v" {
					return errors.New("timeout")
				}
				return c.Get(ctx, key, o, options...)
			}})
		}, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.earlier()
			w.retired()
			r := w.agent()
			tt.change(w, r)
			_ = w.run(r, "k")
			w.see("kept", "thin/uid-v 12")
			if k := w.get("k"); k.Status.VolumeID != "" || !strings.Contains(k.Status.Message, tt.says) {
				t.Errorf("status %+v, want %q", k.Status, tt.says)
			}
		})
	}
}

// TestAMovedVolumeThatWasDeleted has no object: its earlier logical volume is retired too.
func TestAMovedVolumeThatWasDeleted(t *testing.T) {
	w := newWorld(t)
	w.earlier()
	w.retired()
	w.must(w.api.Delete(t.Context(), w.get("v")))
	w.must(w.run(w.agent(), "k"))
	w.see("retired", "thin/"+string(w.get("k").UID)+" 12")
}

// TestAnAuditDuringAMove reports no orphan on either node, and leaves the tags of the target alone.
func TestAnAuditDuringAMove(t *testing.T) {
	w := newWorld(t)
	w.target()
	w.must(w.run(w.agent(), "t"))
	w.volumeHere("node1")
	w.annotate("v", wellknown.AdoptAnnotation, string(w.get("t").UID))
	before := w.tags("thin", movedVolume)
	a := w.auditLong()
	if got := w.tags("thin", movedVolume); !slices.Equal(got, before) {
		t.Errorf("tags %q, were %q", got, before)
	}
	if found := a.Orphans("thin"); len(found) > 0 {
		t.Errorf("orphans on the new node: %+v", found)
	}
	w = newWorld(t)
	w.earlier()
	a = w.auditLong()
	if found := a.Orphans("thin"); len(found) > 0 {
		t.Errorf("orphans on the earlier node: %+v", found)
	}
}

// auditLong audits until what was found counts as an orphan.
func (w *world) auditLong() *audit.Auditor {
	w.Helper()
	now := time.Now()
	a := w.auditor(func() time.Time { return now })
	w.must(a.Audit(w.Context()))
	now = now.Add(time.Minute)
	w.must(a.Audit(w.Context()))
	return a
}

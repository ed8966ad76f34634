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
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
)

// fakeCopier records a copy as begun, and then returns what a test sets. By default, the volume is copied at once.
type fakeCopier struct {
	w       *world
	targets []copies.Target
	nodes   []string
	stopped []string
	at      *copies.Progress
	err     error
	nodeErr error
	// asksForRoom: it asks for room as copies.Copier does, for a byte.
	asksForRoom bool
}

func (f *fakeCopier) sourceOn(_ context.Context, node string) (copies.Source, error) {
	f.nodes = append(f.nodes, node)
	return nil, f.nodeErr
}

func (f *fakeCopier) Copy(ctx context.Context, _ copies.Source, target copies.Target,
	record copies.Record) (copies.Progress, error) {
	f.targets = append(f.targets, target)
	if f.asksForRoom && target.Room != nil {
		for _, bytes := range []uint64{1, 0} {
			if err := target.Room(ctx, bytes); err != nil {
				return copies.Progress{}, fmt.Errorf("x: %w", err)
			}
		}
	}
	if err := record(ctx, max(target.Done, 4<<20)); err != nil {
		return copies.Progress{}, err
	}
	if f.err != nil {
		return copies.Progress{}, f.err
	}
	if f.at != nil {
		return *f.at, nil
	}
	return copies.Progress{Copied: target.Device.Size, Compared: target.Device.Size, Size: target.Device.Size,
			Finished: true, Content: []string{"lvms.formatted=xfs", "lvms.uid=another"}},
		f.w.around("copy", func() error { return nil })
}

func (f *fakeCopier) Stop(_ context.Context, key string) error {
	f.stopped = append(f.stopped, key)
	return nil
}

func (f *fakeCopier) Ended() <-chan event.GenericEvent { return nil }

// sourceElsewhere creates a snapshot "source" of another node.
func (w *world) sourceElsewhere() {
	w.Helper()
	w.ask("source", topolvmv1.LogicalVolumeSpec{NodeName: "node2", DeviceClass: "thin", Size: size(12), AccessType: "ro",
		Source: "of"})
	lv := w.get("source")
	lv.Status.VolumeID = string(lv.UID)
	w.must(w.api.Status().Update(w.Context(), lv))
}

func (w *world) once(r *Reconciler, name string) (ctrl.Result, error) {
	return r.Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
}

// TestACopyIsReportedWhenItIsComplete follows a copy from its progress to its end.
func TestACopyIsReportedWhenItIsComplete(t *testing.T) {
	w := newWorld(t)
	w.sourceElsewhere()
	w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(20), Source: "source", AccessType: "rw"})
	for _, step := range []struct {
		at   copies.Progress
		says string
	}{
		{copies.Progress{}, "the data of source is copied from node node2: it waits for other copies, or for the source"},
		{copies.Progress{Copied: 3 << 20, Size: 12 << 20}, "is copied from node node2: 3 of 12 MiB (25 %)"},
		{copies.Progress{Copied: 12 << 20, Compared: 6 << 20, Size: 12 << 20},
			"is copied, and compared from node node2: 6 of 12 MiB (50 %)"},
	} {
		w.copier.at = &step.at
		result, err := w.once(w.agent(), "b")
		w.must(err)
		lv := w.get("b")
		if lv.Status.VolumeID != "" || lv.Status.Code != codes.Aborted || !strings.Contains(lv.Status.Message, step.says) ||
			result.RequeueAfter == 0 {
			t.Errorf("status %+v, requeue after %s, want %q", lv.Status, result.RequeueAfter, step.says)
		}
		record, err := view.Copied(lv)
		w.must(err)
		want := view.CopyRecord{Source: "source", CopiedBytes: step.at.Copied, ComparedBytes: step.at.Compared,
			SizeBytes: step.at.Size}
		if step.at.Size == 0 {
			want.CopiedBytes = record.CopiedBytes // It is what was saved before.
		}
		expect.Equal(t, "record", record, want)
		// Time that passes is no progress.
		step.at.Took = time.Hour
		_, err = w.once(w.agent(), "b")
		w.must(err)
		if again := w.get("b"); again.ResourceVersion != lv.ResourceVersion {
			t.Errorf("the same progress is written again: %v", again.Annotations)
		}
	}
	// An agent of an earlier version wrote only the status.
	w.annotate("b", wellknown.CopiedAnnotation, "")
	_, err := w.once(w.agent(), "b")
	w.must(err)
	if w.get("b").Annotations[wellknown.CopiedAnnotation] == "" {
		t.Error("the progress is not reported")
	}
	want := []string{"lvms.cluster=c1", "lvms.copied=4194304", "lvms.copy-of=source", wellknown.CopyingTag,
		wellknown.NewTag, "lvms.pv=b", "lvms.pvc=ns/b", "lvms.uid=uid-b-2"}
	if got := w.tags("thick", "uid-b-2"); !slices.Equal(got, want) {
		t.Errorf("tags %q, want %q", got, want)
	}
	w.copier.at = nil
	w.must(w.run(w.agent(), "b"))
	if lv := w.get("b"); lv.Status.VolumeID != "uid-b-2" || lv.Status.Message != "" ||
		lv.Annotations[wellknown.CopiedAnnotation] != "" {
		t.Errorf("status %+v, annotations %v", lv.Status, lv.Annotations)
	}
	// The tags of the source that do not describe its content are not taken.
	want = []string{"lvms.cluster=c1", "lvms.formatted=xfs", "lvms.pv=b", "lvms.pvc=ns/b", "lvms.uid=uid-b-2"}
	if got := w.tags("thick", "uid-b-2"); !slices.Equal(got, want) {
		t.Errorf("tags %q, want %q", got, want)
	}
	last := w.copier.targets[len(w.copier.targets)-1]
	if last.Done != 4<<20 || last.Object != "b" || last.Device.Path != "/dev/thick/uid-b-2" || last.Chunk != 0 {
		t.Errorf("the copy continued with %+v", last)
	}
	if slices.ContainsFunc(w.copier.nodes, func(node string) bool { return node != "node2" }) {
		t.Errorf("the nodes of the source were %q", w.copier.nodes)
	}
}

// TestACopyInAnotherClassOfTheNode is not a snapshot: the classes have different volume groups.
func TestACopyInAnotherClassOfTheNode(t *testing.T) {
	w := newWorld(t)
	w.ask("a", thin(12))
	w.must(w.run(w.agent(), "a"))
	snapshot := thin(12)
	snapshot.Source = "a"
	snapshot.AccessType = "ro"
	w.ask("s", snapshot)
	w.must(w.run(w.agent(), "s"))
	w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(12), Source: "s", AccessType: "rw"})
	w.must(w.run(w.agent(), "b"))
	w.see("copy", "thick/uid-b-3 12", "thin/uid-a-1 12", "thin/uid-s-2 12")
	if !slices.Equal(w.copier.nodes, []string{"node1"}) {
		t.Errorf("the nodes of the source were %q", w.copier.nodes)
	}
}

// TestACloneOfAThickVolume waits for its fence, and is then copied like a snapshot, also on its node and in its class.
func TestACloneOfAThickVolume(t *testing.T) {
	for _, class := range []string{"thick", "thin"} {
		t.Run("to "+class, func(t *testing.T) {
			w := newWorld(t)
			w.ask("a", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(12)})
			w.must(w.run(w.agent(), "a"))
			w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: class, Size: size(16), Source: "a", AccessType: "rw"})
			lv := w.get("b")
			lv.Annotations[wellknown.CloneVolumeAnnotation] = "uid-a-1"
			w.must(w.api.Update(t.Context(), lv))
			for _, said := range []topolvmv1.LogicalVolumeStatus{{}, {Code: codes.Aborted, Message: "a Pod uses it"},
				{Code: codes.Unavailable, Message: "an error that is over"}} {
				lv := w.get("b")
				lv.Status = said
				w.must(w.api.Status().Update(t.Context(), lv))
				result, err := w.once(w.agent(), "b")
				w.must(err)
				if said.Code == codes.Unavailable {
					said = topolvmv1.LogicalVolumeStatus{}
				}
				if got := w.get("b").Status; got != said || result.RequeueAfter != 0 {
					t.Errorf("got %+v, requeue after %s, want %+v", got, result.RequeueAfter, said)
				}
				w.see("nothing is created", "thick/uid-a-1 12")
			}
			lv = w.get("b")
			lv.Annotations[wellknown.FenceTimeAnnotation] = "x"
			w.must(w.api.Update(t.Context(), lv))
			w.fence("a", fence.OfClone(lv.UID), "x")
			for range 2 {
				w.must(w.run(w.agent(), "b"))
				w.see("copied", slices.Sorted(slices.Values([]string{"thick/uid-a-1 12", class + "/uid-b-2 16"}))...)
				if lv := w.get("b"); lv.Status.VolumeID != "uid-b-2" || lv.Status.Code != codes.OK {
					t.Errorf("status %+v", lv.Status)
				}
			}
			if len(w.copier.targets) != 1 || !w.copier.targets[0].Round.Only || !slices.Equal(w.copier.nodes, []string{"node1"}) {
				t.Errorf("copied %+v from %q", w.copier.targets, w.copier.nodes)
			}
		})
	}
}

// fence gives a LogicalVolume the fence of a clone, as the operator and its agent do.
func (w *world) fence(name, fence, requested string) {
	w.Helper()
	lv := w.get(name)
	lv.Annotations[wellknown.FenceAnnotation] = fence
	lv.Annotations[wellknown.FencedAnnotation] = fence
	lv.Annotations[wellknown.FenceTimeAnnotation] = requested
	w.must(w.api.Update(w.Context(), lv))
}

// cloneThick creates the thick volume a, and its clone b, for which it is fenced.
func (w *world) cloneThick() {
	w.Helper()
	w.ask("a", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(12)})
	w.must(w.run(w.agent(), "a"))
	w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(16), Source: "a", AccessType: "rw"})
	lv := w.get("b")
	lv.Annotations[wellknown.CloneVolumeAnnotation] = "uid-a-1"
	lv.Annotations[wellknown.FenceTimeAnnotation] = "x"
	w.must(w.api.Update(w.Context(), lv))
	w.fence("a", fence.OfClone(lv.UID), "x")
}

// TestACloneWhoseSourceCouldChange: all data is copied and compared, but its source has been opened meanwhile.
func TestACloneWhoseSourceCouldChange(t *testing.T) {
	for name, change := range map[string]func(w *world, source *topolvmv1.LogicalVolume){
		"not fenced": func(_ *world, s *topolvmv1.LogicalVolume) { delete(s.Annotations, wellknown.FenceAnnotation) },
		"not closed": func(_ *world, s *topolvmv1.LogicalVolume) { delete(s.Annotations, wellknown.FencedAnnotation) },
		"fenced for another one": func(_ *world, s *topolvmv1.LogicalVolume) {
			s.Annotations[wellknown.FenceAnnotation] = "clone-other"
		},
		"closed for another one": func(_ *world, s *topolvmv1.LogicalVolume) {
			s.Annotations[wellknown.FencedAnnotation] = "clone-other"
		},
		"fenced again":  func(_ *world, s *topolvmv1.LogicalVolume) { s.Annotations[wellknown.FenceTimeAnnotation] = "y" },
		"being deleted": func(w *world, s *topolvmv1.LogicalVolume) { w.must(w.api.Delete(w.Context(), s.DeepCopy())) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cloneThick()
			source := w.get("a")
			change(w, source)
			if name != "being deleted" {
				w.must(w.api.Update(t.Context(), source))
			}
			for range 2 {
				_ = w.run(w.agent(), "b")
				if got := w.get("b").Status; got.VolumeID != "" || got.Code != codes.FailedPrecondition ||
					!strings.Contains(got.Message, "source LogicalVolume a could be changed") {
					t.Errorf("status %+v", got)
				}
				found, err := w.agent().Volumes.FindLV(t.Context(), "thick", "uid-b-2")
				if w.must(err); !lvtag.IsCopying(found.Tags) {
					t.Errorf("the copy can be used: %v", found.Tags)
				}
			}
		})
	}
}

// TestACloneWhoseFenceIsNotRead is not complete, and not refused either.
func TestACloneWhoseFenceIsNotRead(t *testing.T) {
	w := newWorld(t)
	w.cloneThick()
	for range 2 {
		r := w.agent()
		r.Live = interceptor.NewClient(w.api.(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context,
			c client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
			if key.Name == "a" {
				return errors.New("no answer")
			}
			return c.Get(ctx, key, object, o...)
		}})
		_ = w.run(r, "b")
		if got := w.get("b").Status; got.VolumeID != "" || got.Code != codes.Unavailable ||
			!strings.Contains(got.Message, "read source LogicalVolume a: no answer") {
			t.Errorf("status %+v", got)
		}
	}
	w.must(w.run(w.agent(), "b"))
	if got := w.get("b").Status; got.VolumeID != "uid-b-2" || got.Code != codes.OK {
		t.Errorf("status %+v", got)
	}
}

// TestACloneWhoseSourceIsGone is refused before it is copied, and complete if it was copied.
func TestACloneWhoseSourceIsGone(t *testing.T) {
	for fence, want := range map[string]codes.Code{"": codes.NotFound, "x": codes.OK} {
		w := newWorld(t)
		w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: "thick", Size: size(16), Source: "a", AccessType: "rw"})
		lv := w.get("b")
		lv.Annotations[wellknown.CloneVolumeAnnotation] = "uid-a"
		lv.Annotations[wellknown.FenceTimeAnnotation] = fence
		w.must(w.api.Update(t.Context(), lv))
		if fence != "" {
			// The agent was killed before it wrote the status.
			_, err := w.agent().Volumes.CreateLV(t.Context(), engine.NewVolume{Name: "uid-b-1", Class: "thick",
				Size: 16 << 20, Tags: []string{"lvms.pv=b", "lvms.uid=uid-b-1"}})
			w.must(err)
		}
		_ = w.run(w.agent(), "b")
		if lv := w.get("b"); lv.Status.Code != want || (lv.Status.VolumeID != "") != (want == codes.OK) {
			t.Errorf("status %+v, want %s", lv.Status, want)
		}
	}
}

func TestWhatACopyCannotDo(t *testing.T) {
	for name, tt := range map[string]struct {
		err, nodeErr error
		code         codes.Code
	}{
		"the source is lost":             {err: fmt.Errorf("x: %w", copies.ErrGone), code: codes.NotFound},
		"the source is larger":           {err: copies.ErrUnsuitable, code: codes.OutOfRange},
		"the pool is full":               {err: fmt.Errorf("write: %w", unix.ENOSPC), code: codes.ResourceExhausted},
		"not permitted":                  {err: copies.ErrForbidden, code: codes.Unavailable},
		"the connection ends":            {err: errors.New("connection reset by peer"), code: codes.Unavailable},
		"the agent of the source is old": {nodeErr: errors.New("no address"), code: codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.sourceElsewhere()
			w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Size: size(12), Source: "source"})
			w.copier.err = tt.err
			w.copier.nodeErr = tt.nodeErr
			_ = w.run(w.agent(), "b")
			if lv := w.get("b"); lv.Status.VolumeID != "" || lv.Status.Code != tt.code {
				t.Errorf("status %+v, want code %s", lv.Status, tt.code)
			}
			w.see("nothing is removed", "thin/uid-b-2 12")
		})
	}
}

// TestACopyWithAnotherFileSystem is refused by the tags of its source: on its node before a snapshot is created, and
// elsewhere before all data is copied.
func TestACopyWithAnotherFileSystem(t *testing.T) {
	for name, tt := range map[string]struct {
		want, access string
		elsewhere    bool
		code         codes.Code
	}{
		"another one":                   {want: "xfs", access: "rw", code: codes.InvalidArgument},
		"the same":                      {want: "ext4", access: "rw"},
		"none is requested":             {access: "rw"},
		"a snapshot":                    {want: "xfs", access: "ro"},
		"another one of another node":   {want: "xfs", access: "rw", elsewhere: true, code: codes.InvalidArgument},
		"the same of another node":      {want: "ext4", access: "rw", elsewhere: true, code: codes.Aborted},
		"none is requested of the node": {access: "rw", elsewhere: true, code: codes.Aborted},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tags := []string{"lvms.pvc=ns/a", wellknown.FormattedTagPrefix + "ext4"}
			source := "a"
			if tt.elsewhere {
				source = "source"
				w.sourceElsewhere()
				w.copier.at = &copies.Progress{Copied: 3 << 20, Size: 12 << 20, Content: tags}
			} else {
				w.ask("a", thin(12))
				w.must(w.run(w.agent(), "a"))
				w.must(w.lvm.Apply(t.Context(), lvm.LVChangeTags{VG: "thin", Name: "uid-a-1", Add: tags[1:]}))
			}
			w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Size: size(12), Source: source,
				AccessType: tt.access})
			lv := w.get("b")
			metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.FileSystemAnnotation, tt.want)
			w.must(w.api.Update(t.Context(), lv))
			if !tt.elsewhere {
				w.fake.Fail("Report", errors.New("exit status 5"))
				_ = w.run(w.agent(), "b")
				if got := w.get("b").Status; got.VolumeID != "" || got.Code == codes.InvalidArgument {
					t.Errorf("the tags cannot be read: got %+v", got)
				}
				w.fake.Fail("Report", nil)
			}
			for range 2 {
				w.must(w.run(w.agent(), "b"))
				got := w.get("b").Status
				expect.Equal(t, "Status.Code", got.Code, tt.code)
				expect.Equal(t, "Status.VolumeID is set", got.VolumeID != "", tt.code == codes.OK)
				if tt.code == codes.InvalidArgument {
					expect.Contains(t, "Status.Message", got.Message, "source "+source+" has the file system ext4")
				}
			}
			if tt.code == codes.InvalidArgument && !tt.elsewhere {
				w.see("nothing is created", "thin/uid-a-1 12")
			}
		})
	}
}

// TestACopyThatDiffersIsMadeAgain: nothing of it is used. A thick logical volume is written again where it is: removed,
// it would leave its data on the disks for the next volume.
func TestACopyThatDiffersIsMadeAgain(t *testing.T) {
	for class, left := range map[string][]string{"thin": nil, "thick": {"thick/uid-b-2 12"}} {
		t.Run(class, func(t *testing.T) {
			w := newWorld(t)
			w.sourceElsewhere()
			w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: class, Size: size(12), Source: "source"})
			w.copier.err = fmt.Errorf("x: %w", copies.ErrDiffers)
			for range 2 {
				if _, err := w.once(w.agent(), "b"); err == nil {
					t.Error("no error")
				}
				w.see("it differs", left...)
				if lv := w.get("b"); lv.Status.VolumeID != "" || lv.Status.Code != codes.Aborted {
					t.Errorf("status %+v", lv.Status)
				}
			}
			w.copiesFromItsBegin("b", class+"/uid-b-2 12")
		})
	}
}

// copiesFromItsBegin lets an object have its copy, of which nothing was there.
func (w *world) copiesFromItsBegin(name, want string) {
	w.Helper()
	w.copier.err = nil
	w.must(w.run(w.agent(), name))
	w.see("copied", want)
	if lv := w.get(name); lv.Status.VolumeID == "" || lv.Status.Code != codes.OK {
		w.Errorf("status %+v", lv.Status)
	}
	if last := w.copier.targets[len(w.copier.targets)-1]; last.Done != 0 {
		w.Errorf("the last copy begins at %d", last.Done)
	}
}

// fullVolumes have a pool without room for a copy, or none to continue it.
type fullVolumes struct {
	Volumes
	begins bool
}

func (f fullVolumes) CopyRoom(_ context.Context, class string, bytes uint64) error {
	switch {
	case bytes > 0 && !f.begins:
		return status.Errorf(codes.ResourceExhausted, "%s: too large", class)
	case bytes == 0:
		return status.Errorf(codes.Aborted, "%s: it waits", class)
	}
	return nil
}

// TestACopyToAFullPool is refused before it begins, so that the volume is created elsewhere. One that has begun waits
// with the reason in its status. A thick volume has its space.
func TestACopyToAFullPool(t *testing.T) {
	for name, tt := range map[string]struct {
		class  string
		begins bool
		code   codes.Code
	}{
		"before it begins": {"thin", false, codes.ResourceExhausted},
		"while it runs":    {"thin", true, codes.Aborted},
		"thick":            {"thick", false, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.sourceElsewhere()
			w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: tt.class, Size: size(12), Source: "source"})
			w.copier.asksForRoom = true
			for range 2 {
				r := w.agent()
				r.Volumes = fullVolumes{r.Volumes, tt.begins}
				_ = w.run(r, "b")
				if lv := w.get("b"); lv.Status.Code != tt.code || (tt.code != codes.OK) != (lv.Status.VolumeID == "") {
					t.Errorf("status %+v, want %s", lv.Status, tt.code)
				}
				w.see("kept", tt.class+"/uid-b-2 12")
			}
		})
	}
}

// unfinishedVolumes are volumes that their pool does not have.
type unfinishedVolumes struct{ Volumes }

func (unfinishedVolumes) Device(context.Context, string, string) (*engine.Device, error) {
	return nil, fmt.Errorf("x: %w", engine.ErrUnfinished)
}

// TestATargetThatItsPoolDoesNotHaveIsCreatedAgain, for a copy and for a move.
func TestATargetThatItsPoolDoesNotHaveIsCreatedAgain(t *testing.T) {
	for name, ask := range map[string]func(w *world){
		"b": func(w *world) {
			w.sourceElsewhere()
			w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Size: size(12), Source: "source"})
		},
		"t": (*world).target,
	} {
		w := newWorld(t)
		ask(w)
		for range 2 {
			r := w.agent()
			r.Volumes = unfinishedVolumes{r.Volumes}
			_, err := w.once(r, name)
			if err == nil {
				t.Errorf("%s: no error", name)
			}
			w.see("removed")
			if lv := w.get(name); lv.Status.VolumeID != "" || lv.Status.Code != codes.Aborted {
				t.Errorf("%s: status %+v", name, lv.Status)
			}
		}
		w.must(w.run(w.agent(), name))
		w.see("created again", "thin/"+map[string]string{"b": "uid-b-2", "t": movedVolume}[name]+" 12")
	}
}

// TestACopyOfAnEarlierVersion that was not complete does not say of what it is, so it is made again.
func TestACopyOfAnEarlierVersion(t *testing.T) {
	for _, class := range []string{"thin", "thick"} {
		w := newWorld(t)
		w.sourceElsewhere()
		w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: class, Size: size(12), Source: "source"})
		_, err := w.agent().Volumes.CreateLV(t.Context(), engine.NewVolume{Name: "uid-b-2", Class: class,
			Size: 12 << 20, Tags: []string{"lvms.uid=uid-b-2", "lvms.copied=8388608", wellknown.CopyingTag,
				wellknown.NewTag}})
		w.must(err)
		w.copiesFromItsBegin("b", class+"/uid-b-2 12")
	}
}

// unreadableVolumes are volumes that cannot be read.
type unreadableVolumes struct{ Volumes }

func (unreadableVolumes) FindLV(context.Context, string, string) (*lvm.LV, error) {
	return nil, status.Error(codes.DeadlineExceeded, "lvm did not answer")
}

// TestACopyThatIsNotCompleteIsNotUsed: neither if its source no longer exists, nor for an import.
func TestACopyThatIsNotCompleteIsNotUsed(t *testing.T) {
	w := newWorld(t)
	w.sourceElsewhere()
	w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Size: size(12), Source: "source", AccessType: "rw"})
	w.copier.at = &copies.Progress{Size: 1}
	w.must(w.run(w.agent(), "b"))
	w.must(w.api.Delete(t.Context(), w.get("source")))
	r := w.agent()
	r.Volumes = unreadableVolumes{r.Volumes}
	_ = w.run(r, "b")
	if lv := w.get("b"); lv.Status.VolumeID != "" || lv.Status.Code != codes.Unavailable {
		t.Errorf("the source is gone, and the copy cannot be read: status %+v", lv.Status)
	}
	for range 2 { // Also after the agent was restarted.
		_ = w.run(w.agent(), "b")
		if lv := w.get("b"); lv.Status.VolumeID != "" || lv.Status.Code != codes.NotFound {
			t.Errorf("the source is gone: status %+v", lv.Status)
		}
	}
	w.ask("c", thin(12))
	lv := w.get("c")
	lv.Annotations[wellknown.ImportAnnotation] = "uid-b-2"
	w.must(w.api.Update(t.Context(), lv))
	w.must(w.api.Delete(t.Context(), w.get("b"))) // The object stays because of its finalizer.
	_ = w.run(w.agent(), "c")
	if lv := w.get("c"); lv.Status.VolumeID != "" {
		t.Errorf("import: status %+v", lv.Status)
	}
	if !lvtag.IsCopying(w.tags("thin", "uid-b-2")) {
		t.Error("the tag is gone")
	}
}

// TestARemovalStopsTheCopy, so that nothing writes to the device, also if its source no longer exists.
func TestARemovalStopsTheCopy(t *testing.T) {
	for name, gone := range map[string]bool{"the source exists": false, "the source is gone": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.sourceElsewhere()
			w.ask("b", topolvmv1.LogicalVolumeSpec{DeviceClass: "thin", Size: size(12), Source: "source"})
			w.copier.at = &copies.Progress{Size: 1}
			w.must(w.run(w.agent(), "b"))
			if gone {
				w.must(w.api.Delete(t.Context(), w.get("source")))
				_ = w.run(w.agent(), "b")
			}
			w.must(w.api.Delete(t.Context(), w.get("b")))
			for range 2 {
				w.must(w.run(w.agent(), "b"))
			}
			if len(w.copier.stopped) == 0 || w.copier.stopped[0] != "thin/uid-b-2" {
				t.Errorf("stopped %q", w.copier.stopped)
			}
			w.see("removed")
		})
	}
}

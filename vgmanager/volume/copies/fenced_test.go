package copies

import (
	"cmp"
	"context"
	"errors"
	"os"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

const (
	movedID = "id-v"
	fenceX  = "2026-01-02T03:04:05Z/7"
)

// fencedWorld is an API server with the fenced thick volume "pvc-1" on node1, and the target "target" on node2.
func fencedWorld(t *testing.T, change func(target, volume *topolvmv1.LogicalVolume)) *Sender {
	t.Helper()
	volume := logicalVolume("pvc-1", "node1", "", "rw", movedID)
	volume.Annotations = map[string]string{wellknown.FenceAnnotation: "m1", wellknown.FencedAnnotation: "m1",
		wellknown.FenceTimeAnnotation: fenceX}
	s := world(t, nil, func(target, _ *topolvmv1.LogicalVolume) {
		target.Spec.Source = "pvc-1"
		target.Annotations = map[string]string{wellknown.MoveVolumeAnnotation: movedID, wellknown.MoveAnnotation: "m1",
			wellknown.FenceTimeAnnotation: fenceX}
		if change != nil {
			change(target, volume)
		}
	}, volume)
	s.Locks = &service.Locks{}
	s.Volumes = volumes{movedID: {VolumeGroup: "vg1", Name: movedID, Path: "/dev/does-not-exist", Number: "253:1",
		Tags: []string{"lvms.fenced=m1"}}}
	return s
}

// TestWhoMayHaveAFencedVolume: only the target that was created for the present fence, as long as the volume has it.
func TestWhoMayHaveAFencedVolume(t *testing.T) {
	now := metav1.Now()
	annotated := func(key, value string, ofTarget bool) func(target, volume *topolvmv1.LogicalVolume) {
		return func(target, volume *topolvmv1.LogicalVolume) {
			if ofTarget {
				volume = target
			}
			volume.Annotations[key] = value
		}
	}
	for name, tt := range map[string]struct {
		change  func(target, volume *topolvmv1.LogicalVolume)
		sender  func(s *Sender)
		node    string
		request Request
		want    error
		opens   bool
	}{
		"fenced":          {opens: true},
		"another node":    {node: "node3", want: ErrForbidden},
		"with a base":     {request: Request{Base: "other"}},
		"another source":  {request: Request{Source: "other"}},
		"fenced by none":  {change: annotated(wellknown.FenceAnnotation, "", false), want: ErrForbidden},
		"not confirmed":   {change: annotated(wellknown.FencedAnnotation, "", false), want: ErrForbidden},
		"another move":    {change: annotated(wellknown.FencedAnnotation, "m2", false), want: ErrForbidden},
		"target of none":  {change: annotated(wellknown.MoveAnnotation, "", true), want: ErrForbidden},
		"target of other": {change: annotated(wellknown.MoveAnnotation, "m2", true), want: ErrForbidden},
		"fenced again":    {change: annotated(wellknown.FenceTimeAnnotation, "x", false), want: ErrForbidden},
		"no fence time": {change: func(target, volume *topolvmv1.LogicalVolume) {
			delete(target.Annotations, wellknown.FenceTimeAnnotation)
			delete(volume.Annotations, wellknown.FenceTimeAnnotation)
		}, want: ErrForbidden},
		"another volume": {change: annotated(wellknown.MoveVolumeAnnotation, "id-w", true), want: ErrGone},
		"not a move":     {change: annotated(wellknown.MoveVolumeAnnotation, "", true), want: ErrGone},
		"being deleted": {change: func(_, volume *topolvmv1.LogicalVolume) {
			volume.DeletionTimestamp = &now
			volume.Finalizers = []string{"x"}
		}, want: ErrGone},
		"moved already": {change: func(_, volume *topolvmv1.LogicalVolume) { volume.Spec.NodeName = "node2" },
			want: ErrForbidden},
		"no tag":      {sender: func(s *Sender) { s.Volumes.(volumes)[movedID].Tags = nil }},
		"another tag": {sender: func(s *Sender) { s.Volumes.(volumes)[movedID].Tags = []string{"lvms.fenced=m2"} }},
		"thin": {sender: func(s *Sender) { s.Volumes.(volumes)[movedID].ThinPool = "pool" },
			want: ErrForbidden},
		"lost":      {sender: func(s *Sender) { s.Volumes = volumes{} }, want: ErrGone},
		"LVM fails": {sender: func(s *Sender) { s.Volumes = volumes(nil) }},
		"work in progress": {sender: func(s *Sender) {
			if err := s.Locks.Enter(movedID); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := fencedWorld(t, tt.change)
			if tt.sender != nil {
				tt.sender(s)
			}
			if tt.node == "" {
				tt.node = "node2"
			}
			tt.request.Target = "target"
			if tt.request.Source == "" && name != "not a move" {
				tt.request.Source = "pvc-1"
			}
			for range 2 {
				_, err := s.open(t.Context(), tt.node, tt.request)
				// The device does not exist here, so that is the error of a volume that is sent.
				if opens := errors.Is(err, os.ErrNotExist); err == nil || opens != tt.opens {
					t.Errorf("%v, opens %v, want %v", err, opens, tt.opens)
				}
				for _, known := range []error{ErrForbidden, ErrGone} {
					if errors.Is(err, known) != errors.Is(tt.want, known) {
						t.Errorf("%v, want %v", err, tt.want)
					}
				}
			}
		})
	}
}

// clonedWorld is an API server with the fenced thick volume "pvc-1" on node1, and its clone "target" on node2.
func clonedWorld(t *testing.T, change func(target, volume *topolvmv1.LogicalVolume)) *Sender {
	t.Helper()
	s := fencedWorld(t, func(target, volume *topolvmv1.LogicalVolume) {
		target.UID = "u1"
		target.Annotations = map[string]string{wellknown.CloneVolumeAnnotation: movedID,
			wellknown.FenceTimeAnnotation: fenceX}
		volume.Annotations[wellknown.FenceAnnotation] = "clone-u1"
		volume.Annotations[wellknown.FencedAnnotation] = "clone-u1"
		if change != nil {
			change(target, volume)
		}
	})
	s.Volumes.(volumes)[movedID].Tags = []string{"lvms.fenced=clone-u1"}
	return s
}

// TestWhichCloneMayHaveAFencedVolume: only the one whose UID is the fence, on the API server and in the tag.
func TestWhichCloneMayHaveAFencedVolume(t *testing.T) {
	type change func(target, volume *topolvmv1.LogicalVolume)
	of := func(key, value string) change {
		return func(_, volume *topolvmv1.LogicalVolume) { volume.Annotations[key] = value }
	}
	for name, tt := range map[string]struct {
		change  change
		tag     string
		node    string
		request Request
		want    error
		opens   bool
	}{
		"fenced":         {opens: true},
		"another node":   {node: "node3", want: ErrForbidden},
		"a round":        {request: Request{Source: "pvc-1"}, want: ErrForbidden},
		"a base":         {request: Request{Base: "x"}, want: ErrForbidden},
		"not fenced":     {change: of(wellknown.FenceAnnotation, ""), want: ErrForbidden},
		"not confirmed":  {change: of(wellknown.FencedAnnotation, ""), want: ErrForbidden},
		"another clone":  {change: of(wellknown.FencedAnnotation, "clone-u2"), want: ErrForbidden},
		"a move":         {change: of(wellknown.FenceAnnotation, "u1"), want: ErrForbidden},
		"fenced again":   {change: of(wellknown.FenceTimeAnnotation, "x"), want: ErrForbidden},
		"recreated":      {change: func(target, _ *topolvmv1.LogicalVolume) { target.UID = "u2" }, want: ErrForbidden},
		"another volume": {change: func(_, volume *topolvmv1.LogicalVolume) { volume.Status.VolumeID = "w" }, want: ErrGone},
		"tag of a move":  {tag: "lvms.fenced=u1"},
		"tag of another": {tag: "lvms.fenced=clone-u2"},
		"without a tag":  {tag: "lvms.formatted=xfs"},
		"not to be copied yet": {change: func(target, _ *topolvmv1.LogicalVolume) {
			delete(target.Annotations, wellknown.FenceTimeAnnotation)
		}, want: ErrForbidden},
		"an ordinary copy": {change: func(target, _ *topolvmv1.LogicalVolume) {
			delete(target.Annotations, wellknown.CloneVolumeAnnotation)
		}, want: ErrGone},
		"complete": {change: func(target, _ *topolvmv1.LogicalVolume) { target.Status.VolumeID = "u1" },
			want: ErrForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			s := clonedWorld(t, tt.change)
			if tt.tag != "" {
				s.Volumes.(volumes)[movedID].Tags = []string{tt.tag}
			}
			tt.request.Target = "target"
			for range 2 {
				_, err := s.open(t.Context(), cmp.Or(tt.node, "node2"), tt.request)
				if opens := errors.Is(err, os.ErrNotExist); err == nil || opens != tt.opens {
					t.Errorf("%v, opens %v, want %v", err, opens, tt.opens)
				}
				for _, known := range []error{ErrForbidden, ErrGone} {
					if errors.Is(err, known) != errors.Is(tt.want, known) {
						t.Errorf("%v, want %v", err, tt.want)
					}
				}
			}
		})
	}
}

// TestTheVolumeIsReadAgainUnderItsLock: the fence is withdrawn after the first read, and a failed read sends nothing.
func TestTheVolumeIsReadAgainUnderItsLock(t *testing.T) {
	s := fencedWorld(t, nil)
	lock := &lastMoment{Locks: s.Locks, entered: func() {
		volume := &topolvmv1.LogicalVolume{}
		api := s.Live.(client.Client)
		if err := api.Get(t.Context(), client.ObjectKey{Name: "pvc-1"}, volume); err != nil {
			t.Fatal(err)
		}
		delete(volume.Annotations, wellknown.FenceAnnotation)
		if err := api.Update(t.Context(), volume); err != nil {
			t.Fatal(err)
		}
	}}
	s.Locks = lock
	if _, err := s.open(t.Context(), "node2", Request{Target: "target", Source: "pvc-1"}); !errors.Is(err,
		ErrForbidden) {
		t.Errorf("withdrawn: %v", err)
	}
	s = fencedWorld(t, nil)
	s.Locks = &lastMoment{Locks: s.Locks, entered: func() { s.Live = failing{s.Live} }}
	_, err := s.open(t.Context(), "node2", Request{Target: "target", Source: "pvc-1"})
	if !errors.Is(err, errAPI) || errors.Is(err, ErrGone) || errors.Is(err, ErrForbidden) {
		t.Errorf("not read: %v", err)
	}
	if err := s.Locks.Enter(movedID); err != nil {
		t.Errorf("the lock is still held: %v", err)
	}
}

// lastMoment calls entered when a volume is locked.
type lastMoment struct {
	Locks
	entered func()
}

func (l *lastMoment) Enter(volume string) error {
	err := l.Locks.Enter(volume)
	l.entered()
	return err
}

var errAPI = errors.New("timeout")

type failing struct{ client.Reader }

func (failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errAPI
}

var _ Volumes = (*engine.Engine)(nil)

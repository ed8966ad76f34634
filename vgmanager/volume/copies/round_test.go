package copies

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// TestARoundCopiesTheDifferences, compares only them, and says what was sent.
func TestARoundCopiesTheDifferences(t *testing.T) {
	s := newSource()
	r := rand.New(rand.NewPCG(1, 1))
	for i := range s.content {
		s.content[i] = byte(r.Uint32())
	}
	s.baseSize = size
	s.changed = []changedblocks.Range{{Offset: 64 << 10, Length: 128 << 10}, {Offset: 2 << 20, Length: 64 << 10}}
	m := &memoryDevice{content: bytes.Clone(s.content)}
	clear(m.content[64<<10 : 192<<10])
	clear(m.content[2<<20 : 2<<20+64<<10])
	m.content[3<<20] = 1 // not in the differences, so neither copied nor compared
	to := target()
	to.Round = Round{Source: "s2", Base: "s1", Sparse: true}
	var saved records
	got, err := newCopier(t, m).Copy(t.Context(), s, to, saved.save)
	if err != nil || !got.Finished || got.Copied != 2<<20+64<<10 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got.Sent < 192<<10 || got.Sent > 256<<10 || got.Took <= 0 {
		t.Errorf("sent %d in %s", got.Sent, got.Took)
	}
	m.content[3<<20] = s.content[3<<20]
	if !bytes.Equal(m.content, s.content) {
		t.Error("the copy differs")
	}
	want := Request{Target: "object", Source: "s2", Base: "s1"}
	if len(s.requests) != 1 || s.requests[0] != want {
		t.Errorf("requests %+v", s.requests)
	}
}

// TestAnAnswerWithAnotherBase is not used: neither differences without a request for them, nor the other way round.
func TestAnAnswerWithAnotherBase(t *testing.T) {
	for name, tt := range map[string]struct {
		round    Round
		baseSize uint64
	}{
		"no differences": {round: Round{Source: "s2", Base: "s1"}},
		"differences":    {round: Round{Source: "s1"}, baseSize: size},
		"the only round": {round: Round{Only: true}, baseSize: size},
	} {
		s := newSource()
		s.baseSize = tt.baseSize
		m := &memoryDevice{content: make([]byte, size)}
		to := target()
		to.Round = tt.round
		if got, err := newCopier(t, m).Copy(t.Context(), s, to, (&records{}).save); err == nil || got.Finished {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if m.content[0] != 0 {
			t.Errorf("%s: it was written", name)
		}
	}
}

// TestRoomIsAskedFor before a copy begins, for what the target does not have yet, and while it runs.
func TestRoomIsAskedFor(t *testing.T) {
	errFull := errors.New("full")
	for name, tt := range map[string]struct {
		target  Target
		source  uint64
		refuses bool
		want    []uint64
	}{
		"all":                           {Target{}, 3 << 20, false, []uint64{3 << 20, 0}},
		"too large":                     {Target{}, 3 << 20, true, []uint64{3 << 20}},
		"it has a part":                 {Target{Allocated: 1 << 20}, 3 << 20, false, []uint64{2 << 20, 0}},
		"it continues":                  {Target{Done: 2 << 20}, 3 << 20, false, []uint64{0}},
		"too full to continue":          {Target{Done: 2 << 20}, 3 << 20, true, []uint64{0}},
		"the source does not say":       {Target{}, 0, false, []uint64{0}},
		"it has more than the source":   {Target{Allocated: 4 << 20}, 3 << 20, false, []uint64{0}},
		"the differences of two rounds": {Target{Round: Round{Source: "s2", Base: "s1"}}, 3 << 20, false, []uint64{0}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource()
			s.allocated = tt.source
			to := target()
			to.Done, to.Allocated = tt.target.Done, tt.target.Allocated
			if tt.target.Round.Base != "" {
				to.Round, s.baseSize = tt.target.Round, size
				s.changed = []changedblocks.Range{{Length: size}}
			}
			var asked []uint64
			to.Room = func(_ context.Context, bytes uint64) error {
				asked = append(asked, bytes)
				if tt.refuses {
					return errFull
				}
				return nil
			}
			m := &memoryDevice{content: bytes.Clone(s.content)}
			got, err := newCopier(t, m).Copy(t.Context(), s, to, (&records{}).save)
			if errors.Is(err, errFull) != tt.refuses || got.Finished == tt.refuses || (err == nil) == tt.refuses {
				t.Errorf("%+v, %v", got, err)
			}
			if !slices.Equal(asked, tt.want) {
				t.Errorf("asked for %v, want %v", asked, tt.want)
			}
		})
	}
}

func TestHowARoundIsWritten(t *testing.T) {
	for name, tt := range map[string]struct {
		round          Round
		content        content
		chunk, newFrom uint64
	}{
		"first":                     {Round{Sparse: true}, contentZeros, 64 << 10, 0},
		"first, chunks not zeroed":  {Round{}, contentUnknown, 0, 100},
		"next":                      {Round{Base: "s", Sparse: true}, contentBase, 64 << 10, 0},
		"next, discards ignored":    {Round{Base: "s", Sparse: true, KeepChunks: true}, contentBase, 0, 0},
		"next, chunks not zeroed":   {Round{Base: "s"}, contentBase, 0, 100},
		"first, discards ignored":   {Round{Sparse: true, KeepChunks: true}, contentZeros, 0, 0},
		"next, not zeroed, ignored": {Round{Base: "s", KeepChunks: true}, contentBase, 0, 100},
		"only":                      {Round{Only: true, Sparse: true}, contentZeros, 64 << 10, 0},
		"only, chunks not zeroed":   {Round{Only: true}, contentZeroChunks, 64 << 10, 100},
	} {
		to := Target{Chunk: 64 << 10, Round: tt.round}
		if to.content() != tt.content || to.chunk() != tt.chunk || to.newFrom(100) != tt.newFrom {
			t.Errorf("%s: %v, chunk %d, new from %d", name, to.content(), to.chunk(), to.newFrom(100))
		}
	}
	if got := (Target{Round: Round{Only: true}}).content(); got != contentUnknown {
		t.Errorf("only, thick: %v", got)
	}
}

// TestWhichRoundIsSent: only that which the API server has, and only between snapshots of one volume.
func TestWhichRoundIsSent(t *testing.T) {
	now := metav1.Now()
	for name, tt := range map[string]struct {
		request Request
		change  func(target, base *topolvmv1.LogicalVolume)
		want    error
		opens   bool
	}{
		"differences":      {request: Request{Source: "snap", Base: "base"}, opens: true},
		"all":              {request: Request{Source: "snap"}, opens: true},
		"an older source":  {request: Request{Source: "base"}},
		"no source":        {request: Request{}},
		"another base":     {request: Request{Source: "snap", Base: "other"}},
		"the source again": {request: Request{Source: "snap", Base: "snap"}},
		"a base that is not wanted": {request: Request{Source: "snap", Base: "base"},
			change: func(target, _ *topolvmv1.LogicalVolume) {
				delete(target.Annotations, wellknown.CopyBaseAnnotation)
			}},
		"not the target of a move": {request: Request{Source: "snap", Base: "base"},
			change: func(target, _ *topolvmv1.LogicalVolume) { target.Annotations = nil }, want: ErrForbidden},
		"a base of another volume": {request: Request{Source: "snap", Base: "base"},
			change: func(_, base *topolvmv1.LogicalVolume) { base.Spec.Source = "other" }, want: ErrForbidden},
		"a base of another class": {request: Request{Source: "snap", Base: "base"},
			change: func(_, base *topolvmv1.LogicalVolume) { base.Spec.DeviceClass = "vg2" }, want: ErrForbidden},
		"a base on another node": {request: Request{Source: "snap", Base: "base"},
			change: func(_, base *topolvmv1.LogicalVolume) { base.Spec.NodeName = "node3" }, want: ErrForbidden},
		"a base that is writable": {request: Request{Source: "snap", Base: "base"},
			change: func(_, base *topolvmv1.LogicalVolume) { base.Spec.AccessType = "rw" }, want: ErrGone},
		"a base that is deleted": {request: Request{Source: "snap", Base: "base"},
			change: func(_, base *topolvmv1.LogicalVolume) {
				base.DeletionTimestamp = &now
				base.Finalizers = []string{"x"}
			}, want: ErrGone},
		"a base without a logical volume": {request: Request{Source: "snap", Base: "base"},
			change: func(_, base *topolvmv1.LogicalVolume) { base.Status.VolumeID = "id7" }, want: ErrGone},
		"a base that does not exist": {request: Request{Source: "snap", Base: "base"},
			change: func(_, base *topolvmv1.LogicalVolume) { base.Name = "gone" }, want: ErrGone},
	} {
		t.Run(name, func(t *testing.T) {
			base := logicalVolume("base", "node1", "volume", "ro", "id0")
			base.UID = types.UID("uid-base")
			s := world(t, nil, func(target, _ *topolvmv1.LogicalVolume) {
				target.Annotations = map[string]string{wellknown.MoveVolumeAnnotation: "v",
					wellknown.CopyBaseAnnotation: "base"}
				if tt.change != nil {
					tt.change(target, base)
				}
			}, base)
			s.Volumes.(volumes)["id0"] = &engine.Device{VolumeGroup: "vg1", Name: "id0", ReadOnly: true, ThinPool: "pool",
				Size: 77}
			tt.request.Target = "target"
			_, err := s.open(t.Context(), "node2", tt.request)
			// The device does not exist here, so that is the error of a round that is sent.
			if opens := errors.Is(err, os.ErrNotExist); opens != tt.opens {
				t.Errorf("%v, opens %v, want %v", err, opens, tt.opens)
			}
			for _, known := range []error{ErrForbidden, ErrGone} {
				if errors.Is(err, known) != errors.Is(tt.want, known) {
					t.Errorf("%v, want %v", err, tt.want)
				}
			}
		})
	}
}

package changedblocks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/kill"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// bench is a node with the volume group "changed". Its pool has chunks of 64 KiB, and these volumes of 64 MiB:
//
//	origin     writable
//	first      a snapshot of it with the chunks 0 to 9
//	second     a snapshot of it that also has the chunks 100 and 1023, another chunk 3, and no chunk 5
//	encrypted  a snapshot with the tag of encrypted volumes
//	thick      not in the pool, read-only
type bench interface {
	// parts returns the LVM and the kernel of a new process, and how it opens metadata.
	parts() (LVM, Kernel, Open)
	// isReserved returns whether a metadata snapshot is reserved.
	isReserved(t *testing.T) bool
	// reserve reserves the metadata snapshot, as an agent that is killed later.
	reserve(t *testing.T)
	suspend(t *testing.T)
	resume(t *testing.T)
	deactivate(t *testing.T)
	activate(t *testing.T)
}

const (
	group  = "changed"
	chunk  = 64 << 10
	volume = 64 << 20
)

var (
	firstRanges = []Range{{0, 10 * chunk}}
	deltaRanges = []Range{{3 * chunk, chunk}, {5 * chunk, chunk}, {100 * chunk, chunk}, {1023 * chunk, chunk}}
)

var (
	allocatedQuery = Query{VG: group, Target: "first"}
	deltaQuery     = Query{VG: group, Base: "first", Target: "second"}
)

// mortal is an LVM whose messages end the process.
type mortal struct {
	LVM
	points *kill.Points
}

func (m mortal) Apply(ctx context.Context, c lvm.Change) error {
	return m.points.Pass(func() error { return m.LVM.Apply(ctx, c) }, nil)
}

// started returns the Reader of a new process.
func started(b bench, points *kill.Points) *Reader {
	l, kernel, open := b.parts()
	return New(mortal{l, points}, kernel, open)
}

// wantResults checks both kinds of results, twice, and that nothing stays reserved.
func wantResults(t *testing.T, b bench, r *Reader) {
	t.Helper()
	for range 2 {
		for q, want := range map[Query][]Range{allocatedQuery: firstRanges, deltaQuery: deltaRanges} {
			page, err := r.Read(t.Context(), q)
			if diff := cmp.Diff(&Page{Size: volume, Ranges: want}, page); err != nil || diff != "" {
				t.Errorf("%+v: %v, %s", q, err, diff)
			}
			if b.isReserved(t) {
				t.Errorf("%+v: the metadata snapshot is still reserved", q)
			}
		}
	}
}

// contract is what Reader does on a node, which the fake and the real one have in common.
func contract(t *testing.T, b bench) {
	t.Run("results", func(t *testing.T) { wantResults(t, b, started(b, nil)) })
	t.Run("pages", func(t *testing.T) { pages(t, b) })
	t.Run("left over", func(t *testing.T) { leftOver(t, b) })
	t.Run("killed", func(t *testing.T) { killed(t, b) })
	t.Run("not supported", func(t *testing.T) { notSupported(t, b) })
	t.Run("suspended", func(t *testing.T) {
		b.suspend(t)
		wantUnavailable(t, b, "is suspended")
		b.resume(t)
		wantResults(t, b, started(b, nil))
	})
	t.Run("not active", func(t *testing.T) {
		b.reserve(t)
		b.deactivate(t)
		wantUnavailable(t, b, "is not active")
		if err := started(b, nil).Release(t.Context(), group, "pool"); err != nil {
			t.Error(err)
		}
		b.activate(t)
		if !b.isReserved(t) {
			t.Error("the metadata snapshot is not in the metadata of the pool")
		}
		wantResults(t, b, started(b, nil))
	})
}

func pages(t *testing.T, b bench) {
	r := started(b, nil)
	for _, test := range []struct {
		offset uint64
		want   []Range
	}{
		{0, deltaRanges}, {3*chunk + 1, deltaRanges}, {4 * chunk, deltaRanges[1:]}, {1024*chunk - 1, deltaRanges[3:]},
		{1024 * chunk, nil}, {1 << 63, nil},
	} {
		var got []Range
		q := deltaQuery
		q.Offset = test.offset
		q.MaxRanges = 1
		for n := 1; ; n++ {
			page, err := r.Read(t.Context(), q)
			if err != nil || len(page.Ranges) > 1 || page.Size != volume {
				t.Fatalf("from %d: %+v, %v", q.Offset, page, err)
			}
			got = append(got, page.Ranges...)
			if page.Next == 0 {
				break
			}
			if page.Next <= q.Offset || n > len(test.want) {
				t.Fatalf("the page from %d has the next one from %d", q.Offset, page.Next)
			}
			q.Offset = page.Next
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("from %d: got %v, want %v", test.offset, got, test.want)
		}
	}
	if b.isReserved(t) {
		t.Error("the metadata snapshot is still reserved")
	}
}

// leftOver: an agent that was killed has left the metadata snapshot.
func leftOver(t *testing.T, b bench) {
	b.reserve(t)
	wantResults(t, b, started(b, nil))
	b.reserve(t)
	for range 2 {
		if err := started(b, nil).Release(t.Context(), group, "pool"); err != nil {
			t.Error(err)
		}
		if b.isReserved(t) {
			t.Error("the metadata snapshot is still reserved")
		}
	}
	if err := started(b, nil).Release(t.Context(), "absent", "pool"); err != nil {
		t.Error(err)
	}
}

func killed(t *testing.T, b bench) {
	for _, leftOver := range []bool{false, true} {
		kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
			if leftOver {
				b.reserve(t)
			}
			_, err := started(b, p).Read(t.Context(), deltaQuery)
			if p.Kills() == (err == nil) {
				t.Errorf("got %v", err)
			}
			p.Restart()
			wantResults(t, b, started(b, nil))
		})
	}
}

func notSupported(t *testing.T, b bench) {
	r := started(b, nil)
	for _, test := range []struct {
		q    Query
		err  error
		text string
	}{
		{Query{VG: group, Target: "origin"}, ErrUnsupported, "snapshot changed/origin: changed blocks are not " +
			"available: it is writable"},
		{Query{VG: group, Target: "thick"}, ErrUnsupported, "it is thick"},
		{Query{VG: group, Target: "encrypted"}, ErrUnsupported, "it is encrypted"},
		{Query{VG: group, Target: "pool"}, ErrUnsupported, "changed/pool"},
		{Query{VG: group, Base: "thick", Target: "first"}, ErrUnsupported, "changed/thick"},
		{Query{VG: group, Base: "encrypted", Target: "first"}, ErrUnsupported, "changed/encrypted"},
		{Query{VG: group, Target: "absent"}, lvm.ErrNotFound, "snapshot changed/absent"},
		{Query{VG: group, Base: "absent", Target: "first"}, lvm.ErrNotFound, "snapshot changed/absent"},
		{Query{VG: "absent", Target: "first"}, lvm.ErrNotFound, "volume group absent"},
		{Query{VG: group}, lvm.ErrNotFound, "snapshot changed/"},
	} {
		page, err := r.Read(t.Context(), test.q)
		if page != nil || !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%+v: got %+v, %v", test.q, page, err)
		}
	}
	if b.isReserved(t) {
		t.Error("the metadata snapshot is reserved")
	}
}

func wantUnavailable(t *testing.T, b bench, text string) {
	t.Helper()
	for range 2 {
		page, err := started(b, nil).Read(t.Context(), deltaQuery)
		if page != nil || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), text) {
			t.Errorf("got %+v, %v", page, err)
		}
	}
}

// encryptedTag is the tag of an encrypted volume.
const encryptedTag = wellknown.EncryptionTagPrefix + wellknown.EncryptionLUKS2

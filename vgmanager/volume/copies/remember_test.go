package copies

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
)

// counted answers each read with the same page, and counts them.
type counted struct {
	page  changedblocks.Page
	err   error
	reads int
}

func (c *counted) Read(context.Context, changedblocks.Query) (*changedblocks.Page, error) {
	c.reads++
	page := c.page
	return &page, c.err
}

// fixedClock is a clock.
type fixedClock struct{ now time.Time }

func (f *fixedClock) Now() time.Time { return f.now }

func TestAListOfRangesIsReadOnce(t *testing.T) {
	list := []changedblocks.Range{{Offset: 0, Length: 10}, {Offset: 20, Length: 10}, {Offset: 40, Length: 10}}
	q := changedblocks.Query{VG: "vg", Base: "s1", Target: "s2", Encrypted: true}
	other := q
	other.Base = ""
	behind := q
	behind.Offset = 30
	for name, tt := range map[string]struct {
		page          changedblocks.Page
		err           error
		first, second changedblocks.Query
		after         time.Duration
		reads         int
		want          []changedblocks.Range
	}{
		"the same again":       {page: changedblocks.Page{Ranges: list}, first: q, second: q, reads: 1, want: list},
		"from an offset on":    {page: changedblocks.Page{Ranges: list}, first: q, second: behind, reads: 1, want: list[2:]},
		"nothing is allocated": {first: q, second: q, reads: 1, want: []changedblocks.Range{}},
		"another base":         {page: changedblocks.Page{Ranges: list}, first: q, second: other, reads: 2, want: list},
		"it was read in part":  {page: changedblocks.Page{Ranges: list}, first: behind, second: q, reads: 2, want: list},
		"a long list":          {page: changedblocks.Page{Ranges: list, Next: 60}, first: q, second: q, reads: 2, want: list},
		"the read failed":      {err: errors.New("no answer"), first: q, second: q, reads: 2},
		"it was read some time ago": {page: changedblocks.Page{Ranges: list}, first: q, second: q, after: rememberedFor + 1,
			reads: 2, want: list},
	} {
		t.Run(name, func(t *testing.T) {
			from := &counted{page: tt.page, err: tt.err}
			m := Remember(from)
			now := &fixedClock{now: time.Unix(0, 0)}
			m.results = cache.NewLRUExpireCacheWithClock(rememberedResults, now)
			_, err := m.Read(t.Context(), tt.first)
			if !errors.Is(err, tt.err) {
				t.Errorf("first: %v", err)
			}
			now.now = now.now.Add(tt.after)
			page, err := m.Read(t.Context(), tt.second)
			if !errors.Is(err, tt.err) || from.reads != tt.reads {
				t.Errorf("second: %v after %d reads, want %d", err, from.reads, tt.reads)
			}
			if tt.err == nil && !cmp.Equal(page.Ranges, tt.want) && len(page.Ranges)+len(tt.want) > 0 {
				t.Error(cmp.Diff(page.Ranges, tt.want))
			}
		})
	}
}

func TestFewListsAreRemembered(t *testing.T) {
	from := &counted{page: changedblocks.Page{Ranges: []changedblocks.Range{{Length: 1}}}}
	m := Remember(from)
	read := func(i int) {
		if _, err := m.Read(t.Context(), changedblocks.Query{Target: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range rememberedResults + 1 {
		read(i)
	}
	read(rememberedResults)
	if len(m.results.Keys()) != rememberedResults || from.reads != rememberedResults+1 {
		t.Errorf("%d results after %d reads", len(m.results.Keys()), from.reads)
	}
	if read(0); from.reads != rememberedResults+2 {
		t.Error("the oldest result was not forgotten")
	}
}

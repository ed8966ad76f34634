package rescue

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func saved(start, length int64) Entry   { return Entry{Range{start, length}, Saved, 0} }
func pending(start, length int64) Entry { return Entry{Range{start, length}, Pending, 0} }

func lost(start, length, reads int64) Entry { return Entry{Range{start, length}, Lost, reads} }

func TestSetSplitsAndJoinsRanges(t *testing.T) {
	for name, test := range map[string]struct {
		set  []Entry
		want []Entry
	}{
		"nothing":              {nil, []Entry{pending(0, 100)}},
		"all":                  {[]Entry{saved(0, 100)}, []Entry{saved(0, 100)}},
		"the beginning":        {[]Entry{saved(0, 10)}, []Entry{saved(0, 10), pending(10, 90)}},
		"the end":              {[]Entry{saved(90, 10)}, []Entry{pending(0, 90), saved(90, 10)}},
		"the middle":           {[]Entry{saved(40, 10)}, []Entry{pending(0, 40), saved(40, 10), pending(50, 50)}},
		"a neighbor":           {[]Entry{saved(0, 10), saved(10, 10)}, []Entry{saved(0, 20), pending(20, 80)}},
		"a gap":                {[]Entry{saved(0, 10), saved(20, 80), saved(10, 10)}, []Entry{saved(0, 100)}},
		"over several":         {[]Entry{saved(10, 10), lost(20, 10, 1), saved(30, 10), lost(15, 20, 2)}, []Entry{pending(0, 10), saved(10, 5), lost(15, 20, 2), saved(35, 5), pending(40, 60)}},
		"another number":       {[]Entry{lost(0, 10, 1), lost(10, 10, 2)}, []Entry{lost(0, 10, 1), lost(10, 10, 2), pending(20, 80)}},
		"back to the same":     {[]Entry{saved(40, 10), pending(40, 10)}, []Entry{pending(0, 100)}},
		"the same range twice": {[]Entry{lost(40, 10, 1), lost(40, 10, 2)}, []Entry{pending(0, 40), lost(40, 10, 2), pending(50, 50)}},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMap(100)
			for _, e := range test.set {
				m.Set(e.Range, e.State, e.Number)
			}
			if diff := cmp.Diff(test.want, m.entries); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMissingJoinsWhatIsNotSaved(t *testing.T) {
	m := NewMap(100)
	for _, e := range []Entry{saved(0, 10), lost(10, 5, 1), lost(15, 5, 2), saved(30, 70)} {
		m.Set(e.Range, e.State, e.Number)
	}
	if diff := cmp.Diff([]Range{{10, 20}}, m.Missing()); diff != "" {
		t.Error(diff)
	}
	if m.Bytes(Saved) != 80 || m.Bytes(Lost) != 10 || m.Bytes(Pending) != 10 {
		t.Errorf("got %d, %d, %d bytes", m.Bytes(Saved), m.Bytes(Lost), m.Bytes(Pending))
	}
	m.Reset(0)
	if diff := cmp.Diff([]Entry{saved(0, 10), pending(10, 20), saved(30, 70)}, m.entries); diff != "" {
		t.Error(diff)
	}
}

package lvm

import (
	"strings"
	"testing"
)

func TestLVAttr(t *testing.T) {
	tests := map[LVAttr]string{
		"twi-aotz--": "pool active open",
		"twi---tz--": "pool",
		"Vwi-aotz--": "volume active open",
		"Vri-a-tz-k": "volume ro active skip",
		"-wi-s-----": "active suspended",
		"-wi-XX--X-": "device",
	}
	for attr, want := range tests {
		var words []string
		for _, f := range []struct {
			word string
			is   bool
		}{
			{"pool", attr.IsThinPool()}, {"volume", attr.IsThinVolume()}, {"ro", attr.ReadOnly()},
			{"active", attr.Active()}, {"device", attr.HasDevice() && !attr.Active()},
			{"open", attr.Open()}, {"suspended", attr.Suspended()}, {"skip", attr.SkipsActivation()},
		} {
			if f.is {
				words = append(words, f.word)
			}
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%s: got %q, want %q", attr, got, want)
		}
	}
}

func TestBytesRoundUp(t *testing.T) {
	tests := []struct{ size, unit, want Bytes }{{1, 4, 4}, {4, 4, 4}, {5, 4, 8}, {0, 4, 0}, {5, 0, 5}}
	for _, tt := range tests {
		if got := tt.size.RoundUp(tt.unit); got != tt.want {
			t.Errorf("%d rounded up to %d: got %d, want %d", tt.size, tt.unit, got, tt.want)
		}
	}
}

package deviceclass

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRAIDOptions(t *testing.T) {
	tests := map[string][]string{
		"--type raid1 -m 1":                               RAIDOptions("raid1", 1, 0, 0),
		"--type raid5 --stripes 2 --stripesize 64k":       RAIDOptions("raid5", 0, 2, 64<<10),
		"--type raid10 -m 1 --stripes 2 --stripesize 4k":  RAIDOptions("raid10", 1, 2, 4<<10),
		"--type raid6":                                    RAIDOptions("raid6", 0, 0, 0),
		"--type raid4 --stripes 3 --stripesize 1048576k":  RAIDOptions("raid4", 0, 3, 1<<30),
		"--type raid10 -m 2 --stripes 2 --stripesize 64k": RAIDOptions("raid10", 2, 2, 64<<10),
	}
	for want, got := range tests {
		if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
			t.Error(diff)
		}
	}
}

// TestTheRoomForCopies ends 5 percentage points below the high-water mark, and with that of the metadata.
func TestTheRoomForCopies(t *testing.T) {
	usage := func(data, metadata, mark float64, extendable int64) PoolUsage {
		return PoolUsage{Size: 1000, MetadataSize: 1 << 30, Extendable: extendable, Data: data, Metadata: metadata,
			Mark: mark}
	}
	small := usage(10, 69, 95, 0)
	small.MetadataSize = 4 << 20
	smallFull := small
	smallFull.Metadata = 70
	for name, test := range map[string]struct {
		usage PoolUsage
		want  int64
	}{
		"empty":                       {usage(0, 0, 95, 0), 900},
		"used":                        {usage(40, 0, 95, 0), 500},
		"nearly full":                 {usage(89, 0, 95, 0), 10},
		"full":                        {usage(90, 0, 95, 0), 0},
		"over the mark":               {usage(100, 0, 95, 0), 0},
		"without a mark":              {usage(94, 0, 100, 0), 10},
		"metadata":                    {usage(0, 90, 95, 0), 0},
		"little metadata":             {small, 800},
		"little metadata, full":       {smallFull, 0},
		"extendable":                  {usage(40, 0, 95, 1000), 1400},
		"extendable, but full by now": {usage(90, 0, 95, 1000), 0},
		"a low mark":                  {usage(10, 0, 50, 0), 350},
	} {
		for range 2 {
			if got := test.usage.CopyFree(); got != test.want {
				t.Errorf("%s: got %d, want %d", name, got, test.want)
			}
		}
	}
}

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

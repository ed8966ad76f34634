package story

import "testing"

func TestLeastSize(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		volume              Volume
		seen, before, after int64
		grown, unchanged    int64
	}{
		"a block device": {Volume{Block: true}, 96 * mib, 96 * mib, 128 * mib, 128 * mib, 96 * mib},
		// What dumpe2fs and df have for a small ext4 before and after it has grown.
		"a small ext4":  {Volume{}, 88_566_784, 96 * mib, 128 * mib, 120_015_872, 88_566_784},
		"xfs":           {Volume{}, 300 * mib, 300 * mib, 364 * mib, 363 * mib, 300 * mib},
		"grown already": {Volume{}, 120_015_872, 128 * mib, 128 * mib, 120_015_872, 0},
	} {
		least := leastSize(test.volume, test.seen, test.before, test.after)
		if test.grown < least || test.unchanged >= least {
			t.Errorf("%s: %d of at least %d is refused, or %d accepted", name, test.grown, least, test.unchanged)
		}
	}
}

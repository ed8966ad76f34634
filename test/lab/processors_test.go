package lab

import "testing"

func TestLeastUsed(t *testing.T) {
	cpus := []int{0, 2, 5}
	for name, test := range map[string]struct {
		used        map[int]int
		start, want int
	}{
		"nothing runs":           {nil, 1, 1},
		"one is free":            {map[int]int{0: 1, 5: 3}, 2, 1},
		"the start is used most": {map[int]int{0: 4, 2: 2, 5: 3}, 0, 1},
		"all are used":           {map[int]int{0: 1, 2: 1, 5: 1}, 2, 2},
		"another processor":      {map[int]int{1: 9}, 0, 0},
	} {
		if got := leastUsed(cpus, test.used, test.start); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
	own := processors(0)
	if first := firstCPU(); len(own) == 0 || (first+1)%len(own) >= len(own) || first < 0 {
		t.Errorf("got %d of %v", first, own)
	}
}

package lane

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Tree has the Git object IDs of the files of a commit by their paths.
type Tree map[string]string

// ParseTree parses the output of `git ls-tree -r HEAD`.
func ParseTree(output string) (Tree, error) {
	tree := Tree{}
	for line := range strings.Lines(output) {
		meta, file, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		fields := strings.Fields(meta)
		if !found || len(fields) != 3 {
			return nil, fmt.Errorf("git ls-tree printed %q", line)
		}
		tree[file] = fields[2]
	}
	return tree, nil
}

// Sum returns a checksum of the files that an item covers.
func (t Tree) Sum(i Item) string {
	return t.sum(i.Name, func(file string) bool { return i.Covers(file) })
}

func (t Tree) sum(seed string, covers func(file string) bool) string {
	h := sha256.New()
	fmt.Fprintln(h, seed)
	for _, file := range slices.Sorted(maps.Keys(t)) {
		if covers(file) {
			fmt.Fprintln(h, file, t[file])
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// Covers reports whether the item covers a file of the repository. Documents are covered only if a path names them.
func (i Item) Covers(file string) bool {
	return len(i.Paths) == 0 || slices.ContainsFunc(i.Paths, func(p string) bool {
		if folder, files := strings.CutSuffix(p, "/*"); files {
			return path.Dir(file) == folder
		}
		return file == p || strings.HasPrefix(file, p+"/")
	})
}

// Order returns the items in the order in which they are to run. Every other one covers a file that has changed since
// it passed, and repeats no other item. Those between them are the ones that have not run for the longest time, so that
// each item has its turn, however much changes. Among equals, the files of the tree determine the order, but for
// documents.
func Order(items []Item, results Results, tree Tree) []Item {
	// Results and documents do not determine the order among equals: they change when results are recorded.
	seed := tree.sum("order", func(file string) bool { return file != ResultsFile && path.Ext(file) != ".md" })
	hash := func(i Item) string {
		sum := sha256.Sum256([]byte(seed + i.Name))
		return hex.EncodeToString(sum[:])
	}
	oldest := slices.SortedFunc(slices.Values(items), func(a, b Item) int {
		return cmp.Or(cmp.Compare(results[a.Name].Number, results[b.Name].Number), cmp.Compare(hash(a), hash(b)))
	})
	var changed []Item
	for _, i := range oldest {
		if last := results[i.Name]; !i.Repeats && (!last.Passed || last.Sum != tree.Sum(i)) {
			changed = append(changed, i)
		}
	}
	var ordered []Item
	taken := map[string]bool{}
	take := func(from *[]Item) {
		for len(*from) > 0 {
			i := (*from)[0]
			*from = (*from)[1:]
			if !taken[i.Name] {
				taken[i.Name] = true
				ordered = append(ordered, i)
				return
			}
		}
	}
	for len(ordered) < len(items) {
		take(&changed)
		take(&oldest)
	}
	return ordered
}

// Longest returns the items in the order in which they end as early as possible if all run. Those on clusters come
// first: on a new machine they wait for the most programs, and their builds use only one processor for long. Among the
// others, the longest comes first.
func Longest(items []Item, results Results) []Item {
	others := func(i Item) int {
		if i.Slot == Cluster {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(items), func(a, b Item) int {
		return cmp.Or(cmp.Compare(others(a), others(b)), cmp.Compare(Expected(b, results), Expected(a, results)))
	})
}

// Expected returns the time that an item takes: that of its newest successful run, else that of the table.
func Expected(i Item, results Results) time.Duration {
	if r, known := results[i.Name]; known && r.Passed && r.Seconds > 0 {
		return time.Duration(r.Seconds * float64(time.Second))
	}
	return time.Duration(i.Minutes * float64(time.Minute))
}

// Slots says how many items run at the same time.
type Slots struct {
	// All is the number of items, and Clusters how many of them may be on clusters.
	All, Clusters int
}

// SlotsOf returns the slots of a machine. A cluster keeps one processor busy, and with more clusters than the machine
// can run, nodes do not answer for minutes.
func SlotsOf(processors int) Slots {
	return Slots{All: max(2, processors), Clusters: max(1, processors/2)}
}

// Next returns the index of the item that is to start now, or -1. fits reports whether an item ends before the
// deadline.
func (s Slots) Next(waiting, running []Item, fits func(Item) bool) int {
	if len(running) >= s.All {
		return -1
	}
	clusters := 0
	for _, i := range running {
		if i.Slot == Cluster {
			clusters++
		}
	}
	return slices.IndexFunc(waiting, func(i Item) bool {
		return (i.Slot != Cluster || clusters < s.Clusters) && fits(i)
	})
}

// Margin is how much longer than expected an item may take on a busy machine. It starts only if it ends before the
// deadline even then.
const Margin = 1.5

// Fits reports whether an item that is expected to take a time ends before the deadline. A zero deadline never passes.
func Fits(now, deadline time.Time, expected time.Duration) bool {
	return deadline.IsZero() || !now.Add(time.Duration(Margin*float64(expected))).After(deadline)
}

package lane

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func names(items []Item) string {
	var all []string
	for _, i := range items {
		all = append(all, i.Name)
	}
	return strings.Join(all, " ")
}

func parsed(t *testing.T, output string) Tree {
	t.Helper()
	tree, err := ParseTree(output)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

const listing = "100644 blob aa\tvgmanager/lvm/lvm.go\n" +
	"100644 blob bb\ttest/e2e/storage_test.go\n" +
	"100644 blob cc\ttest/e2e/copies/copies_test.go\n" +
	"100644 blob dd\ttest/lane/results.tsv\n"

func TestParseTreeRefusesOtherOutput(t *testing.T) {
	for _, output := range []string{"fatal: not a git repository\n", "100644 blob\tname\n"} {
		if _, err := ParseTree(output); err == nil {
			t.Errorf("%q was accepted", output)
		}
	}
}

func TestAnItemCoversItsPaths(t *testing.T) {
	for _, c := range []struct {
		path, file string
		want       bool
	}{
		{"vgmanager/lvm", "vgmanager/lvm/lvm.go", true},
		{"vgmanager/lvm", "vgmanager/volume/engine/engine.go", false},
		{"go.mod", "go.mod", true},
		{"test/e2e/*", "test/e2e/storage_test.go", true},
		{"test/e2e/*", "test/e2e/copies/copies_test.go", false},
	} {
		if got := (Item{Paths: []string{c.path}}).Covers(c.file); got != c.want {
			t.Errorf("%s covers %s: %t", c.path, c.file, got)
		}
	}
	if !(Item{}).Covers("any/file") {
		t.Error("an item without paths does not cover the whole repository")
	}
}

func TestTheSumOfAnItemChangesWithItsFilesOnly(t *testing.T) {
	item := Item{Name: "bare/contract", Paths: []string{"vgmanager/lvm"}}
	before := parsed(t, listing).Sum(item)
	if after := parsed(t, strings.Replace(listing, "cc", "c2", 1)).Sum(item); after != before {
		t.Error("changed with a file of another item")
	}
	if after := parsed(t, strings.Replace(listing, "aa", "a2", 1)).Sum(item); after == before {
		t.Error("did not change with its file")
	}
}

func TestChangedItemsAndThoseThatWaitLongestComeFirst(t *testing.T) {
	tree := parsed(t, listing)
	lvm := func(name string) Item { return Item{Name: name, Paths: []string{"vgmanager/lvm"}} }
	repeated := lvm("repeated")
	repeated.Repeats = true
	items := []Item{lvm("unchanged, newer"), lvm("changed, newer"), lvm("unchanged, oldest"), lvm("changed, older"),
		lvm("failed"), repeated}
	result := func(i Item, number int, sum string) Result {
		return Result{Name: i.Name, Number: number, Passed: true, Sum: sum}
	}
	results := Results{}
	results.Add(result(items[0], 9, tree.Sum(items[0])))
	results.Add(result(items[1], 8, "another"))
	results.Add(result(items[2], 1, tree.Sum(items[2])))
	results.Add(result(items[3], 7, "another"))
	results.Add(Result{Name: "failed", Number: 5, Sum: tree.Sum(items[4])})
	results.Add(result(repeated, 6, "another"))
	want := []string{"failed", "unchanged, oldest", "changed, older", "repeated", "changed, newer", "unchanged, newer"}
	var got []string
	for _, i := range Order(items, results, tree) {
		got = append(got, i.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestTheTreeDeterminesTheOrderOfEquals(t *testing.T) {
	var items []Item
	for _, name := range strings.Split("abcdefghijkl", "") {
		items = append(items, Item{Name: name})
	}
	order := func(listing string) string { return names(Order(items, Results{}, parsed(t, listing))) }
	first := order(listing)
	if order(listing) != first {
		t.Error("the order of one tree differs")
	}
	if order(strings.Replace(listing, "cc", "c2", 1)) == first {
		t.Error("another tree has the same order")
	}
	if order(strings.Replace(listing, "dd", "d2", 1)) != first {
		t.Error("recorded results change the order of items that have not run")
	}
}

// Each item runs within ten merges, even if each merge changes all files. Before a merge, its author runs .ci/run and
// records the results, and CI runs it again: each runs items for half an hour or more, two at a time.
func TestEachItemRunsWithinTenMerges(t *testing.T) {
	const perMerge = 2 * 65 * time.Minute
	items := Others()
	results := Results{}
	for merge := 1; merge <= 10; merge++ {
		tree := parsed(t, strings.Replace(listing, "aa", strings.Repeat("a", merge), 1))
		left := perMerge
		for _, i := range Order(items, results, tree) {
			if took := Expected(i, nil); took <= left {
				left -= took
				results.Add(Result{Name: i.Name, Number: merge, Passed: true, Sum: tree.Sum(i) + "before"})
			}
		}
	}
	for _, i := range items {
		if _, run := results[i.Name]; !run {
			t.Errorf("%s did not run in ten merges", i.Name)
		}
	}
}

func TestClustersAndTheLongestItemsComeFirst(t *testing.T) {
	items := []Item{{Name: "a", Minutes: 1}, {Name: "b", Minutes: 3}, {Name: "c", Minutes: 2},
		{Name: "cluster", Slot: Cluster, Minutes: 2}}
	results := Results{"a": {Name: "a", Passed: true, Seconds: 600}, "b": {Name: "b", Seconds: 1}}
	if got := names(Longest(items, results)); got != "cluster a b c" {
		t.Errorf("got %s", got)
	}
}

func TestNextItem(t *testing.T) {
	cluster, node := Item{Name: "cluster", Slot: Cluster}, Item{Name: "node", Slot: Node}
	always := func(Item) bool { return true }
	for name, c := range map[string]struct {
		slots            Slots
		waiting, running []Item
		fits             func(Item) bool
		want             int
	}{
		"the first":                      {SlotsOf(2), []Item{cluster, node}, nil, always, 0},
		"no second cluster":              {SlotsOf(2), []Item{cluster, node}, []Item{cluster}, always, 1},
		"a second cluster on four":       {SlotsOf(4), []Item{cluster, node}, []Item{cluster}, always, 0},
		"none if all slots are taken":    {SlotsOf(2), []Item{node}, []Item{node, node}, always, -1},
		"two on one processor":           {SlotsOf(1), []Item{node}, []Item{cluster}, always, 0},
		"none if nothing waits":          {SlotsOf(2), nil, nil, always, -1},
		"one that ends before the limit": {SlotsOf(2), []Item{cluster, node}, nil, func(i Item) bool { return i.Slot == Node }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.slots.Next(c.waiting, c.running, c.fits); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestAnItemStartsOnlyIfItEndsBeforeTheDeadline(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		deadline time.Time
		expected time.Duration
		want     bool
	}{
		"with its margin":         {now.Add(15 * time.Minute), 10 * time.Minute, true},
		"not without its margin":  {now.Add(14 * time.Minute), 10 * time.Minute, false},
		"always without deadline": {time.Time{}, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Fits(now, c.deadline, c.expected); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestAnItemIncludesTheBuildOfWhatItNeeds(t *testing.T) {
	i := Item{Needs: []string{"image", "programs/olm", "programs/opm"}}
	built := func(need string) bool { return need == "programs/opm" }
	if got := Building(i, built); got != 3*time.Minute {
		t.Errorf("got %s", got)
	}
	needed := map[string]bool{}
	for _, i := range All() {
		for _, need := range i.Needs {
			needed[need] = true
		}
	}
	for name := range builds {
		if !needed[name] {
			t.Errorf("no item needs %s, which has a time", name)
		}
	}
}

func TestResultsAreReadAsTheyAreWritten(t *testing.T) {
	path := t.TempDir() + "/results.tsv"
	want := []Result{
		{"a", "10a3f7e6", 904, time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), "AMD EPYC", 12.5, true, "0123"},
		{"b", "10a3f7e6", 904, time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), "AMD EPYC", 3, false, "4567"},
	}
	all := Results{}
	for _, r := range want {
		all.Add(r)
	}
	if err := all.Write(path); err != nil {
		t.Fatal(err)
	}
	later := want[1]
	later.Number, later.Passed = 905, true
	if err := Append(path, later); err != nil {
		t.Fatal(err)
	}
	got, err := ReadResults(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got["a"] != want[0] || got["b"] != later || got.Newest() != 905 {
		t.Errorf("got %v", got)
	}
}

func TestAnEarlierResultDoesNotReplaceALaterOne(t *testing.T) {
	all := Results{}
	all.Add(Result{Name: "a", Number: 9, Passed: true})
	all.Add(Result{Name: "a", Number: 8})
	if all["a"].Number != 9 {
		t.Errorf("got %v", all["a"])
	}
}

func TestAFileWithAnInvalidResultIsRefused(t *testing.T) {
	for _, line := range []string{"a\tb", "a\tc\tx\t2026-11-28\tp\t1\tok\ts", "a\tc\t1\t28.11.2026\tp\t1\tok\ts",
		"a\tc\t1\t2026-11-28\tp\tlong\tok\ts"} {
		if _, err := parseResults(strings.NewReader(line + "\n")); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
	if got, err := ReadResults(t.TempDir() + "/missing"); err != nil || len(got) != 0 {
		t.Errorf("a file that does not exist: %v, %v", got, err)
	}
}

func TestItemsHaveDifferentNames(t *testing.T) {
	seen := map[string]bool{}
	for _, i := range All() {
		if seen[i.Name] {
			t.Errorf("two items are named %s", i.Name)
		}
		seen[i.Name] = true
		if i.Minutes <= 0 || i.Minutes > Limit {
			t.Errorf("%s takes %g minutes: an item takes at most %d", i.Name, i.Minutes, Limit)
		}
		if !slices.Contains([]Slot{Processor, Node, Cluster}, i.Slot) || len(i.Command) == 0 {
			t.Errorf("%s is incomplete: %+v", i.Name, i)
		}
	}
}

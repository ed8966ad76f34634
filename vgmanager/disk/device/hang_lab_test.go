//go:build lab

package device

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/test/limit"
)

// hung returns a device that is not suspended and whose reads do not end, because the device below is suspended.
// Programs that read it are in state D, as with multipath and queue_if_no_path.
func (l *lab) hung(name string) string {
	l.Helper()
	lower := l.mapping(name+"-lower", fmt.Sprintf("0 100000 linear %s 0", l.disk))
	upper := l.mapping(name, fmt.Sprintf("0 100000 linear %s 0", lower))
	l.settle()
	l.sh("/usr/sbin/dmsetup", "suspend", name+"-lower")
	l.Cleanup(func() { l.sh("/usr/sbin/dmsetup", "resume", name+"-lower") })
	return upper
}

// returns fails the test if f hangs.
func returns[T any](l *lab, what string, f func() T) T {
	l.Helper()
	answer := make(chan T, 1)
	go func() { answer <- f() }()
	select {
	case got := <-answer:
		return got
	case <-time.After(limit.Hang):
		l.Fatalf("%s has not returned after %s", what, limit.Hang)
		panic("not reached")
	}
}

// TestLabProbeOfADeviceThatHangs: a disk that hangs delays only itself, and only once. Lists and other devices
// continue.
func TestLabProbeOfADeviceThatHangs(t *testing.T) {
	l := newLab(t)
	dead := l.hung("dead")
	healthy := l.mapping("healthy", fmt.Sprintf("0 40000 linear %s 100000", l.disk))
	l.settle()
	d := l.device(dead)
	other := l.device(healthy)
	if reasons := Explain(d, nil); len(reasons) != 0 {
		t.Fatalf("something else is against the device: %v", reasons)
	}
	probe := func(d Device) []Reason {
		return returns(l, "the probe of "+d.Name, func() []Reason { return l.n.Probe(t.Context(), d) })
	}
	isUnknown := func(what string, reasons []Reason) {
		t.Helper()
		if len(reasons) != 1 || reasons[0].Code != Unreadable ||
			!strings.Contains(reasons[0].Message, "has not answered since") {
			t.Errorf("%s: got %v", what, reasons)
		}
	}
	begun := time.Now()
	isUnknown("the first probe", probe(d))
	first := time.Since(begun)
	isUnknown("the second probe", probe(d))
	if second := time.Since(begun) - first; second > first/2 {
		t.Errorf("a device that is known not to answer was waited for again: %s, and first %s", second, first)
	}
	if reasons := probe(other); len(reasons) != 0 {
		t.Errorf("the other device: %v", reasons)
	}
	silent := func(want bool) {
		t.Helper()
		got := returns(l, "the question who answers", func() map[string][]string {
			got, err := l.n.Silent(t.Context())
			l.ok(err)
			return got
		})
		paths := got[string(d.Number)]
		if (len(got) != 0) != want || want && (!slices.Contains(paths, dead) || !slices.Contains(paths, d.KernelName)) {
			t.Errorf("got %v, want %t", got, want)
		}
	}
	silent(true)
	listed := returns(l, "the list", func() []Device {
		list, err := l.n.List(t.Context())
		l.ok(err)
		return list
	})
	if !slices.ContainsFunc(listed, func(listed Device) bool { return listed.Name == dead }) {
		t.Error("the device is not listed")
	}
	if _, reasons, err := l.n.Wipe(t.Context(), l.options(dead)); err != nil || len(reasons) == 0 {
		t.Errorf("it may be wiped: %v, %v", reasons, err)
	}
	l.sh("/usr/sbin/dmsetup", "resume", "dead-lower")
	limit.Wait(t, "the device answers again", func() bool { return len(probe(d)) == 0 })
	silent(false)
}

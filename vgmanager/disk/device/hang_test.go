package device

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hanging is a runner whose commands on some paths end only when they are released, like processes in state D.
type hanging struct {
	runner
	mu      sync.Mutex
	on      string
	started int
	release chan struct{}
}

func (h *hanging) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	h.mu.Lock()
	hangs := slices.Contains(append(args, name), h.on)
	if hangs {
		h.started++
	}
	h.mu.Unlock()
	if hangs {
		<-h.release
		return nil, ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runner.Run(ctx, name, args...)
}

// count returns how many commands hung.
func (h *hanging) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.started
}

// hangs sets which command hangs. "" stands for none.
func (h *hanging) hangs(on string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.on = on
}

// newHanging returns a node on which commands hang, and on which every device is readable.
func newHanging(on string, out []byte) (*Node, *hanging) {
	h := &hanging{on: on, runner: runner{out: out}, release: make(chan struct{})}
	n := New(h)
	n.examine = func(Device) []Reason { return nil }
	return n, h
}

func silent(reasons []Reason) bool {
	return isUnread(reasons, "has not answered since")
}

func isUnread(reasons []Reason, says string) bool {
	return len(reasons) == 1 && reasons[0].Code == Unreadable && reasons[0].Transient &&
		strings.Contains(reasons[0].Message, says)
}

func TestProbeOfADeviceThatHangsHoldsUpNoOther(t *testing.T) {
	for name, open := range map[string]bool{"wipefs": false, "open": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dead := Device{Name: "/dev/sdb", Number: "8:16"}
				other := Device{Name: "/dev/sdc", Number: "8:32"}
				n, h := newHanging(dead.Name, []byte(`{"signatures": []}`))
				if open {
					n.examine = func(d Device) []Reason {
						if d.Number == dead.Number {
							h.mu.Lock()
							h.started++
							h.mu.Unlock()
							<-h.release
						}
						return nil
					}
				}
				begun := time.Now()
				for range 3 {
					if reasons := n.Probe(t.Context(), dead); !silent(reasons) || time.Since(begun) != timeout {
						t.Errorf("after %s: got %v", time.Since(begun), reasons)
					}
				}
				if reasons := n.Probe(t.Context(), other); len(reasons) != 0 || time.Since(begun) != timeout {
					t.Errorf("the other device, after %s: got %v", time.Since(begun), reasons)
				}
				if n := h.count(); n != 1 {
					t.Errorf("%d reads were begun", n)
				}
				close(h.release)
				synctest.Wait()
				h.hangs("")
				if reasons := n.Probe(t.Context(), dead); len(reasons) != 0 {
					t.Errorf("it answers again: got %v", reasons)
				}
			})
		})
	}
}

func TestDevicesThatHangAreBoundedInNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, h := newHanging("--no-act", nil)
		var all sync.WaitGroup
		for i := range maxUnanswered {
			all.Go(func() { n.Probe(t.Context(), Device{Name: "/dev/x", Number: NewNumber(8, uint32(i))}) })
		}
		all.Wait()
		reasons := n.Probe(t.Context(), Device{Name: "/dev/y", Number: "9:9"})
		if !isUnread(reasons, "32 other devices do not answer") {
			t.Errorf("got %v", reasons)
		}
		if n := h.count(); n != maxUnanswered {
			t.Errorf("%d reads were begun", n)
		}
		close(h.release)
		synctest.Wait()
	})
}

func TestListThatHangsFailsAndIsBegunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, h := newHanging(lsblk, record(t, "lsblk-blank"))
		begun := time.Now()
		for range 3 {
			devices, err := n.List(t.Context())
			if err == nil || devices != nil || !strings.Contains(err.Error(), "lsblk has not answered since") {
				t.Errorf("got %v, %v", devices, err)
			}
			if devices, err := n.Recent(t.Context(), time.Minute); err == nil || devices != nil {
				t.Errorf("got %v, %v", devices, err)
			}
		}
		if n := h.count(); n != 1 || time.Since(begun) != timeout {
			t.Errorf("%d processes in %s", n, time.Since(begun))
		}
		close(h.release)
		synctest.Wait()
		h.hangs("")
		if devices, err := n.List(t.Context()); err != nil || len(devices) == 0 {
			t.Errorf("after it ended: got %v, %v", devices, err)
		}
	})
}

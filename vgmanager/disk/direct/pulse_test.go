package direct

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "dev/block/8:48/device"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "dev/block/8:48/device/state"), []byte("offline\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		hang := make(chan struct{})
		asked := make(chan string, 10)
		p := NewPulse()
		p.Sysfs = dir
		p.Reads = bounded.New(500*time.Millisecond, math.MaxInt)
		p.Read = func(b Beat) ([]byte, error) {
			asked <- b.Path
			switch b.Path {
			case "bad":
				return nil, errors.New("input/output error")
			case "hangs":
				<-hang
			}
			return nil, nil
		}
		devices := []Beat{{"8:0", "good"}, {"8:16", "bad"}, {"8:32", "hangs"}, {"8:48", "offline"}}
		got := p.Check(t.Context(), devices)
		if len(got) != 3 {
			t.Fatalf("got %v", got)
		}
		if got["8:0"] != nil {
			t.Errorf("got %v", got)
		}
		expect.Contains(t, `got["8:16"].Error()`, got["8:16"].Error(), "input/output error")
		expect.Contains(t, `got["8:32"].Error()`, got["8:32"].Error(), "has not answered")
		expect.Contains(t, `got["8:48"].Error()`, got["8:48"].Error(), "offline")
		// A device with a pending read is not read again.
		if again := p.Check(t.Context(), devices); again["8:32"] == nil {
			t.Errorf("got %v", again)
		}
		close(hang)
		questions := map[string]int{}
		for len(asked) > 0 {
			questions[<-asked]++
		}
		if questions["hangs"] != 1 || questions["good"] != 2 || questions["offline"] != 0 {
			t.Errorf("asked %v", questions)
		}
		synctest.Wait()
		if late := p.Reads.Late(); len(late) != 0 {
			t.Errorf("questions stay open after their answers: %q", late)
		}
	})
}

func TestPulseAsksOnceHoweverManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		asked := make(chan struct{}, 100)
		p := NewPulse()
		p.Sysfs = t.TempDir()
		p.Reads = bounded.New(50*time.Millisecond, math.MaxInt)
		p.Read = func(Beat) ([]byte, error) {
			asked <- struct{}{}
			<-hang
			return nil, nil
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if got := p.Check(t.Context(), []Beat{{"8:0", "hangs"}}); got["8:0"] == nil {
					t.Error("a device that does not answer is well")
				}
			})
		}
		all.Wait()
		close(hang)
		if len(asked) != 1 {
			t.Errorf("asked %d times", len(asked))
		}
	})
}

func TestPulseOfADeviceThatIsNotThere(t *testing.T) {
	p := NewPulse()
	got := p.Check(t.Context(), []Beat{{"8:0", filepath.Join(t.TempDir(), "sdx")}, {"8:16", os.DevNull}})
	if got["8:0"] == nil || got["8:16"] == nil {
		t.Errorf("got %v", got)
	}
}

func TestPulseOfAHealthyDeviceBesideOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		p := NewPulse()
		p.Sysfs = t.TempDir()
		p.Reads = bounded.New(500*time.Millisecond, math.MaxInt)
		p.Read = func(b Beat) ([]byte, error) {
			if b.Path == "hangs" {
				<-hang
			}
			return nil, nil
		}
		defer close(hang)
		devices := []Beat{{"8:0", "hangs"}}
		for i := range 50 {
			devices = append(devices, Beat{NewNumber(9, uint32(i)), "well"})
		}
		if got := p.Check(t.Context(), devices); len(got) != 1 || got["8:0"] == nil {
			t.Errorf("got %v", got)
		}
	})
}

func TestPulseThatIsNotWaitedForSaysSo(t *testing.T) {
	hang := make(chan struct{})
	p := NewPulse()
	p.Sysfs, p.Read = t.TempDir(), func(Beat) ([]byte, error) { <-hang; return nil, nil }
	defer close(hang)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := p.Check(ctx, []Beat{{"8:0", "x"}}); !errors.Is(got["8:0"], context.Canceled) {
		t.Errorf("got %v", got)
	}
}

// TestStartsDifferAfterAChange: the digest changes with the content of a device that is read, and stays for a device
// that cannot be read.
func TestStartsDifferAfterAChange(t *testing.T) {
	p := NewPulse()
	p.Sysfs = t.TempDir()
	content := map[string]string{"a": "1", "b": "1"}
	p.Read = func(b Beat) ([]byte, error) {
		if content[b.Path] == "" {
			return nil, errors.New("input/output error")
		}
		return []byte(content[b.Path]), nil
	}
	a, b := Beat{"8:0", "a"}, Beat{"8:16", "b"}
	starts := func(devices ...Beat) string {
		p.Check(t.Context(), devices)
		return p.Starts()
	}
	first := starts(a, b)
	if again := starts(b, a); first == "" || again != first {
		t.Errorf("nothing changed, and %q differs from %q", again, first)
	}
	content["a"] = ""
	if failing := starts(a, b); failing != first {
		t.Errorf("a device cannot be read, and %q differs from %q", failing, first)
	}
	content["a"] = "2"
	if changed := starts(a, b); changed == first {
		t.Errorf("a device changed, and the digest is still %q", changed)
	}
	if without := starts(b); strings.Contains(without, "8:0 ") {
		t.Errorf("a device is no longer checked, and the digest is %q", without)
	}
}

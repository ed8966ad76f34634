package nodes

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lvm-storage/lvm-operator/must-gather/archive"
	"github.com/lvm-storage/lvm-operator/must-gather/redact"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/limit"
)

// played simulates nodes that answer with a function of their name.
type played func(ctx context.Context, node string, out io.Writer) error

func (p played) Ways(node string) []Way {
	return []Way{{"played", func(ctx context.Context, out io.Writer) error { return p(ctx, node, out) }}}
}

// ways are the methods for every node.
type ways []Way

func (w ways) Ways(string) []Way { return w }

func TestAnotherWayIsTakenWhereOneFails(t *testing.T) {
	good := Way{"a Pod", func(_ context.Context, w io.Writer) error {
		return write(w, map[string]string{"a.txt": "whole", "collect.json": "{}"})
	}}
	tests := map[string]struct {
		ways ways
		// want is a part of the failure. failed is whether nothing was read.
		want   string
		failed bool
	}{
		"the first is good": {ways{good,
			{"never", func(context.Context, io.Writer) error { return errors.New("asked") }}}, "", false},
		"the first refuses": {ways{{"its agent",
			func(context.Context, io.Writer) error { return errors.New("refused") }}, good},
			"another one was taken: its agent: refused", false},
		"the first breaks off": {ways{{"its agent",
			func(_ context.Context, w io.Writer) error { return write(w, map[string]string{"a.txt": "half"}) }}, good},
			"its agent: received 1 files", false},
		"the first says nothing": {ways{{"its agent", func(context.Context, io.Writer) error { return nil }}, good},
			"its agent: received 0 files", false},
		"both fail": {ways{{"its agent", func(context.Context, io.Writer) error { return errors.New("refused") }},
			{"a Pod", func(context.Context, io.Writer) error { return errors.New("no image") }}},
			"a Pod: no image", true},
		"there is none": {ways{}, "the image for a Pod that reads it is unknown", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := newArchive(t, 64<<20)
			Collect(t.Context(), test.ways, []string{"node1"}, out, limit.Hang)
			content, err := os.ReadFile(filepath.Join(out.Root(), "nodes/node1/a.txt"))
			if (err != nil) != test.failed || err == nil && string(content) != "whole" {
				t.Errorf("%q, %v", content, err)
			}
			said := ""
			for _, f := range out.Failures().Failures {
				said += f.What + ": " + f.Error
			}
			if !strings.Contains(said, test.want) || (test.want == "") != (said == "") {
				t.Errorf("said %q, want %q", said, test.want)
			}
		})
	}
}

func write(out io.Writer, files map[string]string) error {
	tape := tar.NewWriter(out)
	for name, content := range files {
		if err := tape.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)),
			Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := io.WriteString(tape, content); err != nil {
			return err
		}
	}
	return tape.Close()
}

func newArchive(t *testing.T, limit int64) *archive.Writer {
	t.Helper()
	out, err := archive.New(t.TempDir(), limit, redact.Text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func has(out *archive.Writer, name string) bool {
	_, err := os.Stat(filepath.Join(out.Root(), name))
	return err == nil
}

func TestANodeThatFailsCostsItsOwnFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newArchive(t, 64<<20)
		source := played(func(ctx context.Context, node string, w io.Writer) error {
			switch node {
			case "refuses":
				return errors.New("unable to upgrade connection")
			case "hangs":
				<-ctx.Done()
				return ctx.Err()
			case "breaks":
				if err := write(io.MultiWriter(w), map[string]string{"a.txt": "a"}); err != nil {
					return err
				}
				return errors.New("the connection was lost")
			case "empty":
				return nil
			case "unfinished":
				return write(w, map[string]string{"lsblk.json": "{}"})
			case "half":
				_, err := io.WriteString(w, "this is no tar, but long enough to be one: "+strings.Repeat("x", 600))
				return err
			case "climbs":
				return write(w, map[string]string{"../../etc/passwd": "x"})
			}
			return write(w, map[string]string{"lsblk.json": "{}", "collect.json": "{}"})
		})
		names := []string{"empty", "unfinished", "refuses", "hangs", "good1", "breaks", "half", "climbs", "good2"}
		Collect(t.Context(), source, names, out, 300*time.Millisecond)
		for _, name := range []string{"nodes/good1/lsblk.json", "nodes/good2/collect.json", "nodes/breaks/a.txt"} {
			if !has(out, name) {
				t.Errorf("%s is not there", name)
			}
		}
		said := map[string]string{}
		for _, f := range out.Failures().Failures {
			said[f.What] = f.Error
		}
		for node, want := range map[string]string{"refuses": "upgrade", "hangs": "deadline",
			"breaks": "after 1 files: the connection was lost", "half": "tar", "empty": "received 0 files",
			"unfinished": "not the last one, collect.json", "climbs": "contains the unexpected file"} {
			if !strings.Contains(said["node "+node], want) {
				t.Errorf("%s: %q, want %q", node, said["node "+node], want)
			}
		}
		if len(said) != 7 {
			t.Errorf("got %v", said)
		}
	})
}

func TestNodesAreReadAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		source := played(func(_ context.Context, _ string, w io.Writer) error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running.Add(-1)
			time.Sleep(5 * time.Millisecond)
			return write(w, map[string]string{"a.txt": "a", "collect.json": "{}"})
		})
		var names []string
		for i := range 50 {
			names = append(names, fmt.Sprint("node", i))
		}
		Collect(t.Context(), source, names, newArchive(t, 64<<20), time.Second)
		if most.Load() != parallel {
			t.Errorf("%d at a time, want %d", most.Load(), parallel)
		}
	})
}

func TestWhatIsNotReachedIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newArchive(t, 64<<20)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("the time limit was reached"))
		defer cancel()
		var names []string
		for i := range 2 * parallel {
			names = append(names, fmt.Sprint("node", i))
		}
		Collect(ctx, played(func(ctx context.Context, _ string, _ io.Writer) error { <-ctx.Done(); return ctx.Err() }),
			names, out, time.Minute)
		if got := len(out.Failures().Failures); got != len(names) {
			t.Errorf("%d failures, want %d", got, len(names))
		}
		if !slices.ContainsFunc(out.Failures().Failures,
			func(f archive.Failure) bool { return strings.Contains(f.Error, "the time limit was reached") }) {
			t.Errorf("got %+v", out.Failures())
		}
	})
}

func TestASecondReadReplacesTheFirst(t *testing.T) {
	out := newArchive(t, 64<<20)
	source := played(func(_ context.Context, _ string, w io.Writer) error {
		return write(w, map[string]string{"a.txt": "password=hunter22", "collect.json": "{}"})
	})
	for range 2 {
		Collect(t.Context(), source, []string{"node1"}, out, limit.Hang)
	}
	content, err := os.ReadFile(filepath.Join(out.Root(), "nodes/node1/a.txt"))
	if err != nil || string(content) != "password="+redact.Mark {
		t.Errorf("%q, %v", content, err)
	}
}

// Two hundred nodes have 120 KiB each, and three of them hang. The duration is that of the nodes that hang, in parallel
// with the others, and the size limit is kept.
func TestTwoHundredNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 22 << 20
		out := newArchive(t, budget)
		line := strings.Repeat("2026-03-01T00:00:00+0000 node kernel: sd 0:0:0:0: [sda] something happened\n", 1500)
		var once sync.Once
		var began time.Time
		source := played(func(ctx context.Context, node string, w io.Writer) error {
			once.Do(func() { began = time.Now() })
			if strings.HasSuffix(node, "00") {
				<-ctx.Done()
				return ctx.Err()
			}
			return write(w, map[string]string{"journal-kernel.log": line, "collect.json": "{}"})
		})
		var names []string
		for i := range 200 {
			names = append(names, fmt.Sprintf("node%03d", i))
		}
		Collect(t.Context(), source, names, out, 2*time.Second)
		took := time.Since(began)
		if err := out.Account(nil); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s, room for %d bytes is left", took, out.Room())
		if took != 2*time.Second {
			t.Errorf("took %s, want the time of one node that hangs", took)
		}
		if out.Room() < 0 || !has(out, "nodes/node199/collect.json") || has(out, "nodes/node199/journal-kernel.log") {
			t.Error("the budget was not kept: a file that is small fits at the end, one that is large does not")
		}
		hung := 0
		for _, f := range out.Failures().Failures {
			if strings.HasPrefix(f.What, "node node") {
				hung++
			}
		}
		if hung != 2 {
			t.Errorf("%d nodes failed, want the 2 that hang", hung)
		}
	})
}

func TestTheHelperIsReadOnlyAndEndsByItself(t *testing.T) {
	pod := (&Helper{Namespace: "ns", Image: "example.com/a:1", Command: []string{"/lvms", "collect"}}).pod("node1")
	spec := pod.Spec
	expect.Equal(t, "NodeName", spec.NodeName, "node1")
	expect.Equal(t, "HostPID", spec.HostPID, true)
	if *spec.AutomountServiceAccountToken {
		t.Errorf("got %+v", spec)
	}
	expect.Equal(t, "ActiveDeadlineSeconds", *spec.ActiveDeadlineSeconds, int64(podLife.Seconds()))
	expect.Equal(t, "len(spec.Volumes)", len(spec.Volumes), 0)
	if c := spec.Containers[0]; !*c.SecurityContext.Privileged || !*c.SecurityContext.ReadOnlyRootFilesystem ||
		c.Image != "example.com/a:1" || !slices.Equal(c.Command, []string{"/lvms", "collect", "--hold=3m0s"}) {
		t.Errorf("got %+v", c)
	}
	if podLife < Limit+podStart {
		t.Errorf("a Pod lives for %s, and a read may take %s after %s", podLife, Limit, podStart)
	}
}

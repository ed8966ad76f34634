package lvmsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// recorder answers commands, and records them.
type recorder struct {
	answer   func(command string) (string, error)
	commands []string
}

func (r *recorder) Run(_ context.Context, name string, args ...string) ([]byte, error) {
	command := strings.Join(append([]string{name}, args...), " ")
	r.commands = append(r.commands, command)
	out, err := r.answer(command)
	return []byte(out), err
}

func (r *recorder) Stream(ctx context.Context, out io.Writer, name string, args ...string) error {
	text, err := r.Run(ctx, name, args...)
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}

func answers(out string, err error) *recorder {
	return &recorder{answer: func(string) (string, error) { return out, err }}
}

// debian12 was recorded on Debian 12.
const debian12 = `  LVM version:     2.03.16(2) (2022-05-18)
  Library version: 1.02.185 (2022-05-18)
  Driver version:  4.47.0
  Configuration:   ./configure --build=x86_64-linux-gnu
`

var (
	errAbsent     = &host.Error{Command: "lvm version", Err: fmt.Errorf("%w: exit status 127", host.ErrNoProgram)}
	errUnreadable = &host.Error{Command: "lvm version", Err: errors.New("exit status 126"),
		Stderr: "nsenter: failed to execute lvm: Permission denied"}
	errBroken = &host.Error{Command: "lvm version", ExitCode: 5, Err: errors.New("exit status 5"),
		Stderr: "Failed to load config file /etc/lvm/lvm.conf"}
	errNoImage = &host.Error{Command: "/usr/sbin/lvm version", Err: errors.New("exit status 127")}
)

func TestSourceOfLVM(t *testing.T) {
	const older = "  LVM version:     2.02.1 (2020-01-01)\n"
	for name, test := range map[string]struct {
		node, image *recorder
		want        Source
		err         []error
		says        string
	}{
		"the host has LVM": {node: answers(debian12, nil), image: answers(older, nil),
			want: Source{Version: "2.03.16(2) (2022-05-18)"}},
		"the host has LVM without a version": {node: answers("x\n", nil), image: answers(older, nil), want: Source{}},
		"the host has none": {node: answers("", errAbsent), image: answers(older, nil),
			want: Source{Image: true, Version: "2.02.1 (2020-01-01)"}},
		"LVM of the host cannot be executed": {node: answers("", errUnreadable), image: answers(older, nil),
			err: []error{errUnreadable}, says: "check whether the host has LVM"},
		"LVM of the host fails": {node: answers("", errBroken), image: answers(older, nil), err: []error{errBroken},
			says: "check whether the host has LVM"},
		"the host does not answer": {node: answers("", context.DeadlineExceeded), image: answers(older, nil),
			err: []error{context.DeadlineExceeded}, says: "check whether the host has LVM"},
		"neither has LVM": {node: answers("", errAbsent), image: answers("", errNoImage),
			err: []error{errNoImage, errAbsent}, says: "the host has no LVM, and LVM of the image does not run"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
			r := New(test.node, test.image, log)
			for range 2 {
				got, err := r.Source(t.Context())
				if got != test.want || (err != nil) != (test.err != nil) {
					t.Fatalf("got %+v, %v", got, err)
				}
				for _, want := range test.err {
					if !errors.Is(err, want) || !strings.Contains(err.Error(), test.says) {
						t.Errorf("got %v", err)
					}
				}
			}
			checks := 2
			if test.err == nil {
				checks = 1
				if len(lines) == 0 || !strings.Contains(lines[0], test.want.Version) {
					t.Errorf("logged %q", lines)
				}
			}
			if got := strings.Count(strings.Join(test.node.commands, "\n"), "/usr/sbin/lvm version"); got != checks {
				t.Errorf("the host was checked %d times: %q", got, test.node.commands)
			}
		})
	}
}

// Every command of LVM fails until the check of the host's LVM succeeds. It never runs LVM of the image meanwhile.
func TestCommandsWaitForTheCheck(t *testing.T) {
	node, image := answers("", errUnreadable), answers(debian12, nil)
	r := New(node, image, funcr.New(func(string, string) {}, funcr.Options{}))
	if _, err := r.Run(t.Context(), "/usr/sbin/lvm", "fullreport"); !errors.Is(err, errUnreadable) {
		t.Errorf("got %v", err)
	}
	if err := r.Stream(t.Context(), io.Discard, "/usr/sbin/thin_dump"); !errors.Is(err, errUnreadable) {
		t.Errorf("got %v", err)
	}
	if len(image.commands) > 0 {
		t.Errorf("the image ran %q", image.commands)
	}
	node.answer = func(string) (string, error) { return debian12, nil }
	if _, err := r.Run(t.Context(), "/usr/sbin/lvm", "fullreport"); err != nil {
		t.Error(err)
	}
	// It was removed from the host: that is an error of the command, and changes no decision.
	node.answer = func(string) (string, error) { return "", errAbsent }
	if _, err := r.Run(t.Context(), "/usr/sbin/lvm", "fullreport"); !errors.Is(err, host.ErrNoProgram) {
		t.Errorf("got %v", err)
	}
	if len(image.commands) > 0 {
		t.Errorf("the image ran %q", image.commands)
	}
}

// Must-gather changes nothing on a node.
func TestReadOnlyLoadsNoModules(t *testing.T) {
	node, image := answers("", errAbsent), answers(debian12, nil)
	r := NewReadOnly(node, image)
	if _, err := r.Run(t.Context(), "/usr/sbin/lvm", "fullreport"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/usr/sbin/lvm version"}, node.commands); diff != "" {
		t.Error(diff)
	}
}

func TestProgramsRunFromTheirSource(t *testing.T) {
	const config = `activation/monitoring=0 devices/hints="none" global/use_lvmpolld=0`
	modprobe := "/usr/sbin/modprobe --all --quiet dm-mod dm-thin-pool dm-snapshot dm-mirror dm-raid dm-cache dm-writecache"
	run := func(r *Runner) {
		for _, args := range [][]string{
			{"/usr/sbin/lvm", "vgs"}, {"/usr/sbin/lvm", "vgs", "--config", "a/b=1", "vg1"},
			{"/usr/sbin/dmsetup", "info"}, {"/usr/bin/lsblk"}, {"/usr/bin/cat", "/etc/lvm/backup/vg1"},
			{"/usr/sbin/thin_check", "/dev/a"},
		} {
			if _, err := r.Run(t.Context(), args[0], args[1:]...); err != nil {
				t.Error(err)
			}
		}
		if err := r.Stream(t.Context(), io.Discard, "/usr/sbin/thin_dump", "/dev/a"); err != nil {
			t.Error(err)
		}
	}
	for name, test := range map[string]struct {
		absent              bool
		wantNode, wantImage []string
	}{
		"host": {wantNode: []string{"/usr/sbin/lvm version", "/usr/sbin/lvm vgs",
			"/usr/sbin/lvm vgs --config a/b=1 vg1", "/usr/sbin/dmsetup info", "/usr/bin/lsblk",
			"/usr/bin/cat /etc/lvm/backup/vg1", "/usr/sbin/thin_check /dev/a", "/usr/sbin/thin_dump /dev/a"}},
		"image": {absent: true,
			wantNode: []string{"/usr/sbin/lvm version", modprobe, "/usr/bin/lsblk", "/usr/bin/cat /etc/lvm/backup/vg1"},
			wantImage: []string{"/usr/sbin/lvm version", "/usr/sbin/lvm vgs --config " + config,
				"/usr/sbin/lvm vgs --config a/b=1 " + config + " vg1", "/usr/sbin/dmsetup info",
				"/usr/sbin/thin_check /dev/a", "/usr/sbin/thin_dump /dev/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			node, image := answers(debian12, nil), answers(debian12, nil)
			if test.absent {
				node.answer = func(command string) (string, error) {
					switch {
					case strings.HasPrefix(command, lvm):
						return "", errAbsent
					case command == modprobe: // A kernel may lack a module that no volume needs.
						return "", errors.New("exit status 1")
					}
					return "", nil
				}
			}
			run(New(node, image, funcr.New(func(string, string) {}, funcr.Options{})))
			if diff := cmp.Diff(test.wantNode, node.commands); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.wantImage, image.commands); diff != "" {
				t.Error(diff)
			}
		})
	}
}

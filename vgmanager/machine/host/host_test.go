package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/lvm-storage/lvm-operator/test/limit"
)

// script writes an executable shell script and returns its path.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// waits is the end of a script that is ready for a signal.
const waits = `; sleep 120 >/dev/null 2>&1 & >"$0.ready"; wait`

// timeLimit is a context whose time limit passes when it is canceled.
type timeLimit struct{ context.Context }

func (timeLimit) Deadline() (time.Time, bool) { return time.Now().Add(limit.Hang), true }

func (l timeLimit) Err() error {
	if l.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// limitWhenReady returns a context whose time limit passes when the script is ready for a signal.
func limitWhenReady(t *testing.T, script string) context.Context {
	t.Helper()
	ctx, pass := context.WithCancel(t.Context())
	go func() {
		defer pass()
		for ctx.Err() == nil {
			if _, err := os.Stat(script + ".ready"); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return timeLimit{ctx}
}

func TestLocalKeepsStdoutAndStderrApart(t *testing.T) {
	out, err := NewLocal().Run(t.Context(), script(t, "echo data; echo noise >&2"))
	if err != nil || string(out) != "data\n" {
		t.Fatalf("got %q, %v", out, err)
	}
}

func TestLocalGivesNoOutputOfAFailedCommand(t *testing.T) {
	out, err := NewLocal().Run(t.Context(), script(t, "echo '{}'; echo '  it broke' >&2; exit 5"))
	failure := &Error{}
	if !errors.As(err, &failure) {
		t.Fatalf("got %v, want an *Error", err)
	}
	if out != nil || failure.ExitCode != 5 || failure.Stderr != "it broke" || failure.Stdout != "{}" {
		t.Fatalf("got output %q and %+v", out, failure)
	}
	if !strings.Contains(err.Error(), "it broke") || !strings.Contains(err.Error(), "program") {
		t.Errorf("the error should name the command and what it said: %v", err)
	}
}

func TestLocalSendsSIGTERMAtTheTimeLimit(t *testing.T) {
	// The trap runs only for SIGTERM, so the text on stderr proves that SIGTERM was sent.
	program := script(t, "trap 'kill $!; echo terminated >&2; exit 3' TERM"+waits)
	_, err := NewLocal().Run(limitWhenReady(t, program), program)
	failure := &Error{}
	if !errors.As(err, &failure) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if failure.Stderr != "terminated" || failure.ExitCode != 3 {
		t.Fatalf("got %+v", failure)
	}
}

func TestLocalRefusesARelativePath(t *testing.T) {
	local := NewLocal()
	if _, err := local.Run(t.Context(), "true"); err == nil {
		t.Fatal("a relative path was run")
	}
	if local.Started().Total() != 0 {
		t.Error("a refused command was counted")
	}
}

func TestLocalTellsAMissingProgram(t *testing.T) {
	_, err := NewLocal().Run(t.Context(), "/nonexistent/lvm", "fullreport")
	if !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("got %v, want os.ErrNotExist", err)
	}
}

func TestLocalRejectsTooMuchOutput(t *testing.T) {
	_, err := NewLocal().Run(t.Context(), "/usr/bin/head", "-c", "33554433", "/dev/zero")
	failure := &Error{}
	if !errors.Is(err, ErrOutputTooLong) || !errors.As(err, &failure) || len(failure.Stdout) > maxStderr {
		t.Fatalf("got %v with %d bytes of stdout, want ErrOutputTooLong", err, len(failure.Stdout))
	}
}

func TestLocalRunsInTheCLocaleAndWithoutStdin(t *testing.T) {
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	t.Setenv("SECRET", "x")
	out, err := NewLocal().Run(t.Context(), script(t, "cat; echo $LC_ALL$SECRET"))
	if err != nil || string(out) != "C\n" {
		t.Fatalf("got %q, %v", out, err)
	}
}

func TestCounterCountsByCommand(t *testing.T) {
	local := NewLocal()
	for _, args := range [][]string{{"fullreport", "--units", "b"}, {"fullreport"}, {"--version"}, {"/dev/sda"}, {}} {
		if _, err := local.Run(t.Context(), "/bin/true", args...); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]uint64{"true fullreport": 2, "true": 3}
	if started, running := (Counters{local.Started()}).Running(); started != local.Started().Total() || running != 0 {
		t.Errorf("%d started, %d running", started, running)
	}
	if diff := cmp.Diff(want, local.Started().ByCommand()); diff != "" {
		t.Error(diff)
	}
	if got := local.Started().Total(); got != 5 {
		t.Errorf("got %d in all, want 5", got)
	}
}

// TestHeldProcessesDoNotStart: a process that ends itself lets no command begin.
func TestHeldProcessesDoNotStart(t *testing.T) {
	local := NewLocal()
	all := Counters{local.Started(), &Counter{}}
	file := filepath.Join(t.TempDir(), "ran")
	for range 2 {
		release := all.Hold()
		ended := make(chan error, 1)
		go func() {
			_, err := local.Run(t.Context(), "/usr/bin/touch", file)
			ended <- err
		}()
		select {
		case err := <-ended:
			t.Fatalf("a process ran while processes were held: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		if _, running := all.Running(); running != 0 {
			t.Errorf("%d processes run while they are held", running)
		}
		release()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	if _, err := local.Run(t.Context(), "/does/not/exist"); err == nil {
		t.Error("a program that does not exist was started")
	}
	if started, running := all.Running(); started != 2 || running != 0 {
		t.Errorf("%d started, %d running", started, running)
	}
}

func TestNamespaceEntersWithoutForking(t *testing.T) {
	w := NewNamespace([]string{"/run/current-system/sw/bin", "/usr/sbin"}).way()
	cmd := w.command(t.Context(), w.name("/usr/sbin/lvm"), []string{"vgs"})
	want := []string{"/usr/bin/nsenter", "-t", "1", "-m", "-u", "-i", "-n", "--", "lvm", "vgs"}
	if diff := cmp.Diff(want, cmd.Args); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(cmd.Env, "PATH=/run/current-system/sw/bin:/usr/sbin") {
		t.Errorf("got %q", cmd.Env)
	}
}

// sameNamespaces returns a Namespace that runs nsenter without entering namespaces, which needs no privileges.
func sameNamespaces(directories ...string) *Namespace {
	return &Namespace{enter: []string{"/usr/bin/nsenter", "--"}, directories: directories}
}

func TestNamespaceRunsTheFirstProgramOfItsDirectories(t *testing.T) {
	first, second, store := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(directory, name, output string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(directory, name), []byte("#!/bin/sh\necho "+output+" $PATH\n"),
			mode); err != nil {
			t.Fatal(err)
		}
	}
	write(first, "both", "first", 0o755)
	write(second, "both", "second", 0o755)
	write(second, "one", "second", 0o755)
	write(first, "unusable", "first", 0o644)
	write(second, "unusable", "second", 0o755)
	write(store, "linked", "store", 0o755)
	if err := os.Symlink(filepath.Join(store, "linked"), filepath.Join(first, "linked")); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(first, "absent")
	path := strings.Join([]string{absent, first, second}, ":")
	node := sameNamespaces(absent, first, second)
	for name, want := range map[string]string{"both": "first", "one": "second", "unusable": "second",
		"linked": "store"} {
		out, err := node.Run(t.Context(), "/usr/sbin/"+name)
		if err != nil || string(out) != want+" "+path+"\n" {
			t.Errorf("%s: got %q, %v, want %s", name, out, err, want)
		}
	}
	if diff := cmp.Diff(map[string]uint64{"both": 1, "one": 1, "unusable": 1, "linked": 1},
		node.Started().ByCommand()); diff != "" {
		t.Error(diff)
	}
}

func TestNamespaceSaysWhereItLookedForAProgram(t *testing.T) {
	empty, unusable := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(unusable, "lvm"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, directories := range [][]string{{empty}, {empty, unusable}} {
		_, err := sameNamespaces(directories...).Run(t.Context(), "/usr/sbin/lvm", "fullreport")
		want := "lvm fullreport: the node has no executable program lvm in " + strings.Join(directories, ":") +
			" (HOST_PATH): "
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if failure := (*Error)(nil); !errors.As(err, &failure) || !strings.HasPrefix(failure.Stderr,
			"nsenter: failed to execute lvm: ") {
			t.Errorf("got %+v", failure)
		}
		if errors.Is(err, os.ErrNotExist) {
			t.Error("a missing program is taken for a missing file")
		}
		if none := len(directories) == 1; errors.Is(err, ErrNoProgram) != none {
			t.Errorf("no program in %v: got %v", directories, !none)
		}
	}
	// The program's own failure is not explained.
	if _, err := sameNamespaces("/usr/bin").Run(t.Context(), "/bin/false"); err == nil ||
		strings.Contains(err.Error(), "no executable program") || errors.Is(err, ErrNoProgram) {
		t.Errorf("got %v", err)
	}
}

func TestAProgramThatCannotBeLookedForIsNotMissing(t *testing.T) {
	node := sameNamespaces(t.TempDir())
	node.enter = []string{"/usr/bin/nsenter", "-t", "1", "--mount=/absent", "--"}
	for name, run := range map[string]func() error{
		"no namespace": func() error { _, err := node.Run(t.Context(), "/usr/sbin/lvm"); return err },
		"no nsenter": func() error {
			node.enter = []string{"/absent/nsenter"}
			_, err := node.Run(t.Context(), "/usr/sbin/lvm")
			return err
		},
	} {
		if err := run(); err == nil || errors.Is(err, ErrNoProgram) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Programs of the image do not wait for rules of udev that the node may not have.
func TestImageDisablesUdev(t *testing.T) {
	image := NewImage()
	image.prefix = []string{"/usr/bin/env"}
	out, err := image.Run(t.Context(), "/usr/bin/env")
	if err != nil || !strings.Contains(string(out), "DM_DISABLE_UDEV=1\n") || !strings.Contains(string(out),
		"PATH="+ownPath+"\n") {
		t.Errorf("got %q, %v", out, err)
	}
	var streamed strings.Builder
	if err := image.Stream(t.Context(), &streamed, "/bin/echo", "a"); err != nil || streamed.String() != "a\n" {
		t.Errorf("got %q, %v", streamed.String(), err)
	}
	if got := image.Started().Total(); got != 2 {
		t.Errorf("%d processes are counted", got)
	}
}

func TestPrefixedRunsTheCommandThatItWasGiven(t *testing.T) {
	r, err := NewPrefixed([]string{"/usr/bin/env", "LVMS=x", "/bin/echo"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Run(t.Context(), "/usr/sbin/lvm", "vgs", "a b")
	if err != nil || string(out) != "vgs a b\n" {
		t.Errorf("got %q, %v", out, err)
	}
	for _, command := range [][]string{nil, {"lvm"}} {
		if _, err := NewPrefixed(command); err == nil {
			t.Errorf("%q was taken", command)
		}
	}
}

func TestRunAcceptingTakesExitCodesForAnswers(t *testing.T) {
	even := func(code int) bool { return code%2 == 0 }
	for body, want := range map[string]struct {
		out  string
		code int
		fail bool
	}{
		"echo data":                          {"data\n", 0, false},
		"echo data; exit 8":                  {"data\n", 8, false},
		"echo data; exit 5":                  {"", 5, true},
		"echo data; kill -KILL $$":           {"", -1, true},
		"echo data >&2; exit 2":              {"", 2, false},
		"head -c 33554433 /dev/zero; exit 4": {"", 4, true},
	} {
		local := NewLocal()
		out, code, err := local.RunAccepting(t.Context(), even, script(t, body))
		if string(out) != want.out || code != want.code || (err != nil) != want.fail {
			t.Errorf("%s: got %q, %d, %v", body, out, code, err)
		}
		failed := uint64(0)
		if want.fail {
			failed = 1
		}
		if s := local.Started().Statistics()["program"]; s.Started != 1 || s.Failed != failed {
			t.Errorf("%s: counted %+v", body, s)
		}
	}
}

func TestRunReportingKeepsTheBeginningOfBothOutputs(t *testing.T) {
	four := func(code int) bool { return code == 4 }
	for body, want := range map[string]struct {
		out  string
		size int
		code int
		fail bool
	}{
		"echo a; echo b >&2; echo c":                            {"a\nb\nc\n", 6, 0, false},
		"echo a; echo b >&2; exit 4":                            {"a\nb\n", 4, 4, false},
		"echo a; echo b >&2; exit 8":                            {"a\nb\n", 4, 8, true},
		"echo a; kill -KILL $$":                                 {"a\n", 2, -1, true},
		"echo a; head -c 2000000 /dev/zero; echo b >&2; exit 4": {"a\n", maxReport, 4, false},
	} {
		out, code, err := NewLocal().RunReporting(t.Context(), four, script(t, body))
		if !strings.HasPrefix(out, want.out) || len(out) != want.size || code != want.code ||
			(err != nil) != want.fail {
			t.Errorf("%s: got %d bytes, %d, %v", body, len(out), code, err)
		}
		if failure := (*Error)(nil); err != nil && (!errors.As(err, &failure) || !strings.HasPrefix(failure.Stdout, "a")) {
			t.Errorf("%s: got %#v", body, err)
		}
	}
}

func TestRunAcceptingTakesNoExitCodeAfterTheTimeLimit(t *testing.T) {
	program := script(t, "trap 'kill $!; exit 8' TERM; echo data"+waits)
	out, _, err := NewLocal().RunAccepting(limitWhenReady(t, program), func(int) bool { return true }, program)
	if out != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %q, %v", out, err)
	}
}

func TestCommandsAreLogged(t *testing.T) {
	for level, want := range [][]string{{"command failed"}, {"command succeeded", "command failed"}} {
		var lines []string
		logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: level})
		ctx := logr.NewContext(t.Context(), logger.WithValues("volume", "8a6e"))
		if _, err := NewLocal().Run(ctx, "/bin/true"); err != nil {
			t.Fatal(err)
		}
		if _, err := NewLocal().Run(ctx, "/bin/sh", "-c", "echo no such disk >&2; exit 5"); err == nil {
			t.Fatal("no error")
		}
		if len(lines) != len(want) {
			t.Fatalf("level %d: got %q", level, lines)
		}
		for i, text := range want {
			if !strings.Contains(lines[i], text) || !strings.Contains(lines[i], `"volume"="8a6e"`) {
				t.Errorf("level %d: %s", level, lines[i])
			}
		}
		for _, text := range []string{"no such disk", `"exitCode"=5`, "/bin/sh"} {
			if !strings.Contains(lines[len(lines)-1], text) {
				t.Errorf("%s\nhas no %s", lines[len(lines)-1], text)
			}
		}
	}
}

// TestSignal: a program that did not start, or returned an exit code, was not ended by a signal.
func TestSignal(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want syscall.Signal
	}{
		"crashed":     {[]string{"/bin/sh", "-c", "kill -SEGV $$"}, syscall.SIGSEGV},
		"exit code":   {[]string{"/bin/sh", "-c", "exit 139"}, 0},
		"not started": {[]string{"/nosuch"}, 0},
	} {
		_, err := NewLocal().Run(t.Context(), test.args[0], test.args[1:]...)
		var failure *Error
		if !errors.As(err, &failure) || failure.Signal() != test.want {
			t.Errorf("%s: got %v, want signal %v", name, err, test.want)
		}
	}
}

func TestAMessageHasTheCauseAfterTheBeginningOfALongList(t *testing.T) {
	list := "filter=[" + strings.Repeat(`"a|^/dev/é$|",`, 100) + "]"
	err := &Error{Command: "lvm lvremove --config devices{scan_lvs=0 " + list + "} vg1/a",
		Err: errors.New("exit status 5"), Stderr: "  in\n  use"}
	got := err.Error()
	if !strings.HasPrefix(got, "lvm lvremove --config devices{scan_lvs=0 filter=[\"a|^/dev/") ||
		!strings.HasSuffix(got, "… vg1/a: exit status 5: in use") || len(got) > 250 || !utf8.ValidString(got) {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(err.Command, list) {
		t.Error("the log does not have the whole command")
	}
}

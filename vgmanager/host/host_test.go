package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
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
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	// The trap runs only for SIGTERM, so the text on stderr proves that SIGTERM was sent.
	_, err := NewLocal().Run(ctx, script(t, "trap 'echo terminated >&2; exit 3' TERM; sleep 10 >/dev/null 2>&1 & wait"))
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
	if diff := cmp.Diff(want, local.Started().ByCommand()); diff != "" {
		t.Error(diff)
	}
	if got := local.Started().Total(); got != 5 {
		t.Errorf("got %d in all, want 5", got)
	}
}

func TestNamespaceEntersWithoutForking(t *testing.T) {
	cmd := command(t.Context(), enterHost, "/usr/sbin/lvm", []string{"vgs"})
	want := []string{"/usr/bin/nsenter", "-t", "1", "-m", "-u", "-i", "-n", "--", "/usr/sbin/lvm", "vgs"}
	if diff := cmp.Diff(want, cmd.Args); diff != "" {
		t.Error(diff)
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
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	out, _, err := NewLocal().RunAccepting(ctx, func(int) bool { return true },
		script(t, "trap 'exit 8' TERM; echo data; sleep 10 >/dev/null 2>&1 & wait"))
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

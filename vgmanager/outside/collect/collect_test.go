package collect

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/cluster/gatherindex"
	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// node simulates programs by the beginning of their command. Other programs print their own command.
type node map[string]func(context.Context) ([]byte, error)

func (n node) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	command := strings.Join(append([]string{name}, args...), " ")
	for prefix, answer := range n {
		if strings.HasPrefix(command, prefix) {
			return answer(ctx)
		}
	}
	return []byte(command + "\n"), nil
}

// RunAccepting is Run, and returns the exit code of an accepted error.
func (n node) RunAccepting(ctx context.Context, accepted func(int) bool, name string,
	args ...string) ([]byte, int, error) {
	out, err := n.Run(ctx, name, args...)
	var failure *host.Error
	if errors.As(err, &failure) && accepted(failure.ExitCode) {
		return []byte(failure.Stderr), failure.ExitCode, nil
	}
	return out, 0, err
}

func fails(err error) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return nil, err }
}

func prints(text string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(text), nil }
}

// collect returns the files, and the results by file.
func collect(ctx context.Context, t *testing.T, n node) (map[string]string, map[string]gatherindex.Result) {
	t.Helper()
	var out bytes.Buffer
	if err := Write(ctx, &out, Options{Runner: n, Own: n, Since: time.Unix(1700000000, 0),
		MaxBytes: 4000}); err != nil {
		t.Fatal(err)
	}
	return unpacked(t, &out)
}

func unpacked(t *testing.T, out io.Reader) (map[string]string, map[string]gatherindex.Result) {
	t.Helper()
	files := map[string]string{}
	for reader := tar.NewReader(out); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
	var index gatherindex.Index
	if err := json.Unmarshal([]byte(files[gatherindex.IndexFile]), &index); err != nil {
		t.Fatal(err)
	}
	results := map[string]gatherindex.Result{}
	for _, r := range index.Results {
		results[r.File] = r
	}
	return files, results
}

func TestEveryItemIsInTheTarAndInItsIndex(t *testing.T) {
	files, results := collect(t.Context(), t,
		node{"/usr/bin/lsblk --nodeps": prints("/dev/sda disk\n/dev/sdb disk\n/dev/sr0 rom\n/dev/dm-0 lvm\n")})
	for _, item := range Items(hostpaths.Layout{}, time.Unix(0, 0)) {
		if files[item.File] == "" || results[item.File].Bytes != len(files[item.File]) ||
			results[item.File].Error != "" {
			t.Errorf("%s: %q, %+v", item.File, files[item.File], results[item.File])
		}
	}
	if !strings.Contains(files["journal-kernel.log"], "--since=@1700000000") {
		t.Errorf("the kernel's journal was asked by %q", files["journal-kernel.log"])
	}
	if files["smart-sda.json"] == "" || files["smart-sdb.json"] == "" || files["smart-sr0.json"] != "" ||
		files["smart-dm-0.json"] != "" {
		t.Error("not every disk, and nothing but disks, was asked for its own state")
	}
}

func TestAReadThatFailedCostsItsOwnFile(t *testing.T) {
	files, results := collect(t.Context(), t, node{
		"/usr/sbin/lvm fullreport --all": fails(&host.Error{Command: "lvm fullreport", ExitCode: 5,
			Stderr: "locked", Err: errors.New("exit status 5")}),
		"/usr/sbin/lvm fullreport --readonly": prints("{}"),
		"/usr/sbin/multipath": fails(&host.Error{Command: "multipath", ExitCode: 127,
			Stderr: "nsenter: failed to execute multipath: No such file or directory",
			Err:    errors.New("exit status 127")}),
		"/usr/bin/cat /proc/mdstat": fails(&host.Error{Command: "cat", ExitCode: -1, Err: fs.ErrNotExist}),
		"/usr/bin/grep -rH --include=*.json": fails(&host.Error{Command: "grep -rH", ExitCode: 1,
			Err: errors.New("exit status 1")}),
		"/usr/sbin/smartctl --version": fails(errors.New("fork: out of memory")),
		"/usr/bin/uname":               fails(fs.ErrNotExist),
	})
	if r := results["lvm-fullreport.json"]; !strings.Contains(r.Error, "locked") || files["lvm-fullreport.json"] != "" {
		t.Errorf("got %+v", r)
	}
	if files["lvm-fullreport-readonly.json"] != "{}" {
		t.Error("LVM was not asked without its locks")
	}
	for _, name := range []string{"multipath.txt", "mdstat.txt", "topolvm-notes.txt"} {
		if r := results[name]; !r.Absent || r.Error != "" {
			t.Errorf("%s: got %+v, want absent", name, r)
		}
	}
	// A missing file that a node must have is a failure, and so is a program that cannot be started.
	for _, name := range []string{"uname.txt", "smart-*.json"} {
		if r := results[name]; r.Absent || r.Error == "" {
			t.Errorf("%s: got %+v, want an error", name, r)
		}
	}
	if files["lsblk.json"] == "" {
		t.Error("the others were not read")
	}
}

// TestTheWordOfADiskThatFailsIsKept: the exit code reports a failing disk, and the output must be kept.
func TestTheWordOfADiskThatFailsIsKept(t *testing.T) {
	says := func(code int) func(context.Context) ([]byte, error) {
		return fails(&host.Error{Command: "smartctl", ExitCode: code, Stderr: "its words",
			Err: errors.New("exit status")})
	}
	files, results := collect(t.Context(), t, node{
		"/usr/bin/lsblk --nodeps":                                    prints("/dev/sda disk\n/dev/sdb disk\n"),
		"/usr/sbin/smartctl --json --all --nocheck=standby /dev/sda": says(8),
		"/usr/sbin/smartctl --json --all --nocheck=standby /dev/sdb": says(2),
	})
	if files["smart-sda.json"] != "its words" || files["smart-sdb.json"] != "" ||
		results["smart-sdb.json"].Error == "" {
		t.Errorf("got %q, %+v", files["smart-sda.json"], results["smart-sdb.json"])
	}
}

func TestAProgramThatDoesNotEndIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		begun := time.Now()
		files, results := collect(ctx, t, node{"/usr/bin/lsblk --json": func(context.Context) ([]byte,
			error) {
			<-release
			return nil, nil
		}})
		close(release)
		if took := time.Since(begun); took != 200*time.Millisecond+patience {
			t.Errorf("took %s", took)
		}
		if r := results["lsblk.json"]; !strings.Contains(r.Error, "has not ended") {
			t.Errorf("got %+v", r)
		}
		if files["lvm-fullreport.json"] == "" {
			t.Error("the others were not read")
		}
	})
}

func TestWhatIsNotReachedInTimeIsNoted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	files, results := collect(ctx, t, node{})
	if len(files) != 1 {
		t.Errorf("got %d files", len(files))
	}
	for _, item := range Items(hostpaths.Layout{}, time.Time{}) {
		if !strings.Contains(results[item.File].Error, "not read") {
			t.Errorf("%s: %+v", item.File, results[item.File])
		}
	}
}

func TestLogsAreCutAtTheirBeginningAndOthersAtTheirEnd(t *testing.T) {
	long := strings.Repeat("0123456789\n", 1000) + "newest\n"
	files, results := collect(t.Context(), t,
		node{"/usr/bin/dmesg": prints(long), "/usr/sbin/dmsetup table": prints(long)})
	if got := files["dmesg.txt"]; !strings.HasSuffix(got, "newest\n") || !strings.HasPrefix(got, "0123456789\n") ||
		len(got) > 4000 {
		t.Errorf("dmesg has %d bytes: %.20q…", len(got), got)
	}
	if got := files["dmsetup-table.txt"]; len(got) != 4000 || strings.Contains(got, "newest") {
		t.Errorf("the table has %d bytes", len(got))
	}
	for _, name := range []string{"dmesg.txt", "dmsetup-table.txt"} {
		if r := results[name]; r.Cut+r.Bytes != len(long) {
			t.Errorf("%s: %+v of %d", name, r, len(long))
		}
	}
}

// full is a pipe whose reader closes it after some bytes.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestAReaderThatIsGoneIsAnError(t *testing.T) {
	err := Write(t.Context(), &full{1000}, Options{Runner: node{}, Own: node{}, MaxBytes: 100})
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
	if Write(t.Context(), io.Discard, Options{Runner: node{}}) == nil {
		t.Error("a limit of 0 was taken")
	}
}

// TestNoItemChangesAnything has the rules for new programs.
func TestNoItemChangesAnything(t *testing.T) {
	readers := map[string]bool{"cat": true, "find": true, "grep": true, "uname": true, "lsblk": true, "dmesg": true,
		"journalctl": true, "multipath -ll": true, "nvme list": true, "smartctl": true,
		"dmsetup status": true, "dmsetup table": true, "dmsetup info": true, "dmsetup deps": true,
		"lvm fullreport": true, "lvm version": true, "lvm lvmconfig": true}
	files := map[string]bool{}
	for _, item := range append(Items(hostpaths.Layout{}, time.Now()), fallback, smart("/dev/sda", "sda")) {
		program := item.Command[0][strings.LastIndex(item.Command[0], "/")+1:]
		if !readers[program] && !readers[program+" "+item.Command[1]] {
			t.Errorf("%s: %s is not known to change nothing", item.File, item.Command)
		}
		line := fmt.Sprint(item.Command)
		if program == "lvm" && !strings.Contains(line, "backup{backup=0 archive=0}") {
			t.Errorf("%s may write backups of metadata", line)
		}
		if strings.Contains(line, "dmsetup status") && !strings.Contains(line, "--noflush") {
			t.Errorf("%s changes something, or shows keys", line)
		}
		expect.Equal(t, `Contains(line, "showkeys")`, strings.Contains(line, "showkeys"), false)
		expect.Equal(t, `Contains(line, "-delete")`, strings.Contains(line, "-delete"), false)
		expect.Equal(t, `Contains(line, "-exec")`, strings.Contains(line, "-exec"), false)
		if item.Limit <= 0 || item.Limit > long || files[item.File] || !strings.HasPrefix(item.Command[0], "/usr/") {
			t.Errorf("%+v", item)
		}
		files[item.File] = true
	}
}

func TestHoldReadsNothingAndEnds(t *testing.T) {
	var out bytes.Buffer
	c := Command()
	c.SetOut(&out)
	c.SetArgs([]string{"--hold=50ms"})
	begun := time.Now()
	if err := c.ExecuteContext(t.Context()); err != nil || out.Len() != 0 || time.Since(begun) < 50*time.Millisecond {
		t.Errorf("after %s: %d bytes, %v", time.Since(begun), out.Len(), err)
	}
	c = Command()
	c.SilenceErrors = true
	c.SilenceUsage = true
	c.SetArgs([]string{"--since=yesterday"})
	if err := c.ExecuteContext(t.Context()); err == nil {
		t.Error("--since=yesterday was taken")
	}
}

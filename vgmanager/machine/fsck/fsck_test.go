package fsck

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answered returns a recorded report.
type answered struct {
	out      string
	code     int
	err      error
	commands []string
}

func (a *answered) RunReporting(ctx context.Context, accepted func(int) bool, name string,
	args ...string) (string, int, error) {
	a.commands = append(a.commands, strings.Join(append([]string{name}, args...), " "))
	if _, limited := ctx.Deadline(); !limited {
		return "", -1, errors.New("the program has no time limit")
	}
	if a.err == nil && a.code != 0 && !accepted(a.code) {
		return a.out, a.code, errors.New(name + ": exit status")
	}
	return a.out, a.code, a.err
}

func recorded(t *testing.T, name string) string {
	t.Helper()
	out, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		kind, file string
		out        string
		code       int
		errors     bool
		finding    string
		fails      error
		says       string
	}{
		"ext4, well": {kind: "ext4", file: "e2fsck-well", finding: "no errors"},
		"ext4, after a crash": {kind: "ext4", file: "e2fsck-journal",
			finding: "no errors; its journal has changes that are replayed by the next mount"},
		"ext4 with errors": {kind: "ext4", file: "e2fsck-errors", code: 4, errors: true,
			finding: "errors: Entry 'd' in / (2) has deleted/unused inode 12; Entry 'd' in / (2) has an incorrect " +
				"filetype (was 2, should be 0); Inode 2 ref count is 4, should be 3; and more"},
		"ext4 without a superblock": {kind: "ext4", file: "e2fsck-superblock", code: 4, errors: true,
			finding: "errors: ext2fs_open2: Bad magic number in super-block; e2fsck: Superblock invalid, trying backup " +
				"blocks; Block bitmap differences:  +(8193--8450) +(24577--24834) +(40961--41218); and more"},
		"ext4 that is blank": {kind: "ext4", file: "e2fsck-blank", code: 8, says: "e2fsck -b 32768 <device>"},
		"ext4, canceled":     {kind: "ext4", out: "e2fsck canceled.\n", code: 32, says: "e2fsck canceled"},
		"ext4, read errors": {kind: "ext4", code: 4, fails: ErrUnreadable, says: "Error reading block 8",
			out: "Error reading block 8 (Input/output error) while reading inode and block bitmaps.  Ignore error? no\n"},
		"xfs, well": {kind: "xfs", file: "xfs-well", finding: "no errors"},
		"xfs with errors": {kind: "xfs", file: "xfs-errors", code: 1, errors: true,
			finding: "agf_freeblks 7, counted 25590 in ag 1"},
		"xfs after a crash": {kind: "xfs", file: "xfs-log", code: 1,
			finding: "no errors; its log has changes that are replayed by the next mount"},
		"xfs after a crash, with errors": {kind: "xfs", file: "xfs-log-errors", code: 1, errors: true,
			finding: "errors: would have reset inode 131 nlinks from 77 to 2; its log has changes that are replayed by " +
				"the next mount, so some of the errors may disappear then"},
		"xfs without a superblock": {kind: "xfs", file: "xfs-superblock", code: 1, errors: true,
			finding: "errors: bad primary superblock - bad magic number !!!"},
		"xfs that is blank": {kind: "xfs", file: "xfs-blank", code: 1,
			says: "xfs_repair -n /dev/vg1/a: Sorry, could not find valid secondary superblock"},
		"xfs, read errors": {kind: "xfs", out: "xfs_repair: read failed: Input/output error\n", code: 1,
			fails: ErrUnreadable},
		"another file system": {kind: "btrfs", fails: ErrUnsupported, says: "btrfs"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &answered{out: test.out, code: test.code}
			if test.file != "" {
				p.out = recorded(t, test.file)
			}
			got, err := Check(t.Context(), p, test.kind, "/dev/vg1/a")
			if want := test.fails != nil || test.says != ""; (err != nil) != want {
				t.Fatalf("got %+v, %v", got, err)
			}
			if test.fails != nil && !errors.Is(err, test.fails) {
				t.Errorf("got %v, want %v", err, test.fails)
			}
			if err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
			if got.Errors != test.errors || !strings.Contains(got.Finding, test.finding) ||
				len(got.Finding) > 2*maxLength || strings.Contains(got.Finding, "\n") {
				t.Errorf("got %+v", got)
			}
			if strings.HasPrefix(got.Finding, NoErrors) == got.Errors && err == nil {
				t.Errorf("the finding does not tell the errors: %+v", got)
			}
			for _, command := range p.commands {
				if !strings.Contains(command, " -n ") {
					t.Errorf("%q can change something", command)
				}
			}
		})
	}
}

func TestRepair(t *testing.T) {
	for name, test := range map[string]struct {
		kind, file, out string
		code, moved     int
		fails           error
		says            string
		command         string
	}{
		"ext4": {kind: "ext4", file: "e2fsck-repaired", code: 1, moved: 1,
			command: "/usr/sbin/e2fsck -f -y /dev/vg1/a"},
		"ext4, errors are left": {kind: "ext3", file: "e2fsck-repaired", code: 5, moved: 1,
			command: "/usr/sbin/e2fsck -f -y /dev/vg1/a"},
		"ext4, an operational error": {kind: "ext2", out: "e2fsck: No such device or address\n", code: 8,
			says: "No such device or address", command: "/usr/sbin/e2fsck -f -y /dev/vg1/a"},
		"xfs": {kind: "xfs", file: "xfs-repaired", moved: 5, command: "/usr/sbin/xfs_repair /dev/vg1/a"},
		"xfs with a dirty log": {kind: "xfs", file: "xfs-repair-log", code: 2, fails: ErrDirtyLog,
			command: "/usr/sbin/xfs_repair /dev/vg1/a"},
		"xfs, a fatal error": {kind: "xfs", out: "fatal error -- couldn't map inode 131, err = 117\n", code: 1,
			says: "couldn't map inode", command: "/usr/sbin/xfs_repair /dev/vg1/a"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &answered{out: test.out, code: test.code}
			if test.file != "" {
				p.out = recorded(t, test.file)
			}
			moved, err := Repair(t.Context(), p, test.kind, "/dev/vg1/a")
			if want := test.fails != nil || test.says != ""; (err != nil) != want || moved != test.moved {
				t.Fatalf("got %d, %v", moved, err)
			}
			if test.fails != nil && !errors.Is(err, test.fails) {
				t.Errorf("got %v, want %v", err, test.fails)
			}
			if err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
			if len(p.commands) != 1 || p.commands[0] != test.command {
				t.Errorf("ran %q", p.commands)
			}
		})
	}
}

// TestAProgramThatFailsFindsNothing: an error is neither "no errors" nor a finding.
func TestAProgramThatFailsFindsNothing(t *testing.T) {
	for _, kind := range kinds {
		p := &answered{err: context.DeadlineExceeded}
		if got, err := Check(t.Context(), p, kind, "/dev/vg1/a"); !errors.Is(err, context.DeadlineExceeded) ||
			got != (Result{}) {
			t.Errorf("%s: got %+v, %v", kind, got, err)
		}
		if moved, err := Repair(t.Context(), p, kind, "/dev/vg1/a"); !errors.Is(err, context.DeadlineExceeded) || moved != 0 {
			t.Errorf("%s: got %d, %v", kind, moved, err)
		}
	}
}

// TestAFindingIsShort has the names of files, which can contain anything.
func TestAFindingIsShort(t *testing.T) {
	p := &answered{code: 4, out: "Entry '" + strings.Repeat("é\x1b[2J\r", 1000) + "' in / (2) is wrong.  Clear? no\n"}
	got, err := Check(t.Context(), p, "ext4", "/dev/vg1/a")
	if err != nil || len(got.Finding) > maxLength+20 || strings.ContainsAny(got.Finding, "\x1b\r\n") {
		t.Errorf("got %q, %v", got.Finding, err)
	}
}

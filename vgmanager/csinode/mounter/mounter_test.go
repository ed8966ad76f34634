package mounter

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// fakePrograms answers each program with an exit code and output. TestLab* run the real ones.
type fakePrograms struct {
	answers  map[string]answer // by base name
	commands []string
	// ended has the programs that were started, and whether their context had ended.
	ended map[string]bool
}

type answer struct {
	code           int
	stdout, stderr string
}

func (f *fakePrograms) RunAccepting(ctx context.Context, accepted func(int) bool, name string,
	args ...string) ([]byte, int, error) {
	command := strings.Join(append([]string{name}, args...), " ")
	f.commands = append(f.commands, command)
	program := filepath.Base(name)
	if f.ended == nil {
		f.ended = map[string]bool{}
	}
	f.ended[program] = ctx.Err() != nil
	a := f.answers[program]
	if a.code == 0 || accepted(a.code) {
		return []byte(a.stdout), a.code, nil
	}
	return nil, a.code, &host.Error{Command: command, ExitCode: a.code, Stdout: a.stdout, Stderr: a.stderr,
		Err: errors.New("exit status")}
}

func TestTheExitCodesOfBlkid(t *testing.T) {
	for name, test := range map[string]struct {
		answer answer
		want   Content
		says   string // "" for no error
	}{
		"blank":         {answer: answer{code: 2}},
		"ext4":          {answer: answer{stdout: "TYPE=ext4\nUSAGE=filesystem\n"}, want: Content{Kind: "ext4", FileSystem: true}},
		"two at once":   {answer: answer{code: 8, stderr: "ambivalent result"}, says: "signatures of several kinds"},
		"no permission": {answer: answer{code: 1, stderr: "Permission denied"}, says: "Permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			programs := &fakePrograms{answers: map[string]answer{"blkid": test.answer}}
			got, err := Mounter{Programs: programs}.signature(t.Context(), "/dev/vg1/a")
			if got != test.want || (err != nil) != (test.says != "") ||
				err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %+v, %v", got, err)
			}
			if want := []string{"/usr/sbin/blkid --probe --output export /dev/vg1/a"}; !slices.Equal(programs.commands,
				want) {
				t.Errorf("ran %q", programs.commands)
			}
		})
	}
}

func TestTheExitCodesOfE2fsck(t *testing.T) {
	for code, broken := range map[int]bool{0: false, 1: false, 2: true, 4: true, 8: true} {
		programs := &fakePrograms{answers: map[string]answer{"e2fsck": {code: code,
			stdout: "UNEXPECTED INCONSISTENCY;\n\tRUN fsck MANUALLY."}}}
		err := Mounter{Programs: programs}.Check(t.Context(), "/dev/vg1/a", "ext4")
		if (err != nil) != broken || broken && !strings.Contains(err.Error(),
			"UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.") {
			t.Errorf("%d: got %v", code, err)
		}
	}
}

// TestABindMountKeepsTheFlagsOfItsSource mounts /proc, whose mount has flags.
func TestABindMountKeepsTheFlagsOfItsSource(t *testing.T) {
	flags, err := mountFlags("/proc")
	if err != nil {
		t.Fatal(err)
	}
	programs := &fakePrograms{}
	d := Mounter{Programs: programs}
	if err := d.Mount(t.Context(), "/proc", "/target", "", []string{"bind", "ro"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"/usr/bin/mount -o bind /proc /target",
		"/usr/bin/mount -o " + strings.Join(append([]string{"bind", "remount", "ro"}, flags...), ",") + " /proc /target"}
	if diff := cmp.Diff(want, programs.commands); diff != "" {
		t.Error(diff)
	}
	// Without further options, the kernel copies the flags of the source.
	programs.commands = nil
	if err := d.Mount(t.Context(), "/proc", "/target", "", []string{"bind"}); err != nil ||
		!slices.Equal(programs.commands, []string{"/usr/bin/mount -o bind /proc /target"}) {
		t.Errorf("got %v after %q", err, programs.commands)
	}
	programs.answers = map[string]answer{"mount": {code: 32, stderr: "no such device"}}
	programs.commands = nil
	err = d.Mount(t.Context(), "/proc", "/target", "", []string{"bind", "ro"})
	if err == nil || len(programs.commands) != 1 {
		t.Errorf("got %v after %q", err, programs.commands)
	}
}

func TestAMountOfAFileSystemIsOneCommand(t *testing.T) {
	programs := &fakePrograms{}
	if err := (Mounter{Programs: programs}).Mount(t.Context(), "/dev/vg1/a", "/staging", "xfs",
		[]string{"noatime", "nouuid"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/usr/bin/mount -t xfs -o noatime,nouuid /dev/vg1/a /staging"},
		programs.commands); diff != "" {
		t.Error(diff)
	}
}

func TestUnmount(t *testing.T) {
	for name, test := range map[string]struct {
		absent  bool
		answer  answer
		fails   bool
		remains bool
	}{
		"mounted":          {},
		"no such path":     {absent: true},
		"not a mountpoint": {answer: answer{code: 32, stderr: "umount: /x: not mounted."}},
		"in use":           {answer: answer{code: 32, stderr: "umount: /x: target is busy."}, fails: true, remains: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "target")
			if !test.absent {
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			programs := &fakePrograms{answers: map[string]answer{"umount": test.answer}}
			mounts := Mounter{Programs: programs}
			err := mounts.Unmount(t.Context(), path)
			if err == nil {
				err = mounts.RemoveMountPoint(path)
			}
			if (err != nil) != test.fails {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(path); (err == nil) != test.remains {
				t.Errorf("the mount point: %v", err)
			}
			if (len(programs.commands) == 0) != test.absent {
				t.Errorf("ran %q", programs.commands)
			}
		})
	}
}

// TestChangesOfMountsDoNotEndWithTheCall checks the context of programs that must not be ended halfway.
func TestChangesOfMountsDoNotEndWithTheCall(t *testing.T) {
	ctx, endCall := context.WithCancel(t.Context())
	endCall()
	programs := &fakePrograms{}
	d := Mounter{Programs: programs}
	err := errors.Join(d.Mount(ctx, "/proc", "/target", "", []string{"bind"}), d.Unmount(ctx, t.TempDir()),
		d.growWith(ctx, unix.EXT4_SUPER_MAGIC, "/dev/vg1/a", "/staging", true), d.Format(ctx, []string{"mkfs.ext4"}, "/dev/vg1/a"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"mount": false, "umount": false, "resize2fs": false, "mkfs.ext4": true}
	if diff := cmp.Diff(want, programs.ended); diff != "" {
		t.Errorf("which programs end with the call: %s", diff)
	}
}

// hangingProgram runs until its context ends.
type hangingProgram struct{}

func (hangingProgram) RunAccepting(ctx context.Context, _ func(int) bool, _ string, _ ...string) ([]byte, int, error) {
	<-ctx.Done()
	return nil, 3, &host.Error{ExitCode: 3, Stdout: "pass\t1", Err: ctx.Err()}
}

// TestAProgramEndsAtItsLimit checks that the error has what the program printed until then.
func TestAProgramEndsAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, code, err := Mounter{Programs: hangingProgram{}}.run(t.Context(), time.Minute, exits(0), "e2fsck")
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("took %s", took)
		}
		if code != 3 || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "pass 1") {
			t.Errorf("got %d, %v", code, err)
		}
	})
}

//go:build lab

package rescue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// asCommand makes the test program run the command with its arguments, so that a test can kill it.
const asCommand = "LVMS_TEST_RESCUE"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "" {
		os.Exit(m.Run())
	}
	c := Command()
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// lab is a bare node: a mapped device on the first disk is the source, and the second disk is a target.
type lab struct {
	*testing.T
	disks  []string
	folder string // for files, in memory
	size   int64  // of the source
}

const (
	source = "/dev/mapper/source"
	mib    = int64(1) << 20
)

func newLab(t *testing.T, size int64) *lab {
	t.Helper()
	l := &lab{T: t, disks: strings.Split(os.Getenv("LVMS_TEST_DISKS"), ","), folder: t.TempDir(), size: size}
	if len(l.disks) < 2 {
		t.Fatal("LVMS_TEST_DISKS must name two blank disks of a lab node")
	}
	l.sh("modprobe", "dm-mod")
	l.sh("dmsetup", "create", "source", "--table", l.linear(0, size))
	t.Cleanup(func() { l.sh("dmsetup", "remove", "--retry", "source") })
	l.sh("udevadm", "settle")
	return l
}

func (l *lab) sh(name string, args ...string) string {
	l.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		l.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (l *lab) ok(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// linear is a line of a table: a part of the first disk.
func (l *lab) linear(start, length int64) string {
	return fmt.Sprintf("%d %d linear %s %d", start/512, length/512, l.disks[0], 2048+start/512)
}

// fail makes ranges of the source return errors.
func (l *lab) fail(bad []Range) {
	l.Helper()
	var lines []string
	at := int64(0)
	for _, r := range bad {
		if r.Start > at {
			lines = append(lines, l.linear(at, r.Start-at))
		}
		lines = append(lines, fmt.Sprintf("%d %d error", r.Start/512, r.Length/512))
		at = r.End()
	}
	if at < l.size {
		lines = append(lines, l.linear(at, l.size-at))
	}
	l.sh("dmsetup", "suspend", "source")
	l.sh("dmsetup", "load", "source", "--table", strings.Join(lines, "\n"))
	l.sh("dmsetup", "resume", "source")
}

// sum is the hash of the source without errors, read from the disk below it.
func (l *lab) sum() [32]byte {
	l.Helper()
	f, err := os.Open(l.disks[0])
	l.ok(err)
	defer func() { _ = f.Close() }()
	l.sh("blockdev", "--flushbufs", l.disks[0])
	hash := sha256.New()
	_, err = io.Copy(hash, io.NewSectionReader(f, 2048*512, l.size))
	l.ok(err)
	return [32]byte(hash.Sum(nil))
}

// rescue runs the command. It returns its error and what it printed.
func (l *lab) rescue(args ...string) (string, error) {
	l.Helper()
	c := Command()
	c.SilenceErrors, c.SilenceUsage = true, true
	var stdout, stderr bytes.Buffer
	c.SetArgs(append([]string{"--from", source}, args...))
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	err := c.ExecuteContext(l.Context())
	l.Logf("rescue %s: %v\n%s%s", strings.Join(args, " "), err, stderr.String(), stdout.String())
	return stdout.String(), err
}

func (l *lab) partial(err error) {
	l.Helper()
	if partial := (*PartialError)(nil); !errors.As(err, &partial) {
		l.Fatalf("got %v, want a copy in part", err)
	}
}

// missing returns the ranges that a map file does not call saved.
func (l *lab) missing(path string) []Range {
	l.Helper()
	r, err := Load(path)
	l.ok(err)
	if r.Map.Bytes(Pending) > 0 {
		l.Errorf("%d bytes are pending", r.Map.Bytes(Pending))
	}
	return r.Map.Missing()
}

// fill creates files of many sizes, with random content, and returns their hashes.
func (l *lab) fill(folder string) map[string][32]byte {
	l.Helper()
	random := rand.NewChaCha8([32]byte{9})
	sums := map[string][32]byte{}
	for i := range 120 {
		path := fmt.Sprintf("d%d/e%d/file %d", i%5, i%3, i)
		content := make([]byte, 1+(i*i*i*37)%700_000)
		_, _ = random.Read(content)
		l.ok(os.MkdirAll(filepath.Dir(filepath.Join(folder, path)), 0o755))
		l.ok(os.WriteFile(filepath.Join(folder, path), content, 0o600))
		sums["/"+path] = sha256.Sum256(content)
	}
	l.ok(os.Link(filepath.Join(folder, "d0/e0/file 30"), filepath.Join(folder, "second name")))
	sums["/second name"] = sums["/d0/e0/file 30"]
	l.ok(os.Remove(filepath.Join(folder, "d2/e1/file 7"))) // its blocks are free
	delete(sums, "/d2/e1/file 7")
	f, err := os.Create(filepath.Join(folder, "sparse"))
	l.ok(err)
	_, err = f.WriteAt([]byte("x"), 40*mib)
	l.ok(errors.Join(err, f.Close()))
	sums["/sparse"] = l.hash(filepath.Join(folder, "sparse"))
	return sums
}

func (l *lab) hash(path string) [32]byte {
	l.Helper()
	content, err := os.ReadFile(path)
	l.ok(err)
	return sha256.Sum256(content)
}

var extentLine = regexp.MustCompile(`(?m)^ *\d+: +\d+\.\. *\d+: +(\d+)\.\. *(\d+):`)

// extents returns where a file is on its device, with filefrag of e2fsprogs.
func (l *lab) extents(path string) []Range {
	l.Helper()
	var ranges []Range
	for _, m := range extentLine.FindAllStringSubmatch(l.sh("filefrag", "-v", "-b512", path), -1) {
		first, _ := strconv.ParseInt(m[1], 10, 64)
		last, _ := strconv.ParseInt(m[2], 10, 64)
		ranges = append(ranges, Range{first * 512, (last - first + 1) * 512})
	}
	if len(ranges) == 0 {
		l.Fatalf("no extents of %s", path)
	}
	return ranges
}

var fileLine = regexp.MustCompile(`(?m)^  ("(?:[^"\\]|\\.)*"): inode \d+, lost: content, (\d+) bytes$`)

// named returns the files that the command named, with the lost bytes.
func (l *lab) named(out string) []string {
	var names []string
	for _, m := range fileLine.FindAllStringSubmatch(out, -1) {
		name, err := strconv.Unquote(m[1])
		l.ok(err)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var mkfs = map[string][]string{"ext4": {"mkfs.ext4", "-q", "-F", source}, "xfs": {"mkfs.xfs", "-q", "-f", source}}

// unreplayed are mount options for a copy that is not to be changed.
var unreplayed = map[string]string{"ext4": "ro,noload", "xfs": "ro,norecovery,nouuid"}

// TestLabTheLostFilesAreNamedAndAllOthersAreCopied: the copy goes to a device with old content and is mounted. The
// files whose content differs are the ones that the command names.
func TestLabTheLostFilesAreNamedAndAllOthersAreCopied(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, 320*mib)
			l.sh(mkfs[kind][0], mkfs[kind][1:]...)
			mounted := t.TempDir()
			l.sh("mount", source, mounted)
			sums := l.fill(mounted)
			l.sh("sync", "-f", mounted)
			one, two, linked := l.extents(mounted+"/d4/e2/file 89"), l.extents(mounted+"/d1/e1/file 61"), l.extents(mounted+"/second name")
			end := l.extents(mounted + "/d0/e2/file 50")
			deleted := Range{l.size - 3*mib, 65536 + 512}
			l.sh("umount", mounted)
			// A sector at the beginning of a file, some in the middle, the block map's last extent, and free space.
			bad := []Range{{one[0].Start, 512}, {two[0].Start + 1536, 3 * 512}, {linked[0].Start + 4096, 8192},
				{end[len(end)-1].End() - 4096, 512}, deleted}
			slices.SortFunc(bad, func(a, b Range) int { return int(a.Start - b.Start) })
			before := l.sum()
			l.fail(bad)

			noise := make([]byte, mib)
			_, _ = rand.NewChaCha8([32]byte{4}).Read(noise)
			disk, err := os.OpenFile(l.disks[1], os.O_WRONLY, 0)
			l.ok(err)
			for at := int64(0); at < l.size; at += mib {
				_, err := disk.WriteAt(noise, at)
				l.ok(err)
			}
			l.ok(errors.Join(disk.Sync(), disk.Close()))
			path := filepath.Join(l.folder, "map")
			out, err := l.rescue("--to", l.disks[1], "--overwrite-device", "--map", path)
			l.partial(err)
			if diff := cmp.Diff(bad, l.missing(path)); diff != "" {
				t.Errorf("lost ranges (-errors +map):\n%s", diff)
			}
			l.zeros(l.disks[1], bad)
			l.sh("blockdev", "--flushbufs", l.disks[1])
			l.sh("mount", "-t", kind, "-o", unreplayed[kind], l.disks[1], mounted)
			t.Cleanup(func() { _ = exec.Command("umount", mounted).Run() })
			var differ []string
			for name, sum := range sums {
				if l.hash(mounted+name) != sum {
					differ = append(differ, name)
				}
			}
			slices.Sort(differ)
			if len(differ) < 4 {
				t.Errorf("only %q have lost content", differ)
			}
			if diff := cmp.Diff(differ, l.named(out)); diff != "" {
				t.Errorf("files that differ (-really +named):\n%s", diff)
			}
			if strings.Contains(out, "Not complete") {
				t.Error("nothing but content was lost")
			}
			if l.sum() != before {
				t.Error("the source was changed")
			}
			l.sh("umount", mounted)
			if again, err := l.rescue("--to", l.disks[1], "--overwrite-device", "--map", path); !strings.Contains(again, "complete") {
				t.Errorf("a second run is not told that the copy is complete: %v", err)
			}
		})
	}
}

// zeros checks that lost ranges of a device are zeros.
func (l *lab) zeros(path string, ranges []Range) {
	l.Helper()
	f, err := os.Open(path)
	l.ok(err)
	defer func() { _ = f.Close() }()
	for _, r := range ranges {
		content := make([]byte, r.Length)
		_, err := f.ReadAt(content, r.Start)
		l.ok(err)
		if !bytes.Equal(content, make([]byte, r.Length)) {
			l.Errorf("%d+%d of the copy are not zeros", r.Start, r.Length)
		}
	}
}

// write fills the source with noise and returns it.
func (l *lab) write() []byte {
	l.Helper()
	content := make([]byte, l.size)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(content)
	clear(content[min(10*mib, l.size):min(20*mib, l.size)])
	f, err := os.OpenFile(source, os.O_WRONLY, 0)
	l.ok(err)
	_, err = f.Write(content)
	l.ok(errors.Join(err, f.Sync(), f.Close()))
	l.sh("blockdev", "--flushbufs", source)
	return content
}

func (l *lab) same(path string, want []byte) {
	l.Helper()
	got, err := os.ReadFile(path)
	l.ok(err)
	if !bytes.Equal(got, want) {
		l.Error("the copy differs from what can be read")
	}
}

func TestLabACopyThatIsKilledContinues(t *testing.T) {
	l := newLab(t, 64*mib)
	content := l.write()
	bad := []Range{{0, 512}, {30*mib + 1024, 2048}, {63 * mib, 65536}}
	l.fail(bad)
	for _, r := range bad {
		clear(content[r.Start:r.End()])
	}
	to := filepath.Join(l.folder, "copy")
	program, err := os.Executable()
	l.ok(err)
	args := []string{"--from", source, "--to", to, "--save-interval", "1ms"}
	killed := 0
	for saved := int64(0); saved < l.size*3/4; {
		child := exec.Command(program, args...)
		child.Env = append(os.Environ(), asCommand+"=1")
		l.ok(child.Start())
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
			r, err := Load(to + ".map")
			l.ok(err)
			if r != nil && r.Map.Bytes(Saved) >= saved+l.size/8 {
				saved = r.Map.Bytes(Saved)
				break
			}
		}
		l.ok(child.Process.Signal(syscall.SIGKILL))
		_ = child.Wait()
		killed++
	}
	if killed < 3 {
		t.Errorf("it was killed only %d times", killed)
	}
	_, err = l.rescue("--to", to)
	l.partial(err)
	l.same(to, content)
	if diff := cmp.Diff(bad, l.missing(to+".map")); diff != "" {
		t.Error(diff)
	}
	// The disk is repaired: what was lost can be read again.
	l.fail(nil)
	if _, err := l.rescue("--to", to, "--retry-lost"); err != nil {
		t.Errorf("after the repair: %v", err)
	}
	var stat syscall.Stat_t
	if l.ok(syscall.Stat(to, &stat)); stat.Blocks*512 > l.size-9*mib {
		t.Errorf("the file has no holes: %d bytes on disk", stat.Blocks*512)
	}
	if out, err := l.rescue("--to", to); err != nil || !strings.Contains(out, "complete") {
		t.Errorf("a complete copy: %v", err)
	}
}

func TestLabADeviceThatHangsDoesNotHangTheCommand(t *testing.T) {
	l := newLab(t, 16*mib)
	content := l.write()
	to := filepath.Join(l.folder, "copy")
	l.sh("dmsetup", "suspend", "--nolockfs", "source")
	begun := time.Now()
	_, err := l.rescue("--to", to, "--read-timeout", "1s")
	took := time.Since(begun)
	l.sh("dmsetup", "resume", "source")
	if !errors.Is(err, errStuck) || took > 30*time.Second {
		t.Fatalf("after %s: %v", took, err)
	}
	time.Sleep(time.Second) // the abandoned reads return
	if _, err := l.rescue("--to", to); err != nil {
		t.Fatalf("after it answers again: %v", err)
	}
	l.same(to, content)
}

func TestLabWhatWouldDestroyDataIsRefused(t *testing.T) {
	l := newLab(t, 64*mib)
	l.sh("mkfs.ext4", "-q", "-F", source)
	before := l.sum()
	inMemory := func(name string) string { return filepath.Join(l.folder, name) }
	l.ok(os.WriteFile(inMemory("exists"), []byte("precious"), 0o600))
	l.ok(os.WriteFile(inMemory("no map"), []byte("precious"), 0o600))
	l.sh("dmsetup", "create", "small", "--table", fmt.Sprintf("0 2048 linear %s 0", l.disks[1]))
	l.sh("dmsetup", "create", "beside", "--table", fmt.Sprintf("0 131072 linear %s 400000", l.disks[0]))
	l.sh("dmsetup", "create", "busy", "--table", fmt.Sprintf("0 262144 linear %s 4096", l.disks[1]))
	t.Cleanup(func() { l.sh("dmsetup", "remove", "--retry", "small", "beside", "busy") })
	l.sh("mkfs.ext4", "-q", "-F", "/dev/mapper/busy")
	l.sh("dmsetup", "create", "above", "--table", "0 131072 linear "+source+" 0")
	_, err := l.rescue("--to", "/dev/mapper/above", "--overwrite-device", "--map", inMemory("m"))
	if l.sh("dmsetup", "remove", "--retry", "above"); err == nil || !strings.Contains(err.Error(), "same device") {
		t.Errorf("a device above the source: %v", err)
	}
	mounted, own := t.TempDir(), t.TempDir()
	l.sh("mount", "/dev/mapper/busy", mounted)
	l.sh("mount", "-o", "ro", source, own)
	t.Cleanup(func() { l.sh("umount", mounted, own) })
	if _, err := l.rescue("--to", filepath.Join(mounted, "other.img")); err != nil {
		t.Fatalf("a file on another disk: %v", err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"the source":             {[]string{"--to", source, "--overwrite-device", "--map", inMemory("m")}, "same device"},
		"the disk of the source": {[]string{"--to", l.disks[0], "--overwrite-device", "--map", inMemory("m")}, "same device"},
		"a device on its disk":   {[]string{"--to", "/dev/mapper/beside", "--overwrite-device", "--map", inMemory("m")}, "same device"},
		"a file on the source":   {[]string{"--to", filepath.Join(own, "x")}, "same device"},
		"a map on the source":    {[]string{"--to", inMemory("x"), "--map", filepath.Join(own, "m")}, "same device"},
		"a device, no consent":   {[]string{"--to", "/dev/mapper/busy", "--map", inMemory("m")}, "--overwrite-device"},
		"a device, no map":       {[]string{"--to", l.disks[1], "--overwrite-device"}, "--map"},
		"a mounted device":       {[]string{"--to", "/dev/mapper/busy", "--overwrite-device", "--map", inMemory("m")}, "in use"},
		"a disk below a mount":   {[]string{"--to", l.disks[1], "--overwrite-device", "--map", inMemory("m")}, "in use"},
		"a small device":         {[]string{"--to", "/dev/mapper/small", "--overwrite-device", "--map", inMemory("m")}, "larger device"},
		"a file that exists":     {[]string{"--to", inMemory("exists")}, "exists"},
		"a folder":               {[]string{"--to", l.folder, "--map", inMemory("m")}, "neither a file nor"},
		"a map of another copy":  {[]string{"--to", inMemory("x"), "--map", filepath.Join(mounted, "other.img.map")}, "delete the map"},
		"a map that is no map":   {[]string{"--to", inMemory("x"), "--map", inMemory("no map")}, "not a map"},
		"another target":         {[]string{"--to", inMemory("exists"), "--map", filepath.Join(mounted, "other.img.map")}, "another target"},
		"no folder":              {[]string{"--to", inMemory("none/x")}, "no such file"},
		"a source that is none":  {[]string{"--to", inMemory("x"), "--from", inMemory("exists")}, "not a block device"},
	} {
		t.Run(name, func(t *testing.T) {
			inner := &lab{T: t, disks: l.disks, folder: l.folder, size: l.size}
			if _, err := inner.rescue(test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if content, err := os.ReadFile(inMemory("exists")); err != nil || string(content) != "precious" {
		t.Errorf("a file was changed: %q, %v", content, err)
	}
	if l.sum() != before {
		t.Error("the source was changed")
	}
}

// TestLabLostMetadataIsReported: the list of files says that it is not complete.
func TestLabLostMetadataIsReported(t *testing.T) {
	for kind, test := range map[string]struct {
		bad  []Range
		want []string
	}{
		// The first superblock is lost and a backup is used; a part of the inode table is lost.
		"ext4": {[]Range{{0, 4096}}, []string{"Not complete: the first superblock", "Files with lost data: none was found"}},
		"xfs":  {[]Range{{0, 512}}, []string{"Affected files: not determined: ", "superblock"}},
	} {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, 320*mib)
			l.sh(mkfs[kind][0], mkfs[kind][1:]...)
			mounted := t.TempDir()
			l.sh("mount", source, mounted)
			l.fill(mounted)
			l.sh("umount", mounted)
			l.fail(test.bad)
			out, err := l.rescue("--to", filepath.Join(l.folder, "copy"))
			l.partial(err)
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing", want)
				}
			}
		})
	}
}

// TestLabAVolumeWithAPartOnAMissingDisk uses real volumes on two disks, one of which is lost.
func TestLabAVolumeWithAPartOnAMissingDisk(t *testing.T) {
	for kind, test := range map[string]struct {
		create []string
		lose   func(l *lab)
	}{
		// The command of the documentation activates it.
		"linear, missing": {[]string{"lvcreate", "-qqy", "-Wn", "-L160M", "-ndata", "broken"}, func(l *lab) {
			l.sh("vgchange", "-qq", "-an", "broken")
			l.sh("dmsetup", "remove", "--retry", "pv1")
			l.sh("udevadm", "settle")
			l.sh("lvchange", "--activate", "y", "--activationmode", "partial", "broken/data")
		}},
		// LVM does not activate an incomplete pool. One that is active remains so.
		"thin, dead while active": {[]string{"lvcreate", "-qqy", "-Wn", "-L160M", "--poolmetadatasize", "4M", "-V150M", "-ndata", "-T", "broken/pool"}, func(l *lab) {
			l.sh("dmsetup", "suspend", "--noflush", "--nolockfs", "pv1")
			l.sh("dmsetup", "load", "pv1", "--table", "0 204800 error")
			l.sh("dmsetup", "resume", "pv1")
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, mib)
			l.sh("modprobe", "dm-thin-pool")
			for i, disk := range l.disks {
				l.sh("dmsetup", "create", fmt.Sprintf("pv%d", i), "--table", fmt.Sprintf("0 204800 linear %s 8192", disk))
			}
			t.Cleanup(l.clear)
			l.sh("vgcreate", "-qq", "broken", "/dev/mapper/pv0", "/dev/mapper/pv1")
			l.sh(test.create[0], test.create[1:]...)
			content := make([]byte, 140*mib)
			_, _ = rand.NewChaCha8([32]byte{5}).Read(content)
			f, err := os.OpenFile("/dev/broken/data", os.O_WRONLY, 0)
			l.ok(err)
			_, err = f.Write(content)
			l.ok(errors.Join(err, f.Sync(), f.Close()))
			test.lose(l)

			to := filepath.Join(l.folder, "copy")
			_, err = l.rescue("--from", "/dev/broken/data", "--to", to, "--smallest-read", "65536", "--max-files", "0")
			l.partial(err)
			sum := int64(0)
			for _, r := range l.missing(to + ".map") {
				sum += r.Length
				if r.Start < int64(len(content)) {
					clear(content[r.Start:min(r.End(), int64(len(content)))])
				}
			}
			if sum < 40*mib || sum > 100*mib {
				t.Errorf("%d bytes are lost, want those on the lost disk", sum)
			}
			got, err := os.ReadFile(to)
			l.ok(err)
			if !bytes.Equal(got[:len(content)], content) {
				t.Error("the copy differs from what is on the other disk")
			}
		})
	}
}

// clear removes the volume group, even if one of its disks is dead.
func (l *lab) clear() {
	l.Helper()
	for _, name := range strings.Fields(l.sh("dmsetup", "info", "--columns", "--noheadings", "--sort", "-minor", "-o", "name")) {
		if strings.HasPrefix(name, "broken-") || strings.HasPrefix(name, "pv") {
			l.sh("dmsetup", "remove", "--force", "--retry", name)
		}
	}
	for _, disk := range l.disks {
		l.sh("dd", "if=/dev/zero", "of="+disk, "bs=1M", "seek=4", "count=4", "conv=fsync", "status=none")
	}
}

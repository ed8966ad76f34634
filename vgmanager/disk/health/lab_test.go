//go:build lab

package health

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/test/limit"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/direct"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// scene is a volume group "hv" on two physical volumes that a test can make fail or hang, and a monitor.
type scene struct {
	*testing.T
	monitor *Monitor
	disk    string
	pvs     [2]string // names in device-mapper
	told    atomic.Int32
	rounds  atomic.Int32 // that the monitor has begun
}

// moment is a time, and how many rounds the monitor had begun then.
type moment struct {
	time.Time
	rounds int32
}

func (s *scene) now() moment { return moment{time.Now(), s.rounds.Load()} }

// sectors is the size of each physical volume. start is the offset of the first one, so that LVM does not find their
// labels on the disk itself.
const (
	sectors = 280 << 10
	start   = 8192
)

func newScene(t *testing.T) *scene {
	t.Helper()
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node, of 320 MiB")
	}
	s := &scene{T: t, disk: disk, pvs: [2]string{"leg0", "leg1"}}
	for _, module := range []string{"dm-mod", "dm-raid", "dm-thin-pool", "dm-mirror"} {
		s.run("modprobe", module)
	}
	for i, pv := range s.pvs {
		s.run("dmsetup", "create", pv, "--table", s.healthy(disk, i))
	}
	t.Cleanup(func() {
		for i, pv := range s.pvs {
			s.table(pv, s.healthy(disk, i))
		}
		s.run("vgremove", "-qqff", "hv")
		for _, pv := range s.pvs {
			s.run("pvremove", "-qqff", "/dev/mapper/"+pv)
			s.run("dmsetup", "remove", "--retry", pv)
		}
	})
	s.run("vgcreate", "-qq", "hv", "/dev/mapper/leg0", "/dev/mapper/leg1")
	pulse := direct.NewPulse()
	beats := []direct.Beat{s.beat("leg0"), s.beat("leg1")}
	s.monitor = New(Options{Mapper: devicemapper.New(), Failing: func(ctx context.Context) map[string]error {
		s.rounds.Add(1)
		failing := map[string]error{}
		for number, err := range pulse.Check(ctx, beats) {
			failing[string(number)] = err
		}
		return failing
	}})
	s.monitor.Subscribe(func() { s.told.Add(1) })
	return s
}

func (s *scene) healthy(disk string, i int) string {
	return fmt.Sprintf("0 %d linear %s %d", sectors, disk, start+i*sectors)
}

// slow delays each write outside LVM's label by half a second, so that a move does not end before the test observes
// it.
func (s *scene) slow(i int) {
	s.Helper()
	const label = 2048
	s.run("modprobe", "dm-delay")
	disk := s.disk
	from := start + i*sectors
	table := filepath.Join(s.TempDir(), "table")
	text := fmt.Sprintf("0 %d linear %s %d\n%d %d delay %s %d 0 %s %d 500\n", label, disk, from,
		label, sectors-label, disk, from+label, disk, from+label)
	if err := os.WriteFile(table, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	s.run("dmsetup", "suspend", "--noflush", "--nolockfs", s.pvs[i])
	s.run("dmsetup", "load", s.pvs[i], table)
	s.run("dmsetup", "resume", s.pvs[i])
}

func (s *scene) run(program string, args ...string) string {
	s.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		s.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// table replaces the table of a mapping. It does not wait for pending I/O.
func (s *scene) table(name, table string) {
	s.Helper()
	s.run("dmsetup", "suspend", "--noflush", "--nolockfs", name)
	s.run("dmsetup", "load", name, "--table", table)
	s.run("dmsetup", "resume", name)
}

func (s *scene) number(name string) string {
	s.Helper()
	return s.run("dmsetup", "info", "-c", "--noheadings", "--separator", ":", "-o", "major,minor", name)
}

func (s *scene) beat(name string) direct.Beat {
	number := s.number(name)
	_, minor, _ := strings.Cut(number, ":")
	return direct.Beat{Number: direct.Number(number), Path: "/dev/dm-" + minor}
}

// atRest runs the first round and checks that the next ones do not notify.
func (s *scene) atRest() {
	s.Helper()
	for range 3 {
		s.monitor.round(s.Context())
	}
	if seen := s.monitor.Snapshot(); s.told.Load() != 0 || seen.Err != nil || len(seen.Failing)+len(seen.Unreadable)+
		len(seen.Suspended) > 0 {
		s.Fatalf("at rest: told %d times, %+v", s.told.Load(), seen)
	}
}

// within fails unless the subscribers are notified within the given number of rounds. Two rounds take at most 22 s.
func (s *scene) within(rounds int) Snapshot {
	s.Helper()
	before := s.told.Load()
	for range rounds {
		began := time.Now()
		s.monitor.round(s.Context())
		if took := time.Since(began); took > limit.Hang {
			s.Errorf("a round took %s", took)
		}
	}
	if s.told.Load() == before {
		s.Fatalf("nobody was told in %d rounds: %+v", rounds, s.monitor.Snapshot())
	}
	return s.monitor.Snapshot()
}

// fails runs a command that must fail.
func (s *scene) fails(program string, args ...string) {
	s.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err == nil {
		s.Fatalf("%s %s went well: %s", program, strings.Join(args, " "), out)
	}
}

func TestLabAPoolWithoutDataSpace(t *testing.T) {
	s := newScene(t)
	s.run("lvcreate", "-qqy", "--type", "thin-pool", "-L32M", "--poolmetadatasize", "4M", "-np", "hv")
	s.run("lvchange", "-qqy", "--errorwhenfull", "y", "hv/p")
	s.run("lvcreate", "-qqy", "-V64M", "-T", "hv/p", "-nt")
	s.atRest()
	s.run("dd", "if=/dev/zero", "of=/dev/hv/t", "bs=1M", "count=24", "oflag=direct")
	if p := s.within(1).Pools["hv-p-tpool"]; p.DataPercent() != 75 || p.Mode != devicemapper.ModeReadWrite {
		t.Errorf("three quarters full: %+v", p)
	}
	s.fails("dd", "if=/dev/zero", "of=/dev/hv/t", "bs=1M", "count=60", "oflag=direct")
	if p := s.within(1).Pools["hv-p-tpool"]; p.DataPercent() != 100 || p.Mode != devicemapper.ModeOutOfData ||
		!p.ErrorIfNoSpace {
		t.Errorf("full: %+v", p)
	}
	s.run("lvextend", "-qq", "-L+32M", "hv/p")
	if p := s.within(1).Pools["hv-p-tpool"]; p.DataPercent() != 50 || p.Mode != devicemapper.ModeReadWrite {
		t.Errorf("extended: %+v", p)
	}
}

// TestLabAPoolWithoutMetadataSpace has a pool with less metadata than LVM's default.
func TestLabAPoolWithoutMetadataSpace(t *testing.T) {
	s := newScene(t)
	s.run("lvcreate", "-qqy", "-Zy", "-L4M", "-nmeta", "hv")
	s.run("lvcreate", "-qqy", "-L128M", "-ndata", "hv")
	s.run("dd", "if=/dev/zero", "of=/dev/hv/meta", "bs=1M", "count=4", "oflag=direct")
	s.run("dmsetup", "create", "small-meta", "--table", "0 128 linear /dev/hv/meta 0")
	s.run("dmsetup", "create", "small-tpool", "-u", "LVM-small-tpool", "--table",
		"0 262144 thin-pool /dev/mapper/small-meta /dev/hv/data 128 0 1 error_if_no_space")
	s.run("dmsetup", "message", "small-tpool", "0", "create_thin 0")
	s.run("dmsetup", "create", "small-t", "-u", "LVM-small", "--table", "0 262144 thin /dev/mapper/small-tpool 0")
	t.Cleanup(func() { s.run("dmsetup", "remove", "--retry", "small-t", "small-tpool", "small-meta") })
	s.atRest()
	s.fails("dd", "if=/dev/zero", "of=/dev/mapper/small-t", "bs=64k", "count=2048", "oflag=direct")
	if p := s.within(1).Pools["small-tpool"]; p.Mode != devicemapper.ModeReadOnly || !p.NeedsCheck {
		t.Errorf("got %+v", p)
	}
}

func TestLabALegIsLost(t *testing.T) {
	s := newScene(t)
	s.run("lvcreate", "-qqy", "--type", "raid1", "-m1", "--nosync", "-L16M", "-nr", "hv")
	s.run("lvcreate", "-qqy", "--type", "raid1", "-m1", "--nosync", "-L16M", "-np", "hv")
	s.run("lvconvert", "-qqy", "--type", "thin-pool", "--poolmetadatasize", "4M", "hv/p")
	s.run("lvcreate", "-qqy", "-V16M", "-T", "hv/p", "-nt")
	s.atRest()
	if got := s.monitor.Snapshot().RAIDs; got["hv-r"].Health != "AA" ||
		got["hv-p_tdata"].Health != "AA" || len(got) != 2 {
		t.Errorf("at rest: %+v", got)
	}
	s.table("leg1", fmt.Sprintf("0 %d error", sectors))
	if seen := s.within(1); len(seen.Failing) != 1 || seen.Failing[s.number("leg1")] == nil {
		t.Errorf("failing: %v", seen.Failing)
	}
	s.loses("hv-r", "/dev/hv/r")
	s.loses("hv-p_tdata", "/dev/hv/t")
}

// loses writes to a RAID volume that lost a leg, and expects a notification. The kernel also writes bitmaps on its
// own: it can detect the lost leg, and cause the notification, earlier.
func (s *scene) loses(raid, volume string) {
	s.Helper()
	if s.monitor.Snapshot().RAIDs[raid].Health == "AD" {
		return
	}
	s.run("dd", "if=/dev/zero", "of="+volume, "bs=64k", "count=1", "oflag=direct")
	if got := s.within(1).RAIDs[raid]; got.Health != "AD" {
		s.Errorf("%s: %+v", raid, got)
	}
}

func TestLabASuspendedVolume(t *testing.T) {
	s := newScene(t)
	s.run("lvcreate", "-qqy", "-L8M", "-nl", "hv")
	s.atRest()
	number := s.number("hv-l")
	s.run("dmsetup", "suspend", "hv-l")
	t.Cleanup(func() { s.run("dmsetup", "resume", "hv-l") })
	if seen := s.within(2); !seen.Suspended[number] || len(seen.Suspended) != 1 {
		t.Errorf("suspended: %v", seen.Suspended)
	}
	s.run("dmsetup", "resume", "hv-l")
	if seen := s.within(1); len(seen.Suspended) != 0 {
		t.Errorf("suspended: %v", seen.Suspended)
	}
}

// TestLabAMove moves extents with LVM while one of the two devices fails.
func TestLabAMove(t *testing.T) {
	s := newScene(t)
	s.run("lvcreate", "-qqy", "-L100M", "-nl", "hv", "/dev/mapper/leg0")
	s.slow(1)
	s.atRest()
	s.run("pvmove", "-qq", "-b", "-i60", "/dev/mapper/leg0", "/dev/mapper/leg1")
	t.Cleanup(func() { s.run("pvmove", "-qq", "--abort") })
	for name, m := range s.within(1).Mirrors {
		if !strings.HasPrefix(name, "hv-pvmove0") || m.Health != "AA" {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if len(s.monitor.Snapshot().Mirrors) == 0 {
		t.Error("a move is not seen")
	}
}

// TestLabADeviceThatHangs runs the monitor with the intervals of the node agent.
func TestLabADeviceThatHangs(t *testing.T) {
	s := newScene(t)
	s.run("lvcreate", "-qqy", "--type", "thin-pool", "-L32M", "--poolmetadatasize", "4M", "-np", "hv",
		"/dev/mapper/leg0")
	s.run("lvcreate", "-qqy", "-V32M", "-T", "hv/p", "-nt")
	s.run("lvcreate", "-qqy", "--type", "thin-pool", "-L32M", "--poolmetadatasize", "4M", "-nq", "hv",
		"/dev/mapper/leg1")
	s.run("lvchange", "-qqy", "--errorwhenfull", "y", "hv/q")
	s.run("lvcreate", "-qqy", "-V64M", "-T", "hv/q", "-nu")
	s.atRest()
	told := make(chan time.Time, 100)
	s.monitor.Subscribe(func() { told <- time.Now() })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.monitor.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })

	hangs := s.number("leg0")
	s.run("dmsetup", "suspend", "--noflush", "--nolockfs", "leg0")
	t.Cleanup(func() { s.run("dmsetup", "resume", "leg0") })
	// The pool's metadata can no longer be written, and reading its status blocks.
	writer := exec.Command("dd", "if=/dev/zero", "of=/dev/hv/t", "bs=64k", "count=1", "oflag=direct")
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	began := s.now()
	s.until(told, began, "the device that hangs", func(seen Snapshot) bool { return seen.Failing[hangs] != nil })

	// It still hangs, and the other pool fills up.
	began = s.now()
	s.fails("dd", "if=/dev/zero", "of=/dev/hv/u", "bs=1M", "count=60", "oflag=direct")
	s.until(told, began, "the other pool", func(seen Snapshot) bool {
		return seen.Pools["hv-q-tpool"].Mode == devicemapper.ModeOutOfData
	})
	t.Logf("while it hangs: %v", s.monitor.Snapshot().Unreadable)

	began = s.now()
	s.run("dmsetup", "resume", "leg0")
	if err := writer.Wait(); err != nil {
		t.Error(err)
	}
	s.until(told, began, "that it goes on",
		func(seen Snapshot) bool { return len(seen.Failing)+len(seen.Unreadable) == 0 })
}

// until waits for a state that must be reported in the second round that begins after it, at the latest: within 30 s.
func (s *scene) until(told <-chan time.Time, began moment, what string, so func(Snapshot) bool) {
	s.Helper()
	for {
		select {
		case at := <-told:
			if so(s.monitor.Snapshot()) {
				s.Logf("%s: told after %s", what, at.Sub(began.Time).Round(time.Second/10))
				return
			}
		case <-time.After(100 * time.Millisecond):
			if rounds := s.rounds.Load() - began.rounds; rounds > 2 {
				s.Fatalf("%s: round %d begins, and it is not told: %+v", what, rounds, s.monitor.Snapshot())
			}
		}
	}
}

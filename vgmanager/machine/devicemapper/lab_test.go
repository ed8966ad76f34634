//go:build lab

package devicemapper

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// disk returns a blank disk of a lab node, of 256 MiB or more.
func disk(t *testing.T) string {
	t.Helper()
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node")
	}
	for _, module := range []string{"dm-mod", "dm-raid", "dm-thin-pool", "dm-mirror", "dm-crypt"} {
		run(t, "modprobe", module)
	}
	return disk
}

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestLabAgreesWithDmsetup compares the results with the output of dmsetup on each type of volume.
func TestLabAgreesWithDmsetup(t *testing.T) {
	r := New()
	if got, err := r.List(t.Context()); err != nil || len(got) != 0 {
		t.Fatalf("a node without mapped devices has %v, %v", got, err)
	}
	disk := disk(t)
	for i := range 2 {
		run(t, "dmsetup", "create", fmt.Sprintf("pv%d", i), "--table",
			fmt.Sprintf("0 %d linear %s %d", 200<<10, disk, 8192+i*200<<10))
	}
	t.Cleanup(func() {
		run(t, "vgremove", "-qqf", "seen")
		run(t, "dmsetup", "remove", "--retry", "empty")
		run(t, "dmsetup", "remove", "--retry", "pv0", "pv1")
	})
	run(t, "dmsetup", "create", "empty", "-u", "LVM-empty", "--notable")
	run(t, "vgcreate", "-qq", "seen", "/dev/mapper/pv0", "/dev/mapper/pv1")
	run(t, "lvcreate", "-qqy", "--type", "raid1", "-m1", "-L16M", "-nr", "seen")
	run(t, "lvcreate", "-qqy", "--type", "raid1", "-m1", "-L16M", "-np", "seen")
	run(t, "lvconvert", "-qqy", "--type", "thin-pool", "--poolmetadatasize", "4M", "seen/p")
	run(t, "lvcreate", "-qqy", "-V32M", "-T", "seen/p", "-nt")
	run(t, "lvcreate", "-qqy", "--type", "mirror", "--mirrorlog", "core", "-m1", "-L8M", "-nm", "seen")
	run(t, "lvcreate", "-qqy", "-L8M", "-nl", "seen")
	run(t, "udevadm", "settle") // would wait, because udev cannot read a suspended device
	run(t, "dmsetup", "suspend", "seen-l")
	t.Cleanup(func() { run(t, "dmsetup", "resume", "seen-l") })

	// RAID resync and udev change the compared values, so the comparison retries until the devices are idle.
	const info = "name,uuid,major,minor,open,events,attr"
	dmsetup := func() string {
		return run(t, "dmsetup", "info", "-c", "--noheadings", "--separator", "/", "-o", info) +
			run(t, "dmsetup", "status", "--noflush")
	}
	var devices []Device
	targets := map[string][]Target{}
	want := dmsetup()
	for look := 1; ; look++ {
		var err error
		if devices, err = r.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, d := range devices {
			if targets[d.Name], err = r.Status(t.Context(), d.Number); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
		}
		after := dmsetup()
		if after == want {
			break
		}
		if look == 60 {
			t.Fatalf("the node does not come to rest:\n%s\n%s", want, after)
		}
		want = after
		time.Sleep(500 * time.Millisecond)
	}

	if pool, err := r.ThinPool(t.Context(), "seen", "p"); err != nil || pool.Mode != ModeReadWrite ||
		pool.TotalMetadata == 0 {
		t.Errorf("thin pool by its name: %+v, %v", pool, err)
	}
	if _, err := r.ThinPool(t.Context(), "seen", "l"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a volume that is no pool: %v", err)
	}
	for _, d := range devices {
		if d.Name != "seen-t" {
			continue
		}
		one, err := r.Volume(t.Context(), "seen", "t")
		one.Types = d.Types // only List sets the types
		if diff := cmp.Diff(d, one); err != nil || diff != "" {
			t.Errorf("a volume by its name: %v (-list +got):\n%s", err, diff)
		}
	}
	kinds := map[string]bool{}
	var got []string
	for _, d := range devices {
		suspended := "-"
		if d.Suspended {
			suspended = "s"
		}
		number := strings.Replace(d.Number, ":", "/", 1)
		got = append(got, fmt.Sprintf("%s/%s/%s/%d/%d/%s", d.Name, d.UUID, number, d.Open, d.Event, suspended))
		if len(targets[d.Name]) == 0 {
			got = append(got, d.Name+": ")
		}
		for _, target := range targets[d.Name] {
			got = append(got, fmt.Sprintf("%s: %d %d %s %s", d.Name, target.Start, target.Length,
				target.Type, target.Params))
			kinds[target.Type] = true
			parses(t, target)
		}
	}
	// The kernel prints spaces at the ends of lines, and dmsetup keeps them. Of the attributes only the third
	// character is compared: s is suspended.
	var lines []string
	for _, line := range strings.Split(strings.TrimSuffix(want, "\n"), "\n") {
		if i := strings.LastIndex(line, "/"); i > 0 && !strings.Contains(line, ": ") {
			line = line[:i+1] + line[i+3:i+4]
		}
		lines = append(lines, line)
	}
	slices.Sort(got)
	slices.Sort(lines)
	if diff := cmp.Diff(lines, got); diff != "" {
		t.Errorf("dmsetup says (-), we say (+):\n%s", diff)
	}
	for _, kind := range []string{"linear", "raid", "thin-pool", "thin", "mirror"} {
		if !kinds[kind] {
			t.Errorf("no %s was made: this test says less than it should", kind)
		}
	}
	if _, err := r.Status(t.Context(), "254:9999"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of a device that is not there: %v", err)
	}
}

// parses passes real status lines to the parsers.
func parses(t *testing.T, target Target) {
	t.Helper()
	var err error
	switch target.Type {
	case "thin-pool":
		var p ThinPool
		if p, err = ParseThinPool(target.Params); p.Mode != ModeReadWrite || p.TotalMetadata != 1024 ||
			p.TotalData != 256 {
			t.Errorf("%q: %+v", target.Params, p)
		}
	case "raid":
		var raid RAID
		if raid, err = ParseRAID(target.Params); raid.Level != "raid1" || len(raid.Health) != 2 {
			t.Errorf("%q: %+v", target.Params, raid)
		}
	case "mirror":
		var m Mirror
		if m, err = ParseMirror(target.Params); m.Health != "AA" {
			t.Errorf("%q: %+v", target.Params, m)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// TestLabKeysOfEncryptedDevicesAreNotRead checks that the table of an encrypted device is not requested, because the
// result contains the key.
func TestLabKeysOfEncryptedDevicesAreNotRead(t *testing.T) {
	key := strings.Repeat("0123456789abcdef", 4)
	run(t, "dmsetup", "create", "secret", "-u", "CRYPT-PLAIN-x", "--table",
		"0 2048 crypt aes-xts-plain64 "+key+" 0 "+disk(t)+" 0")
	t.Cleanup(func() { run(t, "dmsetup", "remove", "--retry", "secret") })
	r := New()
	asked := 0
	r.ioctl = func(control, command uintptr, buffer []byte) error {
		if command == commandTable.code() {
			asked++
		}
		return ioctl(control, command, buffer)
	}
	devices, err := r.List(t.Context())
	if err != nil || len(devices) != 1 || devices[0].Types != nil || asked != 0 {
		t.Errorf("got %+v, %v; asked %d times for a table", devices, err, asked)
	}
}

// message sends a message like `dmsetup message`, which would need a thousand processes.
func message(t *testing.T, number, text string) {
	t.Helper()
	to, err := parseNumber(number)
	if err != nil {
		t.Fatal(err)
	}
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = control.Close() }()
	const sectorSize = 8 // of struct dm_target_msg, before the text
	buffer := make([]byte, firstBuffer)
	c := command{number: 14} // DM_TARGET_MSG
	c.encode(subject{number: to}, buffer)
	copy(buffer[headerSize+sectorSize:], text)
	if err := ioctl(control.Fd(), c.code(), buffer); err != nil {
		t.Fatalf("message %q: %v", text, err)
	}
}

// TestLabCost measures the cost of a list of 1,000 thin volumes in the kernel and in this process.
func TestLabCost(t *testing.T) {
	const volumes = 1000
	disk := disk(t)
	run(t, "dmsetup", "create", "meta", "--table", "0 32768 linear "+disk+" 0")
	run(t, "dmsetup", "create", "data", "--table", "0 65536 linear "+disk+" 32768")
	run(t, "dd", "if=/dev/zero", "of=/dev/mapper/meta", "bs=4k", "count=1", "conv=fsync")
	run(t, "dmsetup", "create", "many", "-u", "LVM-many-tpool", "--table",
		"0 65536 thin-pool /dev/mapper/meta /dev/mapper/data 128 0")
	t.Cleanup(func() { run(t, "dmsetup", "remove_all", "--noudevsync") })
	// udev would start many programs for each device.
	run(t, "udevadm", "control", "--stop-exec-queue")
	t.Cleanup(func() { run(t, "udevadm", "control", "--start-exec-queue") })
	number := strings.TrimSpace(run(t, "dmsetup", "info", "-c", "--noheadings", "--separator", ":", "-o",
		"major,minor", "many"))
	var concise []string
	for i := range volumes {
		message(t, number, fmt.Sprintf("create_thin %d", i))
		concise = append(concise, fmt.Sprintf("thin%d,LVM-thin%d,,rw,0 2048 thin /dev/mapper/many %d", i, i, i))
	}
	run(t, "dmsetup", "create", "--noudevsync", "--concise", strings.Join(concise, ";"))
	calls := 0
	r := New()
	r.ioctl = func(control, command uintptr, buffer []byte) error {
		calls++
		return ioctl(control, command, buffer)
	}
	const rounds = 20
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	start := time.Now()
	for range rounds {
		if got, err := r.List(t.Context()); err != nil || len(got) != volumes+3 {
			t.Fatalf("%d devices, %v", len(got), err)
		}
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	spent := time.Duration(after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano())
	t.Logf("%d thin volumes: %d calls, %s on the clock, %s of the processor, a list", volumes, calls/rounds,
		time.Since(start)/rounds, spent/rounds)
	listCalls := calls
	start = time.Now()
	for range rounds {
		if got, err := r.Statistics(t.Context()); err != nil || len(got) != volumes+3 {
			t.Fatalf("statistics of %d devices, %v", len(got), err)
		}
	}
	t.Logf("%d thin volumes: %s on the clock for the I/O statistics", volumes, time.Since(start)/rounds)
	if most := 2*(volumes+3) + 3; listCalls/rounds > most {
		t.Errorf("%d calls a list, want %d at most", listCalls/rounds, most)
	}
}

//go:build lab

package devicemapper

import "testing"

// TestLabStatisticsCountWhatWasWrittenAndRead writes to and reads from a volume past the page cache, and compares the
// statistics. An inactive volume has none.
func TestLabStatisticsCountWhatWasWrittenAndRead(t *testing.T) {
	disk := disk(t)
	run(t, "vgcreate", "-qq", "counted", disk)
	t.Cleanup(func() {
		run(t, "vgremove", "-qqf", "counted")
		run(t, "pvremove", "-qq", disk)
	})
	run(t, "lvcreate", "-qqy", "-L16M", "-na-b", "counted")
	run(t, "lvcreate", "-qqy", "-L16M", "-nother", "counted")
	run(t, "udevadm", "settle") // udev reads a new volume
	r := New()
	of := func(lv string) IO {
		t.Helper()
		all, err := r.Statistics(t.Context())
		counted, ok := all.Volume("counted", lv)
		if err != nil || !ok {
			t.Fatalf("volume %s: %v, %t", lv, err, ok)
		}
		return counted
	}
	before, otherBefore := of("a-b"), of("other")
	run(t, "dd", "if=/dev/zero", "of=/dev/counted/a-b", "bs=64k", "count=128", "oflag=direct")
	// udev reads a volume after it was written.
	run(t, "udevadm", "settle")
	written := of("a-b")
	if got := written.WrittenBytes - before.WrittenBytes; got != 8<<20 {
		t.Errorf("%d bytes were written, want 8 MiB", got)
	}
	if got := written.Writes - before.Writes; got != 128 {
		t.Errorf("%d writes, want 128", got)
	}
	run(t, "dd", "if=/dev/counted/a-b", "of=/dev/null", "bs=32k", "count=64", "iflag=direct")
	read := of("a-b")
	if got := read.ReadBytes - written.ReadBytes; got != 2<<20 {
		t.Errorf("%d bytes were read, want 2 MiB", got)
	}
	if got := read.Reads - written.Reads; got != 64 {
		t.Errorf("%d reads, want 64", got)
	}
	if read.WriteTime < written.WriteTime || written.WriteTime < before.WriteTime || read.ReadTime < before.ReadTime {
		t.Errorf("times went back: %+v, %+v, %+v", before, written, read)
	}
	if after := of("other"); after.WrittenBytes != otherBefore.WrittenBytes {
		t.Errorf("the other volume has %+v, before %+v", after, otherBefore)
	}
	run(t, "lvchange", "-an", "counted/a-b")
	all, err := r.Statistics(t.Context())
	if counted, ok := all.Volume("counted", "a-b"); err != nil || ok {
		t.Errorf("inactive: %+v, %v", counted, err)
	}
	run(t, "lvchange", "-ay", "counted/a-b")
	if again := of("a-b"); again.WrittenBytes != 0 {
		t.Errorf("active again: %+v, want counters from 0", again)
	}
}

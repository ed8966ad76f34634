//go:build lab

package changedblocks

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// TestLabIncrementalBackup: a client of the service copies what is allocated in the first snapshot, and then only what
// changed until the next one. The copy is equal to each snapshot, and so is a volume that is restored from it.
func TestLabIncrementalBackup(t *testing.T) {
	n := newNode(t)
	c := served(t, started(n, nil))
	n.run(t, "/usr/sbin/mkfs.ext4", "-qF", "/dev/changed/origin")
	n.snapshot(t, "s0")
	backup := make([]byte, volume)
	got, err := allocated(t, c, &csi.GetMetadataAllocatedRequest{SnapshotId: "s0", MaxResults: 3})
	if err != nil {
		t.Fatal(err)
	}
	n.copy(t, "s0", got.ranges, backup)
	for i := 1; i <= 4; i++ {
		base, target := fmt.Sprint("s", i-1), fmt.Sprint("s", i)
		// Writes of all sizes, which are not aligned to chunks, and discards.
		n.run(t, "/usr/bin/dd", "if=/dev/urandom", "of=/dev/changed/origin", "bs=4k", fmt.Sprint("seek=", 1000*i+7),
			fmt.Sprint("count=", 3*i*i), "conv=notrunc,fsync")
		n.run(t, "/usr/bin/dd", "if=/dev/urandom", "of=/dev/changed/origin", "bs=1k", fmt.Sprint("seek=", 9000*i+1),
			"count=1", "conv=notrunc,fsync")
		n.discard(t, uint64(i)*16*chunk, 4*chunk)
		n.snapshot(t, target)
		n.lvm(t, "lvextend", "-qq", "--extents", "+1", group+"/origin")
		got, err := delta(t, c, request(base, target, 0, 2))
		if err != nil {
			t.Fatal(err)
		}
		backup = append(backup, make([]byte, int(got.size)-len(backup))...)
		copied := n.copy(t, target, got.ranges, backup)
		if copied == 0 || copied > len(backup)/4 {
			t.Errorf("%s: %d bytes were copied of %d", target, copied, len(backup))
		}
		if !bytes.Equal(n.content(t, target), backup) {
			t.Errorf("%s: the backup differs from the snapshot", target)
		}
	}
	n.lvm(t, "lvcreate", "-qq", "-V", fmt.Sprint(len(backup), "b"), "-T", group+"/pool", "-n", "restored")
	if err := os.WriteFile("/dev/changed/restored", backup, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(n.content(t, "s4"), n.content(t, "restored")) {
		t.Error("the restored volume differs from the last snapshot")
	}
	if n.isReserved(t) {
		t.Error("the metadata snapshot is still reserved")
	}
}

// copy copies ranges of a volume to a backup, and returns the number of bytes.
func (n node) copy(t *testing.T, name string, ranges []Range, backup []byte) int {
	t.Helper()
	content := n.content(t, name)
	copied := 0
	for _, r := range ranges {
		copied += copy(backup[r.Offset:r.Offset+r.Length], content[r.Offset:])
	}
	return copied
}

func (n node) content(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile("/dev/changed/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

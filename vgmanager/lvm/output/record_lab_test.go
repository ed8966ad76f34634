//go:build lab

package output

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// TestRecordedScenariosOnRealLVM creates the records in testdata, on a bare lab node with ten disks. The node cannot
// write to the repository, so the test prints them:
//
//	lab bare-test --disks 400M,400M,400M,400M,400M,scsi:300M,scsi:300M,scsi:300M,scsi:300M,scsi:300M -- \
//	  /usr/bin/env LVMS_RECORD=y …/lvm.test -test.run TestRecordedScenariosOnRealLVM |
//	  awk '/^END RECORD/ {f = ""} f {print > f} /^RECORD / {f = "testdata/2.03.16/" $2 ".json"}'
//
// Each one is checked like the record with the same name. The steps run in the order of the list, because the last
// ones remove disks permanently.
func TestRecordedScenariosOnRealLVM(t *testing.T) {
	if _, err := os.Stat("/dev/sde"); err != nil {
		t.Fatal("this test wants the disks ubdb to ubdf and sda to sde of a lab node, see above")
	}
	steps := []struct {
		name    string
		prepare string
	}{
		{"blank", `true`},
		{"volumes", `
			vgcreate --addtag lvms vg1 /dev/ubdb /dev/ubdc
			vgcreate other /dev/ubdd
			pvcreate /dev/ubdf
			lvcreate --type thin-pool --extents 95 --chunksize 128k --poolmetadatasize 8m --thinpool pool vg1 /dev/ubdb
			lvcreate -n a -V 64m --addtag foo --thinpool vg1/pool
			lvcreate -n s1 -s -kn -pr vg1/a
			lvcreate -n t1 -L 32m -Wn --addtag t=1 --addtag u vg1`},
		{"inactive", `vgchange -an vg1`},
		{"full", `
			vgchange -ay vg1
			lvremove -y vg1/s1 vg1/a vg1/t1
			lvcreate -n a -V 640m --thinpool vg1/pool
			lvchange --errorwhenfull y vg1/pool
			(dd if=/dev/urandom of=/dev/vg1/a bs=1M oflag=direct || true)`},
		{"duplicate", `
			lvremove -y vg1/pool
			vgreduce vg1 /dev/ubdc
			pvcreate /dev/ubdc
			dd if=/dev/ubdb of=/dev/ubde bs=1M count=4`},
		{"no-metadata", `
			wipefs -a /dev/ubde
			vgremove vg1 other
			pvremove /dev/ubdb /dev/ubdc /dev/ubdd /dev/ubdf
			vgcreate -s 1m vg1 /dev/ubdb
			lvcreate --type thin-pool -L 320m --chunksize 64k --poolmetadatasize 2m --thinpool vg1/pool
			lvcreate -n a -V 320m --thinpool vg1/pool
			lvchange --errorwhenfull y vg1/pool
			dd if=/dev/zero of=/dev/vg1/a bs=1M oflag=direct count=160
			(for i in $(seq 101 200); do
				dmsetup suspend vg1-a; dmsetup message vg1-pool-tpool 0 "create_snap $i 1" || break; dmsetup resume vg1-a
				for at in $(seq 0 160 2500); do dd if=/dev/zero of=/dev/vg1/a bs=64k count=1 seek=$at oflag=direct status=none || break 2; done
			done) || true
			dmsetup resume vg1-a`},
		{"cordoned", `
			vgremove -y -ff vg1
			vgcreate --addtag lvms vg1 /dev/ubdb /dev/ubdc /dev/ubdd
			pvchange --allocatable n --addtag lvms.cordoned /dev/ubdc
			lvcreate -n lin -Wn -L 40m vg1 /dev/ubdb
			lvcreate -n m -Wn --type raid1 -m1 -L 40m vg1 /dev/ubdb /dev/ubdd
			lvcreate --type thin-pool --extents 15 --poolmetadatasize 8m --thinpool pool vg1 /dev/ubdb
			lvcreate -n t1 -V 40m --thinpool vg1/pool
			lvcreate -n t2 -V 40m --thinpool vg1/pool
			lvcreate -n other -Wn -L 40m vg1 /dev/ubdd`},
		{"moving", `
			modprobe dm-delay
			dmsetup create slow --table "0 $(( $(blockdev --getsz /dev/ubde) - 4096 )) delay /dev/ubde 4096 100"
			vgextend vg1 /dev/mapper/slow
			pvchange --allocatable n /dev/ubdd
			pvmove --background --atomic --interval 5 /dev/ubdb`},
		{"raid", `
			pvmove --abort /dev/ubdb
			vgremove -y -ff vg1
			vgcreate --addtag lvms vg1 /dev/sda /dev/sdb /dev/sdc /dev/sdd
			lvcreate -n one -Wn --type raid1 -m1 -L 40m vg1 /dev/sda /dev/sdb
			lvcreate -n five -Wn --type raid5 --stripes 2 --stripesize 64k -L 40m vg1 /dev/sda /dev/sdb /dev/sdc
			lvcreate -n pool -Wn --type raid1 -m1 -L 40m vg1 /dev/sdc /dev/sdd
			lvconvert -y --type thin-pool --poolmetadatasize 8m vg1/pool /dev/sdd
			lvcreate -n thin -V 40m --thinpool vg1/pool
			lvcreate -n lin -Wn -L 40m vg1 /dev/sdd
			for lv in one five; do while ! lvs --noheadings -o sync_percent vg1/$lv | grep -q 100.00; do sleep 0.2; done; done`},
		{"degraded", `
			echo 1 > /sys/block/sda/device/delete
			dd if=/dev/zero of=/dev/vg1/one bs=4k count=1 oflag=direct
			dd if=/dev/zero of=/dev/vg1/five bs=4k count=1 oflag=direct`},
		{"missing", `
			vgcreate --addtag lvms vg2 /dev/ubdb /dev/sde
			lvcreate --type thin-pool --extents 90 --chunksize 128k --poolmetadatasize 8m --thinpool pool vg2 /dev/ubdb
			lvcreate -n a -V 64m --addtag foo --thinpool vg2/pool
			lvcreate -n t1 -L 32m -Wn --addtag t=1 --addtag u vg2 /dev/sde
			lvcreate -n whole -L 4m -Wn vg2 /dev/ubdb
			echo 1 > /sys/block/sdc/device/delete
			echo 1 > /sys/block/sde/device/delete`},
	}
	for _, s := range steps {
		if !t.Run(s.name, func(t *testing.T) { recordAndCheck(t, s.name, s.prepare) }) {
			t.FailNow()
		}
	}
}

// lvmScript runs lines of shell in which LVM's commands need no path.
func lvmScript(t *testing.T, lines string) {
	t.Helper()
	script := "set -e; export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin\n" + lines
	if out, err := exec.Command("/bin/bash", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func recordAndCheck(t *testing.T, name, prepare string) {
	lvmScript(t, prepare)
	check := scenarios[name]
	if check == nil {
		t.Fatal("there is no check of that name")
	}
	out, err := host.NewLocal().Run(t.Context(), "/usr/sbin/lvm", ReportArguments()...)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("LVMS_RECORD") != "" {
		fmt.Printf("RECORD %s\n%sEND RECORD\n", name, out)
	}
	report, err := DecodeReport(out)
	if err != nil {
		t.Fatal(err)
	}
	check(t, report)
}

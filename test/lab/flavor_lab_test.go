//go:build lab

package lab

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/lane"
)

// describeHost is a script that prints the properties of a node.
const describeHost = `
case $(uname -r) in *-lab) echo kernel=lab ;; *) echo kernel=$(uname -r | cut -d. -f1,2) ;; esac
echo lvm=$(lvm version | awk '/LVM version/ {print $3}')
echo $(lvmconfig --typeconfig full devices/use_devicesfile)
f=/etc/lvm/devices/system.devices
if [ ! -e $f ]; then echo devicesfile=absent
elif grep -q ^IDTYPE $f; then echo devicesfile=entries
else echo devicesfile=empty; fi
echo host=$(findmnt --noheadings --output SOURCE /var/lib/host)
echo thin_check=$(command -v thin_check || true)
if touch /usr/written 2>/dev/null; then echo usr=writable; else echo usr=read-only; fi
echo multipathd=$(pgrep --count multipathd || true)
echo disk=$(lsblk --noheadings --nodeps --output LOG-SEC,TYPE $(echo $DISK))
echo selinux=$(cat /sys/fs/selinux/enforce 2>/dev/null)
echo disks=$(lsblk --noheadings --nodeps --output NAME | grep -c '^[su]')
`

// TestFlavors boots a node of each flavor, and compares it with the
// flavor's description.
func TestFlavors(t *testing.T) {
	// Other properties are those of debian12.
	differences := map[string]string{
		DefaultFlavor:        "",
		"devicesfile":        "use_devicesfile=1 devicesfile=empty",
		"devicesfile-absent": "use_devicesfile=1",
		"devicesfile-root":   "use_devicesfile=1 devicesfile=entries host=/dev/host/root disks=3",
		"sectors4k":          "disk=4096_disk",
		"multipath":          "multipathd=1 disk=512_mpath disks=3",
		"readonly-usr":       "usr=read-only",
		"no-thin-tools":      "thin_check=",
		"no-lvm":             "lvm= use_devicesfile= thin_check=",
		"many-disks":         "disks=42",
		"lvm31":              "kernel=6.12 lvm=2.03.31(2)",
		"lvm31-devicesfile":  "kernel=6.12 lvm=2.03.31(2) use_devicesfile=1 devicesfile=empty",
		"kernel61":           "kernel=6.1",
		"selinux":            "kernel=6.1 selinux=1",
	}
	for _, f := range lane.Cases(Flavors()...) {
		t.Run(f.Name, func(t *testing.T) {
			different, known := differences[f.Name]
			if !known {
				t.Fatal("this test does not know the flavor: say what it is")
			}
			want := map[string]string{
				"kernel": "lab", "lvm": "2.03.16(2)", "use_devicesfile": "0", "devicesfile": "absent", "host": "",
				"thin_check": "/usr/sbin/thin_check", "usr": "writable", "multipathd": "0",
				"disk": "512_disk", "disks": "2", "selinux": "",
			}
			for name, value := range pairs(strings.Fields(different)) {
				want[name] = value
			}
			got := describe(t, f.Name)
			for name, value := range want {
				if got[name] != value {
					t.Errorf("%s is %q, want %q", name, got[name], value)
				}
			}
		})
	}
}

// describe boots a node with one data disk in addition to its root disk.
func describe(t *testing.T, flavor string) map[string]string {
	t.Helper()
	n := flavored(t, flavor)
	disks, err := n.Disks(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	f, err := FindFlavor(flavor)
	if err != nil {
		t.Fatal(err)
	}
	return pairs(strings.Split(n.sh(t, "DISK="+f.dataDisks(disks)[0]+describeHost), "\n"))
}

// flavored returns a node with one data disk, which is a SCSI disk if it has several paths.
func flavored(t *testing.T, flavor string) *Node {
	t.Helper()
	disk := DiskSpec{Name: "data", Size: 300 * MiB}
	if flavor == "multipath" {
		disk.Kind = SCSI
	}
	return up(t, Options{Name: "flavor", Bare: true, Flavor: flavor, Disks: []DiskSpec{disk}}).Nodes()[0]
}

// pairs parses NAME=VALUE. Spaces in a value become underscores.
func pairs(words []string) map[string]string {
	list := map[string]string{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		list[name] = strings.Join(strings.Fields(value), "_")
	}
	return list
}

func TestFlavorsDisksOutliveARestart(t *testing.T) {
	for _, flavor := range lane.Cases("devicesfile-root", "multipath") {
		t.Run(flavor, func(t *testing.T) {
			n := flavored(t, flavor)
			before, err := n.Disks(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			n.sh(t, "lvm vgcreate ours "+n.deviceOf(t, "data"))
			if err := n.Restart(testContext(t)); err != nil {
				t.Fatal(err)
			}
			after, err := n.Disks(testContext(t))
			if err != nil || len(after) != len(before) {
				t.Fatalf("%v before, %v after, %v", before, after, err)
			}
			if got := n.sh(t, "lvm pvs --noheadings --options pv_name --select vg_name=ours"); got !=
				n.deviceOf(t, "data") {
				t.Errorf("the volume group is on %q, the disk is %s", got, n.deviceOf(t, "data"))
			}
		})
	}
}

func (n *Node) deviceOf(t *testing.T, name string) string {
	t.Helper()
	disks, err := n.Disks(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range disks {
		if d.Name == name {
			return d.Device
		}
	}
	t.Fatalf("no disk %s in %v", name, disks)
	return ""
}

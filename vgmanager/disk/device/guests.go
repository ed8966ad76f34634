package device

import (
	"errors"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/stack"
)

// UseGroups sets the function that returns the names of the volume groups of device classes. What is built on their
// logical volumes belongs to whoever uses these.
func (n *Node) UseGroups(groups func() []string) { n.groups = groups }

// ForLVM returns the devices that LVM may read, and those that it must not read: what is built on volumes of device
// classes, and the loop devices of the kubelet. A user of a volume can write anything to it, such as a volume group
// with the name or the UUID of another one. Both are by number: the first with the paths of the device's own names, the
// others with all paths. Logical volumes are in neither, because LVM does not read them (devices/scan_lvs in
// lvm.conf(5)), and loop devices that are not set up neither. ForLVM starts no process.
func (n *Node) ForLVM() (readable, guests map[string][]string, err error) {
	blocks, err := n.blocks()
	if err != nil {
		return nil, nil, err
	}
	readable, guests = map[string][]string{}, map[string][]string{}
	for _, g := range blocks.Guests(n.groups()) {
		if g.IsVolume() {
			continue
		}
		d := Device{Number: Number(g.Number)}
		n.addRecord(&d)
		guests[g.Number] = pathsOf(g.Path(), g.KernelPath(), d.Links)
	}
	for number, b := range blocks {
		if _, guest := guests[number]; !guest && !b.IsVolume() && b.IsSetUp() {
			readable[number] = pathsOf(b.Path(), b.KernelPath(), nil)
		}
	}
	return readable, guests, nil
}

func (n *Node) guests() ([]*stack.Block, error) {
	blocks, err := n.blocks()
	if err != nil {
		return nil, err
	}
	return blocks.Guests(n.groups()), nil
}

func (k *kernel) blocks() (stack.Blocks, error) {
	// What is behind a loop device that does not respond is not known. Silent finds it.
	loop := func(path string) (stack.Backing, error) {
		behind, err := k.loop(path)
		if late := (*bounded.NoAnswerError)(nil); errors.As(err, &late) {
			err = stack.ErrDetached
		}
		return behind, err
	}
	reader := stack.Reader{Sysfs: k.sysfs, Loop: loop}
	return reader.Read()
}

// markGuests removes the content of guests from a list of devices.
func (n *Node) markGuests(devices []Device) error {
	guests, err := n.guests()
	if err != nil {
		return err
	}
	numbers := map[Number]bool{}
	for _, g := range guests {
		numbers[Number(g.Number)] = true
	}
	for i := range devices {
		if d := &devices[i]; numbers[d.Number] {
			d.Guest = true
			d.Signature, d.UUID, d.Label, d.Signatures = "", "", "", nil
			d.PartitionTable, d.PartitionType, d.PartitionLabel = "", "", ""
		}
	}
	return nil
}

// Package stack tells which block devices of the node are built on which, and what uses a device. It reads sysfs and
// procfs, starts no process, and opens no device but loop devices.
package stack

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Block is a block device of the node.
type Block struct {
	// Name is the kernel's name, such as loop3 or dm-4.
	Name string
	// Number is the device number, MAJOR:MINOR.
	Number string
	// Mapping is the name of a device-mapper device, and UUID its UUID. They are empty for other devices.
	Mapping, UUID string
	// File is the path of the backing file or device of a loop device, in the mount namespace that set it up.
	File string
	// Detached is true for a loop device that was detached, and that the kernel keeps as long as something has it open
	// (loop(4), LO_FLAGS_AUTOCLEAR).
	Detached bool

	// below are the numbers of the devices that this one is built on.
	below []string
}

// Path returns the usual path of the device.
func (b *Block) Path() string {
	if b.Mapping != "" {
		return "/dev/mapper/" + b.Mapping
	}
	return b.KernelPath()
}

// KernelPath returns the path with the kernel's name of the device.
func (b *Block) KernelPath() string {
	// The kernel writes "!" instead of "/" in a name in sysfs.
	return "/dev/" + strings.ReplaceAll(b.Name, "!", "/")
}

// IsSetUp returns false for a loop device that has no backing file or device, so that anything can be set up on it.
func (b *Block) IsSetUp() bool { return !strings.HasPrefix(b.Name, "loop") || b.File != "" }

// IsVolume returns true for a device that LVM made: a logical volume or a part of one.
func (b *Block) IsVolume() bool { return strings.HasPrefix(b.UUID, "LVM-") }

// isOfKubelet returns true for a loop device that the kubelet set up for a volume with volumeMode Block
// (pkg/volume/util/volumepathhandler in Kubernetes).
func (b *Block) isOfKubelet() bool { return strings.Contains(b.File, "plugins/kubernetes.io") }

// group returns the name of the volume group of a device that LVM made. LVM separates the names of group and volume
// by a hyphen, and doubles hyphens in them (dm_build_dm_name of libdevmapper).
func (b *Block) group() string {
	if !b.IsVolume() {
		return ""
	}
	name, _, found := strings.Cut(strings.ReplaceAll(b.Mapping, "--", "\x00"), "-")
	if !found {
		return ""
	}
	return strings.ReplaceAll(name, "\x00", "-")
}

// Reader reads the block devices of the node. Its paths are those of this process.
type Reader struct {
	// Sysfs is the path of sysfs, and Proc that of the process table of the node.
	Sysfs, Proc string
	// Loop returns what is behind a loop device. It is LoopBacking, except in tests.
	Loop func(path string) (Backing, error)
}

// New returns a Reader for this node.
func New() *Reader { return &Reader{Sysfs: "/sys", Proc: "/proc", Loop: LoopBacking} }

// Blocks are block devices by number.
type Blocks map[string]*Block

// Read returns all block devices of the node. It leaves out a device that is removed meanwhile. It does not open the
// loop devices of the kubelet, and so does not know what they are built on.
func (r *Reader) Read() (Blocks, error) { return r.read(false) }

func (r *Reader) read(kubelet bool) (Blocks, error) {
	dir := filepath.Join(r.Sysfs, "class/block")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the block devices of the node: %w", err)
	}
	all, byName := Blocks{}, map[string]*Block{}
	uses := map[*Block][]string{} // names
	for _, e := range entries {
		b, below, err := r.block(dir, e.Name(), kubelet)
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read what block device %s is built on: %w", e.Name(), err)
		}
		all[b.Number], byName[b.Name], uses[b] = b, b, below
	}
	for b, names := range uses {
		for _, name := range names {
			if under := byName[name]; under != nil {
				b.below = append(b.below, under.Number)
			}
		}
	}
	return all, nil
}

// isGone returns true if err shows that a device was removed while it was read. For a device-mapper device the kernel
// says then that the argument is invalid (dm_attr_show in drivers/md/dm-sysfs.c).
func isGone(err error) bool {
	var read *fs.PathError
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) &&
		errors.As(err, &read) && filepath.Base(filepath.Dir(read.Path)) == "dm"
}

// block reads a device, and returns the names of those that it is built on.
func (r *Reader) block(dir, name string, kubelet bool) (*Block, []string, error) {
	folder := filepath.Join(dir, name)
	number, err := line(filepath.Join(folder, "dev"))
	if err != nil {
		return nil, nil, err
	}
	b := &Block{Name: name, Number: number}
	if strings.HasPrefix(name, "dm-") {
		var nameErr, uuidErr error
		b.Mapping, nameErr = line(filepath.Join(folder, "dm/name"))
		b.UUID, uuidErr = line(filepath.Join(folder, "dm/uuid"))
		if err := errors.Join(nameErr, uuidErr); err != nil {
			return nil, nil, err
		}
	}
	var below []string
	slaves, err := os.ReadDir(filepath.Join(folder, "slaves"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a partition has none
		return nil, nil, err
	}
	for _, s := range slaves {
		below = append(below, s.Name())
	}
	if _, err := os.Stat(filepath.Join(folder, "partition")); err == nil {
		target, err := os.Readlink(folder)
		if err != nil {
			return nil, nil, err
		}
		return b, append(below, filepath.Base(filepath.Dir(target))), nil
	}
	if strings.HasPrefix(name, "loop") {
		return b, nil, r.addBacking(b, folder, kubelet)
	}
	return b, below, nil
}

// addBacking adds what is behind a loop device. It opens those of the kubelet only if kubelet is set.
func (r *Reader) addBacking(b *Block, folder string, kubelet bool) error {
	file, err := line(filepath.Join(folder, "loop/backing_file"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // It is not set up.
	}
	if err != nil {
		return err
	}
	autoclear, err := line(filepath.Join(folder, "loop/autoclear"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.Detached = autoclear == "1"
	if b.File = file; b.isOfKubelet() && !kubelet {
		return nil
	}
	behind, err := r.Loop(b.KernelPath())
	if errors.Is(err, ErrDetached) {
		return nil
	}
	if number := cmp.Or(behind.Device, behind.FileSystem); number != "" {
		b.below = []string{number}
	}
	return err
}

func line(path string) (string, error) {
	data, err := os.ReadFile(path)
	return strings.TrimSpace(string(data)), err
}

// Guests returns the devices whose content belongs to whoever uses a volume, sorted by name: all that is built on the
// logical volumes of the volume groups, such as loop devices, partitions, arrays and encrypted devices, and on loop
// devices that the kubelet set up for volumes of any driver. A loop device for which that cannot be determined is one
// of them. The logical volumes of the volume groups are not.
func (b Blocks) Guests(groups []string) []*Block {
	known := map[string]bool{}
	var guests []*Block
	for number, block := range b {
		if b.isGuest(number, groups, known) {
			guests = append(guests, block)
		}
	}
	slices.SortFunc(guests, func(x, y *Block) int { return strings.Compare(x.Name, y.Name) })
	return guests
}

// isGuest returns true for a device in Guests. known has the results so far, and ends a circle.
func (b Blocks) isGuest(number string, groups []string, known map[string]bool) bool {
	if guest, ok := known[number]; ok {
		return guest
	}
	known[number] = false
	block := b[number]
	if block == nil {
		return false
	}
	known[number] = block.isOfKubelet() || slices.ContainsFunc(block.below, func(below string) bool {
		under := b[below]
		return under != nil && (b.isGuest(below, groups, known) ||
			slices.Contains(groups, under.group()) && !block.isPartOf(under))
	})
	return known[number]
}

// isPartOf returns true if both devices are of one volume group, such as a thin volume and its pool.
func (b *Block) isPartOf(under *Block) bool {
	// The UUID is "LVM-", 32 characters of the volume group, those of the volume, and a suffix (LVM's
	// lib/activate/dev_manager.c).
	const length = len("LVM-") + 32
	return b.IsVolume() && len(b.UUID) >= length && strings.HasPrefix(under.UUID, b.UUID[:length])
}

// Above returns the devices that are built on a device, directly or not: a device comes before those that it is built
// on, so that they can be closed in this order.
func (b Blocks) Above(number string) []*Block {
	var order []*Block
	seen := map[string]bool{number: true}
	var visit func(string)
	visit = func(under string) {
		for _, n := range slices.Sorted(maps.Keys(b)) {
			if slices.Contains(b[n].below, under) && !seen[n] {
				seen[n] = true
				visit(n)
				order = append(order, b[n])
			}
		}
	}
	visit(number)
	return order
}

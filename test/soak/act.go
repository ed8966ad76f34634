package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// act completes a step, whatever fails meanwhile. It returns the checksum of what opWrite wrote.
func (w *world) act(ctx context.Context, m *Model, s Step) (sum string, err error) {
	switch s.Op {
	case opCreate, opRestore, opClone:
		return "", w.create(ctx, s)
	case opWrite:
		return w.write(ctx, s.On, m.Volumes[s.On].Block, int(s.MiB))
	case opExpand:
		return "", w.expand(ctx, m, s)
	case opSnapshot:
		return "", w.snapshot(ctx, m, s)
	case opStop:
		return "", w.stop(ctx, s.On)
	case opStart:
		v := m.Volumes[s.On]
		return "", w.start(ctx, story.Volume{Namespace: namespace, Name: s.On, Block: v.Block})
	case opDelete:
		return "", w.remove(ctx, s.On)
	case opDeleteSnapshot:
		return "", w.retry(ctx, "delete snapshot "+s.On,
			func(ctx context.Context) error { return w.RemoveSnapshot(ctx, namespace, s.On) })
	case opFill:
		return "", w.fill(ctx)
	}
	return "", w.administer(ctx, s)
}

// administer runs an administrator's operation.
func (w *world) administer(ctx context.Context, s Step) error {
	switch s.Op {
	case opAddDevice:
		return w.addDevice(ctx)
	case opRemoveDevice:
		return w.removeDevice(ctx)
	case opAddClass:
		class, err := w.class(ctx, s.On)
		if err != nil {
			return err
		}
		if err := w.change(ctx, func(storage *lvmv1alpha1.Storage) {
			storage.DeviceClasses = append(without(storage,
				s.On), class)
		}); err != nil {
			return err
		}
		return w.await(ctx, "volume group "+s.On,
			func(group lvmv1alpha1.VGStatus) bool { return group.Size != nil }, s.On)
	case opRemoveClass:
		if err := w.change(ctx, func(storage *lvmv1alpha1.Storage) {
			storage.DeviceClasses = without(storage,
				s.On)
		}); err != nil {
			return err
		}
		return w.await(ctx, "volume group "+s.On+" gone",
			func(group lvmv1alpha1.VGStatus) bool { return group.Name == "" }, s.On)
	case opFailDevice:
		// A mirror tolerates one lost device: an earlier fault may still require a synchronization.
		if err := w.await(ctx, "volume group "+s.On+" in sync", func(group lvmv1alpha1.VGStatus) bool {
			return group.Status == lvmv1alpha1.VGStatusReady
		}, s.On); err != nil {
			return err
		}
		return w.retry(ctx, "fail "+failedDisk,
			func(ctx context.Context) error { return w.node.FailDisk(ctx, failedDisk) })
	case opHealDevice:
		return w.retry(ctx, "heal "+failedDisk,
			func(ctx context.Context) error { return w.node.HealDisk(ctx, failedDisk) })
	}
	return fmt.Errorf("no operation %q", s.Op)
}

func without(storage *lvmv1alpha1.Storage, name string) []lvmv1alpha1.DeviceClass {
	return slices.DeleteFunc(storage.DeviceClasses, func(c lvmv1alpha1.DeviceClass) bool { return c.Name == name })
}

// await waits until the status of a volume group fulfills a condition. A group that is not in the status has no name.
func (w *world) await(ctx context.Context, what string, is func(lvmv1alpha1.VGStatus) bool, class string) error {
	return w.retry(ctx, what, func(ctx context.Context) error {
		groups, err := w.status(ctx)
		if err == nil && !is(groups[class]) {
			err = fmt.Errorf("it is %s: %s", groups[class].Status, groups[class].Reason)
		}
		return err
	})
}

func (w *world) create(ctx context.Context, s Step) error {
	v := story.Volume{Namespace: namespace, Name: s.On, Class: wellknown.StorageClassPrefix + s.Class,
		Size: fmt.Sprintf("%dMi", s.MiB), Block: s.Block}
	switch s.Op {
	case opRestore:
		v.Snapshot = s.From
	case opClone:
		v.Clone = s.From
	}
	if err := w.retry(ctx, "claim "+s.On, func(ctx context.Context) error {
		return ignoreExists(w.Claim(ctx,
			v))
	}); err != nil {
		return err
	}
	return w.start(ctx, v)
}

// start starts the Pod of a volume.
func (w *world) start(ctx context.Context, v story.Volume) error {
	begun := false
	return w.retry(ctx, "start Pod "+v.Name, func(ctx context.Context) error {
		if !begun {
			if err := w.StartPod(ctx, v, v.Name); ignoreExists(err) != nil {
				return err
			}
			begun = true
		}
		return w.WaitRunning(ctx, v.Namespace, v.Name)
	})
}

func (w *world) stop(ctx context.Context, name string) error {
	return w.retry(ctx, "stop Pod "+name, func(ctx context.Context) error { return w.StopPod(ctx, namespace, name) })
}

func (w *world) remove(ctx context.Context, name string) error {
	if err := w.stop(ctx, name); err != nil {
		return err
	}
	return w.retry(ctx, "delete claim "+name, func(ctx context.Context) error {
		return w.Unclaim(ctx, story.Volume{Namespace: namespace, Name: name})
	})
}

// place returns the arguments of dd for a file of a volume.
func place(block bool, file int, direction string) string {
	if block {
		offset := "seek"
		if direction == "if" {
			offset = "skip"
		}
		return fmt.Sprintf("%s=/dev/data %s=%d", direction, offset, file*fileMiB)
	}
	return fmt.Sprintf("%s=/data/file%d", direction, file)
}

// write writes and flushes a file, and returns its checksum.
func (w *world) write(ctx context.Context, name string, block bool, file int) (sum string, err error) {
	line := fmt.Sprintf("dd if=/dev/urandom of=/tmp/new bs=1M count=%d iflag=fullblock 2>/dev/null && dd if=/tmp/new "+
		"%s bs=1M conv=fsync,notrunc 2>&1 && sync && sha256sum </tmp/new",
		fileMiB, place(block, file, "of"))
	err = w.retry(ctx, "write to "+name, func(ctx context.Context) error {
		out, err := w.Shell(ctx, namespace, name, line)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		sum, _, _ = strings.Cut(lines[len(lines)-1], " ")
		if len(sum) != 64 {
			return fmt.Errorf("no checksum in %q", out)
		}
		return nil
	})
	return sum, err
}

// read returns the checksum of a file.
func (w *world) read(ctx context.Context, name string, block bool, file int) (string, error) {
	out, err := w.Shell(ctx, namespace, name,
		fmt.Sprintf("dd %s bs=1M count=%d iflag=fullblock 2>/dev/null | sha256sum", place(block, file, "if"), fileMiB))
	sum, _, _ := strings.Cut(out, " ")
	return sum, err
}

func (w *world) expand(ctx context.Context, m *Model, s Step) error {
	v := story.Volume{Namespace: namespace, Name: s.On, Block: m.Volumes[s.On].Block}
	return w.retry(ctx, "expand "+s.On, func(ctx context.Context) error {
		_, err := w.Expand(ctx, v, s.On, fmt.Sprintf("%dMi", s.MiB))
		return err
	})
}

func (w *world) snapshot(ctx context.Context, m *Model, s Step) error {
	v := story.Volume{Namespace: namespace, Name: s.From,
		Class: wellknown.StorageClassPrefix + m.Volumes[s.From].Class}
	return w.retry(ctx, "snapshot "+s.On, func(ctx context.Context) error {
		err := w.Snapshot(ctx, v, s.On)
		if ignoreExists(err) == nil && err != nil {
			return w.WaitSnapshot(ctx, namespace, s.On)
		}
		return err
	})
}

// fill writes to a volume of the thin class until the status reports that the pool is too full, and deletes the volume.
func (w *world) fill(ctx context.Context) error {
	s := Step{Op: opCreate, On: fillName, Class: thinClass, MiB: 2500}
	if err := w.create(ctx, s); err != nil {
		return err
	}
	for file, full := 0, false; !full; file++ {
		if file >= mostPours {
			return fmt.Errorf("the pool is not full after %d files", file)
		}
		var err error
		if full, err = w.pour(ctx, file); err != nil {
			return err
		}
	}
	err := w.retry(ctx, "no capacity is offered of a pool that is nearly full", func(ctx context.Context) error {
		node := &corev1.Node{}
		err := w.Get(ctx, client.ObjectKey{Name: nodeName}, node)
		if offered := node.Annotations[wellknown.CapacityAnnotationPrefix+thinClass]; err == nil && offered != "0" {
			err = fmt.Errorf("the node offers %q bytes", offered)
		}
		return err
	})
	if err != nil {
		return err
	}
	return w.remove(ctx, fillName)
}

// mostPours is more than the number of writes that fill the pool.
const mostPours = 200

// pour writes 40 MiB, or less if that would fill the pool. It returns whether the pool is nearly full.
func (w *world) pour(ctx context.Context, file int) (nearlyFull bool, err error) {
	var full float64
	err = w.retry(ctx, "how full the pool is", func(ctx context.Context) error {
		percent, err := w.onNode(ctx, "lvs --noheadings -o data_percent "+thinClass+"/pool")
		if err == nil {
			_, err = fmt.Sscan(percent, &full)
		}
		return err
	})
	if err != nil || full >= 96 {
		return true, err
	}
	count := 40
	if full > 93 {
		count = 4
	}
	line := fmt.Sprintf("dd if=/dev/urandom of=/data/fill%d bs=1M count=%d conv=fsync 2>&1", file, count)
	return false, w.retry(ctx, "fill the pool", func(ctx context.Context) error {
		_, err := w.Shell(ctx, namespace, fillName, line)
		return err
	})
}

// addDevice adds a disk to the thick class, and waits until its volume group has it.
func (w *world) addDevice(ctx context.Context) error {
	err := w.retry(ctx, "add a disk", func(ctx context.Context) error {
		if _, err := w.disk(ctx, addedDisk); err == nil {
			return nil
		}
		_, err := w.node.AddDisk(ctx, lab.DiskSpec{Name: addedDisk, Kind: lab.SCSI, Size: lab.GiB})
		return err
	})
	if err != nil {
		return err
	}
	added, err := w.disk(ctx, addedDisk)
	if err != nil {
		return err
	}
	serial := lvmv1alpha1.DeviceProperty(added.Serial)
	if err := w.change(ctx, func(storage *lvmv1alpha1.Storage) {
		selector := of(storage, thickClass).DeviceSelector
		if !slices.Contains(selector.Serials, serial) {
			selector.Serials = append(selector.Serials, serial)
		}
	}); err != nil {
		return err
	}
	return w.await(ctx, "the new disk in volume group "+thickClass,
		func(group lvmv1alpha1.VGStatus) bool { return len(group.PhysicalVolumes) == 2 }, thickClass)
}

// removeDevice removes the additional disk from the volume group, and pulls it.
func (w *world) removeDevice(ctx context.Context) error {
	added, err := w.disk(ctx, addedDisk)
	if err != nil {
		return err
	}
	serial := lvmv1alpha1.DeviceProperty(added.Serial)
	class := thickClass
	if err := w.change(ctx, func(storage *lvmv1alpha1.Storage) {
		c := of(storage, class)
		c.DeviceSelector.Serials = slices.DeleteFunc(c.DeviceSelector.Serials,
			func(p lvmv1alpha1.DeviceProperty) bool { return p == serial })
		c.DeviceRequests = []lvmv1alpha1.DeviceRequest{{Node: nodeName, Device: added.Device,
			Action: lvmv1alpha1.DeviceActionRemove}}
	}); err != nil {
		return err
	}
	if err := w.await(ctx, "the disk out of volume group "+class,
		func(group lvmv1alpha1.VGStatus) bool { return len(group.PhysicalVolumes) == 1 }, class); err != nil {
		return err
	}
	if err := w.change(ctx, func(storage *lvmv1alpha1.Storage) {
		of(storage,
			class).DeviceRequests = nil
	}); err != nil {
		return err
	}
	return w.retry(ctx, "remove the disk", func(ctx context.Context) error {
		all, err := w.node.Disks(ctx)
		if err != nil || !slices.ContainsFunc(all, func(d lab.Disk) bool { return d.Name == addedDisk }) {
			return err
		}
		return w.node.RemoveDisk(ctx, addedDisk)
	})
}

// sizes returns the sizes of the claims, in MiB.
func (w *world) sizes(ctx context.Context) (map[string]int64, error) {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := w.List(ctx, claims, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	found := map[string]int64{}
	for _, claim := range claims.Items {
		size := claim.Status.Capacity[corev1.ResourceStorage]
		found[claim.Name] = mib(size)
	}
	return found, nil
}

func mib(q resource.Quantity) int64 { return q.Value() >> 20 }

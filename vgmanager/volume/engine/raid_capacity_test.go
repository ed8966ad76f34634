package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// newRAIDEngine returns an engine with a raid5 class on four disks of 100 extents.
func newRAIDEngine(t *testing.T) (*Engine, *lvmtest.Fake) {
	t.Helper()
	fake := lvmtest.New()
	devices := []string{"/dev/a", "/dev/b", "/dev/c", "/dev/d"}
	for i, d := range devices {
		fake.AddDisk(d, lvm.Bytes(401*mib), uint32(16*(i+1)))
	}
	must(t, fake.Apply(t.Context(), lvm.VGCreate{Name: "raid", Devices: devices}))
	e, err := New(fake, nil, "")
	must(t, err)
	class := thickClass("raid")
	class.LVCreateOptions = deviceclass.RAIDOptions("raid5", 0, 2, 64<<10)
	must(t, e.Publish(class))
	return e, fake
}

func capacityOf(t *testing.T, e *Engine, class string) int64 {
	t.Helper()
	free, err := e.FreeBytes(t.Context(), class)
	must(t, err)
	return int64(free)
}

func TestRAIDClassTellsAndGrantsWhatIsLeftAfterRedundancy(t *testing.T) {
	e, fake := newRAIDEngine(t)
	ctx := t.Context()
	told := capacityOf(t, e, "raid")
	if told != 2*99*4*mib {
		t.Fatalf("%d bytes are told", told)
	}
	_, err := e.CreateLV(ctx, NewVolume{Name: "over", Class: "raid", Size: told + 1})
	wantCode(t, "more than is told", err, codes.ResourceExhausted)
	if fake.Calls()["LVCreateThick"] != 0 {
		t.Error("LVM was asked for what does not fit")
	}
	response, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "raid", Size: 5 * mib})
	if err != nil || sizeOf(response) != 8*mib {
		t.Errorf("got %v, %v, want the size that the volume has", response, err)
	}
	for range 2 {
		grown, err := e.ResizeLV(ctx, "raid", "a", 17*mib)
		if err != nil || grown != 24*mib {
			t.Errorf("got %v, %v", grown, err)
		}
	}
	_, err = e.ResizeLV(ctx, "raid", "a", gib)
	wantCode(t, "grown over all", err, codes.ResourceExhausted)
	if fake.Calls()["LVExtend"] != 1 {
		t.Errorf("got %v", fake.Calls())
	}
	_, err = e.CreateLVSnapshot(ctx, NewSnapshot{Name: "s", Class: "raid", Source: "a",
		ReadOnly: true})
	wantCode(t, "a snapshot of a RAID volume", err, codes.Unimplemented)
}

func TestRAIDClassWithALostDeviceHasNoCapacity(t *testing.T) {
	e, fake := newRAIDEngine(t)
	fake.Detach("/dev/b")
	if told := capacityOf(t, e, "raid"); told != 0 {
		t.Errorf("%d bytes are told", told)
	}
	_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "raid", Size: mib})
	wantCode(t, "create", err, codes.ResourceExhausted)
}

func TestClosedDevicesHaveNoCapacity(t *testing.T) {
	e, fake := newRAIDEngine(t)
	ctx := t.Context()
	must(t, fake.Apply(ctx, lvm.PVSetAllocatable{Device: "/dev/a"}))
	if told := capacityOf(t, e, "raid"); told != 2*99*4*mib {
		t.Errorf("three of four devices: %d bytes are told", told)
	}
	must(t, fake.Apply(ctx, lvm.PVSetAllocatable{Device: "/dev/b"}))
	if told := capacityOf(t, e, "raid"); told != 0 {
		t.Errorf("two of four devices: %d bytes are told", told)
	}
	setClasses(t, e, deviceclass.Class{Name: "plain", VolumeGroup: "raid"})
	if told := capacityOf(t, e, "plain"); told != 2*100*4*mib {
		t.Errorf("a plain class: %d bytes are told", told)
	}
	_, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "plain", Size: gib})
	wantCode(t, "more than the open devices have", err, codes.ResourceExhausted)
}

func TestOptionsThatMakeNoSenseHaveNoCapacity(t *testing.T) {
	e, _ := newRAIDEngine(t)
	class := thickClass("raid")
	class.LVCreateOptions = []string{"--type", "raid1", "--mirrors", "many"}
	must(t, e.Publish(class))
	if told := capacityOf(t, e, "raid"); told != 0 {
		t.Errorf("%d bytes are told", told)
	}
	_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "raid", Size: mib})
	wantCode(t, "create", err, codes.InvalidArgument)
}

func TestARequestDoesNotWaitForEverForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := newEngine(t)
		leave, err := e.enter(t.Context(), "thick")
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		create := NewVolume{Name: "a", Class: "thick", Size: mib}
		_, err = e.CreateLV(t.Context(), NewVolume{Name: "b", Class: "thin", Size: mib})
		wantCode(t, "in another volume group", err, codes.OK)
		_, err = e.CreateLV(ctx, create)
		wantCode(t, "create", err, codes.DeadlineExceeded)
		begun := time.Now()
		err = e.RemoveLV(t.Context(), "thick", "a")
		wantCode(t, "remove", err, codes.DeadlineExceeded)
		if time.Since(begun) != semaphoreTimeout {
			t.Errorf("waited %s", time.Since(begun))
		}
		leave()
		_, err = e.CreateLV(t.Context(), create)
		wantCode(t, "after the other ended", err, codes.OK)
	})
}

package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// GetLVList returns the volumes of a class. For a thin class these are the volumes of its thin pool, otherwise all
// thick volumes of its volume group.
func (e *Engine) GetLVList(ctx context.Context, in *proto.GetLVListRequest) (*proto.GetLVListResponse, error) {
	var response *proto.GetLVListResponse
	err := e.withFreshRetry(ctx, in.GetDeviceClass(), func(l classView) error {
		response = &proto.GetLVListResponse{}
		for i := range l.vg.LVs {
			lv := &l.vg.LVs[i]
			if !l.has(lv) {
				continue
			}
			volume, err := e.complete(ctx, l, lv)
			if err != nil {
				return err
			}
			response.Volumes = append(response.Volumes, volume)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// complete returns a volume with its device number. If the last report does not have the number because the volume is
// new, complete gets it from the kernel.
func (e *Engine) complete(ctx context.Context, l classView, lv *lvm.LV) (*proto.LogicalVolume, error) {
	volume := message(lv)
	if lv.Major != 0 || !lv.Attr.Active() {
		return volume, nil
	}
	return volume, e.number(ctx, l, volume)
}

// FindLV returns a volume of a class with all eight fields. An active volume has its device number. FindLV returns
// NotFound if the volume does not exist.
func (e *Engine) FindLV(ctx context.Context, class, name string) (*proto.LogicalVolume, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var found *proto.LogicalVolume
	err := e.withFreshRetry(ctx, class, func(l classView) error {
		lv := l.volume(name)
		if lv == nil || !l.has(lv) {
			return status.Errorf(codes.NotFound, "device class %s has no logical volume %s in volume group %s",
				l.class.Name, name, l.vg.Name)
		}
		var err error
		found, err = e.complete(ctx, l, lv)
		return err
	})
	return found, err
}

// UUID returns the UUID of a logical volume. It returns NotFound if the volume does not exist.
func (e *Engine) UUID(ctx context.Context, class, name string) (uuid string, err error) {
	err = e.upkeep(ctx, class, name, func(l classView) error {
		uuid = l.volume(name).UUID
		return nil
	})
	return uuid, err
}

// Tagged returns the volumes of a class that have a tag, which may be none. The report can be as old as viewAge.
func (e *Engine) Tagged(ctx context.Context, class, tag string) ([]*proto.LogicalVolume, error) {
	var found []*proto.LogicalVolume
	err := e.withFreshRetry(ctx, class, func(l classView) error {
		found = nil
		for i := range l.vg.LVs {
			if lv := &l.vg.LVs[i]; l.has(lv) && slices.Contains(lv.Tags, tag) {
				found = append(found, message(lv))
			}
		}
		return nil
	})
	return found, err
}

// TagsOf returns the tags of a volume by its volume group. The report can be as old as viewAge, and has every change of
// this process.
func (e *Engine) TagsOf(ctx context.Context, vg, name string) ([]string, error) {
	report, err := e.view(ctx)
	if err != nil {
		return nil, statusOf(err)
	}
	group := report.VG(vg)
	if group == nil || group.LV(name) == nil {
		return nil, status.Errorf(codes.NotFound, "logical volume %s/%s not found", vg, name)
	}
	return slices.Clone(group.LV(name).Tags), nil
}

// Exists returns true if any available volume group of the node has a volume with this name, in any class.
func (e *Engine) Exists(ctx context.Context, name string) (bool, error) {
	report, err := e.lvm.Report(ctx)
	if err != nil {
		return false, statusOf(err)
	}
	for i := range report.VGs {
		if report.VGs[i].LV(name) != nil {
			return true, nil
		}
	}
	return false, nil
}

// ClassOf returns the class of a volume. It reads a new report. It returns NotFound if no class has the volume, and
// Unavailable if the volume group or pool of a class is not available, because that class may have the volume.
func (e *Engine) ClassOf(ctx context.Context, name string) (string, error) {
	report, err := e.lvm.Report(ctx)
	if err != nil {
		return "", statusOf(err)
	}
	set := e.classes.Load()
	var unknown error
	for i := range set.classes {
		class := &set.classes[i]
		l, err := resolve(set, class, report)
		if err != nil {
			unknown = err
			continue
		}
		if lv := l.volume(name); lv != nil && l.has(lv) {
			return class.Name, nil
		}
	}
	if unknown != nil {
		return "", status.Errorf(codes.Unavailable,
			"the device class of logical volume %s is unknown: %v", name, unknown)
	}
	return "", status.Errorf(codes.NotFound, "no device class of this node has logical volume %s", name)
}

// Default returns the published default class.
func (e *Engine) Default() (DeviceClass, bool) {
	c, ok := e.classes.Load().find("")
	if !ok {
		return DeviceClass{}, false
	}
	return *c, true
}

// number sets the device number of a volume that was created since the last report. It gets the number from the
// kernel.
func (e *Engine) number(ctx context.Context, l classView, lv *proto.LogicalVolume) error {
	unknown := status.Errorf(codes.NotFound, "the device of logical volume %s/%s is unknown", l.vg.Name, lv.GetName())
	if e.kernel == nil {
		return unknown
	}
	device, err := e.kernel.Volume(ctx, l.vg.Name, lv.GetName())
	if err != nil || !strings.HasPrefix(device.UUID, "LVM-"+strings.ReplaceAll(l.vg.UUID, "-", "")) {
		return unknown
	}
	if _, err := fmt.Sscanf(device.Number, "%d:%d", &lv.DevMajor, &lv.DevMinor); err != nil {
		return unknown
	}
	return nil
}

// has returns true if a volume belongs to the class.
func (l classView) has(lv *lvm.LV) bool {
	if !l.mayUse(lv) {
		return false
	}
	if l.pool != nil {
		return lv.PoolName == l.pool.Name
	}
	return !lv.Attr.IsThinPool() && !lv.Attr.IsThinVolume()
}

// GetFreeBytes returns the capacity of a class for new volumes, without the spare.
func (e *Engine) GetFreeBytes(ctx context.Context, in *proto.GetFreeBytesRequest) (*proto.GetFreeBytesResponse, error) {
	l, err := e.locate(ctx, in.GetDeviceClass(), e.view)
	if err != nil {
		return nil, err
	}
	return &proto.GetFreeBytesResponse{FreeBytes: l.capacity()}, nil
}

// message returns a volume as TopoLVM's message, with all eight fields.
func message(lv *lvm.LV) *proto.LogicalVolume {
	return &proto.LogicalVolume{
		Name: lv.Name, SizeBytes: int64(lv.Size), DevMajor: lv.Major, DevMinor: lv.Minor,
		Tags: lv.Tags, Path: lv.Path, Attr: string(lv.Attr),
	}
}

package lvmd

import (
	"context"
	"regexp"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// volumeNamePattern is what LVM takes as the name of a volume. A name never begins with a dash, so that it cannot become an
// option of a command.
var volumeNamePattern = regexp.MustCompile(`^[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}$`)

func checkName(name string) error {
	if !volumeNamePattern.MatchString(name) {
		return status.Errorf(codes.InvalidArgument, "%q is not the name of a logical volume", name)
	}
	return nil
}

// checkRequest refuses a name or a size that cannot be.
func checkRequest(name string, size int64) error {
	if err := checkName(name); err != nil {
		return err
	}
	if size <= 0 {
		return status.Errorf(codes.InvalidArgument, "the size of a volume must be positive, not %d", size)
	}
	return nil
}

// CreateLV makes a volume. If there is one of the name, in the same class and of the requested size, it is the answer.
// The size in the response is the actual one: requests are rounded up to whole extents of the volume group. The device
// number is 0, since nobody asks for it and it would take one more report.
//
// Codes: NotFound (class), InvalidArgument, AlreadyExists, ResourceExhausted (another node may have the space), and those
// of codeTable.
func (e *Engine) CreateLV(ctx context.Context, in *proto.CreateLVRequest, _ ...grpc.CallOption) (*proto.CreateLVResponse, error) {
	if err := checkRequest(in.GetName(), in.GetSizeBytes()); err != nil {
		return nil, err
	}
	if err := e.admitting.enter(ctx); err != nil {
		return nil, err
	}
	defer e.admitting.leave()
	l, err := e.locate(ctx, in.GetDeviceClass(), requestAge)
	if err != nil {
		return nil, err
	}
	options, err := l.options(in.GetLvcreateOptionClass())
	if err != nil {
		return nil, err
	}
	size := lvm.Bytes(in.GetSizeBytes()).RoundUp(l.vg.ExtentSize)
	if present := l.vg.LV(in.GetName()); present != nil {
		return existing(l, present, size)
	}
	devices, err := l.admitNew(size, options)
	if err != nil {
		return nil, err
	}
	if err := e.create(ctx, l, in, size, options, devices); err != nil {
		return nil, statusOf(err)
	}
	log.FromContext(ctx).Info("logical volume created", "deviceClass", l.class.Name, "lv", in.GetName(), "size", int64(size))
	e.watchers.notify()
	if len(options) > 0 {
		return e.created(ctx, l, in.GetName())
	}
	return &proto.CreateLVResponse{Volume: &proto.LogicalVolume{Name: in.GetName(), SizeBytes: int64(size)}}, nil
}

func (e *Engine) create(ctx context.Context, l located, in *proto.CreateLVRequest, size lvm.Bytes, options, devices []string) error {
	if l.pool == nil {
		return e.lvm.LVCreateThick(ctx, lvm.ThickOptions{
			VG: l.vg.Name, Name: in.GetName(), Size: size, Tags: in.GetTags(), Options: options, Devices: devices,
		})
	}
	return e.lvm.LVCreateThin(ctx, lvm.ThinOptions{
		VG: l.vg.Name, Pool: l.pool.Name, PoolZeroes: l.pool.Zeroes, Name: in.GetName(), VirtualSize: size,
		Tags: in.GetTags(), Options: options,
	})
}

// created reads the size of a volume that was made with options: stripes and RAID round it further.
func (e *Engine) created(ctx context.Context, l located, name string) (*proto.CreateLVResponse, error) {
	report, err := e.lvm.Recent(ctx, requestAge)
	if err != nil {
		return nil, statusOf(err)
	}
	if now, err := resolve(l.set, l.class, report); err == nil {
		if lv := now.volume(name); lv != nil {
			return &proto.CreateLVResponse{Volume: message(lv)}, nil
		}
	}
	return nil, status.Errorf(codes.Internal, "logical volume %s/%s was created or extended and is gone", l.vg.Name, name)
}

// existing answers a request that was answered before.
func existing(l located, lv *lvm.LV, size lvm.Bytes) (*proto.CreateLVResponse, error) {
	pool := ""
	if l.pool != nil {
		pool = l.pool.Name
	}
	if lv.Attr.IsThinPool() || lv.PoolName != pool || lv.Size < size {
		return nil, status.Errorf(codes.AlreadyExists, "logical volume %s/%s exists and is another one", l.vg.Name, lv.Name)
	}
	return &proto.CreateLVResponse{Volume: message(lv)}, nil
}

// options returns what is added to lvcreate: those of the option class if the request names one, else the device class'.
func (l located) options(name string) ([]string, error) {
	if name == "" {
		return createOptions(l.class), nil
	}
	options, ok := l.set.options[name]
	if !ok {
		return nil, status.Errorf(codes.InvalidArgument, "lvcreate option class %q is not known on this node", name)
	}
	return options, nil
}

// admit refuses what does not fit, so that the provisioner looks for another node.
func (l located) admit(size, room lvm.Bytes) error {
	if size <= room {
		return nil
	}
	return status.Errorf(codes.ResourceExhausted, "device class %s: %d bytes are requested, %d are free in volume group %s",
		l.class.Name, size, room, l.vg.Name)
}

// admitNew refuses a new volume that does not fit. It returns the devices to name to LVM for one with redundancy that fits on as
// many as it has images: the loss of a device then touches one image of it only.
func (l located) admitNew(size lvm.Bytes, options []string) ([]string, error) {
	if l.pool != nil || l.vg.MissingPVs > 0 {
		return nil, l.admit(size, l.room())
	}
	layout, err := lvm.NewLayout(options)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "device class %s: %v", l.class.Name, err)
	}
	image := imageExtents(layout, size, l.vg.ExtentSize)
	if err := l.admit(lvm.Bytes(image*int64(layout.Data))*l.vg.ExtentSize, createRoom(layout, l.vg)); err != nil {
		return nil, err
	}
	if !layout.Meta {
		return nil, nil
	}
	return onePerImage(layout, l.vg, image), nil
}

// admitGrowth refuses what a volume cannot grow by, and returns the devices to name to LVM.
func (l located) admitGrowth(lv *lvm.LV, more lvm.Bytes) ([]string, error) {
	if l.pool != nil || l.vg.MissingPVs > 0 {
		return nil, l.admit(more, l.room())
	}
	g := growthOf(l.vg, lv, createOptions(l.class))
	return g.devices, l.admit(more, g.room)
}

// RemoveLV removes a volume. NotFound means that it does not exist, which callers take for success; therefore a volume group
// that cannot be seen is Unavailable, and a class that is not known FailedPrecondition: the volume may well exist.
func (e *Engine) RemoveLV(ctx context.Context, in *proto.RemoveLVRequest, _ ...grpc.CallOption) (*proto.Empty, error) {
	if err := checkName(in.GetName()); err != nil {
		return nil, err
	}
	if err := e.admitting.enter(ctx); err != nil {
		return nil, err
	}
	defer e.admitting.leave()
	l, err := e.locate(ctx, in.GetDeviceClass(), requestAge)
	if status.Code(err) == codes.NotFound {
		return nil, status.Errorf(codes.FailedPrecondition,
			"device class %q is not known on this node, so whether logical volume %s exists is not known either", in.GetDeviceClass(), in.GetName())
	}
	if err != nil {
		return nil, err
	}
	if err := l.removable(in.GetName()); err != nil {
		return nil, err
	}
	if err := e.lvm.LVRemove(ctx, l.vg.Name, in.GetName()); err != nil {
		return nil, statusOf(err)
	}
	log.FromContext(ctx).Info("logical volume removed", "deviceClass", l.class.Name, "lv", in.GetName())
	e.watchers.notify()
	return &proto.Empty{}, nil
}

// removable refuses what lvremove --yes would take other volumes with: a thin pool, and the origin of a thick snapshot.
func (l located) removable(name string) error {
	lv := l.vg.LV(name)
	if lv == nil {
		return status.Errorf(codes.NotFound, "logical volume %s/%s not found", l.vg.Name, name)
	}
	if lv.Attr.IsThinPool() {
		return status.Errorf(codes.InvalidArgument, "logical volume %s/%s is a thin pool, not a volume", l.vg.Name, name)
	}
	for i := range l.vg.LVs {
		if other := &l.vg.LVs[i]; other.Origin == name && !other.Attr.IsThinVolume() {
			return status.Errorf(codes.FailedPrecondition, "logical volume %s/%s has the snapshot %s, which would be lost", l.vg.Name, name, other.Name)
		}
	}
	return nil
}

// ResizeLV grows a volume. One that has the requested size or more stays as it is. The response has the actual size.
func (e *Engine) ResizeLV(ctx context.Context, in *proto.ResizeLVRequest, _ ...grpc.CallOption) (*proto.ResizeLVResponse, error) {
	if err := checkRequest(in.GetName(), in.GetSizeBytes()); err != nil {
		return nil, err
	}
	if err := e.admitting.enter(ctx); err != nil {
		return nil, err
	}
	defer e.admitting.leave()
	l, err := e.locate(ctx, in.GetDeviceClass(), requestAge)
	if err != nil {
		return nil, err
	}
	lv := l.volume(in.GetName())
	if lv == nil {
		return nil, status.Errorf(codes.NotFound, "logical volume %s/%s not found", l.vg.Name, in.GetName())
	}
	size := lvm.Bytes(in.GetSizeBytes()).RoundUp(l.vg.ExtentSize)
	if size <= lv.Size {
		return &proto.ResizeLVResponse{SizeBytes: int64(lv.Size)}, nil
	}
	devices, err := l.admitGrowth(lv, size-lv.Size)
	if err != nil {
		return nil, err
	}
	if err := e.lvm.LVExtend(ctx, lvm.LVExtendOptions{VG: l.vg.Name, Name: lv.Name, Size: size, Devices: devices}); err != nil {
		return nil, statusOf(err)
	}
	log.FromContext(ctx).Info("logical volume extended", "deviceClass", l.class.Name, "lv", lv.Name, "size", int64(size))
	e.watchers.notify()
	if lv.IsRAID() || lv.SegType == "striped" {
		grown, err := e.created(ctx, l, lv.Name)
		return &proto.ResizeLVResponse{SizeBytes: grown.GetVolume().GetSizeBytes()}, err
	}
	return &proto.ResizeLVResponse{SizeBytes: int64(size)}, nil
}

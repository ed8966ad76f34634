package lvmd

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// volumeNamePattern is what LVM takes as the name of a volume. A name never begins with a dash, so that it cannot
// become an option of a command.
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
// Codes: ResourceExhausted (this node cannot have the volume now, another one may: no such class here, no room, a pool
// that is nearly full, a device that is missing), InvalidArgument, AlreadyExists, and those of codeTable.
func (e *Engine) CreateLV(ctx context.Context, in *proto.CreateLVRequest,
	_ ...grpc.CallOption) (*proto.CreateLVResponse, error) {
	if err := checkRequest(in.GetName(), in.GetSizeBytes()); err != nil {
		return nil, err
	}
	if err := e.admitting.enter(ctx); err != nil {
		return nil, err
	}
	defer e.admitting.leave()
	var response *proto.CreateLVResponse
	err := e.with(ctx, in.GetDeviceClass(), func(l located) (err error) {
		response, err = e.createIn(ctx, l, in)
		return err
	})
	if err != nil {
		return nil, elsewhere(err)
	}
	return response, nil
}

func (e *Engine) createIn(ctx context.Context, l located, in *proto.CreateLVRequest) (*proto.CreateLVResponse, error) {
	options, err := l.options(in.GetLvcreateOptionClass())
	if err != nil {
		return nil, err
	}
	size := lvm.Bytes(in.GetSizeBytes()).RoundUp(l.vg.ExtentSize)
	if present := l.vg.LV(in.GetName()); present != nil {
		response, err := existing(l, present, size)
		unused := slices.Contains(in.GetTags(), TagNew) && slices.Contains(present.Tags, TagNew)
		if err == nil && unused && !l.zeroed() {
			return nil, &codedError{code: codes.Aborted,
				err: fmt.Errorf("logical volume %s/%s: %w", l.vg.Name, present.Name, ErrUnfinished)}
		}
		return response, err
	}
	devices, err := l.admitNew(size, options)
	if err != nil {
		return nil, err
	}
	if err := e.create(ctx, l, in, size, options, devices); err != nil {
		return nil, statusOf(err)
	}
	log.FromContext(ctx).Info("logical volume created", "deviceClass", l.class.Name, "lv", in.GetName(),
		"size", int64(size))
	e.watchers.notify()
	if len(options) > 0 {
		return e.created(ctx, l, in.GetName())
	}
	return &proto.CreateLVResponse{Volume: &proto.LogicalVolume{Name: in.GetName(), SizeBytes: int64(size)}}, nil
}

// TagNew is on a volume from the command that makes it until it is given to somebody for the first time. Such a
// volume can be removed and recreated (Discard). A request for a volume with this tag removes the tag (TagLV).
const TagNew = "lvms.new"

// ErrUnfinished is of a volume that was never used, and may not have been wiped: the process, or the node, may have
// ended while the command that made it was at that. It may hold what an earlier volume has written. Who has told nobody
// of it calls Discard.
var ErrUnfinished = errors.New("an earlier attempt to make it may have been cut off")

// Discard removes a volume that carries TagNew, so that it can be recreated. One that does not is left alone, and
// FailedPrecondition says so. One that is not there is no error. It looks at LVM itself before, with a process.
func (e *Engine) Discard(ctx context.Context, class, name string) error {
	if err := e.admitting.enter(ctx); err != nil {
		return err
	}
	defer e.admitting.leave()
	l, err := e.locate(ctx, class, e.lvm.Report)
	if err != nil {
		return err
	}
	lv := l.volume(name)
	if lv == nil {
		return nil
	}
	if !slices.Contains(lv.Tags, TagNew) {
		return status.Errorf(codes.FailedPrecondition, "logical volume %s/%s may have been used: it is not recreated",
			l.vg.Name, name)
	}
	log.FromContext(ctx).Info("logical volume is recreated: it was never used, and may not have been wiped",
		"deviceClass", l.class.Name, "lv", name)
	return statusOf(e.lvm.LVRemove(ctx, l.vg.Name, name))
}

// zeroed tells whether new volumes read as zeroes from the beginning.
func (l located) zeroed() bool { return l.pool != nil && l.pool.Zeroes }

func (e *Engine) create(ctx context.Context, l located, in *proto.CreateLVRequest, size lvm.Bytes,
	options, devices []string) error {
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
	report, err := e.view(ctx)
	if err != nil {
		return nil, statusOf(err)
	}
	if now, err := resolve(l.set, l.class, report); err == nil {
		if lv := now.volume(name); lv != nil {
			return &proto.CreateLVResponse{Volume: message(lv)}, nil
		}
	}
	return nil, status.Errorf(codes.Internal, "logical volume %s/%s was created or extended and is gone",
		l.vg.Name, name)
}

// existing answers a request that was answered before.
func existing(l located, lv *lvm.LV, size lvm.Bytes) (*proto.CreateLVResponse, error) {
	pool := ""
	if l.pool != nil {
		pool = l.pool.Name
	}
	if lv.Attr.IsThinPool() || lv.PoolName != pool || lv.Size < size {
		return nil, status.Errorf(codes.AlreadyExists, "logical volume %s/%s exists and is another one",
			l.vg.Name, lv.Name)
	}
	return &proto.CreateLVResponse{Volume: message(lv)}, nil
}

// options returns what is added to lvcreate: those of the option class if the request names one, else the device
// class'.
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
	return status.Errorf(codes.ResourceExhausted,
		"device class %s: %d bytes are requested, %d are free in volume group %s",
		l.class.Name, size, room, l.vg.Name)
}

// admitNew refuses a new volume that does not fit. It returns the devices to name to LVM for one with redundancy that
// fits on as many as it has images: the loss of a device then touches one image of it only.
func (l located) admitNew(size lvm.Bytes, options []string) ([]string, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	if l.pool != nil {
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
	if err := l.open(); err != nil {
		return nil, err
	}
	if l.pool != nil {
		return nil, l.admit(more, l.room())
	}
	g := growthOf(l.vg, lv, createOptions(l.class))
	return g.devices, l.admit(more, g.room)
}

// ResizeLV grows a volume. One that has the requested size or more stays as it is. The response has the actual size.
func (e *Engine) ResizeLV(ctx context.Context, in *proto.ResizeLVRequest,
	_ ...grpc.CallOption) (*proto.ResizeLVResponse, error) {
	if err := checkRequest(in.GetName(), in.GetSizeBytes()); err != nil {
		return nil, err
	}
	if err := e.admitting.enter(ctx); err != nil {
		return nil, err
	}
	defer e.admitting.leave()
	var actual int64
	err := e.with(ctx, in.GetDeviceClass(), func(l located) (err error) {
		actual, err = e.resizeIn(ctx, l, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &proto.ResizeLVResponse{SizeBytes: actual}, nil
}

func (e *Engine) resizeIn(ctx context.Context, l located, in *proto.ResizeLVRequest) (int64, error) {
	lv := l.volume(in.GetName())
	if lv == nil {
		return 0, status.Errorf(codes.NotFound, "logical volume %s/%s not found", l.vg.Name, in.GetName())
	}
	size := lvm.Bytes(in.GetSizeBytes()).RoundUp(l.vg.ExtentSize)
	if size <= lv.Size {
		return int64(lv.Size), nil
	}
	devices, err := l.admitGrowth(lv, size-lv.Size)
	if err != nil {
		return 0, err
	}
	if err := e.lvm.LVExtend(ctx, lvm.LVExtendOptions{VG: l.vg.Name, Name: lv.Name, Size: size,
		Devices: devices}); err != nil {
		return 0, statusOf(err)
	}
	log.FromContext(ctx).Info("logical volume extended", "deviceClass", l.class.Name, "lv", lv.Name,
		"size", int64(size))
	e.watchers.notify()
	if lv.IsRAID() || lv.SegType == "striped" {
		grown, err := e.created(ctx, l, lv.Name)
		return grown.GetVolume().GetSizeBytes(), err
	}
	return int64(size), nil
}

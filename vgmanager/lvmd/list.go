package lvmd

import (
	"context"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// GetLVList returns the volumes of a class: those of its thin pool, or all thick ones of its volume group.
func (e *Engine) GetLVList(ctx context.Context, in *proto.GetLVListRequest, _ ...grpc.CallOption) (*proto.GetLVListResponse, error) {
	l, err := e.locate(ctx, in.GetDeviceClass(), requestAge)
	if err != nil {
		return nil, err
	}
	response := &proto.GetLVListResponse{}
	for i := range l.vg.LVs {
		if lv := &l.vg.LVs[i]; l.has(lv) {
			response.Volumes = append(response.Volumes, message(lv))
		}
	}
	return response, nil
}

// has tells whether a volume belongs to the class.
func (l located) has(lv *lvm.LV) bool {
	if l.pool != nil {
		return lv.PoolName == l.pool.Name
	}
	return !lv.Attr.IsThinPool() && !lv.Attr.IsThinVolume()
}

// GetFreeBytes returns the capacity of a class: what new volumes may have together, without the spare.
func (e *Engine) GetFreeBytes(ctx context.Context, in *proto.GetFreeBytesRequest, _ ...grpc.CallOption) (*proto.GetFreeBytesResponse, error) {
	l, err := e.locate(ctx, in.GetDeviceClass(), requestAge)
	if err != nil {
		return nil, err
	}
	return &proto.GetFreeBytesResponse{FreeBytes: l.capacity()}, nil
}

// message is a volume in TopoLVM's words, with all eight fields.
func message(lv *lvm.LV) *proto.LogicalVolume {
	return &proto.LogicalVolume{
		Name: lv.Name, SizeBytes: int64(lv.Size), DevMajor: lv.Major, DevMinor: lv.Minor,
		Tags: lv.Tags, Path: lv.Path, Attr: string(lv.Attr),
	}
}

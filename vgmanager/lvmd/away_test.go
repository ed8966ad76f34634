package lvmd

import (
	"errors"
	"testing"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestNothingIsCommittedWhileADeviceIsAway: the request is tried again, and succeeds when the device is back or its loss is accepted.
func TestNothingIsCommittedWhileADeviceIsAway(t *testing.T) {
	requests := map[string]func(*Engine) error{
		"removal": func(e *Engine) error {
			_, err := e.RemoveLV(t.Context(), &proto.RemoveLVRequest{Name: "a", DeviceClass: "thick"})
			return err
		},
		"tag": func(e *Engine) error { return e.TagLV(t.Context(), "thick", "a", []string{"x"}, nil) },
	}
	for name, request := range requests {
		for _, ends := range []string{"back", "given up"} {
			e, fake := newEngine(t)
			fake.AddDisk("/dev/c", lvm.Bytes(gib), 48)
			must(t, fake.VGExtend(t.Context(), lvm.VGExtendOptions{Name: "thick", Devices: []string{"/dev/c"}}))
			_, err := e.CreateLV(t.Context(), &proto.CreateLVRequest{Name: "a", DeviceClass: "thick", SizeBytes: mib})
			must(t, err)
			report, err := fake.Report(t.Context())
			must(t, err)
			fake.Detach("/dev/c")
			for range 2 {
				err := request(e)
				wantCode(t, name, err, codes.Unavailable)
				if !errors.Is(err, lvm.ErrMissingPV) {
					t.Errorf("%s: got %v", name, err)
				}
			}
			fake.Fail("Report", errors.New("input/output error"))
			wantCode(t, name+", the read fails", request(e), codes.Internal)
			fake.Fail("Report", nil)
			if ends == "back" {
				fake.Attach("/dev/c")
			} else {
				fake.AcceptLoss("thick", []string{report.VG("thick").PVs[1].UUID})
			}
			wantCode(t, name+", "+ends, request(e), codes.OK)
		}
	}
}

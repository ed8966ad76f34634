package engine

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestNothingIsCommittedWhileADeviceIsAway: the request is retried, and succeeds when the device is attached again or
// its loss is accepted.
func TestNothingIsCommittedWhileADeviceIsAway(t *testing.T) {
	requests := map[string]func(*Engine) error{
		"removal": func(e *Engine) error {
			err := e.RemoveLV(t.Context(), "thick", "a")
			return err
		},
		"tag": func(e *Engine) error { return e.TagLV(t.Context(), "thick", "a", []string{"x"}, nil) },
	}
	for name, request := range requests {
		for _, ends := range []string{"back", "given up"} {
			e, fake := newEngine(t)
			fake.AddDisk("/dev/c", lvm.Bytes(gib), 48)
			must(t, fake.Apply(t.Context(), lvm.VGExtend{Name: "thick", Devices: []string{"/dev/c"}}))
			_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "thick", Size: mib})
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

// TestAnotherGroupOfTheNameIsNotTheClass checks another group with the name, together with the group of the class and
// alone.
func TestAnotherGroupOfTheNameIsNotTheClass(t *testing.T) {
	e, fake := newEngine(t)
	_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "thick", Size: mib})
	must(t, err)
	report, err := fake.Report(t.Context())
	must(t, err)
	class, _ := e.Class("thick")
	class.VolumeGroupUUID = report.VG("thick").UUID
	must(t, e.Publish(class))
	refused := func(what string) {
		t.Helper()
		err := e.RemoveLV(t.Context(), "thick", "a")
		wantCode(t, what+": remove", err, codes.Unavailable)
		_, err = e.ResizeLV(t.Context(), "thick", "a", gib)
		wantCode(t, what+": resize", err, codes.Unavailable)
		_, err = e.ListLVs(t.Context(), "thick")
		wantCode(t, what+": list", err, codes.Unavailable)
		wantCode(t, what+": tag", e.TagLV(t.Context(), "thick", "a", []string{"x"}, nil), codes.Unavailable)
		wantCode(t, what+": activate", e.ActivateLV(t.Context(), "thick", "a"), codes.Unavailable)
		_, err = e.CreateLV(t.Context(), NewVolume{Name: "b", Class: "thick", Size: mib})
		wantCode(t, what+": create", err, codes.ResourceExhausted)
		states, err := e.States(t.Context())
		must(t, err)
		if states[0].Name != "thick" || states[0].Err == nil || states[0].Capacity != 0 {
			t.Errorf("%s: foreign space is offered: %+v", what, states[0])
		}
		volumes, classes, err := e.Volumes(t.Context())
		must(t, err)
		if len(volumes) != 0 || classes["thick"] == nil {
			t.Errorf("%s: got %v, %v", what, volumes, classes)
		}
	}
	fake.AddNamesake(lvm.VG{Name: "thick", UUID: "other", ExtentSize: 4 << 20, Size: lvm.Bytes(gib),
		Free: lvm.Bytes(gib), Attr: "wz--n-"})
	refused("both")
	fake.Detach("/dev/a")
	refused("the other alone")
	fake.Attach("/dev/a")
	fake.TakeNamesake("thick")
	err = e.RemoveLV(t.Context(), "thick", "a")
	wantCode(t, "alone", err, codes.OK)
}

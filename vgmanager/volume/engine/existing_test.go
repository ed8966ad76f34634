package engine

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestVolumesOfOthersAreNotUsed checks that in a volume group of an administrator only volumes of claims are listed,
// extended and removed.
func TestVolumesOfOthersAreNotUsed(t *testing.T) {
	const left = "11111111-2222-3333-4444-555555555555" // a volume of TopoLVM
	e, fake := newEngine(t)
	ctx := t.Context()
	for name, tags := range map[string][]string{"root": nil, left: nil, "imported": {"lvms.uid=u1"}} {
		must(t, fake.Apply(ctx, lvm.LVCreateThick{VG: "thick", Name: name, Size: lvm.Bytes(8 * mib), Tags: tags}))
	}
	class := thickClass("apps")
	class.VolumeGroup, class.ExistingVolumeGroup = "thick", true
	must(t, e.Withdraw("thick"))
	must(t, e.Publish(class))
	if !e.UsesExisting("thick") || e.UsesExisting("thin") {
		t.Error("the volume group of the administrator is not told from the others")
	}
	list, err := e.ListLVs(ctx, "apps")
	if err != nil || len(list) != 2 {
		t.Errorf("got %v, %v", list, err)
	}
	states, _, err := e.Volumes(ctx)
	if err != nil || len(states) != 2 || !states[0].ExistingVolumeGroup {
		t.Errorf("got %+v, %v", states, err)
	}
	_, err = e.FindLV(ctx, "apps", "root")
	wantCode(t, "find the volume of the host", err, codes.NotFound)
	_, err = e.ResizeLV(ctx, "apps", "root", 16*mib)
	wantCode(t, "extend the volume of the host", err, codes.NotFound)
	err = e.RemoveLV(ctx, "apps", "root")
	wantCode(t, "remove the volume of the host", err, codes.FailedPrecondition)
	_, err = e.CreateLV(ctx, NewVolume{Name: "root", Class: "apps", Size: 8 * mib})
	wantCode(t, "create a volume with the name of that of the host", err, codes.AlreadyExists)
	grown, err := e.ResizeLV(ctx, "apps", left, 16*mib)
	if err != nil || grown != 16*mib {
		t.Errorf("extend a volume of TopoLVM: got %v, %v", grown, err)
	}
	for range 2 {
		err = e.RemoveLV(ctx, "apps", left)
	}
	wantCode(t, "remove a volume of TopoLVM twice", err, codes.NotFound)
	if report, err := fake.Report(ctx); err != nil || report.VG("thick").LV("root") == nil {
		t.Errorf("the volume of the host is gone: %v", err)
	}
}

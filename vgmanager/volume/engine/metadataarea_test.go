package engine

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestAFullMetadataAreaClosesTheClass: no volume, snapshot or expansion is accepted, each called twice, but volumes are
// removed. When that has made space, the class is open again.
func TestAFullMetadataAreaClosesTheClass(t *testing.T) {
	e, fake := newEngine(t)
	ctx := t.Context()
	for _, class := range []string{"thick", "thin"} {
		for _, name := range []string{"a", "b"} {
			_, err := e.CreateLV(ctx, NewVolume{Name: name, Class: class, Size: 8 * mib})
			must(t, err)
		}
		fake.SetMetadataArea(class, lvm.MetadataArea{Size: 1044480, Free: 70000})
		for range 2 {
			_, err := e.CreateLV(ctx, NewVolume{Name: "c", Class: class, Size: 8 * mib})
			wantCode(t, class+": creation", err, codes.ResourceExhausted)
			if err == nil || !strings.Contains(err.Error(), "metadata area of volume group "+class) {
				t.Errorf("%s: got %v", class, err)
			}
			_, err = e.ResizeLV(ctx, class, "a", 16*mib)
			wantCode(t, class+": expansion", err, codes.ResourceExhausted)
		}
		states, err := e.States(ctx)
		must(t, err)
		for _, s := range states {
			if s.Name == class && (s.Err != nil || s.Capacity != 0) {
				t.Errorf("%s: got %+v", class, s)
			}
		}
		err = e.RemoveLV(ctx, class, "b")
		must(t, err)
		fake.SetMetadataArea(class, lvm.MetadataArea{Size: 1044480, Free: 80000})
		_, err = e.CreateLV(ctx, NewVolume{Name: "c", Class: class, Size: 8 * mib})
		must(t, err)
	}
	fake.SetMetadataArea("thin", lvm.MetadataArea{Size: 1044480, Free: 70000})
	_, err := e.CreateLVSnapshot(ctx, NewSnapshot{Name: "s", Class: "thin", Source: "a",
		ReadOnly: true})
	wantCode(t, "snapshot", err, codes.ResourceExhausted)
}

// TestLVMRefusesAFullMetadataArea: LVM's own refusal makes the scheduler choose another node too.
func TestLVMRefusesAFullMetadataArea(t *testing.T) {
	e, fake := newEngine(t)
	fake.Fail("LVCreateThin", lvm.ErrMetadataFull)
	_, err := e.CreateLV(t.Context(), NewVolume{Name: "a", Class: "thin", Size: 8 * mib})
	wantCode(t, "creation", err, codes.ResourceExhausted)
}

//go:build lab

package lvmd

import (
	"os"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

func TestLabTopoLVMsOwnClientsAreServed(t *testing.T) {
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node")
	}
	l := lvmexec.New(host.NewLocal())
	must(t, l.Apply(t.Context(), lvm.VGCreate{Name: "served", Devices: []string{disk}}))
	must(t, l.Apply(t.Context(), lvm.LVCreateThinPool{VG: "served", Name: "pool", PercentFree: 50}))
	e, err := engine.New(l, nil, "")
	must(t, err)
	must(t, e.Publish(thinClass("served", 1)))
	must(t, Check(t.Context(), e))
	useAsTopoLVM(t, dial(t, e), "served")
	must(t, l.Apply(t.Context(), lvm.LVRemove{VG: "served", Names: []string{"pool"}}))
	must(t, l.Apply(t.Context(), lvm.VGRemove{VG: "served"}))
	must(t, l.Apply(t.Context(), lvm.PVRemove{Device: disk}))
}

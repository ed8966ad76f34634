package objects_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
)

func TestStablePath(t *testing.T) {
	for want, device := range map[string]v1alpha1.DeviceStatus{
		"/dev/disk/by-id/wwn-0x3":   {Name: "/dev/sdc", ByID: []string{"ata-X", "wwn-0x3"}, ByPath: []string{"pci-1"}},
		"/dev/disk/by-id/a":         {Name: "/dev/sdc", ByID: []string{"b", "a"}},
		"/dev/disk/by-path/pci-1":   {Name: "/dev/sdc", ByPath: []string{"pci-1"}},
		"/dev/sdc":                  {Name: "/dev/sdc", Size: ptr.To(resource.MustParse("1Gi"))},
		"/dev/disk/by-id/nvme-eui.": {Name: "/dev/nvme0n1", ByID: []string{"nvme-X", "nvme-eui."}},
	} {
		if got := objects.StablePath(&device); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

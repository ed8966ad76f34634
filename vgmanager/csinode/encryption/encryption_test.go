package encryption

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func TestDecideHeader(t *testing.T) {
	unused := []string{wellknown.NewTag}
	formatting := []string{wellknown.FormattingTagPrefix + "xfs"}
	formatted := []string{wellknown.FormattedTagPrefix + "xfs"}
	container := func(slots int) header { return header{mounter.Content{Kind: contentLUKS}, slots} }
	for name, test := range map[string]struct {
		found    header
		tags     []string
		readOnly bool
		format   bool
		code     codes.Code
	}{
		"new":                                {tags: unused, format: true},
		"new, read-only":                     {tags: unused, readOnly: true, code: codes.FailedPrecondition},
		"new, ended during luksFormat":       {found: container(0), tags: unused, format: true},
		"new, ended after luksFormat":        {found: container(1), tags: unused},
		"new, ended during mkfs":             {found: container(1), tags: formatting},
		"used":                               {found: container(1), tags: formatted},
		"used, read-only":                    {found: container(1), tags: formatted, readOnly: true},
		"used as a block volume":             {found: container(2)},
		"used, no header":                    {tags: formatted, code: codes.DataLoss},
		"used as a block volume, no header":  {code: codes.DataLoss},
		"used, no key slot":                  {found: container(0), code: codes.DataLoss},
		"not encrypted":                      {found: header{mounter.Content{Kind: "ext4", FileSystem: true}, 0}, code: codes.FailedPrecondition},
		"new, but has a file system":         {found: header{mounter.Content{Kind: "ext4", FileSystem: true}, 0}, tags: unused, code: codes.FailedPrecondition},
		"new, but has partitions, read-only": {found: header{mounter.Content{Kind: "a partition table (gpt)"}, 0}, tags: unused, readOnly: true, code: codes.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			v := volume.Volume{ID: "8a6e", LV: &lvm.LV{Tags: test.tags}}
			format, err := decideHeader(v, test.found, test.readOnly)
			if format != test.format || status.Code(err) != test.code {
				t.Errorf("got %t, %v", format, err)
			}
		})
	}
}

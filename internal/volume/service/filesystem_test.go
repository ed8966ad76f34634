package service

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestTheFileSystemOfACopy(t *testing.T) {
	for _, tt := range []struct {
		have, want string
		code       codes.Code
	}{
		{"", "", codes.OK}, {"ext4", "", codes.OK}, {"", "xfs", codes.OK}, {"xfs", "xfs", codes.OK},
		{"ext4", "xfs", codes.InvalidArgument}, {"xfs", "ext4", codes.InvalidArgument},
		{"btrfs", "xfs", codes.InvalidArgument},
	} {
		err := SameFileSystem("pvc-1", tt.have, tt.want)
		if status.Code(err) != tt.code {
			t.Errorf("%q as %q: got %v, want %s", tt.have, tt.want, err, tt.code)
		}
		if err != nil && (!strings.Contains(err.Error(), "source pvc-1 has the file system "+tt.have) ||
			!strings.Contains(err.Error(), "csi.storage.k8s.io/fstype: "+tt.want)) {
			t.Errorf("the error does not name both: %v", err)
		}
	}
}

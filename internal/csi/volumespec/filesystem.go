package volumespec

import (
	"cmp"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// This file records the file system of a volume, so that a copy with another one is refused before its data is copied.
// Without the record, as for a volume that an earlier version has created, the node agent compares the request with the
// tags of the source.

// requestedFileSystem returns the file system that a request names, or "" if it names none or is for a block volume.
func requestedFileSystem(request *csi.CreateVolumeRequest) string {
	for _, c := range request.GetVolumeCapabilities() {
		if kind := c.GetMount().GetFsType(); kind != "" {
			return kind
		}
	}
	return ""
}

// NewFileSystem returns the file system that the node agent creates on a new volume, or "" for a block volume.
func NewFileSystem(request *csi.CreateVolumeRequest) string {
	for _, c := range request.GetVolumeCapabilities() {
		if c.GetMount() != nil {
			return cmp.Or(c.GetMount().GetFsType(), service.DefaultFileSystem)
		}
	}
	return ""
}

// SetFileSystemOfCopy records the file system of a copy: that of its source, or the requested one if that of the source
// is not known. It returns InvalidArgument if they differ.
func SetFileSystemOfCopy(desired, source *topolvmv1.LogicalVolume, request *csi.CreateVolumeRequest) error {
	have := view.FileSystem(source)
	want := requestedFileSystem(request)
	if err := service.SameFileSystem(source.Name, have, want); err != nil {
		return err
	}
	view.SetFileSystem(desired, cmp.Or(have, want))
	return nil
}

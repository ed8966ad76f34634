package volumespec

import (
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// sameEncryption refuses a copy whose StorageClass has another encryption than its source: the copy has the blocks of
// its source.
func sameEncryption(source *topolvmv1.LogicalVolume, method string) error {
	have := view.Encryption(source)
	switch have {
	case method:
		return nil
	case "":
		return status.Errorf(codes.InvalidArgument, "source %s is not encrypted, but the StorageClass has %s: %s: "+
			"use a StorageClass without this parameter, or copy the data to an encrypted volume with a Pod",
			source.Name, wellknown.EncryptionParameter, method)
	}
	return status.Errorf(codes.InvalidArgument, "source %s is encrypted, but the StorageClass is not for encrypted "+
		"volumes: use one with %s: %s and the Secret of the source, or copy the data to another volume with a Pod",
		source.Name, wellknown.EncryptionParameter, have)
}

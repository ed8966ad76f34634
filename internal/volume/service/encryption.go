package service

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// Encryption is how a volume is encrypted.
type Encryption struct {
	// Method is wellknown.EncryptionLUKS2, or "" for a volume that is not encrypted.
	Method string
	// Discards passes the discards of a file system on to the logical volume.
	Discards bool
}

// EncryptionOf returns the encryption for the parameters of a StorageClass, or for the context of a volume.
func EncryptionOf(parameters map[string]string) (Encryption, error) {
	e := Encryption{Method: parameters[wellknown.EncryptionParameter]}
	if e.Method != "" && e.Method != wellknown.EncryptionLUKS2 {
		return Encryption{}, status.Errorf(codes.InvalidArgument, "%s is %q: use %s, or remove the parameter",
			wellknown.EncryptionParameter, e.Method, wellknown.EncryptionLUKS2)
	}
	switch text := parameters[wellknown.EncryptionDiscardsParameter]; text {
	case "", "false":
	case "true":
		e.Discards = true
	default:
		return Encryption{}, status.Errorf(codes.InvalidArgument, "%s is %q: use true or false",
			wellknown.EncryptionDiscardsParameter, text)
	}
	return e, nil
}

package service

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Encryption is how a volume is encrypted.
type Encryption struct {
	// Method is v1alpha1.EncryptionLUKS2, or "" for a volume that is not encrypted.
	Method string
	// Discards passes the discards of a file system on to the logical volume.
	Discards bool
}

// EncryptionOf returns the encryption for the parameters of a StorageClass, or for the context of a volume.
func EncryptionOf(parameters map[string]string) (Encryption, error) {
	e := Encryption{Method: parameters[v1alpha1.EncryptionParameter]}
	if e.Method != "" && e.Method != v1alpha1.EncryptionLUKS2 {
		return Encryption{}, status.Errorf(codes.InvalidArgument, "%s is %q: use %s, or remove the parameter",
			v1alpha1.EncryptionParameter, e.Method, v1alpha1.EncryptionLUKS2)
	}
	switch text := parameters[v1alpha1.EncryptionDiscardsParameter]; text {
	case "", "false":
	case "true":
		e.Discards = true
	default:
		return Encryption{}, status.Errorf(codes.InvalidArgument, "%s is %q: use true or false",
			v1alpha1.EncryptionDiscardsParameter, text)
	}
	return e, nil
}

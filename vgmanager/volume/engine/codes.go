package engine

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// codeTable maps errors of LVM to the gRPC codes that TopoLVM and the CSI sidecars act on. ResourceExhausted is the
// only code for which the provisioner selects another node.
var codeTable = []struct {
	err  error
	code codes.Code
}{
	{lvm.ErrNotFound, codes.NotFound},
	{lvm.ErrExists, codes.AlreadyExists},
	{lvm.ErrNoSpace, codes.ResourceExhausted},
	{lvm.ErrMetadataFull, codes.ResourceExhausted},
	{lvm.ErrInUse, codes.FailedPrecondition},
	{lvm.ErrNotEmpty, codes.FailedPrecondition},
	{lvm.ErrMissingPV, codes.Unavailable},
	{lvm.ErrDuplicateVG, codes.Unavailable},
	{lvm.ErrDuplicatePV, codes.FailedPrecondition},
	{lvm.ErrInvalid, codes.InvalidArgument},
	{lvm.ErrNotInstalled, codes.Unavailable},
	{lvm.ErrMoving, codes.Unavailable},
	{lvm.ErrBusy, codes.Unavailable},
	{lvm.ErrRunning, codes.Unavailable},
	{lvm.ErrNoTarget, codes.FailedPrecondition},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
}

func codeOf(err error) codes.Code {
	for _, row := range codeTable {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	return codes.Internal
}

// asResourceExhausted returns ResourceExhausted for errors that prevent a new volume on this node but may not on
// another. The scheduler then selects a node again. If another command has locked the volume group, the code does not
// change, because the lock is temporary.
func asResourceExhausted(err error) error {
	switch {
	case err == nil || errors.Is(err, lvm.ErrBusy):
		return err
	case slices.Contains([]codes.Code{codes.NotFound, codes.FailedPrecondition, codes.Unavailable}, status.Code(err)):
		return &codedError{code: codes.ResourceExhausted, err: err}
	}
	return err
}

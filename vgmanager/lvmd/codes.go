package lvmd

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// codeTable maps what LVM says to what TopoLVM and the CSI sidecars act on. ResourceExhausted is the only code on which
// the provisioner looks for another node.
var codeTable = []struct {
	err  error
	code codes.Code
}{
	{lvm.ErrNotFound, codes.NotFound},
	{lvm.ErrExists, codes.AlreadyExists},
	{lvm.ErrNoSpace, codes.ResourceExhausted},
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

// elsewhere turns what stands against a new volume on this node, and may not on another, into the code on which the
// scheduler is asked again. A volume group that another command has locked is not among it: that passes.
func elsewhere(err error) error {
	switch {
	case err == nil || errors.Is(err, lvm.ErrBusy):
		return err
	case slices.Contains([]codes.Code{codes.NotFound, codes.FailedPrecondition, codes.Unavailable}, status.Code(err)):
		return &codedError{code: codes.ResourceExhausted, err: err}
	}
	return err
}

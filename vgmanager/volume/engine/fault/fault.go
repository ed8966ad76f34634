// Package fault has the errors of the engine: each has a reason, which tells the caller what to do, and a gRPC code.
package fault

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Reason is why a request failed. TopoLVM and the CSI sidecars act on its gRPC code. ResourceExhausted is the only one
// for which the provisioner selects another node.
type Reason codes.Code

// The reasons, which have the names of their codes. None is that of no error, and Unknown that of an error that is not
// from the engine.
const (
	None               = Reason(codes.OK)
	Unknown            = Reason(codes.Unknown)
	NotFound           = Reason(codes.NotFound)
	AlreadyExists      = Reason(codes.AlreadyExists)
	ResourceExhausted  = Reason(codes.ResourceExhausted)
	FailedPrecondition = Reason(codes.FailedPrecondition)
	InvalidArgument    = Reason(codes.InvalidArgument)
	OutOfRange         = Reason(codes.OutOfRange)
	Unimplemented      = Reason(codes.Unimplemented)
	Unavailable        = Reason(codes.Unavailable)
	Aborted            = Reason(codes.Aborted)
	Internal           = Reason(codes.Internal)
	DeadlineExceeded   = Reason(codes.DeadlineExceeded)
	Canceled           = Reason(codes.Canceled)
)

// reasons maps errors of LVM to reasons.
var reasons = []struct {
	err    error
	reason Reason
}{
	{lvm.ErrNotFound, NotFound},
	{lvm.ErrExists, AlreadyExists},
	{lvm.ErrNoSpace, ResourceExhausted},
	{lvm.ErrMetadataFull, ResourceExhausted},
	{lvm.ErrInUse, FailedPrecondition},
	{lvm.ErrNotEmpty, FailedPrecondition},
	{lvm.ErrMissingPV, Unavailable},
	{lvm.ErrDuplicateVG, Unavailable},
	{lvm.ErrDuplicatePV, FailedPrecondition},
	{lvm.ErrInvalid, InvalidArgument},
	{lvm.ErrNotInstalled, Unavailable},
	{lvm.ErrMoving, Unavailable},
	{lvm.ErrBusy, Unavailable},
	{lvm.ErrRunning, Unavailable},
	{lvm.ErrNoTarget, FailedPrecondition},
	{context.DeadlineExceeded, DeadlineExceeded},
	{context.Canceled, Canceled},
}

// Error is an error with a reason.
type Error struct {
	reason Reason
	err    error
}

// New returns an error with a reason and a text.
func New(reason Reason, format string, args ...any) error {
	return &Error{reason: reason, err: fmt.Errorf(format, args...)}
}

// Wrap gives an error a reason, which replaces the one that it has.
func Wrap(reason Reason, err error) error { return &Error{reason: reason, err: err} }

// Of gives an error of LVM the reason of the table, or Internal. It returns nil for nil.
func Of(err error) error {
	if err == nil {
		return nil
	}
	for _, row := range reasons {
		if errors.Is(err, row.err) {
			return Wrap(row.reason, err)
		}
	}
	return Wrap(Internal, err)
}

// ReasonOf returns the reason of an error. If it wraps an error with another reason, the outer one counts.
func ReasonOf(err error) Reason { return Reason(status.Code(err)) }

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the error without the reason.
func (e *Error) Unwrap() error { return e.err }

// GRPCStatus returns the status for gRPC.
func (e *Error) GRPCStatus() *status.Status {
	return status.New(codes.Code(e.reason), status.Convert(e.err).Message()) // without the code of another status
}

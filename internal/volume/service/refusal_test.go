package service

import (
	"testing"

	"google.golang.org/grpc/codes"
)

func TestWhichCodesAreFinal(t *testing.T) {
	final := map[codes.Code]bool{codes.InvalidArgument: true, codes.NotFound: true, codes.AlreadyExists: true,
		codes.PermissionDenied: true, codes.ResourceExhausted: true, codes.FailedPrecondition: true,
		codes.OutOfRange: true, codes.Unimplemented: true, codes.Internal: true, codes.DataLoss: true,
		codes.Unauthenticated: true}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if got := IsRefusal(code); got != final[code] {
			t.Errorf("%s: got %t", code, got)
		}
	}
}

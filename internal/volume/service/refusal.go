package service

import "google.golang.org/grpc/codes"

// IsRefusal reports whether a code in the status of a LogicalVolume is a final refusal, after which the node does not
// retry. The node also reports the other codes, and retries. The agents of a cluster and its operator must agree on it.
func IsRefusal(code codes.Code) bool {
	switch code {
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted, codes.Unknown:
		return false
	}
	return true
}

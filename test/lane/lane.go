// Package lane lets a test do less in the short lane (`make test`, with -short) than in the long one (`make
// test-long`).
package lane

import (
	"os"
	"strconv"
	"testing"
)

// RotationEnv is the number that says which case of several the short lane takes. hack/lane sets it to the number of
// commits, so that each commit takes the next one, and prints it. It is 0 if it is not set.
const RotationEnv = "LVMS_ROTATION"

// Rotate returns all cases, or one of them in the short lane.
func Rotate[T any](all ...T) []T {
	return rotate(testing.Short(), os.Getenv(RotationEnv), all)
}

func rotate[T any](short bool, rotation string, all []T) []T {
	if !short || len(all) == 0 {
		return all
	}
	n, err := strconv.ParseUint(rotation, 10, 31)
	if err != nil {
		n = 0
	}
	at := int(n) % len(all)
	return all[at : at+1]
}

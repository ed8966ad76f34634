// Package lane reduces what a test does in the short lane (`make test`, with -short), compared with the long one (`make
// test-long`).
package lane

import (
	"os"
	"strconv"
	"testing"
)

// RotationEnv is the environment variable with the number that selects one of several cases in the short lane.
// hack/lane sets it to the number of commits, so that each commit uses the next case, and prints it. The default is 0.
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

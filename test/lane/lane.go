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

// Turn skips a test in the short lane, unless it is its turn: with turns 0 to of-1, each of the tests runs with one of
// that many commits. It is for tests that need minutes each, and whose requests test/rights does not need.
func Turn(t *testing.T, turn, of int) {
	t.Helper()
	if rotation := os.Getenv(RotationEnv); !isTurn(testing.Short(), rotation, turn, of) {
		t.Skipf("%s is %q, so another test has its turn", RotationEnv, rotation)
	}
}

func isTurn(short bool, rotation string, turn, of int) bool {
	return !short || number(rotation)%of == turn
}

func rotate[T any](short bool, rotation string, all []T) []T {
	if !short || len(all) == 0 {
		return all
	}
	at := number(rotation) % len(all)
	return all[at : at+1]
}

// number returns the number in RotationEnv, or 0.
func number(rotation string) int {
	n, err := strconv.ParseUint(rotation, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

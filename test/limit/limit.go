// Package limit has the time limit of tests for what ends by itself. A shorter one would fail a correct product on a
// machine that is slow or busy. What takes a defined time is tested in simulated time (testing/synctest).
package limit

import (
	"testing"
	"time"
)

// Hang is how long a test waits before it reports that something hangs.
const Hang = 2 * time.Minute

// Wait returns as soon as is returns true, and fails the test if that hangs. what is what the test waits for.
func Wait(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(Hang); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s, still waiting: %s", Hang, what)
		}
	}
}

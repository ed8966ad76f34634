package volumeimport

import (
	"fmt"
	"testing"
)

// TestTheOperatorIsKilledAtEachRequest: what it did not complete is completed when it runs again. Without the build tag
// env, this is tested in memory.
func TestTheOperatorIsKilledAtEachRequest(t *testing.T) {
	for name, test := range map[string]struct {
		// least is how many requests there are at least.
		least int
		run   func(t *testing.T, n int) int
	}{
		"create":         {14, areCreated},
		"move":           {9, move},
		"moveAlone":      {9, moveAlone},
		"migrate":        {19, isMigrated},
		"serve":          {7, isServed},
		"deleteServed":   {19, servedIsDeleted},
		"deleteUnserved": {19, unservedIsDeleted},
		"deleteSnapshot": {19, snapshotIsDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			total := test.run(t, neverKilled)
			if total < test.least || total >= neverKilled {
				t.Fatalf("the operator sends %d requests, want at least %d", total, test.least)
			}
			for n := 1; n <= total && !t.Failed(); n++ {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					if calls := test.run(t, n); calls < n {
						t.Errorf("the operator was not killed: it sent %d requests", calls)
					}
				})
			}
		})
	}
}

package volumeimport

import (
	"testing"

	"github.com/lvm-storage/lvm-operator/test/kill"
)

// TestTheOperatorIsKilledAtEveryWrite: what it did not complete is completed when it runs again.
func TestTheOperatorIsKilledAtEveryWrite(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *kill.Points){
		"create":         areCreated,
		"move":           move,
		"moveAlone":      moveAlone,
		"forged":         moveForged,
		"migrate":        isMigrated,
		"serve":          isServed,
		"deleteServed":   servedIsDeleted,
		"deleteUnserved": unservedIsDeleted,
		"deleteSnapshot": snapshotIsDeleted,
	} {
		t.Run(name, func(t *testing.T) {
			kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, run)
		})
	}
}

//go:build env

package cli

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
)

// TestAMigrationIsRequestedOfThePersistentVolumeThatWasShown: it was recreated in the meantime.
func TestAMigrationIsRequestedOfThePersistentVolumeThatWasShown(t *testing.T) {
	pv := clitest.PersistentVolumeOf("recreated", wellknown.EarlierDriverName, "shop/recreated")
	create(t, pv)
	shown := string(dryRunPatch(t, "migrate", "shop/recreated"))
	for uid, isRefused := range map[types.UID]bool{pv.UID: false, "another": true} {
		patch := []byte(strings.ReplaceAll(shown, string(pv.UID), string(uid)))
		err := server.Client.Patch(t.Context(), pv.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
		if (apierrors.IsConflict(err) || apierrors.IsInvalid(err)) != isRefused || !isRefused && err != nil {
			t.Errorf("%s: got %v", uid, err)
		}
	}
}

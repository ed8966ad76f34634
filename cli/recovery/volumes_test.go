package recovery

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
)

// TestTheVolumeOfAClaimIsNoPartOfAMove: what a move creates is not taken for the volume of the claim.
func TestTheVolumeOfAClaimIsNoPartOfAMove(t *testing.T) {
	old, of := clitest.Volume("move-1-old", "worker-1", "thin", "shop/data"), clitest.Volume("pvc-1", "worker-1", "thin", "shop/data")
	old.Annotations[wellknown.MoveAnnotation] = "1"
	if got := volumeOfClaim([]topolvmv1.LogicalVolume{*old, *of}, "shop/data"); got == nil || got.Name != "pvc-1" {
		t.Errorf("got %+v", got)
	}
	if got := volumeOfClaim([]topolvmv1.LogicalVolume{*old}, "shop/data"); got != nil {
		t.Errorf("only the old logical volume: got %+v", got)
	}
}

func TestParseImports(t *testing.T) {
	names, claims, err := parseImports([]string{"vg1/a=shop/data", "b"}, "vg1")
	want := []v1alpha1.RecoveryClaim{{Volume: "a", Namespace: "shop", Name: "data"}}
	if err != nil || cmp.Diff([]string{"a", "b"}, names) != "" || cmp.Diff(want, claims) != "" {
		t.Errorf("got %v %v %v", names, claims, err)
	}
	for _, wrong := range [][]string{{"a=data"}, {"a=/data"}, {"a="}, {"a", "vg1/a"}} {
		if _, _, err := parseImports(wrong, "vg1"); err == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
}

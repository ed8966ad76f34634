package logicalvolume

import (
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// setSpread records in an object how its existing logical volume is kept apart, if the object does not say it. A tag
// whose group is in another namespace than the claim is ignored: it would count against the volumes of others.
func setSpread(lv *topolvmv1.LogicalVolume, tags []string) {
	at := slices.IndexFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, wellknown.SpreadTagPrefix) })
	if at < 0 || lv.Annotations[wellknown.SpreadAnnotation] != "" {
		return
	}
	spread, ok := view.ParseSpread(strings.TrimPrefix(tags[at], wellknown.SpreadTagPrefix))
	claim, _ := view.ClaimKey(lv)
	if ok && claim.Namespace != "" && strings.HasPrefix(spread.Group, claim.Namespace+"/") {
		view.SetSpread(lv, spread)
	}
}

package logicalvolume

import (
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// setSpread records in an object how its existing logical volume is kept apart, if the object does not say it. A tag
// whose group is in another namespace than the claim is ignored: it would count against the volumes of others.
func setSpread(lv *topolvmv1.LogicalVolume, tags []string) {
	at := slices.IndexFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, wellknown.SpreadTagPrefix) })
	if at < 0 || lv.Annotations[wellknown.SpreadAnnotation] != "" {
		return
	}
	spread, ok := v1alpha1.ParseSpread(strings.TrimPrefix(tags[at], wellknown.SpreadTagPrefix))
	namespace, _, _ := strings.Cut(lv.Annotations[wellknown.ClaimAnnotation], "/")
	if !ok || namespace == "" || !strings.HasPrefix(spread.Group, namespace+"/") {
		return
	}
	metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.SpreadAnnotation, spread.String())
	metav1.SetMetaDataLabel(&lv.ObjectMeta, v1alpha1.SpreadGroupHashLabel, spread.GroupHash())
}

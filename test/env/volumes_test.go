//go:build env

package env

import (
	"context"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/vgmanager/volume/logicalvolume"
)

// An agent watches only the LogicalVolumes of its own node.
func TestLogicalVolumesOfANodeAreSelected(t *testing.T) {
	for name, node := range map[string]string{"of-a": "a", "of-b": "b"} {
		lv := &topolvmv1.LogicalVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: node, Size: resource.MustParse("1Gi"),
				LvcreateOptionClass: "kept"},
		}
		if err := server.Client.Create(t.Context(), lv); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Client.Delete(context.Background(), lv) })
		if lv.Spec.LvcreateOptionClass != "kept" {
			t.Error("the CRD drops the option class")
		}
	}
	selector, err := logicalvolume.Selector(t.Context(), server.Client, "a")
	if err != nil {
		t.Fatal(err)
	}
	minor, err := server.Minor()
	if err != nil {
		t.Fatal(err)
	}
	// CustomResourceFieldSelectors is enabled by default from 1.31 on. Without it the agent watches all LogicalVolumes.
	if minor < 31 {
		if selector != nil {
			t.Errorf("got %v of an API server that cannot select custom resources", selector)
		}
		return
	}
	if selector == nil {
		t.Fatal("the CRD does not let the API server select")
	}
	list := &topolvmv1.LogicalVolumeList{}
	if err := server.Client.List(t.Context(), list, client.MatchingFieldsSelector{Selector: selector}); err != nil ||
		len(list.Items) != 1 || list.Items[0].Name != "of-a" {
		t.Errorf("got %+v, %v", list.Items, err)
	}
}

//go:build env

package env

import (
	"testing"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/topolvm/legacy"
)

// TestAClusterWithoutTheEarlierAPIHasNoEarlierVolumes: almost all clusters are so. A failed read is an error there too.
func TestAClusterWithoutTheEarlierAPIHasNoEarlierVolumes(t *testing.T) {
	operator, err := server.AsOperator(Namespace)
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*rest.Config{"administrator": server.Config, "operator": operator} {
		reader, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			err := legacy.Each(t.Context(), reader,
				func(lv *earlierv1.LogicalVolume) { t.Errorf("%s: got %s", name, lv.Name) })
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if lv, err := legacy.Get(t.Context(), reader, "a"); lv != nil || err != nil {
				t.Errorf("%s: got %v, %v", name, lv, err)
			}
		}
	}
	broken := rest.CopyConfig(server.Config)
	broken.Host = "https://127.0.0.1:1"
	reader, err := client.New(broken, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := legacy.Each(t.Context(), reader, func(*earlierv1.LogicalVolume) {}); err == nil {
		t.Error("a failed read is an empty list")
	}
	if _, err := legacy.Get(t.Context(), reader, "a"); err == nil {
		t.Error("a failed read means that the object does not exist")
	}
}

//go:build env

package snapshotmetadata

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/lvm-storage/lvm-operator/internal/cluster/platform"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

// TestTheServiceFollowsTheAPI: with the permissions of the operator and the CRD of external-snapshot-metadata 1.0,
// which is installed after the operator has started.
func TestTheServiceFollowsTheAPI(t *testing.T) {
	ctx := t.Context()
	config, err := server.AsOperator(env.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	spy, err := env.NewSpy(config)
	if err != nil {
		t.Fatal(err)
	}
	apis, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	options := PublisherOptions{Client: spy, Serves: platform.Serves(apis), Namespace: env.Namespace, Enabled: true,
		Trusted: func() ([]byte, error) { return []byte("authorities"), nil }}
	on := NewPublisher(options)
	options.Enabled = false
	off := NewPublisher(options)
	ensure := func(p *Publisher) {
		t.Helper()
		for range 2 {
			if err := p.ensure(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "topolvm.io",
		Labels: map[string]string{managedBy: operatorName}}}
	if err := server.Client.Create(ctx, driver); err != nil {
		t.Fatal(err)
	}
	ensure(on) // without the API
	if _, err := envtest.InstallCRDs(server.Config,
		envtest.CRDInstallOptions{Paths: []string{env.SnapshotMetadataCRD()}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	ensure(on)
	published := &unstructured.Unstructured{}
	published.SetAPIVersion("cbt.storage.k8s.io/v1beta1")
	published.SetKind(kind)
	key := client.ObjectKey{Name: "topolvm.io"}
	if err := server.Client.Get(ctx, key, published); err != nil {
		t.Fatal(err)
	}
	spec, _, err := unstructured.NestedStringMap(published.Object, "spec")
	if err != nil {
		t.Fatalf("got %v, %v", spec, err)
	}
	if len(spec) != 3 {
		t.Fatalf("got %v, %v", spec, err)
	}
	expect.Equal(t, `spec["address"]`, spec["address"], "lvms-snapshot-metadata."+env.Namespace+".svc:443")
	expect.Equal(t, `spec["audience"]`, spec["audience"], "snapshot-metadata.topolvm.io")
	expect.Equal(t, `spec["caCert"]`, spec["caCert"], "YXV0aG9yaXRpZXM=")
	if owners := published.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != driver.UID {
		t.Errorf("owners %v, want %s", owners, driver.UID)
	}
	ensure(off)
	if err := server.Client.Get(ctx, key, published); !apierrors.IsNotFound(err) {
		t.Errorf("after it was turned off: got %v", err)
	}
	ensure(on)
	if err := server.Client.Get(ctx, key, published); err != nil {
		t.Errorf("after it was turned on: %v", err)
	}
	if err := server.Client.Delete(ctx, driver); err != nil {
		t.Fatal(err)
	}
	ensure(on) // the test's API server has no garbage collector
	if err := server.Client.Get(ctx, key, published); !apierrors.IsNotFound(err) {
		t.Errorf("after the driver was deleted: got %v", err)
	}
}

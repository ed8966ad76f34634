package snapshotmetadata

import (
	"context"
	"errors"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// published is a publisher with a fake API server that serves one version of the API, or none.
type published struct {
	*testing.T
	api       client.Client
	version   string
	publisher *Publisher
	writes    int
	// Errors of calls.
	servesErr, readErr, trustErr error
}

// plain is a client whose scheme has no types: the fake client adds kinds to its scheme, as no other client does.
type plain struct{ client.Client }

func (plain) Scheme() *runtime.Scheme { return runtime.NewScheme() }

func newPublished(t *testing.T, version string) *published {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := storagev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	p := &published{T: t, version: version}
	p.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(csiDriver("uid")).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				options ...client.GetOption) error {
				if p.readErr != nil {
					return p.readErr
				}
				return c.Get(ctx, key, o, options...)
			},
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
				options ...client.ApplyOption) error {
				p.writes++
				return c.Apply(ctx, o, options...)
			},
		}).Build()
	p.publisher = NewPublisher(PublisherOptions{Client: plain{p.api}, Namespace: "ns", Enabled: true,
		Trusted: func() ([]byte, error) { return []byte("authorities"), p.trustErr },
		Serves: func(groupVersion, kind string) (bool, error) {
			return kind == "SnapshotMetadataService" && groupVersion == "cbt.storage.k8s.io/"+p.version, p.servesErr
		}})
	return p
}

func csiDriver(uid string) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "topolvm.io", UID: types.UID(uid),
		Labels: map[string]string{"app.kubernetes.io/managed-by": "lvms-operator"}}}
}

func (p *published) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cbt.storage.k8s.io", Version: p.version, Kind: "SnapshotMetadataService"}
}

// object returns the object, or nil if there is none.
func (p *published) object() *unstructured.Unstructured {
	p.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(p.gvk())
	readErr := p.readErr
	p.readErr = nil
	err := p.api.Get(p.Context(), client.ObjectKey{Name: "topolvm.io"}, u)
	p.readErr = readErr
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		p.Fatal(err)
	}
	return u
}

func (p *published) must() {
	p.Helper()
	if err := p.publisher.ensure(p.Context()); err != nil {
		p.Fatal(err)
	}
}

func TestTheServiceIsPublished(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		p := newPublished(t, version)
		for range 2 {
			p.must()
		}
		u := p.object()
		if u == nil {
			t.Fatalf("%s: not published", version)
		}
		owners := u.GetOwnerReferences()
		if len(owners) != 1 || owners[0].Kind != "CSIDriver" || owners[0].UID != "uid" || p.writes != 1 {
			t.Errorf("%s: owners %v, %d writes", version, owners, p.writes)
		}
	}
}

// TestWhatClientsAreTold: the API server test has it in the schema.
func TestWhatClientsAreTold(t *testing.T) {
	u := service(schema.GroupVersionKind{Version: "v1beta1"}, &metav1.PartialObjectMetadata{}, "ns", []byte("authorities"))
	spec, _, err := unstructured.NestedStringMap(u.Object, "spec")
	if err != nil || spec["address"] != "lvms-snapshot-metadata.ns.svc:443" ||
		spec["audience"] != "snapshot-metadata.topolvm.io" || spec["caCert"] != "YXV0aG9yaXRpZXM=" {
		t.Errorf("got %v, %v", spec, err)
	}
}

func TestWhenTheServiceIsNotPublished(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*published)
		keeps  bool // the object that was published before
	}{
		"no API":              {func(p *published) { p.publisher.Serves = func(string, string) (bool, error) { return false, nil } }, true},
		"off":                 {func(p *published) { p.publisher.Enabled = false }, false},
		"no driver":           {func(p *published) { p.drop() }, false},
		"driver of another":   {func(p *published) { p.edit(func(d *storagev1.CSIDriver) { d.Labels = nil }) }, false},
		"driver that goes":    {func(p *published) { p.edit(func(d *storagev1.CSIDriver) { d.Finalizers = []string{"x/y"} }); p.drop() }, false},
		"object of another":   {func(p *published) { p.publisher.Enabled = false; p.release() }, true},
		"the same as before":  {func(*published) {}, true},
		"another CSIDriver":   {func(p *published) { p.drop(); p.create(csiDriver("new")) }, true},
		"another certificate": {func(p *published) { p.publisher.Trusted = func() ([]byte, error) { return []byte("new"), nil } }, true},
	} {
		for _, before := range []bool{false, true} {
			p := newPublished(t, "v1beta1")
			if before {
				p.must()
			} else if name == "object of another" {
				continue
			}
			tt.change(p)
			for range 2 {
				p.must()
			}
			published := p.object() != nil
			want := tt.keeps && (before || name != "no API")
			if published != want {
				t.Errorf("%s, published before %t: published %t, want %t", name, before, published, want)
			}
			if name == "another CSIDriver" && p.object().GetOwnerReferences()[0].UID != "new" {
				t.Errorf("%s: the owner is %v", name, p.object().GetOwnerReferences())
			}
		}
	}
}

// TestAFailedReadChangesNothing: neither is the API absent then, nor the driver.
func TestAFailedReadChangesNothing(t *testing.T) {
	away := errors.New("the API server is away")
	for name, fail := range map[string]func(*published){
		"discovery":   func(p *published) { p.servesErr = away },
		"reads":       func(p *published) { p.readErr = away },
		"authorities": func(p *published) { p.trustErr = away },
	} {
		p := newPublished(t, "v1beta1")
		p.must()
		fail(p)
		if err := p.publisher.ensure(t.Context()); !errors.Is(err, away) || p.object() == nil || p.writes != 1 {
			t.Errorf("%s: got %v, %d writes", name, err, p.writes)
		}
	}
}

func (p *published) create(o client.Object) {
	p.Helper()
	if err := p.api.Create(p.Context(), o); err != nil {
		p.Fatal(err)
	}
}

// edit changes the CSIDriver.
func (p *published) edit(change func(*storagev1.CSIDriver)) {
	p.Helper()
	driver := &storagev1.CSIDriver{}
	if err := p.api.Get(p.Context(), client.ObjectKey{Name: "topolvm.io"}, driver); err != nil {
		p.Fatal(err)
	}
	change(driver)
	if err := p.api.Update(p.Context(), driver); err != nil {
		p.Fatal(err)
	}
}

// drop deletes the CSIDriver.
func (p *published) drop() {
	p.Helper()
	if err := p.api.Delete(p.Context(), csiDriver("")); err != nil {
		p.Fatal(err)
	}
}

// release removes the labels of the object.
func (p *published) release() {
	p.Helper()
	u := p.object()
	u.SetLabels(nil)
	if err := p.api.Update(p.Context(), u); err != nil {
		p.Fatal(err)
	}
}

// capabilities has one capability, or fails.
type capabilities struct {
	csi.UnimplementedIdentityServer
	err error
}

func (c capabilities) GetPluginCapabilities(context.Context,
	*csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{}}}, c.err
}

func TestTheCapabilityIsAdvertised(t *testing.T) {
	out, err := Advertise(capabilities{}).GetPluginCapabilities(t.Context(), &csi.GetPluginCapabilitiesRequest{})
	if err != nil || len(out.GetCapabilities()) != 2 || out.GetCapabilities()[1].GetService().GetType() !=
		csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE {
		t.Errorf("got %v, %v", out, err)
	}
	failed := errors.New("failed")
	if _, err := Advertise(capabilities{err: failed}).GetPluginCapabilities(t.Context(),
		&csi.GetPluginCapabilitiesRequest{}); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

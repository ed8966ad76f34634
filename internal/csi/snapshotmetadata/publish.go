package snapshotmetadata

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/kube/periodic"
)

const (
	// kind is the kind with which a CSI driver publishes its service. Its object has the name of the driver.
	kind  = "SnapshotMetadataService"
	group = "cbt.storage.k8s.io"

	// managedBy is a label of the operator's objects, with the value operatorName.
	managedBy    = "app.kubernetes.io/managed-by"
	operatorName = "lvms-operator"

	fieldOwner = "lvms-operator-snapshot-metadata"
	// servicePort is the port of the Service.
	servicePort = "443"
)

// versions are the versions of the API, the preferred one first: version 1.0 of external-snapshot-metadata has v1beta1
// only, and the versions before it v1alpha1 only. The fields are the same.
var versions = []string{"v1beta1", "v1alpha1"}

// PublisherOptions configure a Publisher.
type PublisherOptions struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Serves reports whether the API server serves a kind now.
	Serves func(groupVersion, kind string) (bool, error)
	// Namespace is that of the Service.
	Namespace string
	// Trusted returns the authorities of the server's certificate, in PEM.
	Trusted func() ([]byte, error)
	// Enabled publishes the service. Otherwise, the object is deleted.
	Enabled bool
}

// Publisher keeps the SnapshotMetadataService, with which backup software finds the server, while the cluster has its
// API and the CSIDriver. It is a Runnable of the leader.
type Publisher struct {
	PublisherOptions
	applier *apply.Applier
}

// NewPublisher returns a Publisher. It must be started.
func NewPublisher(o PublisherOptions) *Publisher {
	return &Publisher{PublisherOptions: o, applier: apply.New(o.Client, fieldOwner)}
}

// Address returns the address of the server for clients in the cluster. host is the name of the Service.
func Address(host string) string { return net.JoinHostPort(host, servicePort) }

// Host returns the name of the Service in a namespace, which its certificate has.
func Host(namespace string) string {
	return wellknown.SnapshotMetadataService + "." + namespace + ".svc"
}

// Start maintains the object until the context ends. The API, the CSIDriver and the authorities can change.
func (p *Publisher) Start(ctx context.Context) error {
	periodic.Run(ctx, "publication of the service for changed blocks", p.ensure, func(err error) {
		log.FromContext(ctx).Error(err, "cannot publish the service for changed blocks", "object",
			wellknown.DriverName)
	})
	return nil
}

// A change of the owner reference requires permission to delete the object (admission plugin
// OwnerReferencesPermissionEnforcement).
// +kubebuilder:rbac:groups=cbt.storage.k8s.io,resources=snapshotmetadataservices,resourceNames=topolvm.io,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers,verbs=get

// ensure applies the object, or deletes it.
func (p *Publisher) ensure(ctx context.Context) error {
	version, err := p.version()
	if err != nil || version == "" {
		return err
	}
	driver, err := p.driver(ctx)
	if err != nil {
		return err
	}
	object := schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	if driver == nil || !p.Enabled {
		return p.remove(ctx, object)
	}
	trusted, err := p.Trusted()
	if err != nil {
		return err
	}
	wanted := service(object, driver, p.Namespace, trusted)
	return p.applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted))
}

// version returns the version of the API that the cluster serves, or "" if it does not have the API.
func (p *Publisher) version() (string, error) {
	for _, version := range versions {
		served, err := p.Serves(group+"/"+version, kind)
		if err != nil || served {
			return version, err
		}
	}
	return "", nil
}

// driver returns the CSIDriver, or nil if it does not exist, is being deleted, or belongs to another installation, such
// as TopoLVM's own.
func (p *Publisher) driver(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
	driver := metadataOf(storagev1.SchemeGroupVersion.WithKind("CSIDriver"))
	err := p.Client.Get(ctx, client.ObjectKey{Name: wellknown.DriverName}, driver)
	if apierrors.IsNotFound(err) || err == nil && !driver.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read CSIDriver %s: %w", wellknown.DriverName, err)
	}
	if driver.Labels[managedBy] != operatorName {
		return nil, nil
	}
	return driver, nil
}

// remove deletes the object if it exists and the operator created it.
func (p *Publisher) remove(ctx context.Context, object schema.GroupVersionKind) error {
	found := metadataOf(object)
	err := p.Client.Get(ctx, client.ObjectKey{Name: wellknown.DriverName}, found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s %s: %w", kind, wellknown.DriverName, err)
	}
	if found.Labels[managedBy] != operatorName {
		return nil
	}
	err = p.Client.Delete(ctx, found, client.Preconditions{UID: &found.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", kind, wellknown.DriverName, err)
	}
	return nil
}

// service returns the object. The CSIDriver owns it, so it is deleted with the LVMCluster, and with its CSIDriver.
func service(object schema.GroupVersionKind, driver *metav1.PartialObjectMetadata, namespace string,
	trusted []byte) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"address":  Address(Host(namespace)),
		"audience": wellknown.SnapshotMetadataAudience,
		"caCert":   base64.StdEncoding.EncodeToString(trusted),
	}}}
	u.SetGroupVersionKind(object)
	u.SetName(wellknown.DriverName)
	u.SetLabels(map[string]string{"app.kubernetes.io/part-of": "lvms", managedBy: operatorName})
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: storagev1.SchemeGroupVersion.String(), Kind: "CSIDriver",
		Name: driver.Name, UID: driver.UID}})
	return u
}

func metadataOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gvk)
	return object
}

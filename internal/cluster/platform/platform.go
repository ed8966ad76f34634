// Package platform detects the kind of cluster and its optional APIs.
package platform

import (
	"context"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	consolev1 "github.com/openshift/api/console/v1"
	securityv1 "github.com/openshift/api/security/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is a kind of cluster.
type Kind string

// Kinds of clusters.
const (
	OpenShift  Kind = "OpenShift"
	MicroShift Kind = "MicroShift"
	Kubernetes Kind = "Kubernetes"
)

// Platform describes a cluster.
type Platform struct {
	// Kind is the kind of cluster.
	Kind Kind
	// SCC reports whether the cluster has SecurityContextConstraints, which privileged Pods then need.
	SCC bool
	// Snapshots reports whether the cluster has the VolumeSnapshot API.
	Snapshots bool
	// GroupSnapshots reports whether the cluster has the VolumeGroupSnapshot API, version v1.
	GroupSnapshots bool
	// VolumeAttributes reports whether the cluster has the API of VolumeAttributesClasses (Kubernetes 1.34).
	VolumeAttributes bool
	// TLSProfile reports whether the cluster has a TLS profile for servers.
	TLSProfile bool
	// Console reports whether the cluster has the OpenShift console with plugins.
	Console bool
	// ServiceMonitors reports whether the cluster has the Prometheus Operator's API.
	ServiceMonitors bool
}

// resource is a kind of an API, as in discovery.
type resource struct{ groupVersion, kind string }

var (
	apiServers      = resource{configv1.GroupVersion.String(), "APIServer"}
	infrastructures = resource{configv1.GroupVersion.String(), "Infrastructure"}
	constraints     = resource{securityv1.GroupVersion.String(), "SecurityContextConstraints"}
	snapshots       = resource{"snapshot.storage.k8s.io/v1", "VolumeSnapshot"}
	groupSnapshots  = resource{"groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshot"}
	volumeClasses   = resource{"storage.k8s.io/v1", "VolumeAttributesClass"}
	consolePlugins  = resource{consolev1.GroupVersion.String(), "ConsolePlugin"}
	quickStarts     = resource{consolev1.GroupVersion.String(), "ConsoleQuickStart"}
	serviceMonitors = resource{"monitoring.coreos.com/v1", "ServiceMonitor"}
	prometheusRules = resource{"monitoring.coreos.com/v1", "PrometheusRule"}
)

// +kubebuilder:rbac:groups=config.openshift.io,resources=infrastructures,resourceNames=cluster,verbs=get
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=microshift-version,namespace=kube-public,verbs=get

// Detect inspects the cluster. reader must not be a cache: the cluster may lack a kind that a cache would watch.
func Detect(ctx context.Context, apis discovery.DiscoveryInterface, reader client.Reader) (Platform, error) {
	found := Platform{}
	var err error
	if found.SCC, err = has(apis, constraints); err != nil {
		return Platform{}, err
	}
	for _, o := range optional {
		if *o.in(&found), err = hasAll(apis, o.kinds); err != nil {
			return Platform{}, err
		}
	}
	if found.TLSProfile, err = HasTLSProfile(apis); err != nil {
		return Platform{}, err
	}
	if found.Kind, err = kind(ctx, apis, reader); err != nil {
		return Platform{}, err
	}
	return found, nil
}

// Absent returns the groups of the optional APIs that the cluster lacks.
func (p Platform) Absent() []string {
	var groups []string
	for group, has := range map[string]bool{
		configv1.GroupName: p.TLSProfile || p.Kind == OpenShift, securityv1.GroupName: p.SCC,
		"snapshot.storage.k8s.io": p.Snapshots, "groupsnapshot.storage.k8s.io": p.GroupSnapshots,
		consolev1.GroupName: p.Console, "monitoring.coreos.com": p.ServiceMonitors,
	} {
		if !has {
			groups = append(groups, group)
		}
	}
	return groups
}

// HasTLSProfile reports whether the cluster has a TLS profile for servers.
func HasTLSProfile(apis discovery.DiscoveryInterface) (bool, error) { return has(apis, apiServers) }

// Serves reports whether the API server serves a kind, with a function that asks it. Errors other than NotFound are
// returned.
func Serves(apis discovery.DiscoveryInterface) func(groupVersion, kind string) (bool, error) {
	return func(groupVersion, kind string) (bool, error) { return has(apis, resource{groupVersion, kind}) }
}

// has reports whether the API server serves a kind. Errors other than NotFound are returned.
func has(apis discovery.DiscoveryInterface, wanted resource) (bool, error) {
	list, err := apis.ServerResourcesForGroupVersion(wanted.groupVersion)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check whether the API server serves %s: %w", wanted.groupVersion, err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == wanted.kind }), nil
}

func hasAll(apis discovery.DiscoveryInterface, wanted []resource) (bool, error) {
	for _, kind := range wanted {
		if served, err := has(apis, kind); !served || err != nil {
			return false, err
		}
	}
	return true, nil
}

// kind identifies OpenShift by its Infrastructure object, and MicroShift by its version ConfigMap.
func kind(ctx context.Context, apis discovery.DiscoveryInterface, reader client.Reader) (Kind, error) {
	served, err := has(apis, infrastructures)
	if err != nil {
		return "", err
	}
	if served {
		exists, err := exists(ctx, reader, infrastructures.kind, client.ObjectKey{Name: "cluster"},
			&configv1.Infrastructure{})
		if err != nil {
			return "", err
		}
		if exists {
			return OpenShift, nil
		}
	}
	version := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	isMicroShift, err := exists(ctx, reader, version.Kind,
		client.ObjectKey{Namespace: "kube-public", Name: "microshift-version"}, version)
	if err != nil {
		return "", err
	}
	if isMicroShift {
		return MicroShift, nil
	}
	return Kubernetes, nil
}

// exists reports whether an object exists.
func exists(ctx context.Context, reader client.Reader, kind string, key client.ObjectKey,
	object client.Object) (bool, error) {
	err := reader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s %q to detect the platform: %w", kind, key.Name, err)
	}
	return true, nil
}

package olm

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	// PackageName is the operator's name in a catalog.
	PackageName = "lvms-operator"
	// catalogNamespace is the namespace of global catalogs.
	catalogNamespace = "olm"
	// Source is the catalog with the operator.
	Source = "lvms"
)

// Cluster is a lab's cluster with OLM.
type Cluster struct{ *story.Cluster }

// Mode is an install mode of OLM.
type Mode string

// The install modes of the bundle. With SingleNamespace, the OperatorGroup selects the namespace default.
const (
	OwnNamespace    Mode = "OwnNamespace"
	SingleNamespace Mode = "SingleNamespace"
	AllNamespaces   Mode = "AllNamespaces"
)

// AddMonitoring lets the Prometheus Operator of a cluster that is not OpenShift read the metrics, as
// docs/how-to/monitor.md says.
func (c Cluster) AddMonitoring(ctx context.Context) error { return c.monitoring(ctx, "apply") }

// RemoveMonitoring deletes what AddMonitoring has added.
func (c Cluster) RemoveMonitoring(ctx context.Context) error {
	return c.monitoring(ctx, "delete", "--ignore-not-found")
}

func (c Cluster) monitoring(ctx context.Context, command ...string) error {
	root, err := lab.Root()
	if err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, nil, append(command, "-k", filepath.Join(root, "monitoring", "prometheus-operator"))...)
	return err
}

// Serve creates the catalog Source with an image, or updates its image, and waits until OLM reads it.
func (c Cluster) Serve(ctx context.Context, image string) error { return c.ServeAs(ctx, Source, image) }

// ServeAs is Serve for a catalog with another name.
func (c Cluster) ServeAs(ctx context.Context, name, image string) error {
	if err := c.ApplyManifest(ctx, fmt.Sprintf(`
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: %s, namespace: %s}
spec:
  sourceType: grpc
  displayName: LVM Storage
  image: %s
  grpcPodConfig: {securityContextConfig: legacy, extractContent: {catalogDir: %s}}
`, name, catalogNamespace, image, CatalogDir)); err != nil {
		return err
	}
	return story.Wait(ctx, "catalog READY", func(ctx context.Context) (bool, string, error) {
		// The Pod with the old content serves until the new one is ready.
		if serving, seen, err := c.serves(ctx, name, image); !serving {
			return false, seen, err
		}
		source, err := c.read(ctx, "CatalogSource", catalogNamespace, name)
		if err != nil {
			return false, "", err
		}
		state, _, _ := unstructured.NestedString(source.Object, "status", "connectionState", "lastObservedState")
		return state == "READY", fmt.Sprint(source.Object["status"]), nil
	})
}

// serves reports whether the only Pod of a catalog is ready and has the content of an image.
func (c Cluster) serves(ctx context.Context, name, image string) (bool, string, error) {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(catalogNamespace),
		client.MatchingLabels{"olm.catalogSource": name}); err != nil {
		return false, "", err
	}
	seen := ""
	for _, pod := range pods.Items {
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		has := slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Image == image })
		if seen += fmt.Sprintf("%s ready=%v new=%v ", pod.Name, ready, has); len(pods.Items) == 1 && ready && has {
			return true, seen, nil
		}
	}
	return false, seen, nil
}

// Subscribe installs the operator from a channel, like the console after a click on Install.
func (c Cluster) Subscribe(ctx context.Context, mode Mode, channel string) error {
	if err := c.Group(ctx, mode); err != nil {
		return err
	}
	return c.SubscribeTo(ctx, Source, channel)
}

// Group creates the operator's namespace and its OperatorGroup.
func (c Cluster) Group(ctx context.Context, mode Mode) error {
	target := "{}"
	switch mode {
	case OwnNamespace:
		target = "{targetNamespaces: [" + c.InstallNamespace() + "]}"
	case SingleNamespace:
		target = "{targetNamespaces: [default]}"
	case AllNamespaces:
	}
	return c.ApplyManifest(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s, labels: {pod-security.kubernetes.io/enforce: privileged}}
---
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata: {name: lvms, namespace: %[1]s}
spec: %[2]s
`, c.InstallNamespace(), target))
}

// SubscribeTo subscribes to a channel of a catalog in an existing namespace.
func (c Cluster) SubscribeTo(ctx context.Context, source, channel string) error {
	return c.ApplyManifest(ctx, fmt.Sprintf(`
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: %[1]s, namespace: %[2]s}
spec: {name: %[1]s, channel: %[3]s, source: %[4]s, sourceNamespace: %[5]s, installPlanApproval: Automatic}
`, PackageName, c.InstallNamespace(), channel, source, catalogNamespace))
}

// WaitInstalled waits until a version is installed, and is the only one.
func (c Cluster) WaitInstalled(ctx context.Context, version string) error {
	return story.Wait(ctx, "version "+version+" Succeeded", func(ctx context.Context) (bool, string, error) {
		phases, seen, err := c.Versions(ctx)
		return err == nil && len(phases) == 1 && phases[PackageName+".v"+version] == "Succeeded", seen, err
	})
}

// Versions returns the phases of the ClusterServiceVersions in the operator's namespace by name, and the messages of
// them and of the Subscription.
func (c Cluster) Versions(ctx context.Context) (phases map[string]string, seen string, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kindOf("ClusterServiceVersionList"))
	if err := c.List(ctx, list, client.InNamespace(c.InstallNamespace())); err != nil {
		return nil, "", err
	}
	phases = map[string]string{}
	for _, csv := range list.Items {
		phase, _, _ := unstructured.NestedString(csv.Object, "status", "phase")
		message, _, _ := unstructured.NestedString(csv.Object, "status", "message")
		phases[csv.GetName()] = phase
		seen += fmt.Sprintf("%s %s: %s; ", csv.GetName(), phase, message)
	}
	subscription, err := c.read(ctx, "Subscription", c.InstallNamespace(), PackageName)
	if client.IgnoreNotFound(err) != nil {
		return nil, "", err
	}
	if err == nil {
		conditions, _, _ := unstructured.NestedSlice(subscription.Object, "status", "conditions")
		state, _, _ := unstructured.NestedString(subscription.Object, "status", "state")
		seen += fmt.Sprintf("Subscription %s %v", state, conditions)
	}
	return phases, seen, nil
}

// Unsubscribe uninstalls the operator like the console: it deletes the Subscription and the ClusterServiceVersion. It
// waits until the Pod no longer exists.
func (c Cluster) Unsubscribe(ctx context.Context) error {
	for _, kind := range []string{"subscriptions.operators.coreos.com", "clusterserviceversions.operators.coreos.com",
		"operatorgroups.operators.coreos.com"} {
		if _, err := c.Kubectl(ctx, nil, "delete", kind, "--all", "-n", c.InstallNamespace(),
			"--timeout=60s"); err != nil {
			return err
		}
	}
	_, err := c.Kubectl(ctx, nil, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=lvms-operator", "-n",
		c.InstallNamespace(), "--timeout=60s")
	return err
}

func (c Cluster) read(ctx context.Context, kind, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kindOf(kind))
	return object, c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
}

func kindOf(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: kind}
}

// Objects returns all objects of the API server, as RESOURCE NAMESPACE/NAME, except those that Kubernetes itself, nodes
// and OLM create.
func (c Cluster) Objects(ctx context.Context) (map[string]bool, error) {
	resources, err := c.Clientset.Discovery().ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, group := range resources {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range group.APIResources {
			if transient(resource.Name) || !strings.Contains(fmt.Sprint(resource.Verbs), "list") {
				continue
			}
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(version.WithKind(resource.Kind + "List"))
			if err := c.List(ctx, list); err != nil {
				if apimeta.IsNoMatchError(err) {
					continue // It was deleted meanwhile.
				}
				return nil, fmt.Errorf("list %s: %w", resource.Name, err)
			}
			for _, object := range list.Items {
				if resource.Name == "serviceaccounts" && object.GetName() == "default" {
					continue // Kubernetes creates it some time after its namespace.
				}
				all[resource.Name+" "+object.GetNamespace()+"/"+object.GetName()] = true
			}
		}
	}
	return all, nil
}

// LeftOver returns the objects in after that are not in before, sorted. It ignores two kinds of objects that OLM
// leaves: those with which it unpacked bundles in its own namespace, and the permission of each operator with a webhook
// to read the API server's authentication configuration (operator-lifecycle-manager, pkg/controller/install).
func LeftOver(before, after map[string]bool) []string {
	var left []string
	for object := range after {
		if !before[object] && !strings.Contains(object, " olm/") &&
			object != "rolebindings kube-system/lvms-operator-service-auth-reader" {
			left = append(left, object)
		}
	}
	slices.Sort(left)
	return left
}

// transient reports whether a resource changes independently of the operator: records, leases, and working objects of
// OLM.
func transient(resource string) bool {
	switch resource {
	case "events", "leases", "endpointslices", "endpoints", "controllerrevisions", "componentstatuses",
		"installplans", "catalogsources", "olmconfigs", "operators", "jobs", "pods", "configmaps":
		return true
	}
	return false
}

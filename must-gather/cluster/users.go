package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// maxNamespaces is the maximum number of users' namespaces from which events and Pods are read. Those with claims that
// are not bound are first.
const maxNamespaces = 200

const provisionerAnnotation = "volume.kubernetes.io/storage-provisioner"

// users collects what belongs to our volumes in other namespaces: claims, the Pods that use them, and their events.
func (c *Collector) users(ctx context.Context, classes, volumes []unstructured.Unstructured, own []string) {
	defer c.out.Step("claims and their Pods")()
	ofOurs := claimsOf(classes, volumes)
	claims := c.kept(ctx, target{resource: "persistentvolumeclaims", list: true, keep: ofOurs}, own)
	byNamespace := map[string]sets.Set[string]{}
	pending := sets.New[string]()
	for i := range claims {
		namespace := claims[i].GetNamespace()
		if byNamespace[namespace] == nil {
			byNamespace[namespace] = sets.New[string]()
		}
		byNamespace[namespace].Insert(claims[i].GetName())
		if phase, _, _ := unstructured.NestedString(claims[i].Object, "status", "phase"); phase != "Bound" {
			pending.Insert(namespace)
		}
	}
	wanted := append(sets.List(pending), sets.List(sets.KeySet(byNamespace).Difference(pending))...)
	// The product's own namespaces have already been read.
	wanted = slices.DeleteFunc(wanted, func(n string) bool { return slices.Contains(own, n) })
	if len(wanted) > maxNamespaces {
		c.out.Failed("Pods and events of users",
			fmt.Errorf("%d namespaces have claims of LVM Storage: only the first %d were read",
				len(wanted), maxNamespaces))
		wanted = wanted[:maxNamespaces]
	}
	inParallel(len(wanted), func(i int) { c.usersIn(ctx, wanted[i], byNamespace[wanted[i]]) })
}

// kept reads the objects that a target keeps in all namespaces, and writes those outside of the namespaces in whole,
// which were already read completely.
func (c *Collector) kept(ctx context.Context, t target, whole []string) []unstructured.Unstructured {
	r, found := c.find(t.group, t.resource)
	if !found {
		return nil
	}
	items, err := c.list(ctx, r, "", metav1.ListOptions{}, t.keep)
	c.out.Failed(describe(t, ""), err)
	c.store(t, slices.DeleteFunc(slices.Clone(items),
		func(o unstructured.Unstructured) bool { return slices.Contains(whole, o.GetNamespace()) }))
	return items
}

func (c *Collector) usersIn(ctx context.Context, namespace string, claims sets.Set[string]) {
	pods := sets.New[string]()
	c.all(ctx, target{resource: "pods", list: true, keep: func(o *unstructured.Unstructured) bool {
		if !mounts(o, claims) {
			return false
		}
		pods.Insert(o.GetName())
		return true
	}}, namespace)
	c.all(ctx, target{resource: "events", list: true, keep: func(o *unstructured.Unstructured) bool {
		kind, _, _ := unstructured.NestedString(o.Object, "involvedObject", "kind")
		name, _, _ := unstructured.NestedString(o.Object, "involvedObject", "name")
		return kind == "PersistentVolumeClaim" && claims.Has(name) || kind == "Pod" && pods.Has(name)
	}}, namespace)
}

// claimsOf returns a filter for claims for our volumes: by their StorageClass, even if it no longer exists, by their
// volume, or by the annotation with the provisioner.
func claimsOf(classes, volumes []unstructured.Unstructured) func(*unstructured.Unstructured) bool {
	ourClasses := sets.New[string]()
	ourVolumes := sets.New[string]()
	for i := range classes {
		if provisioner, _, _ := unstructured.NestedString(classes[i].Object,
			"provisioner"); provisioner == wellknown.DriverName {
			ourClasses.Insert(classes[i].GetName())
		}
	}
	for i := range volumes {
		ourVolumes.Insert(volumes[i].GetName())
	}
	return func(o *unstructured.Unstructured) bool {
		class, _, _ := unstructured.NestedString(o.Object, "spec", "storageClassName")
		volume, _, _ := unstructured.NestedString(o.Object, "spec", "volumeName")
		return ourClasses.Has(class) || strings.HasPrefix(class, wellknown.StorageClassPrefix) ||
			ourVolumes.Has(volume) || o.GetAnnotations()[provisionerAnnotation] == wellknown.DriverName
	}
}

// snapshots collects the VolumeSnapshots or VolumeGroupSnapshots whose content is one of ours, or whose class has a
// name of ours. The names of their fields contain kind.
func (c *Collector) snapshots(ctx context.Context, group, resource, kind string, contents []unstructured.Unstructured) {
	bound := sets.New[string]()
	for i := range contents {
		bound.Insert(contents[i].GetName())
	}
	c.kept(ctx, target{group: group, resource: resource, list: true, keep: func(o *unstructured.Unstructured) bool {
		content, _, _ := unstructured.NestedString(o.Object, "status", "bound"+kind+"ContentName")
		class, _, _ := unstructured.NestedString(o.Object, "spec", "v"+kind[1:]+"ClassName")
		return bound.Has(content) || strings.HasPrefix(class, wellknown.StorageClassPrefix)
	}}, nil)
}

func mounts(pod *unstructured.Unstructured, claims sets.Set[string]) bool {
	volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	return slices.ContainsFunc(volumes, func(v any) bool {
		volume, _ := v.(map[string]any)
		name, _, _ := unstructured.NestedString(volume, "persistentVolumeClaim", "claimName")
		return claims.Has(name)
	})
}

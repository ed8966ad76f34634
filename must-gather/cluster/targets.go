package cluster

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// target is a resource to collect.
type target struct {
	group, resource string
	// list writes all objects of a namespace into one file, RESOURCE.yaml, like `oc adm inspect ns/NAME`; otherwise
	// each object has a file of its own.
	list bool
	// keep reports whether an object is collected; nil for all.
	keep func(*unstructured.Unstructured) bool
}

// clusterScoped lists the resources that are read first, in this order.
var clusterScoped = []target{
	{group: "", resource: "nodes"},
	{group: "topolvm.io", resource: "logicalvolumes"},
	{group: "storage.k8s.io", resource: "storageclasses"},
	{group: "storage.k8s.io", resource: "csidrivers"},
	{group: "storage.k8s.io", resource: "csinodes"},
	{group: "", resource: "persistentvolumes", keep: drives("spec", "csi", "driver")},
	{group: "storage.k8s.io", resource: "volumeattachments", keep: drives("spec", "attacher")},
	{group: "storage.k8s.io", resource: "volumeattributesclasses"},
	{group: "snapshot.storage.k8s.io", resource: "volumesnapshotclasses"},
	{group: "snapshot.storage.k8s.io", resource: "volumesnapshotcontents", keep: drives("spec", "driver")},
	{group: "groupsnapshot.storage.k8s.io", resource: "volumegroupsnapshotclasses"},
	{group: "groupsnapshot.storage.k8s.io", resource: "volumegroupsnapshotcontents", keep: drives("spec", "driver")},
	{group: "admissionregistration.k8s.io", resource: "validatingwebhookconfigurations", keep: named("lvms")},
	{group: "admissionregistration.k8s.io", resource: "validatingadmissionpolicies", keep: named("lvms")},
	{group: "admissionregistration.k8s.io", resource: "validatingadmissionpolicybindings", keep: named("lvms")},
	{group: "rbac.authorization.k8s.io", resource: "clusterroles", keep: named("lvms", "vg-manager")},
	{group: "rbac.authorization.k8s.io", resource: "clusterrolebindings", keep: named("lvms", "vg-manager")},
	{group: "security.openshift.io", resource: "securitycontextconstraints", keep: named("lvms")},
	{group: "config.openshift.io", resource: "clusterversions"},
	{group: "config.openshift.io", resource: "infrastructures"},
	{group: "config.openshift.io", resource: "clusteroperators"},
	{group: "console.openshift.io", resource: "consoleplugins", keep: named("lvms")},
	{group: "olm.operatorframework.io", resource: "clusterextensions"},
}

// ours lists the resources that are read in the namespaces of the product.
var ours = []target{
	{group: v1alpha1.GroupVersion.Group, resource: "lvmclusters"},
	{group: v1alpha1.GroupVersion.Group, resource: "lvmvolumegroups"},
	{group: v1alpha1.GroupVersion.Group, resource: "lvmvolumegroupnodestatuses"},
	{group: v1alpha1.GroupVersion.Group, resource: "lvmrecoveries"},
	{group: v1alpha1.GroupVersion.Group, resource: "lvmdeviceapprovals"},
	{group: v1alpha1.GroupVersion.Group, resource: "volumemoves"},
	{group: "", resource: "pods", list: true},
	{group: "", resource: "events", list: true},
	{group: "apps", resource: "deployments", list: true},
	{group: "apps", resource: "daemonsets", list: true},
	{group: "apps", resource: "replicasets", list: true},
	{group: "apps", resource: "controllerrevisions", list: true},
	{group: "storage.k8s.io", resource: "csistoragecapacities", list: true},
	{group: "", resource: "secrets", list: true},
	{group: "", resource: "services", list: true},
	{group: "", resource: "configmaps", list: true},
	{group: "", resource: "serviceaccounts", list: true},
	{group: "", resource: "persistentvolumeclaims", list: true},
	{group: "discovery.k8s.io", resource: "endpointslices", list: true},
	{group: "policy", resource: "poddisruptionbudgets", list: true},
	{group: "coordination.k8s.io", resource: "leases", list: true},
	{group: "networking.k8s.io", resource: "networkpolicies", list: true},
	{group: "rbac.authorization.k8s.io", resource: "roles", list: true},
	{group: "rbac.authorization.k8s.io", resource: "rolebindings", list: true},
	{group: "monitoring.coreos.com", resource: "servicemonitors", list: true},
	{group: "monitoring.coreos.com", resource: "prometheusrules", list: true},
	{group: "operators.coreos.com", resource: "subscriptions"},
	{group: "operators.coreos.com", resource: "clusterserviceversions"},
	{group: "operators.coreos.com", resource: "installplans"},
	{group: "operators.coreos.com", resource: "operatorgroups"},
	{group: "operators.coreos.com", resource: "catalogsources"},
	{group: "operators.coreos.com", resource: "operatorconditions"},
}

// drives returns a filter for objects in which a field names our CSI driver.
func drives(fields ...string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		driver, _, _ := unstructured.NestedString(o.Object, fields...)
		return driver == wellknown.DriverName
	}
}

// named returns a filter for objects whose name has one of the prefixes.
func named(prefixes ...string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(o.GetName(), p) })
	}
}

// definitions returns the target with the definitions of all custom resources that are collected: a reader of the
// archive, such as omc, knows a custom resource only by its definition.
func definitions() target {
	collected := sets.New("volumesnapshots.snapshot.storage.k8s.io",
		"volumegroupsnapshots.groupsnapshot.storage.k8s.io")
	for _, t := range slices.Concat(clusterScoped, ours) {
		collected.Insert(t.resource + "." + t.group)
	}
	return target{group: "apiextensions.k8s.io", resource: "customresourcedefinitions",
		keep: func(o *unstructured.Unstructured) bool { return collected.Has(o.GetName()) }}
}

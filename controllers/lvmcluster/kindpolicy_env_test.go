//go:build env

package lvmcluster

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// With its kinds all volumes would be deleted: OLM v1 deletes them when somebody deletes the ClusterExtension.
func TestKindsAreNotDeletedWhileThereIsAnLVMCluster(t *testing.T) {
	w := newWorld(t, thin("vg1"))
	remove := func(name string) error {
		kind := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
		crd := metadataOf(kind)
		crd.Name = name
		return w.api.Delete(t.Context(), crd, client.DryRunAll)
	}
	w.must(remove(clusterCRD))
	w.must(NewKindPolicy(w.spy, w.spy, w.cluster.Namespace).apply(t.Context()))
	policies := []client.Object{
		&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{},
	}
	for _, object := range policies {
		w.must(w.get(object, "lvms-kinds-in-use"))
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].Name != clusterCRD {
			t.Errorf("%T goes with %v", object, owners)
		}
	}
	for _, name := range []string{
		clusterCRD, "lvmvolumegroups.lvm.topolvm.io", "lvmvolumegroupnodestatuses.lvm.topolvm.io",
		"logicalvolumes.topolvm.io",
	} {
		said := ""
		w.soon(func() bool {
			if err := remove(name); err != nil {
				said = err.Error()
			}
			return said != ""
		}, "%s can be deleted while there is an LVMCluster", name)
		if !strings.Contains(said, "Delete the LVMCluster first") {
			t.Errorf("%s: %q does not say what to do", name, said)
		}
	}

	w.must(client.IgnoreNotFound(w.api.Delete(t.Context(), w.cluster)))
	w.soon(func() bool { return remove("logicalvolumes.topolvm.io") == nil }, "refused without an LVMCluster too")
	for _, object := range policies {
		w.must(w.api.Delete(t.Context(), object))
	}
}

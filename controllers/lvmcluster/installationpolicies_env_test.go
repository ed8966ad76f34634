//go:build env

package lvmcluster

import (
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
)

// An LVMCluster in a namespace without an operator is refused even if OLM does not send that namespace to the webhook.
func TestAnLVMClusterElsewhereIsRefused(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	elsewhere := func() error {
		other := fixture.Cluster(fixture.Thin("vg1"))
		other.UID = ""
		other.Name = "elsewhere"
		other.Namespace = metav1.NamespaceDefault
		return w.api.Create(t.Context(), other, client.DryRunAll)
	}
	w.must(elsewhere())
	policy := operand.NewInstallationPolicies(w.spy, w.spy, w.cluster.Namespace)
	deployment := &appsv1.Deployment{}
	w.must(w.get(deployment, installed.Name))
	w.must(w.api.Delete(t.Context(), deployment))
	if err := policy.Apply(t.Context()); err == nil {
		t.Error("without the operator's Deployment a policy is made that nothing removes")
	}
	deployment.ResourceVersion = ""
	deployment.UID = ""
	w.make(deployment)
	away := errors.New("the API server is away")
	w.spy.Fail = func(verb string, object any) error {
		if _, is := object.(*metav1.PartialObjectMetadata); is && verb == "get" {
			return away
		}
		return nil
	}
	if err := policy.Apply(t.Context()); !errors.Is(err, away) {
		t.Errorf("error %v", err)
	}
	w.spy.Fail = nil
	for range 2 {
		w.must(policy.Apply(t.Context()))
	}
	objects := []client.Object{&admissionv1.ValidatingAdmissionPolicy{},
		&admissionv1.ValidatingAdmissionPolicyBinding{}}
	for _, object := range objects {
		w.must(w.get(object, "lvms-lvmcluster-namespace"))
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "ClusterRole" ||
			owners[0].Name != installed.Name {
			t.Errorf("%T goes with %v", object, owners)
		}
	}
	said := ""
	w.soon(func() bool {
		if err := elsewhere(); err != nil {
			said = err.Error()
		}
		return said != ""
	}, "an LVMCluster in namespace default is accepted")
	if want := `an LVMCluster must be created in namespace "` + w.cluster.Namespace +
		`"`; !strings.Contains(said, want) {
		t.Errorf("%q does not say %q", said, want)
	}
	here := fixture.Cluster(fixture.Thin("vg1"))
	here.UID = ""
	here.Name = "here"
	here.Namespace = w.cluster.Namespace
	w.must(w.api.Create(t.Context(), here, client.DryRunAll))

	for _, name := range []string{"lvms-vg-manager-nodes", "lvms-operator-pods", "lvms-logicalvolume-users"} {
		for _, object := range objects {
			w.must(w.get(object, name))
			if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].Name != installed.Name {
				t.Errorf("%T %s goes with %v", object, name, owners)
			}
		}
	}
	for _, object := range objects {
		w.must(w.get(object, "lvms-lvmcluster-namespace"))
	}

	// The next test creates an LVMCluster in another namespace.
	for _, object := range objects {
		w.must(w.api.Delete(t.Context(), object))
	}
	w.soon(func() bool { return elsewhere() == nil }, "the policy is in force after it was deleted")
}

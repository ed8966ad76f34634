//go:build env

package lvmcluster

import (
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
)

// agentOf returns a client with the token of the node agent of a node.
func (w *world) agentOf(node string) client.Client {
	w.Helper()
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + w.cluster.Namespace + ":vg-manager", Groups: []string{"system:masters"},
		Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}},
	}
	agent, err := client.New(config, client.Options{Scheme: w.api.Scheme()})
	w.must(err)
	return agent
}

// An agent sets the device class of an object that has none, and changes nothing else in a spec.
func TestAnAgentNamesAClassWhereNoneIsNamed(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	_, err := w.reconcile()
	w.must(err)
	objects := map[string]*topolvmv1.LogicalVolume{}
	for _, class := range []string{"", "vg1"} {
		lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "class-" + class + "x"}}
		lv.Spec = topolvmv1.LogicalVolumeSpec{Name: lv.Name, NodeName: "a", DeviceClass: class, Size: *lvSize("1Gi")}
		w.make(lv)
		objects[class] = lv
	}
	change := func(agent client.Client, class string, edit func(*topolvmv1.LogicalVolumeSpec)) error {
		before := objects[class]
		after := before.DeepCopy()
		edit(&after.Spec)
		return agent.Patch(t.Context(), after, client.MergeFrom(before), client.DryRunAll)
	}
	name := func(s *topolvmv1.LogicalVolumeSpec) { s.DeviceClass = "vg2" }
	here := w.agentOf("a")
	otherNode := w.agentOf("b")
	w.refusedSoon("another class", "cannot change the spec", func() error { return change(here, "vg1", name) })
	w.refusedSoon("of another node", "only the LogicalVolumes of its own node",
		func() error { return change(otherNode, "", name) })
	for what, edit := range map[string]func(*topolvmv1.LogicalVolumeSpec){
		"size": func(s *topolvmv1.LogicalVolumeSpec) { s.DeviceClass, s.Size = "vg2", *lvSize("2Gi") },
		"node": func(s *topolvmv1.LogicalVolumeSpec) {
			s.DeviceClass = "vg2"
			s.NodeName = "b"
		},
		"source": func(s *topolvmv1.LogicalVolumeSpec) {
			s.DeviceClass = "vg2"
			s.Source = "other"
		},
		"name": func(s *topolvmv1.LogicalVolumeSpec) {
			s.DeviceClass = "vg2"
			s.Name = "other"
		},
	} {
		w.refusedSoon(what, "cannot change the spec", func() error { return change(here, "", edit) })
	}
	w.allowedSoon("the name of its own LogicalVolume", func() error { return change(here, "", name) })
}

// An agent requests a certificate in the node status of its own node only, so it gets none of another node.
func TestAnAgentRequestsACertificateOfItsOwnNode(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	_, err := w.reconcile()
	w.must(err)
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	w.must(w.get(status, "a"))
	request := func(agent client.Client) error {
		after := status.DeepCopy()
		after.Status.AgentCertificate = &lvmv1alpha1.AgentCertificate{Request: "x"}
		return agent.Status().Patch(t.Context(), after, client.MergeFrom(status), client.DryRunAll)
	}
	otherNode := w.agentOf("b")
	w.refusedSoon("of another node", "only the LVMVolumeGroupNodeStatus of its own node",
		func() error { return request(otherNode) })
	w.must(request(w.agentOf("a")))
}

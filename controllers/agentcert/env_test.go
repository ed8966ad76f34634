//go:build env

package agentcert

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/tls/agentca"
	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

// operator returns a client with the permissions of the operator, which records writes.
func operator(t *testing.T) *env.Spy {
	t.Helper()
	spy := server.OperatorSpy(t, env.Namespace)
	return spy
}

// TestACertificateIsStored: the schema of the CRD has all fields, the operator may write them and the Secret of the
// authority, and a second replica uses the same Secret.
func TestACertificateIsStored(t *testing.T) {
	spy := operator(t)
	ca := agentca.NewStore(spy, env.Namespace, agentca.Options{})
	if err := ca.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := types.NamespacedName{Namespace: env.Namespace, Name: "node-certificate"}
	request, public := newRequest(t, mutualtls.Node(key.Name))
	status := &v1alpha1.LVMVolumeGroupNodeStatus{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := server.Client.Create(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	status.Status.AgentCertificate = &v1alpha1.AgentCertificate{Request: request}
	if err := server.Client.Status().Update(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		second := agentca.NewStore(spy, env.Namespace, agentca.Options{})
		if err := second.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := New(spy, second, events.NewFakeRecorder(10))
		if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"create Secret " + agentca.SecretName, "patch status LVMVolumeGroupNodeStatus " + key.Name}
	if diff := cmp.Diff(want, spy.Writes()); diff != "" {
		t.Error(diff)
	}
	got := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := server.Client.Get(t.Context(), key, got); err != nil {
		t.Fatal(err)
	}
	authority, err := ca.Authority()
	if err != nil {
		t.Fatal(err)
	}
	c := got.Status.AgentCertificate
	if err := authority.Accepts([]byte(c.Certificate), public, time.Now()); err != nil ||
		c.Authorities != string(authority.Trusted) || c.Request != request {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestALongRequestIsNotStored: the limits of the schema. Kubernetes 1.30 names the field without "status".
func TestALongRequestIsNotStored(t *testing.T) {
	status := &v1alpha1.LVMVolumeGroupNodeStatus{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "node-long"}}
	if err := server.Client.Create(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	after := status.DeepCopy()
	after.Status.AgentCertificate = &v1alpha1.AgentCertificate{Request: strings.Repeat("x", 4097)}
	err := server.Client.Status().Patch(t.Context(), after, client.MergeFrom(status))
	if err == nil || !strings.Contains(err.Error(), "agentCertificate.request: Too long") {
		t.Errorf("got %v", err)
	}
}

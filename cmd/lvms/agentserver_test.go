package main

import (
	"crypto/tls"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	issuer "github.com/lvm-storage/lvm-operator/controllers/agentcert"
	"github.com/lvm-storage/lvm-operator/internal/tls/agentca"
	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile"
	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/vgmanager/outside/agentcert"
)

// handshake connects as the operator to the agent of a node.
func handshake(t *testing.T, operator, agent mutualtls.Source, node string) error {
	t.Helper()
	server := mutualtls.Server(agent, mutualtls.Operator)
	tlsprofile.New().Configure(server)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		connection, err := listener.Accept()
		if err == nil {
			_, _ = connection.Write([]byte{1})
			_ = connection.Close()
		}
	}()
	config, err := mutualtls.ClientOfNode(operator, node)
	if err != nil {
		return err
	}
	connection, err := tls.Dial("tcp", listener.Addr().String(), config)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	// With TLS 1.3, the client learns from the first read whether the server accepted its certificate.
	n, err := connection.Read(make([]byte, 1))
	if n == 1 {
		return nil
	}
	return err
}

// TestOperatorAndAgentsTrustEachOther: after the agents have requested certificates, and again after the Secret with
// the authority was lost.
func TestOperatorAndAgentsTrustEachOther(t *testing.T) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	nodes := []string{"a", "b.example.com"}
	var objects []client.Object
	for _, node := range nodes {
		objects = append(objects,
			&lvmv1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: node}})
	}
	api := memory.Builder().WithObjects(objects...).Build()
	operator := agentca.NewStore(api, "ns", agentca.Options{})
	signer := issuer.New(api, operator, events.NewFakeRecorder(10))
	agents := map[string]*agentcert.Reconciler{}
	for _, node := range nodes {
		agents[node] = agentcert.New(api, node, "ns")
	}
	// round is what happens after the objects have changed.
	round := func() {
		t.Helper()
		for _, node := range nodes {
			request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: node}}
			for range 2 {
				_, err := agents[node].Reconcile(ctx, request)
				must(err)
				_, err = signer.Reconcile(ctx, request)
				must(err)
			}
			_, err := agents[node].Reconcile(ctx, request)
			must(err)
		}
	}
	must(operator.Keep(ctx))
	for _, node := range nodes {
		if handshake(t, operator, agents[node], node) == nil {
			t.Errorf("%s: is served without a certificate", node)
		}
	}
	round()
	for _, node := range nodes {
		must(handshake(t, operator, agents[node], node))
		if handshake(t, agents[node], agents[node], node) == nil {
			t.Errorf("%s: an agent acts as the operator", node)
		}
	}
	if handshake(t, operator, agents["b.example.com"], "a") == nil {
		t.Error("an agent acts as that of another node")
	}

	must(api.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: agentca.SecretName}}))
	must(operator.Keep(ctx))
	if handshake(t, operator, agents["a"], "a") == nil {
		t.Error("the lost authority is still trusted")
	}
	round()
	for _, node := range nodes {
		must(handshake(t, operator, agents[node], node))
	}
}

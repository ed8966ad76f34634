package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

func service(clusterIP string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1",
			Annotations: map[string]string{prefix + secretName: "web-cert"}},
		Spec: corev1.ServiceSpec{ClusterIP: clusterIP},
	}
}

func mustAuthority(t *testing.T) *authority {
	t.Helper()
	ca, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestACertificateServesTheNamesOfItsService(t *testing.T) {
	ca := mustAuthority(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.pem)
	for name, c := range map[string]struct {
		clusterIP string
		serves    map[string]bool
	}{
		"Service": {"10.0.0.1", map[string]bool{"web.ns.svc": true, "web.ns.svc.cluster.local": true,
			"other.ns.svc": false, "pod.web.ns.svc": false}},
		"headless": {"None", map[string]bool{"web.ns.svc": true, "pod.web.ns.svc": true,
			"pod.web.ns.svc.cluster.local": true}},
	} {
		t.Run(name, func(t *testing.T) {
			chain, key, expiry, err := ca.issue(service(c.clusterIP))
			if err != nil {
				t.Fatal(err)
			}
			pair, err := tls.X509KeyPair(chain, key)
			if err != nil {
				t.Fatal(err)
			}
			if len(pair.Certificate) != 2 || time.Until(expiry) < 700*24*time.Hour || !ca.hasIssued(chain) {
				t.Errorf("%d certificates, expires at %s, issued by the authority: %v", len(pair.Certificate), expiry,
					ca.hasIssued(chain))
			}
			for host, want := range c.serves {
				if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); (err == nil) != want {
					t.Errorf("%s: %v", host, err)
				}
			}
		})
	}
	if mustAuthority(t).hasIssued(ca.pem) {
		t.Error("an authority takes the certificate of another one for its own")
	}
}

func TestASecretIsMadeOnceAndAgainWhenItIsGone(t *testing.T) {
	ctx := context.Background()
	api := memory.Builder().WithObjects(service("10.0.0.1")).Build()
	s := &servingCertificates{client: api, reader: api, ca: mustAuthority(t)}
	request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "web"}}
	made := func() *corev1.Secret {
		t.Helper()
		if _, err := s.Reconcile(ctx, request); err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{}
		if err := api.Get(ctx, client.ObjectKey{Namespace: "ns", Name: "web-cert"}, secret); err != nil {
			t.Fatal(err)
		}
		return secret
	}
	first := made()
	if first.Type != corev1.SecretTypeTLS || len(first.OwnerReferences) != 1 || first.OwnerReferences[0].UID != "1" {
		t.Errorf("%+v", first)
	}
	if second := made(); !reflect.DeepEqual(first.Data, second.Data) {
		t.Error("the second time it was made again")
	}
	if err := api.Delete(ctx, first); err != nil {
		t.Fatal(err)
	}
	if third := made(); reflect.DeepEqual(first.Data, third.Data) {
		t.Error("the certificate is the one that was deleted")
	}
	noted := &corev1.Service{}
	if err := api.Get(ctx, request.NamespacedName, noted); err != nil ||
		noted.Annotations[prefix+signedBy] != s.ca.name() {
		t.Errorf("%v %v", noted.Annotations, err)
	}
}

func TestTheSecretOfSomebodyElseIsLeftAlone(t *testing.T) {
	ctx := context.Background()
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-cert"},
		Data: map[string][]byte{"a": []byte("b")}}
	api := memory.Builder().WithObjects(service("10.0.0.1"), theirs).Build()
	s := &servingCertificates{client: api, reader: api, ca: mustAuthority(t)}
	request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "web"}}
	for range maxFailures {
		if _, err := s.Reconcile(ctx, request); err == nil || !strings.Contains(err.Error(), "service UID") {
			t.Fatal(err)
		}
	}
	if _, err := s.Reconcile(ctx, request); err != nil {
		t.Errorf("it was not given up: %v", err)
	}
	noted := &corev1.Service{}
	left := &corev1.Secret{}
	if err := api.Get(ctx, request.NamespacedName, noted); err != nil ||
		noted.Annotations[prefix+failureNumber] != "10" {
		t.Errorf("%v %v", noted.Annotations, err)
	}
	if err := api.Get(ctx, client.ObjectKeyFromObject(theirs), left); err != nil || len(left.Data) != 1 {
		t.Errorf("%v %v", left.Data, err)
	}
}

func TestTheBundleIsPutWhereEachKindHasIt(t *testing.T) {
	bundle := []byte("x") // eA== in base64
	for name, c := range map[string]struct {
		set          func(map[string]any, []byte) error
		object, want map[string]any
	}{
		"ConfigMap": {setData, map[string]any{"data": map[string]any{"other": "y"}},
			map[string]any{"data": map[string]any{"service-ca.crt": "x"}}},
		"webhooks": {setWebhooks,
			map[string]any{"webhooks": []any{map[string]any{"name": "a"},
				map[string]any{"name": "b", "clientConfig": map[string]any{"caBundle": "old"}}}},
			map[string]any{"webhooks": []any{
				map[string]any{"name": "a", "clientConfig": map[string]any{"caBundle": "eA=="}},
				map[string]any{"name": "b", "clientConfig": map[string]any{"caBundle": "eA=="}}}}},
		"no webhooks": {setWebhooks, map[string]any{}, map[string]any{}},
		"conversion by a webhook": {setConversion,
			map[string]any{"spec": map[string]any{"conversion": map[string]any{"strategy": "Webhook"}}},
			map[string]any{"spec": map[string]any{"conversion": map[string]any{"strategy": "Webhook",
				"webhook": map[string]any{"clientConfig": map[string]any{"caBundle": "eA=="}}}}}},
		"no conversion": {setConversion,
			map[string]any{"spec": map[string]any{"conversion": map[string]any{"strategy": "None"}}},
			map[string]any{"spec": map[string]any{"conversion": map[string]any{"strategy": "None"}}}},
		"APIService": {setSpec, map[string]any{"spec": map[string]any{}},
			map[string]any{"spec": map[string]any{"caBundle": "eA=="}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.set(c.object, bundle); err != nil || !reflect.DeepEqual(c.object, c.want) {
				t.Errorf("%v, want %v, %v", c.object, c.want, err)
			}
		})
	}
}

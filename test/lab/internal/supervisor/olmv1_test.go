package supervisor

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/pki"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

const olmV1Certificate = `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: catalogd-service-cert, namespace: olmv1-system}
spec: {secretName: catalogd-cert, dnsNames: [localhost, catalogd-service.olmv1-system.svc]}
`

const olmV1Deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator-controller-controller-manager, namespace: olmv1-system}
spec: {template: {spec: {containers: [{name: manager, args: [--leader-elect]}]}}}
`

const olmV1Webhooks = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: catalogd-mutating-webhook-configuration}
webhooks: [{name: inject, clientConfig: {service: {name: catalogd-service, namespace: olmv1-system}}}]
`

func TestCertificateBecomesASecretOfTheLab(t *testing.T) {
	s := olmV1Supervisor(t, false)
	var secret struct {
		Metadata struct{ Name, Namespace string }
		Data     map[string][]byte
	}
	decode(t, s, olmV1Certificate, &secret)
	if secret.Metadata.Name != "catalogd-cert" || secret.Metadata.Namespace != "olmv1-system" {
		t.Errorf("Secret %s/%s", secret.Metadata.Namespace, secret.Metadata.Name)
	}
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	options := x509.VerifyOptions{DNSName: "catalogd-service.olmv1-system.svc", Roots: roots}
	if _, err := pair.Leaf.Verify(options); err != nil {
		t.Error(err)
	}
}

func TestWebhooksOfOLMv1TrustTheLab(t *testing.T) {
	s := olmV1Supervisor(t, false)
	var configuration struct {
		Webhooks []struct {
			ClientConfig struct {
				CABundle []byte
				Service  struct{ Name string }
			}
		}
	}
	decode(t, s, olmV1Webhooks, &configuration)
	client := configuration.Webhooks[0].ClientConfig
	if !bytes.Equal(client.CABundle, s.ca.PEM()) || client.Service.Name != "catalogd-service" {
		t.Errorf("got %+v", client)
	}
}

func TestOnlyAServiceCAEnablesWebhooksOfBundles(t *testing.T) {
	for serviceCA, want := range map[bool]int{false: 1, true: 2} {
		var deployment struct {
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
		decode(t, olmV1Supervisor(t, serviceCA), olmV1Deployment, &deployment)
		if args := deployment.Spec.Template.Spec.Containers[0].Args; len(args) != want || args[0] != "--leader-elect" {
			t.Errorf("with service CA %t: %q", serviceCA, args)
		}
	}
}

func TestWhatTheLabDoesItselfIsNotApplied(t *testing.T) {
	s := olmV1Supervisor(t, false)
	for _, doc := range []string{
		"", "{kind: Issuer}", "{kind: ClusterIssuer}", "{kind: CustomResourceDefinition}",
		"{kind: Certificate, spec: {isCA: true}}",
	} {
		object, err := s.olmV1Object([]byte(doc))
		if err != nil || len(object) > 0 {
			t.Errorf("%s: %s, %v", doc, object, err)
		}
	}
}

func TestObjectsThatOLMv1HasNotAreErrors(t *testing.T) {
	s := olmV1Supervisor(t, true)
	const controller = "{kind: Deployment, metadata: {name: operator-controller-controller-manager}"
	for _, doc := range []string{
		"{kind: MutatingWebhookConfiguration}", "{kind: MutatingWebhookConfiguration, webhooks: [{}]}",
		controller + "}", controller + ", spec: {template: {spec: {containers: [x]}}}}",
	} {
		if object, err := s.olmV1Object([]byte(doc)); err == nil {
			t.Errorf("%s: no error, but %s", doc, object)
		}
	}
	if path, err := pathOf([]byte("{kind: Cat, metadata: {name: tom}}")); err == nil {
		t.Errorf("an unknown kind is at %s", path)
	}
}

func olmV1Supervisor(t *testing.T, serviceCA bool) *supervisor {
	t.Helper()
	ca, err := pki.New("lab-test")
	if err != nil {
		t.Fatal(err)
	}
	return &supervisor{Lab: spec.Lab{ServiceCA: serviceCA}, ca: ca}
}

func decode(t *testing.T, s *supervisor, doc string, into any) {
	t.Helper()
	object, err := s.olmV1Object([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(object, into); err != nil {
		t.Fatal(err)
	}
}

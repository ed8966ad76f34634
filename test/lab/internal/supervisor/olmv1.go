package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/images"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/pki"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

const (
	// olmV1Deployments is the API path of the Deployments of OLM v1.
	olmV1Deployments = "/apis/apps/v1/namespaces/olmv1-system/deployments/"
	// operatorControllerName is the name of the Deployment that installs bundles.
	operatorControllerName = "operator-controller-controller-manager"
	// olmV1Limit allows a node to pull two images of 100 MB, and two leaders to be elected.
	olmV1Limit = 5 * time.Minute
)

// registriesConf makes OLM v1 pull the images of the public registry from the lab's registry, as on a cluster with a
// mirror.
const registriesConf = `
[[registry]]
location = "` + spec.Mirrored + `"
[[registry.mirror]]
location = "` + spec.Registry + `"
`

// olmV1Image matches an image in the manifest of OLM v1. The first group is the program.
var olmV1Image = regexp.MustCompile(`image: quay\.io/operator-framework/(catalogd|operator-controller):\S+`)

// lifecycleManagerV1 installs OLM v1 from its own manifest, with images of the lab's registry and certificates of the
// lab's authority. It waits until both Deployments are available.
func (s *supervisor) lifecycleManagerV1(ctx context.Context) error {
	if err := s.pushOLMv1(ctx); err != nil {
		return err
	}
	manifest, err := os.ReadFile(s.OLMv1)
	if err != nil {
		return err
	}
	manifest = olmV1Image.ReplaceAll(manifest, []byte("image: "+spec.Registry+"/$1:1"))
	for _, doc := range bytes.Split(manifest, []byte("\n---")) {
		object, err := s.olmV1Object(doc)
		if err != nil {
			return fmt.Errorf("%s: %w", s.OLMv1, err)
		}
		if err := s.applyObject(ctx, object); err != nil {
			return fmt.Errorf("%s: %w", s.OLMv1, err)
		}
	}
	return poll(ctx, olmV1Limit, time.Second, s.olmV1Available)
}

// pushOLMv1 pushes the images of OLM v1.
func (s *supervisor) pushOLMv1(ctx context.Context) error {
	registries := filepath.Join(spec.RunDir, "registries.conf")
	if err := os.WriteFile(registries, []byte(registriesConf), 0o644); err != nil {
		return err
	}
	pusher := images.Pusher{CA: s.ca.PEM(), Dial: dialRegistry}
	for _, name := range []string{"catalogd", "operator-controller"} {
		program, err := s.find(name)
		if err != nil {
			return err
		}
		if err := pushBuilt(ctx, pusher, name, func() (v1.Image, error) {
			return images.Unprivileged(program, map[string]string{"etc/containers/registries.conf": registries})
		}); err != nil {
			return err
		}
	}
	return nil
}

// olmV1Available returns an error if a Deployment of OLM v1 is not available.
func (s *supervisor) olmV1Available(ctx context.Context) error {
	for _, name := range []string{"catalogd-controller-manager", operatorControllerName} {
		var deployment object
		if err := s.kube.get(ctx, olmV1Deployments+name, &deployment); err != nil {
			return err
		}
		if !deployment.is("Available") {
			return fmt.Errorf("deployment %s is not available: %v", name, deployment.Status.Conditions)
		}
	}
	return nil
}

// olmV1Object returns the object that the lab applies for an object in the manifest of OLM v1, or nil. The lab replaces
// cert-manager: it creates the Secret of a Certificate, and sets its authority in webhook configurations.
func (s *supervisor) olmV1Object(doc []byte) ([]byte, error) {
	var object struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(doc, &object); err != nil {
		return nil, err
	}
	switch object.Kind {
	case "CustomResourceDefinition": // already applied
		return nil, nil
	case "Issuer", "ClusterIssuer":
		return nil, nil
	case "Certificate":
		return s.certificateSecret(doc)
	case "MutatingWebhookConfiguration":
		return trusting(doc, s.ca.PEM())
	case "Deployment":
		if s.ServiceCA && object.Metadata.Name == operatorControllerName {
			return withArgument(doc, "--feature-gates=WebhookProviderOpenshiftServiceCA=true")
		}
	}
	return doc, nil
}

// certificateSecret returns the Secret that cert-manager would create for a Certificate, or nil for the Certificate of
// an authority.
func (s *supervisor) certificateSecret(doc []byte) ([]byte, error) {
	var certificate struct {
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Spec struct {
			IsCA       bool     `json:"isCA"`
			DNSNames   []string `json:"dnsNames"`
			SecretName string   `json:"secretName"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(doc, &certificate); err != nil || certificate.Spec.IsCA {
		return nil, err
	}
	pair, err := s.ca.Issue(pki.Request{User: certificate.Metadata.Name, Hosts: certificate.Spec.DNSNames})
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", certificate.Metadata.Name, err)
	}
	return json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata": map[string]any{"name": certificate.Spec.SecretName, "namespace": certificate.Metadata.Namespace},
		"data":     map[string]any{"tls.crt": pair.Certificate, "tls.key": pair.Key, "ca.crt": s.ca.PEM()},
	})
}

// trusting returns a webhook configuration with the authority set in all its webhooks.
func trusting(doc, authority []byte) ([]byte, error) {
	var configuration map[string]any
	if err := yaml.Unmarshal(doc, &configuration); err != nil {
		return nil, err
	}
	webhooks, ok := configuration["webhooks"].([]any)
	if !ok || len(webhooks) == 0 {
		return nil, errors.New("the webhook configuration has no webhooks")
	}
	for i, webhook := range webhooks {
		client, ok := field(webhook, "clientConfig").(map[string]any)
		if !ok {
			return nil, fmt.Errorf("webhook %d has no clientConfig", i)
		}
		client["caBundle"] = authority
	}
	return json.Marshal(configuration)
}

// withArgument returns a Deployment with an argument added to its first container.
func withArgument(doc []byte, argument string) ([]byte, error) {
	var deployment map[string]any
	if err := yaml.Unmarshal(doc, &deployment); err != nil {
		return nil, err
	}
	containers, ok := field(deployment, "spec", "template", "spec", "containers").([]any)
	if !ok || len(containers) == 0 {
		return nil, errors.New("the Deployment has no containers")
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		return nil, errors.New("the first container of the Deployment is no object")
	}
	args, _ := container["args"].([]any) // no arguments: nil is fine
	container["args"] = append(args, argument)
	return json.Marshal(deployment)
}

// field returns a field of nested objects, or nil if it does not exist.
func field(object any, path ...string) any {
	for _, name := range path {
		fields, ok := object.(map[string]any)
		if !ok {
			return nil
		}
		object = fields[name]
	}
	return object
}

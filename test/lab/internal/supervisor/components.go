package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/images"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// components starts cluster components other than Kubernetes itself.
func (s *supervisor) components(ctx context.Context) error {
	if s.ServiceCA {
		if err := s.step(ctx, "service CA", s.serviceCA); err != nil {
			return err
		}
	}
	if s.OLMv1 != "" {
		if err := s.step(ctx, "OLM v1", s.lifecycleManagerV1); err != nil {
			return err
		}
	}
	if s.PrometheusOperator {
		if err := s.step(ctx, "Prometheus Operator", s.prometheusOperator); err != nil {
			return err
		}
	}
	if s.NetworkPolicies != "" {
		return s.step(ctx, "network policies are enforced", s.networkPolicies)
	}
	return nil
}

func (s *supervisor) serviceCA(context.Context) error {
	_, err := s.essential("service-ca", "serviceca", nil, "--kubeconfig", cert("service-ca.kubeconfig"))
	return err
}

// prometheusOperatorAddress is the address in the lab's network. Another program next to the control plane uses the
// default port.
const prometheusOperatorAddress = "127.0.0.1:8765"

// prometheusOperator starts the Prometheus Operator next to the control plane. Its Pods run on the nodes, with images
// of the lab's registry.
func (s *supervisor) prometheusOperator(ctx context.Context) error {
	pusher := images.Pusher{CA: s.ca.PEM(), Dial: dialRegistry}
	for _, name := range []string{"prometheus", "prometheus-config-reloader"} {
		program, err := s.find(name)
		if err != nil {
			return err
		}
		if err := pushBuilt(ctx, pusher, name,
			func() (v1.Image, error) { return images.Program(program) }); err != nil {
			return err
		}
	}
	operator, err := s.essential("prometheus-operator", "prometheus-operator", nil,
		"--apiserver", "https://"+spec.APIServer, "--ca-file", cert("ca.crt"),
		"--cert-file", cert("prometheus-operator.crt"), "--key-file", cert("prometheus-operator.key"),
		"--web.listen-address", prometheusOperatorAddress,
		"--prometheus-config-reloader", spec.Registry+"/prometheus-config-reloader:1",
		// The CPU of the node is shared with all other Pods.
		"--config-reloader-cpu-request", "0", "--config-reloader-cpu-limit", "0",
	)
	if err != nil {
		return err
	}
	return operator.await(ctx, "Prometheus Operator", addonLimit, func(ctx context.Context) error {
		return healthy(ctx, "http://"+prometheusOperatorAddress+"/healthz")
	})
}

func healthy(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// networkPolicies installs kube-network-policies with its own manifest and an image of the lab's registry, and waits
// until it runs on each node.
func (s *supervisor) networkPolicies(ctx context.Context) error {
	pusher := images.Pusher{CA: s.ca.PEM(), Dial: dialRegistry}
	if err := s.pushPrograms(ctx, pusher, "kube-network-policies", "netpol"); err != nil {
		return err
	}
	manifest, err := os.ReadFile(s.NetworkPolicies)
	if err != nil {
		return err
	}
	manifest = regexp.MustCompile(`image: \S+`).ReplaceAll(manifest,
		[]byte("image: "+spec.Registry+"/kube-network-policies:1"))
	if err := s.applyAll(ctx, manifest); err != nil {
		return fmt.Errorf("%s: %w", s.NetworkPolicies, err)
	}
	return poll(ctx, nodeReadyLimit, time.Second, func(ctx context.Context) error {
		var set struct {
			Status struct {
				NumberReady int `json:"numberReady"`
			} `json:"status"`
		}
		if err := s.kube.get(ctx, "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-network-policies",
			&set); err != nil {
			return err
		}
		if set.Status.NumberReady != len(s.Nodes) {
			return fmt.Errorf("%d Pods of kube-network-policies are ready, want %d",
				set.Status.NumberReady, len(s.Nodes))
		}
		return nil
	})
}

// kindPaths maps the kinds that applyAll supports to API paths.
var kindPaths = map[string]string{
	"Namespace":                    "/api/v1/%snamespaces/%s",
	"ServiceAccount":               "/api/v1/namespaces/%s/serviceaccounts/%s",
	"Secret":                       "/api/v1/namespaces/%s/secrets/%s",
	"Service":                      "/api/v1/namespaces/%s/services/%s",
	"Role":                         "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles/%s",
	"RoleBinding":                  "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings/%s",
	"ClusterRole":                  "/apis/rbac.authorization.k8s.io/v1/%sclusterroles/%s",
	"ClusterRoleBinding":           "/apis/rbac.authorization.k8s.io/v1/%sclusterrolebindings/%s",
	"DaemonSet":                    "/apis/apps/v1/namespaces/%s/daemonsets/%s",
	"Deployment":                   "/apis/apps/v1/namespaces/%s/deployments/%s",
	"NetworkPolicy":                "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies/%s",
	"MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/%smutatingwebhookconfigurations/%s",
}

// applyAll applies the objects of a manifest.
func (s *supervisor) applyAll(ctx context.Context, manifest []byte) error {
	for _, doc := range bytes.Split(manifest, []byte("\n---")) {
		if err := s.applyObject(ctx, doc); err != nil {
			return err
		}
	}
	return nil
}

// applyObject applies an object of a manifest. It ignores empty documents.
func (s *supervisor) applyObject(ctx context.Context, doc []byte) error {
	path, err := pathOf(doc)
	if err != nil || path == "" {
		return err
	}
	return s.kube.apply(ctx, path, doc)
}

// pathOf returns the API path of an object, or "" if the document is empty.
func pathOf(doc []byte) (string, error) {
	var meta struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(doc, &meta); err != nil || meta.Kind == "" {
		return "", err
	}
	path, known := kindPaths[meta.Kind]
	if !known {
		return "", fmt.Errorf("kind %s of object %s is not known here", meta.Kind, meta.Metadata.Name)
	}
	return fmt.Sprintf(path, meta.Metadata.Namespace, meta.Metadata.Name), nil
}

package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/pki"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// kube is an API client of the lab's administrator. It uses plain JSON: a typed client would make the lab's program
// several times larger and slower to build.
type kube struct {
	client *http.Client
}

func newKube(dir string) (*kube, error) {
	config, err := pki.TLS(dir, "admin")
	if err != nil {
		return nil, err
	}
	return &kube{client: &http.Client{Timeout: 30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: config}}}, nil
}

// ready returns an error unless the API server is ready.
func (k *kube) ready(ctx context.Context) error {
	return k.do(ctx, http.MethodGet, "/readyz", "", nil, nil)
}

// get reads an object.
func (k *kube) get(ctx context.Context, path string, into any) error {
	return k.do(ctx, http.MethodGet, path, "", nil, into)
}

// apply applies an object in YAML or JSON with server-side apply.
func (k *kube) apply(ctx context.Context, path string, object []byte) error {
	return k.do(ctx, http.MethodPatch, path+"?fieldManager=lab&force=true", "application/apply-patch+yaml", object, nil)
}

// merge patches an object.
func (k *kube) merge(ctx context.Context, path, patch string) error {
	return k.do(ctx, http.MethodPatch, path, "application/merge-patch+json", []byte(patch), nil)
}

func (k *kube) do(ctx context.Context, method, path, contentType string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "https://"+spec.APIServer+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%s %s: %w: %s", method, path, errNotFound, data)
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, data)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(data, into)
}

var errNotFound = errors.New("not found")

// serviceIPs returns the address of a Service, or those of the ready endpoints of a headless one.
func (k *kube) serviceIPs(ctx context.Context, namespace, name string) ([]net.IP, error) {
	var service struct {
		Spec struct {
			ClusterIP string `json:"clusterIP"`
		} `json:"spec"`
	}
	err := k.get(ctx, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/services/"+url.PathEscape(name), &service)
	if errors.Is(err, errNotFound) {
		return nil, errNoName
	}
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(service.Spec.ClusterIP); ip != nil {
		return []net.IP{ip}, nil
	}
	return k.endpointIPs(ctx, namespace, name)
}

func (k *kube) endpointIPs(ctx context.Context, namespace, service string) ([]net.IP, error) {
	var slices struct {
		Items []struct {
			Endpoints []struct {
				Addresses  []string `json:"addresses"`
				Conditions struct {
					Ready *bool `json:"ready"`
				} `json:"conditions"`
			} `json:"endpoints"`
		} `json:"items"`
	}
	query := "?labelSelector=" + url.QueryEscape("kubernetes.io/service-name="+service)
	if err := k.get(ctx, "/apis/discovery.k8s.io/v1/namespaces/"+url.PathEscape(namespace)+"/endpointslices"+query,
		&slices); err != nil {
		return nil, err
	}
	var ips []net.IP
	for _, slice := range slices.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, a := range e.Addresses {
				if ip := net.ParseIP(a); ip.To4() != nil {
					ips = append(ips, ip)
				}
			}
		}
	}
	return ips, nil
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

// object has the fields that the lab reads, of any kind.
type object struct {
	Status struct {
		Conditions []condition `json:"conditions"`
		NodeInfo   struct {
			BootID string `json:"bootID"`
		} `json:"nodeInfo"`
	} `json:"status"`
}

func (o object) is(kind string) bool {
	for _, c := range o.Status.Conditions {
		if c.Type == kind {
			return c.Status == "True"
		}
	}
	return false
}

// nodeReady returns an error unless the kubelet has reported the node as Ready since its last boot.
func (k *kube) nodeReady(ctx context.Context, name, bootID string) error {
	var n object
	if err := k.get(ctx, "/api/v1/nodes/"+name, &n); err != nil {
		return err
	}
	if n.Status.NodeInfo.BootID != bootID || !n.is("Ready") {
		return fmt.Errorf("node %s is not Ready: %v", name, n.Status.Conditions)
	}
	return nil
}

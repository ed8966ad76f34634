// Package monitoring reads alerts, rules and metrics of the product from the cluster's Prometheus.
package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lvm-storage/lvm-operator/must-gather/archive"
)

const (
	// limit is the timeout of a query.
	limit = 20 * time.Second
	// maxAnswer is the maximum size of a response, in bytes.
	maxAnswer = 64 << 20

	openshift   = "https://prometheus-k8s.openshift-monitoring.svc:9091"
	serviceCA   = "/var/run/secrets/kubernetes.io/serviceaccount/service-ca.crt"
	tokenFile   = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	metricsOurs = `{__name__=~"lvms_.+|topolvm_.+|lvms:.+"}`
)

// DefaultService is the Prometheus on other platforms than OpenShift, as kube-prometheus installs it.
const DefaultService = "monitoring/http:prometheus-k8s:9090"

// Prometheus returns the response for a path of its API, for example /api/v1/alerts.
type Prometheus interface {
	Get(ctx context.Context, path string, query url.Values) ([]byte, error)
}

// Find returns OpenShift's Prometheus if the process runs in a Pod on OpenShift, which has the authority of the
// cluster's services. Otherwise it returns the Prometheus of a service, NAMESPACE/SCHEME:NAME:PORT, through the proxy
// of the API server, which must require no authentication of its own.
func Find(config *rest.Config, service string) (Prometheus, error) {
	authority, err := os.ReadFile(serviceCA)
	if err == nil {
		return newDirect(openshift, tokenFile, authority)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	parts := regexp.MustCompile(`^([^/]+)/([^/]+)$`).FindStringSubmatch(service)
	if parts == nil {
		return nil, fmt.Errorf("service %q: want NAMESPACE/SCHEME:NAME:PORT", service)
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return proxied{core, parts[1], parts[2]}, nil
}

// direct sends the Pod's token only to a server whose certificate it can verify.
type direct struct {
	client *http.Client
	base   string
}

func newDirect(base, token string, authority []byte) (*direct, error) {
	client, err := rest.HTTPClientFor(&rest.Config{Host: base, BearerTokenFile: token,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", serviceCA, err)
	}
	return &direct{client: client, base: base}, nil
}

func (d *direct) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s%s answers %s", d.base, path, response.Status)
	}
	return whole(response.Body)
}

// proxied sends requests through the API server.
type proxied struct {
	core               kubernetes.Interface
	namespace, service string
}

func (p proxied) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	request := p.core.CoreV1().RESTClient().Get().Namespace(p.namespace).Resource("services").Name(p.service).
		SubResource("proxy").Suffix(path)
	for key, values := range query {
		for _, value := range values {
			request = request.Param(key, value)
		}
	}
	stream, err := request.Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("service %s/%s: %w", p.namespace, p.service, err)
	}
	defer func() { _ = stream.Close() }()
	return whole(stream)
}

func whole(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err == nil && len(content) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return content, err
}

// Collect writes the alerts, rules and metrics of the product.
func Collect(ctx context.Context, p Prometheus, out *archive.Writer) {
	defer out.Step("monitoring")()
	for _, q := range []struct {
		file, path string
		query      url.Values
		pick       func([]byte) ([]byte, error)
	}{
		{"monitoring/alerts.json", "/api/v1/alerts", nil, alertsOfOurs},
		{"monitoring/rules.json", "/api/v1/rules", nil, rulesOfOurs},
		{"monitoring/metrics.json", "/api/v1/query", url.Values{"query": {metricsOurs}}, succeeded},
	} {
		content, err := ask(ctx, p, q.path, q.query)
		if err == nil {
			content, err = q.pick(content)
		}
		if err != nil {
			out.Failed(q.file, fmt.Errorf("the cluster's Prometheus: %w", err))
			continue
		}
		// The archive records the failure.
		_ = out.Write(q.file, content)
	}
}

func ask(ctx context.Context, p Prometheus, path string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return p.Get(ctx, path, query)
}

// ourAlerts matches the names of the product's alerts and rules, and of Kubernetes' own about volumes.
var ourAlerts = regexp.MustCompile(`^(LVMS|ThinPool|VolumeGroup|KubePersistentVolume|lvms:)`)

type answer struct {
	Status string          `json:"status"`
	Error  string          `json:"error,omitempty"`
	Data   json.RawMessage `json:"data"`
}

func decode(content []byte, data any) (answer, error) {
	var a answer
	if err := json.Unmarshal(content, &a); err != nil {
		return a, err
	}
	if a.Status != "success" {
		return a, fmt.Errorf("status %q: %s", a.Status, a.Error)
	}
	return a, json.Unmarshal(a.Data, data)
}

// succeeded returns a successful response unchanged.
func succeeded(content []byte) ([]byte, error) {
	var data json.RawMessage
	_, err := decode(content, &data)
	return content, err
}

func alertsOfOurs(content []byte) ([]byte, error) {
	var data struct {
		Alerts []map[string]any `json:"alerts"`
	}
	a, err := decode(content, &data)
	if err != nil {
		return nil, err
	}
	kept := []map[string]any{}
	for _, alert := range data.Alerts {
		labels, _ := alert["labels"].(map[string]any)
		if name, _ := labels["alertname"].(string); ourAlerts.MatchString(name) {
			kept = append(kept, alert)
		}
	}
	return encode(a, map[string]any{"alerts": kept})
}

func rulesOfOurs(content []byte) ([]byte, error) {
	var data struct {
		Groups []map[string]any `json:"groups"`
	}
	a, err := decode(content, &data)
	if err != nil {
		return nil, err
	}
	kept := []map[string]any{}
	for _, group := range data.Groups {
		var rules []any
		all, _ := group["rules"].([]any)
		for _, r := range all {
			rule, _ := r.(map[string]any)
			if name, _ := rule["name"].(string); ourAlerts.MatchString(name) {
				rules = append(rules, rule)
			}
		}
		if group["rules"] = rules; len(rules) > 0 {
			kept = append(kept, group)
		}
	}
	return encode(a, map[string]any{"groups": kept})
}

func encode(a answer, data any) ([]byte, error) {
	var err error
	if a.Data, err = json.Marshal(data); err != nil {
		return nil, err
	}
	return json.MarshalIndent(a, "", " ")
}

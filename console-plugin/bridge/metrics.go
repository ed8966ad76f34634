package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// bodyLimit is the maximum size of a body from a test or Prometheus, in bytes.
const bodyLimit = 4 << 20

// metrics stands in for the console's proxy to the cluster's Prometheus: it checks the permissions of the user, and
// restricts tenancy requests to one namespace. Prometheus scrapes what a test has put.
type metrics struct {
	proxy *httputil.ReverseProxy
	// allowed checks a permission of the user of a request.
	allowed authorizer

	mu      sync.Mutex
	scraped []byte
}

// authorizer asks the API server whether the user of a request has a permission.
type authorizer = func(r *http.Request, right map[string]string) (bool, error)

// dialer connects to an address, for example in the network of a lab.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// newMetrics returns a proxy to the Prometheus at an address. dial is nil if it is in this machine's network.
func newMetrics(prometheus *url.URL, dial dialer, allowed authorizer) *metrics {
	m := &metrics{allowed: allowed}
	m.proxy = &httputil.ReverseProxy{
		Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute},
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(prometheus)
			p.Out.Header.Del("Cookie")
			p.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: onlyNamespace,
	}
	return m
}

// The permissions that the cluster's proxies for Prometheus require: for one namespace, and for all.
var (
	namespaceRight = map[string]string{"group": "metrics.k8s.io", "resource": "pods", "verb": "get"}
	clusterRight   = map[string]string{"group": "monitoring.coreos.com", "resource": "prometheuses",
		"subresource": "api", "namespace": "openshift-monitoring", "verb": "get"}
)

func (m *metrics) tenancy(w http.ResponseWriter, r *http.Request) {
	namespace := r.URL.Query().Get("namespace")
	if namespace == "" {
		http.Error(w, "The \"namespace\" query parameter must be provided.", http.StatusBadRequest)
		return
	}
	right := map[string]string{"namespace": namespace}
	for k, v := range namespaceRight {
		right[k] = v
	}
	m.serve(w, r, right)
}

func (m *metrics) cluster(w http.ResponseWriter, r *http.Request) { m.serve(w, r, clusterRight) }

func (m *metrics) serve(w http.ResponseWriter, r *http.Request, right map[string]string) {
	allowed, err := m.allowed(r, right)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	case !allowed:
		http.Error(w, "Forbidden", http.StatusForbidden)
	default:
		m.proxy.ServeHTTP(w, r)
	}
}

// onlyNamespace removes samples of other namespaces than the request's from the response. The cluster's proxy instead
// adds the namespace to each selector of the query. Samples without a namespace, such as sums, remain.
func onlyNamespace(response *http.Response) error {
	namespace := response.Request.URL.Query().Get("namespace")
	if namespace == "" || response.StatusCode != http.StatusOK {
		return nil
	}
	var answer struct {
		Status string `json:"status"`
		Data   struct {
			ResultType string `json:"resultType"`
			Result     []struct {
				Metric map[string]string `json:"metric"`
				Value  json.RawMessage   `json:"value,omitempty"`
				Values json.RawMessage   `json:"values,omitempty"`
			} `json:"result"`
		} `json:"data"`
	}
	err := json.NewDecoder(io.LimitReader(response.Body, bodyLimit)).Decode(&answer)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	kept := answer.Data.Result[:0]
	for _, sample := range answer.Data.Result {
		if of := sample.Metric["namespace"]; of == "" || of == namespace {
			kept = append(kept, sample)
		}
	}
	answer.Data.Result = kept
	body, err := json.Marshal(answer)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return err
}

// scrape returns what Prometheus reads; put sets it.
func (m *metrics) scrape(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = w.Write(m.scraped)
}

func (m *metrics) put(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scraped = body
	w.WriteHeader(http.StatusNoContent)
}

// startPrometheus starts a real Prometheus with the shipped rules. It has generated data of a day, in which the pool of
// node-a fills and that of node-b does not. It scrapes the bridge at address once a second.
func startPrometheus(ctx context.Context, rules, address, namespace string) (*url.URL, func(), error) {
	rules, err := filepath.Abs(rules)
	if err != nil {
		return nil, nil, err
	}
	folder, err := os.MkdirTemp("", "console-prometheus")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(folder) }
	data := filepath.Join(folder, "data")
	if err := makeHistory(ctx, folder, data, namespace); err != nil {
		remove()
		return nil, nil, err
	}
	config := fmt.Sprintf("global: {evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n- job_name: "+
		"bridge\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  honor_labels: true\n"+
		"  metrics_path: /test/metrics\n  static_configs: [{targets: [%q]}]\n", rules, address)
	file := filepath.Join(folder, "prometheus.yml")
	port, err := freePort()
	if err = errors.Join(err, os.WriteFile(file, []byte(config), 0o600)); err != nil {
		remove()
		return nil, nil, err
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	server := exec.CommandContext(ctx, "prometheus", "--config.file", file, "--storage.tsdb.path", data,
		"--web.listen-address", listen, "--log.level", "error")
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		remove()
		return nil, nil, fmt.Errorf("%w (install Debian's package prometheus)", err)
	}
	end := func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
		remove()
	}
	for range 300 {
		if c, err := net.Dial("tcp", listen); err == nil {
			_ = c.Close()
			return &url.URL{Scheme: "http", Host: listen}, end, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	end()
	return nil, nil, fmt.Errorf("prometheus does not listen on %s after 30 s", listen)
}

// makeHistory writes the recorded samples of 26 hours. They end 15 minutes ago: alerts look back ten minutes, and must
// depend only on what a test has put.
func makeHistory(ctx context.Context, folder, data, namespace string) error {
	const hours = 26
	samples := filepath.Join(folder, "samples")
	file, err := os.Create(samples)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	end := time.Now().Add(-15 * time.Minute).Truncate(time.Minute)
	for at := end.Add(-hours * time.Hour); !at.After(end); at = at.Add(2 * time.Minute) {
		part := 1 - end.Sub(at).Hours()/hours
		for _, s := range []struct {
			name, node string
			value      float64
		}{
			{"lvms:thinpool_data:ratio", "node-a", 0.6 + 0.37*part}, {"lvms:thinpool_data:ratio", "node-b", 0.3},
			{"lvms:thinpool_metadata:ratio", "node-a", 0.03}, {"lvms:thinpool_metadata:ratio", "node-b", 0.03},
		} {
			fmt.Fprintf(out, "%s{namespace=%q,node=%q,device_class=\"vg1\"} %g %d\n", s.name,
				namespace, s.node, s.value, at.Unix())
		}
	}
	fmt.Fprintln(out, "# EOF")
	if err := errors.Join(out.Flush(), file.Close()); err != nil {
		return err
	}
	if said, err := exec.CommandContext(ctx, "promtool", "tsdb", "create-blocks-from", "openmetrics", samples,
		data).CombinedOutput(); err != nil {
		return fmt.Errorf("promtool: %w (install Debian's package prometheus)\n%s", err, said)
	}
	return nil
}

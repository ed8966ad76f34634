package prometheus

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// Address is the address of Prometheus in the lab's network.
const Address = "127.0.0.1:9090"

const (
	// user is the user with which OpenShift's Prometheus reads metrics and discovers targets.
	user = "system:serviceaccount:openshift-monitoring:prometheus-k8s"
	// limit is the timeout of a query, startLimit that of the start.
	limit      = 20 * time.Second
	startLimit = time.Minute
)

// Prometheus is a running Prometheus.
type Prometheus struct {
	// address is the address in the lab's network.
	address string
	web     *http.Client
	// running ends when Prometheus ends, and its cause is the reason. It is nil if another process started Prometheus.
	running context.Context
	stop    func()
	wait    sync.WaitGroup
	output  bytes.Buffer
}

// Open returns the Prometheus that another process has started, or will start, in the lab of the cluster.
func Open(cluster *story.Cluster) *Prometheus {
	return At(cluster, Address)
}

// At is Open for another address in the lab's network.
func At(cluster *story.Cluster, address string) *Prometheus {
	transport := &http.Transport{DialContext: cluster.Lab.Dial, DisableKeepAlives: true}
	return &Prometheus{address: address, web: &http.Client{Timeout: limit, Transport: transport}}
}

// Ready returns an error unless Prometheus answers.
func (p *Prometheus) Ready(ctx context.Context) error {
	return p.ask(ctx, "/api/v1/status/buildinfo", nil, &struct{}{})
}

// Wait returns when ctx ends. It returns an error if the started Prometheus ends before.
func (p *Prometheus) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.running.Done():
		p.wait.Wait()
		return fmt.Errorf("%w\n%s", context.Cause(p.running), p.output.String())
	}
}

// Trust simulates OpenShift's service CA for the two metrics Services: it creates their Secrets, and returns the
// certificate of the signing authority in PEM. Call it when the namespace exists.
func Trust(ctx context.Context, cluster *story.Cluster) ([]byte, error) {
	ca, err := story.NewServiceCA()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"lvms-operator", "vg-manager"} {
		if err := ca.Serve(ctx, cluster, name+"-metrics-service", name+"-metrics-cert"); err != nil {
			return nil, err
		}
	}
	return ca.Authority, nil
}

// ClientCertificate requests a client certificate for OpenShift's Prometheus from the cluster, like OpenShift's
// monitoring, and returns it with its key in PEM.
func ClientCertificate(ctx context.Context, cluster *story.Cluster) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: user}}, private)
	if err != nil {
		return nil, nil, err
	}
	request := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "prometheus-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pki.Encode("CERTIFICATE REQUEST", der), SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
		},
	}
	if err := cluster.Create(ctx, request); err != nil {
		return nil, nil, err
	}
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}}
	if _, err := cluster.Clientset.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, request.Name,
		request, metav1.UpdateOptions{}); err != nil {
		return nil, nil, err
	}
	err = story.Wait(ctx, "the client certificate of Prometheus", func(ctx context.Context) (bool, string, error) {
		err := cluster.Get(ctx, client.ObjectKeyFromObject(request), request)
		return len(request.Status.Certificate) > 0, fmt.Sprint(request.Status.Conditions), err
	})
	if err != nil {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, err
	}
	key, err = pki.EncodeKey(private)
	return request.Status.Certificate, key, errors.Join(err, cluster.Delete(ctx, request))
}

// Start starts Prometheus. authority is the result of Trust.
func Start(ctx context.Context, cluster *story.Cluster, authority []byte) (*Prometheus, error) {
	return StartFaster(ctx, cluster, authority, 1)
}

// StartFaster is Start with alerts that fire earlier: speed divides the durations for which their conditions must hold,
// and the intervals of scrapes and evaluations. The scenarios of monitoring/rules check the exact durations. The
// operator must have created the ServiceMonitor, and the Role with which Prometheus discovers its targets.
func StartFaster(ctx context.Context, cluster *story.Cluster, authority []byte, speed int) (*Prometheus, error) {
	root, err := lab.Root()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cluster.Lab.State(), "prometheus")
	found, err := write(ctx, cluster, root, dir, authority, speed)
	if err != nil {
		return nil, err
	}
	p := Open(cluster)
	running, stop := context.WithCancelCause(context.Background())
	p.running, p.stop = running, func() { stop(nil) }
	command, err := cluster.Lab.Command(running, "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+Address)
	if err != nil {
		return nil, err
	}
	command.Env = append(os.Environ(), "GOMEMLIMIT=200MiB")
	command.Stdout = &p.output
	command.Stderr = &p.output
	if err := command.Start(); err != nil {
		return nil, err
	}
	p.wait.Add(2)
	go func() {
		defer p.wait.Done()
		stop(fmt.Errorf("prometheus has ended: %w", command.Wait()))
	}()
	go func() {
		defer p.wait.Done()
		found.keep(running)
	}()
	waiting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	defer context.AfterFunc(running, cancel)()
	err = story.Wait(waiting, "Prometheus", func(ctx context.Context) (bool, string, error) {
		return true, "", p.Ready(ctx)
	})
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("%w\n%s", errors.Join(err, context.Cause(running)), p.output.String())
	}
	return p, nil
}

// Stop ends Prometheus.
func (p *Prometheus) Stop() {
	p.stop()
	p.wait.Wait()
}

// write writes the files of Prometheus to a directory, and returns the discovery that updates its targets.
func write(ctx context.Context, cluster *story.Cluster, root, dir string, authority []byte, speed int) (*discovery,
	error) {
	certificate, key, err := ClientCertificate(ctx, cluster)
	if err != nil {
		return nil, err
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	monitor, err := readMonitor(ctx, cluster)
	if err != nil {
		return nil, err
	}
	settings, err := config(monitor, path("targets.json"), files{
		"/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt": path("service-ca.crt"),
		"/etc/prometheus/secrets/metrics-client-certs/tls.crt":              path("tls.crt"),
		"/etc/prometheus/secrets/metrics-client-certs/tls.key":              path("tls.key"),
	}, path("rules.yaml"), speed)
	if err != nil {
		return nil, err
	}
	written, err := yaml.Marshal(settings)
	if err != nil {
		return nil, err
	}
	groups, err := rules(root, speed)
	if err != nil {
		return nil, err
	}
	// Data of an earlier Prometheus must not remain.
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{
		"prometheus.yaml": written, "rules.yaml": groups, "tls.crt": certificate, "tls.key": key,
		"service-ca.crt": authority,
	} {
		if err := os.WriteFile(path(name), content, 0o644); err != nil {
			return nil, err
		}
	}
	return newDiscovery(cluster, monitor.Namespace, path("targets.json"), certificate, key)
}

// ask queries Prometheus' API (https://prometheus.io/docs/prometheus/latest/querying/api/).
func (p *Prometheus) ask(ctx context.Context, path string, query url.Values, into any) error {
	asked := url.URL{Scheme: "http", Host: p.address, Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, asked.String(), nil)
	if err != nil {
		return err
	}
	response, err := p.web.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// Alert is a pending or firing alert.
type Alert struct {
	State               string
	Labels, Annotations map[string]string
}

// Alerts returns the pending and firing alerts.
func (p *Prometheus) Alerts(ctx context.Context) ([]Alert, error) {
	var answer struct{ Alerts []Alert }
	err := p.ask(ctx, "/api/v1/alerts", nil, &answer)
	return answer.Alerts, err
}

// Sample is a value of an instant query.
type Sample struct {
	Metric map[string]string
	// Value has the time and the value as text.
	Value [2]any
}

// Query evaluates an expression that returns a vector.
func (p *Prometheus) Query(ctx context.Context, expr string) ([]Sample, error) {
	var answer struct{ Result []Sample }
	err := p.ask(ctx, "/api/v1/query", url.Values{"query": {expr}}, &answer)
	return answer.Result, err
}

// Range evaluates an expression for each step of a time range, and returns for each series the times at which it has a
// value.
func (p *Prometheus) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Series, error) {
	seconds := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	var answer struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	err := p.ask(ctx, "/api/v1/query_range",
		url.Values{"query": {expr}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {step.String()}}, &answer)
	var all []Series
	for _, r := range answer.Result {
		s := Series{Labels: r.Metric}
		for _, v := range r.Values {
			at, ok := v[0].(float64)
			if !ok {
				return nil, fmt.Errorf("%s: the time is %v", expr, v[0])
			}
			s.Times = append(s.Times, time.Unix(int64(at), 0))
		}
		all = append(all, s)
	}
	return all, err
}

// Series is a series with the times at which it has a value, in ascending order.
type Series struct {
	Labels map[string]string
	Times  []time.Time
}

// Rules returns the names of the evaluated rules, each with the error of its last evaluation, or "".
func (p *Prometheus) Rules(ctx context.Context) (map[string]string, error) {
	var answer struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	err := p.ask(ctx, "/api/v1/rules", nil, &answer)
	found := map[string]string{}
	for _, group := range answer.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" {
				found[rule.Name] = rule.Health + " " + rule.LastError
			} else if _, known := found[rule.Name]; !known {
				found[rule.Name] = ""
			}
		}
	}
	return found, err
}

// Down returns the targets that cannot be scraped, with the reasons, and the number of the others.
func (p *Prometheus) Down(ctx context.Context) (down []string, up int, err error) {
	var answer struct {
		ActiveTargets []struct{ ScrapeURL, Health, LastError string }
	}
	if err := p.ask(ctx, "/api/v1/targets", url.Values{"state": {"active"}}, &answer); err != nil {
		return nil, 0, err
	}
	for _, target := range answer.ActiveTargets {
		if target.Health == "up" {
			up++
			continue
		}
		down = append(down, target.ScrapeURL+" "+target.Health+" "+target.LastError)
	}
	return down, up, nil
}

//go:build lab

package lab

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/random"
	"k8s.io/client-go/rest"
)

const pods = `
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
spec:
  nodeName: node2
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: "registry.lab:5000/busybox:1", command: [sh, -c, "echo served >/tmp/f; exec httpd -f -p 8080 -h /tmp"]}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  nodeName: node1
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: "registry.lab:5000/busybox:1", command: [sleep, "100000"]}
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
`

func TestCluster(t *testing.T) {
	l := up(t, Options{Name: "cluster", Nodes: 2, Disks: []DiskSpec{{Size: GiB}}, OpenShift: true, Snapshots: true})
	ctx := testContext(t)
	t.Run("API by REST config", func(t *testing.T) { testRESTConfig(t, l) })
	t.Run("resources", func(t *testing.T) {
		out := l.kubectl(ctx, t, "get", "crd,infrastructures,apiservers.config.openshift.io", "-o", "name")
		for _, want := range []string{"securitycontextconstraints.", "consoleplugins.",
			"volumesnapshots.", "/cluster"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %s in %s", want, out)
			}
		}
	})
	t.Run("pods run and reach each other", func(t *testing.T) {
		cmd, err := l.Command(ctx, "kubectl", "apply", "-f", "-")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdin = strings.NewReader(pods)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		testTraffic(ctx, t, l)
	})
	t.Run("a push is there for the nodes", func(t *testing.T) {
		img, err := random.Image(1000, 1)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := l.PushImage(ctx, l.Registry()+"/some/thing:1", img)
		if err != nil || !strings.HasPrefix(digest, "registry.lab:5000/some/thing@sha256:") {
			t.Fatalf("%s, %v", digest, err)
		}
		if _, err := l.Nodes()[1].Exec(ctx, "ctr", "-n", "k8s.io", "images", "pull", "--hosts-dir",
			"/etc/containerd/certs.d", digest); err != nil {
			t.Error(err)
		}
	})
	t.Run("a node comes back from a power cut with its pods", func(t *testing.T) {
		n := l.Nodes()[1]
		if err := n.PowerCut(ctx); err != nil {
			t.Fatal(err)
		}
		if err := n.Start(ctx); err != nil {
			t.Fatal(err)
		}
		testTraffic(ctx, t, l)
	})
}

func (l *Lab) kubectl(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	out, err := l.Kubectl(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func testTraffic(ctx context.Context, t *testing.T, l *Lab) {
	t.Helper()
	ip := l.kubectl(ctx, t, "get", "service", "server", "-o", "jsonpath={.spec.clusterIP}")
	// the status of the Pods may be older than a power cut
	const ask = "for i in $(seq 100); do wget -q -O- http://%/f && exit 0; sleep 0.3; done; exit 1"
	l.kubectl(ctx, t, "wait", "--for=condition=Ready", "pod", "client", "--timeout=90s")
	for _, target := range []string{ip, "server"} {
		if out := l.kubectl(ctx, t, "exec", "client", "--", "sh", "-c",
			strings.ReplaceAll(ask, "%", target)); !strings.Contains(out, "served") {
			t.Errorf("%s said %q", target, out)
		}
	}
}

func testRESTConfig(t *testing.T, l *Lab) {
	config, err := l.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	resp, err := client.Get(config.Host + "/api/v1/nodes")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var nodes struct{ Items []struct{} }
	if err := json.NewDecoder(resp.Body).Decode(&nodes); err != nil || resp.StatusCode != http.StatusOK ||
		len(nodes.Items) != 2 {
		t.Errorf("%s, %d nodes, %v", resp.Status, len(nodes.Items), err)
	}
}

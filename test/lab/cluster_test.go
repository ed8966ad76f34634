//go:build lab

package lab

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
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
		out := l.kubectl(ctx, t, "get", "crd,infrastructures,apiservers.config.openshift.io,clusterversions",
			"-o", "name")
		for _, want := range []string{"securitycontextconstraints.", "consoleplugins.",
			"volumesnapshots.", "/cluster", "clusterversion.config.openshift.io/version"} {
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
	t.Run("a reinstalled node joins the cluster again, and its pods run", func(t *testing.T) { testJoinsAgain(t, l) })
	t.Run("etcd is restored", func(t *testing.T) { testEtcd(t, l) })
}

func testJoinsAgain(t *testing.T, l *Lab) {
	ctx := testContext(t)
	n := l.Nodes()[1]
	uid := l.kubectl(ctx, t, "get", "node", n.Name(), "-o", "jsonpath={.metadata.uid}")
	n.sh(t, "touch /var/lib/kubelet/old /var/lib/containerd/old")
	if err := n.Reinstall(ctx); err != nil {
		t.Fatal(err)
	}
	n.sh(t, "! ls /var/lib/kubelet/old /var/lib/containerd/old 2>/dev/null")
	if got := l.kubectl(ctx, t, "get", "node", n.Name(), "-o", "jsonpath={.metadata.uid}"); got != uid {
		t.Errorf("the Node has the UID %s, and had %s", got, uid)
	}
	testTraffic(ctx, t, l)
}

// testEtcd checks that clients see the objects of the backup after it was restored, even those that watch objects.
func testEtcd(t *testing.T, l *Lab) {
	ctx := testContext(t)
	dir := filepath.Join(t.TempDir(), "etcd")
	l.kubectl(ctx, t, "create", "configmap", "before", "--from-literal=a=1")
	l.kubectl(ctx, t, "create", "configmap", "changed", "--from-literal=a=1")
	if err := l.BackUpEtcd(ctx, dir); err != nil {
		t.Fatal(err)
	}
	if err := l.BackUpEtcd(ctx, dir); err == nil {
		t.Error("a backup was overwritten")
	}
	l.kubectl(ctx, t, "delete", "configmap", "before")
	l.kubectl(ctx, t, "create", "configmap", "after", "--from-literal=a=1")
	l.kubectl(ctx, t, "patch", "configmap", "changed", "--patch", `{"data":{"a":"2"}}`)
	revision := func() string {
		return l.kubectl(ctx, t, "get", "configmap", "changed", "-o", "jsonpath={.metadata.resourceVersion}")
	}
	last := revision()
	if err := l.RestoreEtcd(ctx, dir+"-missing"); err == nil {
		t.Error("a backup that does not exist was restored")
	}
	if got := l.kubectl(ctx, t, "get", "configmap", "-o", "name"); !strings.Contains(got, "configmap/after") {
		t.Errorf("a restore that failed changed the objects: %s", got)
	}
	for range 2 {
		if err := l.RestoreEtcd(ctx, dir); err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(l.kubectl(ctx, t, "get", "configmap", "before", "changed", "-o",
			"jsonpath={.items[*].data.a}"))
		if !slices.Equal(got, []string{"1", "1"}) {
			t.Errorf("the objects of the backup have %q", got)
		}
		if got := l.kubectl(ctx, t, "get", "configmap", "-o", "name"); strings.Contains(got, "configmap/after") {
			t.Errorf("an object that was created after the backup exists: %s", got)
		}
		if got := l.kubectl(ctx, t, "get", "--raw", "/api/v1/configmaps?watch=1&timeoutSeconds=5&resourceVersion="+
			last); !strings.Contains(got, "too old resource version") {
			t.Errorf("a watch from before the restore goes on: %s", got)
		}
		// An object of a controller that watches: it works with the restored objects.
		l.kubectl(ctx, t, "create", "deployment", "later", "--image=registry.lab:5000/pause:1")
		l.kubectl(ctx, t, "wait", "--for=condition=Available", "deployment", "later", "--timeout=90s")
		testTraffic(ctx, t, l)
	}
	status, err := l.status(ctx)
	if err != nil || status.Failed != "" {
		t.Errorf("the lab reports %q, %v", status.Failed, err)
	}
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

//go:build e2e

package tenants

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
)

// floodPod is a Pod without a volume.
const floodPod = `
apiVersion: v1
kind: Pod
metadata: {name: flood, namespace: attacker}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: REGISTRY/busybox:1, command: [/bin/sh, -c, "trap exit TERM; sleep 86400 & wait"]}
`

// reader is a ServiceAccount with permission to read metrics.
const reader = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: metrics-reader, namespace: neighbor}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-reader}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-reader}
subjects: [{kind: ServiceAccount, name: metrics-reader, namespace: neighbor}]
`

// changedBlocks is the method of the service for backup software on port 8445 of the operator.
const changedBlocks = "/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated"

// stream is a flood of one port. All its answers must be among refusals.
type stream struct {
	name, pods, mode string
	port             int
	refusals         []string
}

// What a server may answer to a client without a valid token, and to one without a certificate.
var (
	unauthenticated = []string{"HTTP 401", "HTTP 429", "HTTP 503", "timeout", "connection ended"}
	noCertificate   = []string{"TLS certificate required", "TLS bad certificate", "timeout", "connection ended"}
	// InvalidArgument, ResourceExhausted, Unavailable, Unauthenticated.
	noToken = []string{"gRPC 3", "gRPC 8", "gRPC 14", "gRPC 16", "timeout", "connection ended"}
)

var metricsPorts = []stream{
	{name: "metrics of the agent", pods: "vg-manager", mode: "metrics", port: 8443, refusals: unauthenticated},
	{name: "metrics of the operator", pods: "lvms-operator", mode: "metrics", port: 8443, refusals: unauthenticated},
}

var internalPorts = []stream{
	{name: "data of volumes", pods: "vg-manager", mode: "metrics", port: 8446, refusals: noCertificate},
	{name: "changed blocks for the operator", pods: "vg-manager", mode: "grpc", port: 8444, refusals: noCertificate},
}

var backupPorts = []stream{
	{name: "changed blocks for backup software", pods: "lvms-operator", mode: "grpc", port: 8445, refusals: noToken},
}

// stopFlood is the file in the Pod that ends the floods.
const stopFlood = "/stop"

// delaysNobody sends requests without valid credentials to ports, all at the same time. Meanwhile, metrics are read
// with a valid token, and the neighbor and the bystander use storage.
func delaysNobody(ctx SpecContext, streams []stream) {
	Expect(cluster.ApplyManifest(ctx, reader)).To(Succeed())
	Expect(tenant.ApplyManifest(ctx, strings.ReplaceAll(floodPod, "REGISTRY", cluster.Lab.Registry()))).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(tenant.StopPod(ctx, attacker, "flood")).To(Succeed()) })
	Expect(tenant.WaitRunning(ctx, attacker, "flood")).To(Succeed())
	program, err := os.Open(floodProgram(ctx))
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = program.Close() }()
	_, err = tenant.Kubectl(ctx, program, "exec", "-i", "-n", attacker, "flood", "--", "/bin/sh", "-c",
		"cat >/flood && chmod 755 /flood")
	Expect(err).NotTo(HaveOccurred())

	ended := make([]chan result, len(streams))
	for i, s := range streams {
		ended[i] = start(ctx, s)
	}
	begin := time.Now()
	harmsNobody(ctx)
	for _, pods := range []string{"vg-manager", "lvms-operator"} {
		Eventually(func() error { return readsMetrics(ctx, addressesOf(ctx, pods)[0]) }).WithContext(ctx).
			WithTimeout(time.Minute).Should(Succeed(), "metrics of %s with a valid token", pods)
	}
	_, err = tenant.Shell(ctx, attacker, "flood", "touch "+stopFlood)
	Expect(err).NotTo(HaveOccurred())
	flooded := time.Since(begin).Round(time.Second)
	for i, s := range streams {
		var r result
		Eventually(ended[i]).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Receive(&r))
		Expect(r.err).NotTo(HaveOccurred(), s.name)
		var answers map[string]int
		Expect(json.Unmarshal([]byte(r.out), &answers)).To(Succeed(), r.out)
		AddReportEntry(s.name, fmt.Sprintf("in %s: %v", flooded, answers))
		Expect(slices.Sorted(maps.Keys(answers))).To(HaveEach(BeElementOf(s.refusals)), s.name)
		Expect(answered(answers)).To(BeNumerically(">", 20), "%s: %v", s.name, answers)
	}
	leavesNothing(ctx)
}

// answered returns the number of requests that the server refused itself.
func answered(answers map[string]int) int {
	all := 0
	for answer, n := range answers {
		if answer != "timeout" && answer != "connection ended" {
			all += n
		}
	}
	return all
}

// result is what a flood printed when it ended.
type result struct {
	out string
	err error
}

// start starts a flood of one port, which runs until the Pod has the file stopFlood.
func start(ctx context.Context, s stream) chan result {
	GinkgoHelper()
	address := addressesOf(ctx, s.pods)[0]
	ended := make(chan result, 1)
	go func() {
		out, err := tenant.Shell(ctx, attacker, "flood", fmt.Sprintf(
			"/flood -mode %s -target %s:%d -method %s -until %s", s.mode, address, s.port, changedBlocks, stopFlood))
		ended <- result{out, err}
	}()
	return ended
}

// readsMetrics reads metrics with a valid token.
func readsMetrics(ctx context.Context, address string) error {
	token, err := cluster.Kubectl(ctx, nil, "create", "token", "-n", neighbor, "metrics-reader")
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+":8443/metrics", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	web := &http.Client{Timeout: suite.ResponseTimeout, Transport: &http.Transport{DialContext: cluster.Lab.Dial,
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := web.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), "lvms_build_info{") {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}

// floodProgram compiles the program, and returns its path.
func floodProgram(ctx context.Context) string {
	GinkgoHelper()
	root, err := lab.Root()
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "flood")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path,
		"./test/e2e/tenants/flood")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	return path
}

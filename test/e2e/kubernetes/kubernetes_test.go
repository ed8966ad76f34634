//go:build e2e

// Package kubernetes runs Kubernetes' own tests of storage drivers (k8s.io/kubernetes/test/e2e/storage/external).
package kubernetes

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

func TestKubernetesStorage(t *testing.T) { suite.Run(t, "Kubernetes' tests of storage drivers") }

const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      fstype: xfs
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, sizePercent: 90, overprovisionRatio: 10}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: limited}
driverName: topolvm.io
parameters: {writeIOPS: "2000"}
`

// driver describes LVM Storage. What it does not have is not listed: access modes for several nodes, read-only claims
// (capReadOnlyMany), a limit for the number of volumes, and inline volumes other than generic ephemeral ones. Changed
// blocks (snapshotMetadata) need a program that the tests download; test/e2e/backup has them.
const driver = `
StorageClass: {FromExistingClassName: lvms-vg1}
SnapshotClass: {FromExistingClassName: lvms-vg1}
GroupSnapshotClass: {FromExistingClassName: lvms-vg1}
VolumeAttributesClass: {FromExistingClassName: limited}
DriverInfo:
  Name: topolvm.io
  SupportedSizeRange: {Min: 300Mi, Max: 20Gi}
  SupportedFsType: {"": {}, ext4: {}, xfs: {}}
  SupportedMountOption: {noatime: {}}
  TopologyKeys: [topology.topolvm.io/node]
  Capabilities:
    persistence: true
    block: true
    fsGroup: true
    exec: true
    snapshotDataSource: true
    groupSnapshot: true
    pvcDataSource: true
    multipods: true
    controllerExpansion: true
    nodeExpansion: true
    offlineExpansion: true
    onlineExpansion: true
    singleNodeVolume: true
    topology: true
    capacity: true
    readWriteOncePod: true
    multiplePVsSameID: true
`

// excluded are patterns of tests that do not run, and why.
var excluded = []struct{ pattern, reason string }{
	{`\[Disruptive\]`, "they stop kubelets with systemctl over SSH; the nodes of a lab have neither"},
	{`\[Feature:Windows\]`, "they need nodes with Windows"},
	{`\[Slow\]`, "they are too long for an item"},
	{`Inline-volume|Pre-provisioned PV|CSI Ephemeral`, "a CSI driver that is described by a file has no such volumes"},
	{`\(ext3\)`, "volumes have xfs or ext4"},
	{`any volume data source`, "its controller is an image of registry.k8s.io, which a lab does not reach"},
	{`seLinuxMount`, "its nodes have no SELinux: test/e2e/selinux tests the mount option"},
}

// parts are patterns of tests that run at the same time. The others are those that no pattern matches. One after the
// other, all take more than an hour: most of that is waiting.
var parts = []struct{ name, pattern string }{
	{"groups", `volumegroupsnapshottable`},
	{"copies", `\] snapshottable |provisioning`},
	{"classes", `volume-expand|volume-modify|topology|capacity|once-pod|fsgroup`},
	{"others", ``},
}

// serial is the pattern of tests that run alone.
const serial = `\[Serial\]`

// minimum is the number of tests that have to run. The suite skips a test for what the driver does not have.
const minimum = 76

var cluster suite.Cluster

var _ = Describe("Kubernetes", Ordered, func() {
	var dir string
	BeforeAll(func(ctx SpecContext) {
		cluster = suite.UpAndRecord(ctx, lab.Options{Name: "e2e-kubernetes", Nodes: 2, Snapshots: true,
			Disks: []lab.DiskSpec{{Size: 24 * lab.GiB}}})
		Expect(cluster.Install(ctx, suite.Archive("LVMS_IMAGE"))).To(Succeed())
		cluster.Configure(ctx, classes)
		dir = GinkgoT().TempDir()
		write(dir, "driver.yaml", driver)
		write(dir, "registries.yaml", "promoterE2eRegistry: "+registry())
		pushImages(ctx, dir)
	}, NodeTimeout(20*time.Minute))

	It("passes its tests of storage drivers", func(ctx SpecContext) {
		all := runAtOnce(ctx, dir)
		all = append(all, run(ctx, dir, "serial", serial, exclusions()))
		var total results
		for _, r := range all {
			total.passed = append(total.passed, r.passed...)
			total.failed = append(total.failed, r.failed...)
			total.err = errors.Join(total.err, r.err)
		}
		AddReportEntry("tests that passed", strings.Join(total.passed, "\n"))
		Expect(total.failed).To(BeEmpty())
		Expect(total.err).NotTo(HaveOccurred())
		Expect(len(total.passed)).To(BeNumerically(">=", minimum), "tests that passed: %s",
			strings.Join(total.passed, "\n"))
	}, NodeTimeout(50*time.Minute))
})

func write(dir, name, text string) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)).To(Succeed())
}

// registry is where the nodes find the images of registry.k8s.io/e2e-test-images.
func registry() string { return cluster.Lab.Registry() + "/e2e-test-images" }

// pushImages pushes images under the names that the tests use. agnhost has Kubernetes' own program. All others are
// busybox: in them, the tests run only commands that busybox has.
func pushImages(ctx SpecContext, dir string) {
	GinkgoHelper()
	list, err := tests(ctx, dir, "-list-images").Output()
	Expect(err).NotTo(HaveOccurred())
	pushed := 0
	for ref := range strings.FieldsSeq(string(list)) {
		name, _, _ := strings.Cut(strings.TrimPrefix(ref, registry()+"/"), ":")
		switch name {
		case "agnhost":
			_, err = cluster.Lab.PushBusybox(ctx, ref, filepath.Join(suite.Archive("LVMS_STORAGE_TESTS"), name), "pause")
		case "busybox", "glibc-dns-testing", "nginx":
			_, err = cluster.Lab.PushBusybox(ctx, ref, "")
		default:
			continue
		}
		Expect(err).NotTo(HaveOccurred())
		pushed++
	}
	Expect(pushed).To(BeNumerically(">=", 4), "images in %s", list)
}

// tests returns the program with the tests, which runs in the network of the lab.
func tests(ctx context.Context, dir string, args ...string) *exec.Cmd {
	GinkgoHelper()
	program := filepath.Join(suite.Archive("LVMS_STORAGE_TESTS"), "storagetests")
	command, err := cluster.Lab.Command(ctx, program, args...)
	Expect(err).NotTo(HaveOccurred())
	command.Env = append(command.Env, "KUBE_TEST_REPO_LIST="+filepath.Join(dir, "registries.yaml"))
	return command
}

// results are the names of tests that passed and that failed, and why there may be more.
type results struct {
	passed, failed []string
	err            error
}

func exclusions() []string {
	var all []string
	for _, e := range excluded {
		all = append(all, e.pattern)
	}
	return all
}

// runAtOnce runs all parts at the same time. A test that several patterns match runs in the first part.
func runAtOnce(ctx SpecContext, dir string) []results {
	all := make([]results, len(parts))
	skip := append(exclusions(), serial)
	var running sync.WaitGroup
	for i, p := range parts {
		without := strings.Join(skip, "|")
		running.Go(func() {
			defer GinkgoRecover()
			all[i] = run(ctx, dir, p.name, p.pattern, []string{without})
		})
		skip = append(skip, p.pattern)
	}
	running.Wait()
	return all
}

// logsOf returns a new directory for the log and the report of a part, in JUnit's format.
func logsOf(name string) string {
	GinkgoHelper()
	cache, err := lab.CacheDir()
	Expect(err).NotTo(HaveOccurred())
	dir := filepath.Join(cache, "e2e-logs", "kubernetes", name)
	Expect(os.RemoveAll(dir)).To(Succeed())
	Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	return dir
}

// run runs the tests with names that match a pattern.
func run(ctx SpecContext, dir, name, pattern string, skip []string) results {
	GinkgoHelper()
	logs := logsOf(name)
	command := tests(ctx, dir, "-kubeconfig="+cluster.Lab.Kubeconfig(), "-provider=skeleton",
		"-storage.testdriver="+filepath.Join(dir, "driver.yaml"), "-report-dir="+logs, "-report-prefix="+name,
		"-ginkgo.focus=External Storage.*("+pattern+")", "-ginkgo.skip="+strings.Join(skip, "|"), "-ginkgo.no-color", "-ginkgo.v",
		"-ginkgo.timeout=45m")
	log, err := os.Create(filepath.Join(logs, "log"))
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(log.Close()).To(Succeed()) }()
	command.Stdout, command.Stderr = log, log
	ended := command.Run()
	r, err := read(filepath.Join(logs, "junit_"+name+"01.xml"))
	if err != nil {
		return results{err: fmt.Errorf("the part %s: %w, see %s", name, errors.Join(err, ended), logs)}
	}
	if ended != nil {
		r.err = fmt.Errorf("the part %s: %w, see %s", name, ended, logs)
	}
	return r
}

// read reads a report of tests.
func read(path string) (results, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return results{}, err
	}
	var report struct {
		Tests []struct {
			Name   string `xml:"name,attr"`
			Status string `xml:"status,attr"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(data, &report); err != nil {
		return results{}, fmt.Errorf("%s: %w", path, err)
	}
	var r results
	for _, t := range report.Tests {
		switch {
		case t.Status == "passed" && strings.HasPrefix(t.Name, "[It]"):
			r.passed = append(r.passed, t.Name)
		case t.Status != "passed" && t.Status != "skipped":
			r.failed = append(r.failed, t.Status+": "+t.Name)
		}
	}
	return r, nil
}

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster,
		"logs -n "+story.OperatorNamespace+" -l app.kubernetes.io/name=lvms-operator --tail=100 --prefix",
		"logs -n "+story.OperatorNamespace+" -l app.kubernetes.io/name=vg-manager --tail=100 --prefix")
}, NodeTimeout(10*time.Minute))

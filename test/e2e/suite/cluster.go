package suite

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/permissions"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// ThinAndThick has the device classes vg1 of thin volumes, which is the default, and thick, each with one disk.
const ThinAndThick = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, sizePercent: 90, overprovisionRatio: 10}
    - name: thick
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdc]}
`

// Cluster is a cluster of the lab. If one of its methods fails, the spec fails. In a function that Eventually or
// Consistently polls, the function is called again instead: see polling.
type Cluster struct{ *story.Cluster }

// Up starts a cluster of the lab, which is stopped after the specs.
func Up(ctx context.Context, options lab.Options) Cluster {
	ginkgo.GinkgoHelper()
	options.Progress = ginkgo.GinkgoWriter
	l, err := lab.Up(ctx, options)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) { gomega.Expect(l.Down(ctx)).To(gomega.Succeed()) })
	opened, err := story.Open(l)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return Cluster{opened}
}

// UpAndRecord starts a cluster like Up, and records for test/permissions which permissions the product has used on it.
func UpAndRecord(ctx context.Context, options lab.Options) Cluster {
	ginkgo.GinkgoHelper()
	cluster := Up(ctx, options)
	ginkgo.DeferCleanup(func() { gomega.Expect(permissions.Record(cluster.Lab)).To(gomega.Succeed()) })
	return cluster
}

// Archive returns the path of the image archive or program that an environment variable of `make test-long ITEMS=e2e/` names.
func Archive(variable string) string {
	ginkgo.GinkgoHelper()
	path := os.Getenv(variable)
	gomega.Expect(path).NotTo(gomega.BeEmpty(), "%s names an archive or a program: run `make test-long ITEMS=e2e/`", variable)
	return path
}

// PrepareOpenShift creates the objects of an OpenShift installation that config/openshift needs.
func (c Cluster) PrepareOpenShift(ctx context.Context) {
	ginkgo.GinkgoHelper()
	c.Run(ctx, "create", "namespace", "openshift-config-managed")
	c.Run(ctx, "create", "priorityclass", "openshift-user-critical", "--value=1000000000")
}

// Configure applies a manifest, and waits until the LVMCluster is ready.
func (c Cluster) Configure(ctx context.Context, manifest string) {
	ginkgo.GinkgoHelper()
	gomega.Expect(c.ApplyManifest(ctx, manifest)).To(gomega.Succeed())
	clusters := &lvmv1alpha1.LVMClusterList{}
	gomega.Expect(c.List(ctx, clusters)).To(gomega.Succeed())
	gomega.Expect(clusters.Items).To(gomega.HaveLen(1))
	gomega.Expect(c.WaitReady(ctx, clusters.Items[0].Name)).To(gomega.Succeed())
}

// Run runs kubectl and returns its output without surrounding space.
func (c Cluster) Run(ctx context.Context, args ...string) string {
	ginkgo.GinkgoHelper()
	return c.RunWith(ctx, "", args...)
}

// RunWith runs kubectl with stdin, and returns its output without surrounding space.
func (c Cluster) RunWith(ctx context.Context, stdin string, args ...string) string {
	ginkgo.GinkgoHelper()
	out, err := c.Kubectl(ctx, strings.NewReader(stdin), args...)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return strings.TrimSpace(out)
}

// OnNode runs a program on a node and returns its output without surrounding space.
func (c Cluster) OnNode(ctx context.Context, name string, args ...string) string {
	ginkgo.GinkgoHelper()
	node, err := c.Lab.Node(name)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	result, err := node.Exec(ctx, args...)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return strings.TrimSpace(result.Stdout)
}

// OnNode1 runs a shell line on node1 and returns its output without surrounding space.
func (c Cluster) OnNode1(ctx context.Context, line string) string {
	ginkgo.GinkgoHelper()
	return c.OnNode(ctx, "node1", "/bin/sh", "-c", line)
}

// ContentOfDisks returns the content of the disks of node1, and the files in the operator's directories. The kubelet
// creates /etc/topolvm for the agent; it remains, empty.
func (c Cluster) ContentOfDisks(ctx context.Context) string {
	ginkgo.GinkgoHelper()
	return c.OnNode1(ctx, contentOfDisks)
}

const contentOfDisks = `lsblk --noheadings --output NAME,SIZE,FSTYPE,TYPE; lvm pvs --noheadings
find /etc/topolvm /run/topolvm /run/lvms ! -type d 2>/dev/null || true`

// writer is a Pod that counts in a file, and fails permanently after the first failed write.
const writer = `
apiVersion: v1
kind: Pod
metadata: {name: writer, namespace: default}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: IMAGE
    command:
    - /bin/sh
    - -c
    - "i=0; while :; do i=$((i+1)); echo $i > /data/count && sync /data/count || exit 1; sleep 0.1; done"
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: CLAIM}}]
`

// StartWriting starts the Pod default/writer, which writes to the volume of a claim.
func (c Cluster) StartWriting(ctx context.Context, claim string) {
	ginkgo.GinkgoHelper()
	image := c.Lab.Registry() + "/busybox:1"
	gomega.Expect(c.ApplyManifest(ctx, strings.NewReplacer("IMAGE", image, "CLAIM", claim).Replace(writer))).To(
		gomega.Succeed())
	gomega.Expect(c.WaitRunning(ctx, "default", "writer")).To(gomega.Succeed())
}

// StillWrites checks that the Pod default/writer is the same and that its count grows.
func (c Cluster) StillWrites(ctx context.Context) {
	ginkgo.GinkgoHelper()
	count := func() int {
		out, err := c.Shell(ctx, "default", "writer", "cat /data/count")
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), "the Pod that writes")
		n, err := strconv.Atoi(strings.TrimSpace(out))
		if err != nil {
			return 0 // read between truncation and write
		}
		return n
	}
	var first int
	gomega.Eventually(func() int { first = count(); return first }).WithContext(ctx).
		Should(gomega.BeNumerically(">", 0))
	gomega.Eventually(count).WithContext(ctx).Should(gomega.BeNumerically(">", first))
}

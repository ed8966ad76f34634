package suite

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/story"
)

// Single is a cluster of one node.
type Single struct{ *story.Cluster }

// Run runs kubectl with stdin, and returns its output.
func (c Single) Run(ctx context.Context, stdin string, args ...string) string {
	ginkgo.GinkgoHelper()
	out, err := c.Kubectl(ctx, strings.NewReader(stdin), args...)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return strings.TrimSpace(out)
}

// OnNode runs a shell line on the node and returns its output.
func (c Single) OnNode(ctx context.Context, line string) string {
	ginkgo.GinkgoHelper()
	node, err := c.Lab.Node("node1")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	result, err := node.Exec(ctx, "/bin/sh", "-c", line)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return strings.TrimSpace(result.Stdout)
}

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
func (c Single) StartWriting(ctx context.Context, claim string) {
	ginkgo.GinkgoHelper()
	image := c.Lab.Registry() + "/busybox:1"
	c.Run(ctx, strings.NewReplacer("IMAGE", image, "CLAIM", claim).Replace(writer), "apply", "-f", "-")
	gomega.Expect(c.WaitRunning(ctx, "default", "writer")).To(gomega.Succeed())
}

// StillWrites checks that the Pod default/writer is the same and that its count grows.
func (c Single) StillWrites(ctx context.Context) {
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
	gomega.Eventually(func() int { first = count(); return first }).WithContext(ctx).WithTimeout(20 * time.Second).
		Should(gomega.BeNumerically(">", 0))
	gomega.Eventually(count).WithContext(ctx).WithTimeout(20 * time.Second).Should(gomega.BeNumerically(">", first))
}

package suite

import (
	"context"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// OperatorOnEach waits until a ready operator runs on each of the nodes, and none on another node.
func (c Cluster) OperatorOnEach(ctx context.Context, nodes []string) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func() []string {
		return strings.Fields(c.Run(ctx, "get", "pods", "-n", story.OperatorNamespace, "-l",
			"app.kubernetes.io/name=lvms-operator", "-o",
			`jsonpath={range .items[?(@.status.containerStatuses[0].ready==true)]}{.spec.nodeName}{"\n"}{end}`))
	}).WithContext(ctx).WithPolling(2 * time.Second).Should(gomega.ConsistOf(nodes))
}

// Leader returns the Pod that is the leader of the operators, and its node.
func (c Cluster) Leader(ctx context.Context) (string, *lab.Node) {
	ginkgo.GinkgoHelper()
	pod := c.leaseHolder(ctx)
	gomega.Expect(pod).NotTo(gomega.BeEmpty(), "no operator holds the Lease")
	name := c.Run(ctx, "get", "pod", "-n", story.OperatorNamespace, pod, "-o", "jsonpath={.spec.nodeName}")
	node, err := c.Lab.Node(name)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return pod, node
}

// WaitForAnotherLeader waits until an operator other than the former leader is the leader.
func (c Cluster) WaitForAnotherLeader(ctx context.Context, former string) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(c.leaseHolder).WithContext(ctx).WithArguments(ctx).
		WithPolling(200 * time.Millisecond).ShouldNot(gomega.BeElementOf(former, ""))
}

// leaseHolder returns the Pod that holds the Lease of the operators, or "".
func (c Cluster) leaseHolder(ctx context.Context) string {
	ginkgo.GinkgoHelper()
	return c.Run(ctx, "get", "lease", "-n", story.OperatorNamespace, "lvms-operator-leader", "-o",
		"jsonpath={.spec.holderIdentity}")
}

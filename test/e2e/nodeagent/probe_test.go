//go:build e2e

package nodeagent

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/story"
)

const probeObjects = "app.kubernetes.io/component=node-probe"

// probesNode has the operator probe the node every minute, also while the agent is away.
func probesNode(ctx SpecContext) {
	setInterval := func(variable string) {
		GinkgoHelper()
		cluster.Run(ctx, "-n", story.OperatorNamespace, "set", "env", "deployment/lvms-operator", variable)
		cluster.Run(ctx, "-n", story.OperatorNamespace, "rollout", "status", "deployment/lvms-operator", story.Timeout)
	}
	setInterval("NODE_PROBE_INTERVAL=1m")
	DeferCleanup(func(ctx SpecContext) {
		cluster.Run(ctx, "label", "node", "node1", "type-")
		cluster.Run(ctx, "-n", story.OperatorNamespace, "set", "env", "deployment/lvms-operator", "NODE_PROBE_INTERVAL-")
	}, NodeTimeout(5*time.Minute))
	for _, class := range []string{"vg1", "single", "striped"} {
		reportsProbe(ctx, class, 1)
		GinkgoWriter.Println(cluster.Run(ctx, "get", "pods,pvc", "-n", story.OperatorNamespace, "-l", probeObjects))
	}

	By("failing while the agent is away")
	cluster.Run(ctx, "label", "node", "node1", "type=virtual-kubelet")
	reportsProbe(ctx, "vg1", 0)
	events := cluster.Run(ctx, "get", "events", "-n", story.OperatorNamespace, "--field-selector",
		"reason=NodeProbeFailed,involvedObject.name=node1", "-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
	Expect(events).To(ContainSubstring("device class vg1: "))
	GinkgoWriter.Println(events)

	By("succeeding again")
	cluster.Run(ctx, "label", "node", "node1", "type-")
	reportsProbe(ctx, "vg1", 1)

	By("leaving nothing")
	setInterval("NODE_PROBE_INTERVAL-")
	Eventually(func(g Gomega, ctx context.Context) {
		for _, kind := range []string{"pods", "persistentvolumeclaims"} {
			out, err := cluster.Kubectl(ctx, nil, "get", kind, "-n", story.OperatorNamespace, "-l", probeObjects, "-o", "name")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(out).To(BeEmpty())
		}
		out, err := cluster.Kubectl(ctx, nil, "get", "persistentvolumes", "-o",
			`jsonpath={range .items[*]}{.spec.claimRef.namespace}{"\n"}{end}`)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(out).NotTo(ContainSubstring(story.OperatorNamespace))
	}).WithContext(ctx).WithTimeout(5 * time.Minute).WithPolling(time.Second).Should(Succeed())
}

// reportsProbe waits until the operator reports a result for a device class.
func reportsProbe(ctx context.Context, class string, want int) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		text, err := metricsOf(ctx, "lvms-operator")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(text).To(ContainSubstring(
			fmt.Sprintf("lvms_node_probe_success{device_class=%q,node=\"node1\"} %d\n", class, want)))
	}).WithContext(ctx).WithTimeout(15 * time.Minute).WithPolling(time.Second).Should(Succeed())
}

//go:build e2e

package nodeagent

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/story"
)

// pipe is a file that each reconcile of the volume group reads. A pipe that nobody writes is opened forever: the
// reconcile is stuck, and nothing else is.
const pipe = "/etc/topolvm/adding-" + class + ".json"

// endsWhenStuck has a reconcile that never ends. The kubelet starts the agent again, and Pods notice nothing.
func endsWhenStuck(ctx SpecContext) {
	v := story.Volume{Namespace: namespace, Name: "data", Class: "lvms-" + class, Size: "320Mi"}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	cluster.StartWriting(ctx, v.Name)
	restarts := func() string {
		return cluster.Run(ctx, "get", "pods", "-n", story.OperatorNamespace, "-l", "app.kubernetes.io/name=vg-manager",
			"-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}")
	}
	Expect(restarts()).To(Equal("0"))
	cluster.OnNode1(ctx, "mkfifo "+pipe)
	begin := time.Now()
	cluster.Run(ctx, "annotate", "lvmvolumegroup", class, "-n", story.OperatorNamespace, "test=stuck")
	Eventually(restarts).WithContext(ctx).WithTimeout(5 * time.Minute).WithPolling(time.Second).ShouldNot(Equal("0"))
	GinkgoWriter.Printf("the agent was started again after %s\n", time.Since(begin).Round(time.Second))
	cluster.OnNode1(ctx, "rm "+pipe)
	Expect(cluster.Run(ctx, "logs", "--previous", "-n", story.OperatorNamespace, "daemonset/vg-manager")).To(And(
		ContainSubstring("a part of the process is stuck"),
		ContainSubstring("reconcile of "+story.OperatorNamespace+"/"+class), ContainSubstring("goroutine ")))

	By("working again")
	// The second agent may have opened the pipe before it was removed, and is started again too.
	cluster.Run(ctx, "annotate", "lvmvolumegroup", class, "-n", story.OperatorNamespace, "test=", "--overwrite")
	Expect(cluster.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
	_, err := cluster.Expand(ctx, v, "writer", "640Mi")
	Expect(err).NotTo(HaveOccurred())
	cluster.StillWrites(ctx)
	Expect(cluster.StopPod(ctx, namespace, "writer")).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
}

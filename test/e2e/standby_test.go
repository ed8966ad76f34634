//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// takesOver cuts the power of the leader's node while claims are served.
func takesOver(ctx SpecContext) {
	By("waiting for an operator on each node")
	cluster.OperatorOnEach(ctx, []string{"node1", "node2"})
	first, node := cluster.Leader(ctx)

	By("cutting the power of its node in the middle of provisioning")
	const (
		class  = "takeover"
		claims = 10
	)
	immediate := storagev1.VolumeBindingImmediate
	Expect(cluster.Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: wellknown.DriverName, VolumeBindingMode: &immediate,
		Parameters: map[string]string{wellknown.DeviceClassParameter: "thick-ext4",
			wellknown.FilesystemTypeParameter: "ext4"},
	})).To(Succeed())
	for i := range claims {
		Expect(cluster.Claim(ctx, story.Volume{Namespace: namespace, Name: fmt.Sprint("takeover-", i), Class: class,
			Size: "100Mi"})).To(Succeed())
	}
	Expect(node.PowerCut(ctx)).To(Succeed())
	start := time.Now()
	cluster.WaitForAnotherLeader(ctx, first)
	AddReportEntry("from the power cut to another operator that leads",
		time.Since(start).Round(100*time.Millisecond).String())

	By("starting the node again")
	Expect(node.Start(ctx)).To(Succeed())
	bound := func() []string {
		return strings.Fields(cluster.Run(ctx, "get", "pvc", "-n", namespace, "-o",
			`jsonpath={range .items[?(@.status.phase=="Bound")]}{.metadata.name}{"\n"}{end}`))
	}
	Eventually(bound).WithContext(ctx).WithPolling(2 * time.Second).Should(HaveLen(claims))
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	Eventually(func() []string { return volumesOf(ctx, "thick-ext4") }).WithContext(ctx).
		Should(HaveLen(claims), "one logical volume for each claim")

	cluster.Run(ctx, "delete", "pvc", "-n", namespace, "--all", "--wait=false")
	Eventually(func() []string { return volumesOf(ctx, "thick-ext4") }).WithContext(ctx).Should(BeEmpty())
	cluster.Run(ctx, "delete", "storageclass", class)
}

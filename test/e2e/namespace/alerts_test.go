//go:build e2e

package namespace

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/monitoring/access"
	"github.com/lvm-storage/lvm-operator/test/prometheus"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// speed is how much earlier alerts fire than with the shipped rules.
const speed = 5

// alerts checks that Prometheus reads the metrics of operator and agent in this namespace, and that an alert fires when
// a thin pool fills.
func alerts(ctx context.Context) {
	GinkgoHelper()
	By("filling a thin pool until its alert fires")
	authority, err := prometheus.Trust(ctx, cluster.Cluster)
	Expect(err).NotTo(HaveOccurred())
	cluster.Run(ctx, "wait", "--for=create", "servicemonitor/"+access.MonitorName, "-n", namespace, story.Timeout)
	p, err := prometheus.StartFaster(ctx, cluster.Cluster, authority, speed)
	Expect(err).NotTo(HaveOccurred())
	defer p.Stop()
	Eventually(func() (string, error) {
		down, up, err := p.Down(ctx)
		return fmt.Sprintf("%d up, down: %s", up, down), err
	}).WithContext(ctx).WithTimeout(6*time.Minute).WithPolling(2*time.Second).Should(Equal("2 up, down: []"),
		"the operator and one agent are scraped")

	v := story.Volume{Namespace: "default", Name: "large", Class: "lvms-vg1", Size: "4Gi", Block: true}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, "filler")).To(Succeed())
	var size, used float64
	_, err = fmt.Sscan(cluster.OnNode1(ctx,
		"lvs --noheadings --nosuffix --units m -o lv_size,data_percent vg1/thin-pool-1"), &size, &used)
	Expect(err).NotTo(HaveOccurred())
	_, err = cluster.Shell(ctx, "default", "filler", fmt.Sprintf(
		"dd if=/dev/zero of=/dev/data bs=1M count=%d conv=notrunc,fsync 2>&1", int(size*(80-used)/100)))
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() ([]string, error) {
		alerts, err := p.Alerts(ctx)
		var firing []string
		for _, a := range alerts {
			if a.State == "firing" {
				firing = append(firing, a.Labels["alertname"]+" "+a.Labels["device_class"])
			}
		}
		return firing, err
	}).WithContext(ctx).WithTimeout(6 * time.Minute).WithPolling(2 * time.Second).Should(
		ConsistOf("ThinPoolDataUsageAtThresholdNearFull vg1"))
	Expect(cluster.StopPod(ctx, "default", "filler")).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
}

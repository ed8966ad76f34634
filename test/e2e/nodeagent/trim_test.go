//go:build e2e

package nodeagent

import (
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/story"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/fstrim"
)

// trimmed is more than half of the pool when it is filled.
var trimmed = story.Volume{Namespace: namespace, Name: "trimmed", Class: "lvms-" + class, Size: "1700Mi"}

// poolUsage returns how full the thin pool is, in percent.
func poolUsage(ctx SpecContext) float64 {
	GinkgoHelper()
	text := cluster.OnNode1(ctx, "lvs --noheadings --options data_percent "+class+"/thin-pool-1")
	usage, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	Expect(err).NotTo(HaveOccurred())
	return usage
}

// record returns the last trim of the volume, which its LogicalVolume has as an annotation; "" if there was none.
func record(ctx SpecContext) string {
	GinkgoHelper()
	return cluster.Run(ctx, "get", "logicalvolumes.topolvm.io", "-o",
		`jsonpath={.items[0].metadata.annotations.lvm\.topolvm\.io/trim}`)
}

// trims deletes a file of a Pod. The pool keeps its blocks until the device class has a threshold.
func trims(ctx SpecContext) {
	Expect(cluster.Claim(ctx, trimmed)).To(Succeed())
	Expect(cluster.StartPod(ctx, trimmed, "app")).To(Succeed())
	sum, err := cluster.Write(ctx, trimmed, "app")
	Expect(err).NotTo(HaveOccurred())
	before := poolUsage(ctx)
	_, err = cluster.Shell(ctx, namespace, "app", "dd if=/dev/urandom of=/data/large bs=1M count=700 2>/dev/null; sync")
	Expect(err).NotTo(HaveOccurred())
	full := poolUsage(ctx)
	Expect(full).To(BeNumerically(">", before+30))
	_, err = cluster.Shell(ctx, namespace, "app", "rm /data/large; sync")
	Expect(err).NotTo(HaveOccurred())

	By("keeping the blocks without a trim")
	Expect(poolUsage(ctx)).To(BeNumerically("~", full, 1))
	Expect(record(ctx)).To(BeEmpty())
	Expect(metrics(ctx)).NotTo(ContainSubstring("lvms_trims_total{"))

	By("setting a threshold that the pool exceeds")
	cluster.Run(ctx, "patch", "lvmcluster", "my-lvmcluster", "-n", story.OperatorNamespace, "--type", "json", "-p",
		`[{"op": "add", "path": "/spec/storage/deviceClasses/0/trim", "value": {"schedule": "None",
		  "poolUsageThresholdPercent": `+strconv.Itoa(int(before)+10)+`}}]`)
	Eventually(func() float64 { return poolUsage(ctx) }).WithContext(ctx).WithTimeout(8 * time.Minute).
		WithPolling(5 * time.Second).Should(BeNumerically("<", before+5))
	Eventually(func() string { return record(ctx) }).WithContext(ctx).ShouldNot(BeEmpty())
	last, err := fstrim.ParseRecord(record(ctx))
	Expect(err).NotTo(HaveOccurred())
	Expect(last.Result).To(Equal(fstrim.Trimmed))
	Expect(last.TrimmedBytes).To(BeNumerically(">=", 700<<20))

	labels := `\{device_class="` + class + `",node="node1"`
	Expect(metrics(ctx)).To(And(
		MatchRegexp(`(?m)^lvms_trims_total`+labels+`,result="Trimmed"\} 1$`),
		MatchRegexp(`(?m)^lvms_trims_total`+labels+`,result="Failed"\} 0$`),
		MatchRegexp(`(?m)^lvms_trimmed_bytes_total`+labels+`\} [1-9]`),
		MatchRegexp(`(?m)^lvms_last_trim_timestamp_seconds`+labels+`\} [1-9]`)))
	Expect(cluster.Run(ctx, "get", "events", "-A", "--field-selector", "reason=TrimFailed", "-o",
		"name")).To(BeEmpty())
	Expect(cluster.Checksum(ctx, trimmed, "app")).To(Equal(sum), "the data that was not deleted")
	Expect(cluster.StopPod(ctx, namespace, "app")).To(Succeed())
	Expect(cluster.Unclaim(ctx, trimmed)).To(Succeed())
}

//go:build e2e

package nodeagent

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/story"
)

const attributesClasses = `
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: silver}
driverName: topolvm.io
parameters: {writeBytesPerSecond: 8Mi, readIOPS: "500"}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: unlimited}
driverName: topolvm.io
parameters: {readIOPS: max}
`

// reportsLimits reads the metrics of a volume with limits, of one without, and after the limits were removed.
func reportsLimits(ctx SpecContext) {
	Expect(cluster.ApplyManifest(ctx, attributesClasses)).To(Succeed())
	limited := story.Volume{Namespace: namespace, Name: "limited", Class: "lvms-" + class, Size: "320Mi",
		Attributes: "silver"}
	plain := story.Volume{Namespace: namespace, Name: "plain", Class: "lvms-" + class, Size: "320Mi"}
	for _, v := range []story.Volume{limited, plain} {
		Expect(cluster.Claim(ctx, v)).To(Succeed())
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	}
	served := func() string { return metrics(ctx) }
	Eventually(served).WithContext(ctx).Should(And(
		MatchRegexp(ofClaim("lvms_volume_io_limit_bytes_per_second", "limited", `direction="write",`,
			`8\.388608e\+06`)),
		MatchRegexp(ofClaim("lvms_volume_io_limit_operations_per_second", "limited", `direction="read",`, "500")),
		MatchRegexp(ofClaim("lvms_volume_size_bytes", "plain", "", `\S+`))))
	Expect(served()).NotTo(Or(
		MatchRegexp(`lvms_volume_io_limit_.*persistentvolumeclaim="plain"`),
		MatchRegexp(`lvms_volume_io_limit_.*"read".*} 8`),
		ContainSubstring("lvms_volume_io_limits_failed{")))
	cluster.Run(ctx, "patch", "pvc", "-n", namespace, "limited", "-p",
		`{"spec":{"volumeAttributesClassName":"unlimited"}}`)
	Eventually(served).WithContext(ctx).ShouldNot(
		ContainSubstring("lvms_volume_io_limit_"))
	for _, v := range []story.Volume{limited, plain} {
		Expect(cluster.StopPod(ctx, namespace, v.Name)).To(Succeed())
		Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	}
}

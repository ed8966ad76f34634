//go:build e2e

package components

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// anywhere is a Prometheus like that of kube-prometheus. It discovers its targets with the permissions that the product
// grants.
const anywhere = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus-k8s, namespace: monitoring}
---
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: k8s, namespace: monitoring}
spec:
  image: IMAGE
  serviceAccountName: prometheus-k8s
  securityContext: {runAsNonRoot: true, runAsUser: 65534, fsGroup: 65534}
  serviceMonitorSelector: {}
  serviceMonitorNamespaceSelector: {}
  ruleSelector: {}
  ruleNamespaceSelector: {}
`

// kubeletDir is the kubelet's directory of k0s.
const kubeletDir = "/var/lib/k0s/kubelet"

// On a cluster other than OpenShift, metrics are read with a token, and monitoring/prometheus-operator has the
// permissions for discovery.
var _ = Describe("LVM Storage on any Kubernetes with the Prometheus Operator", Label("anywhere"), Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		image = suite.Archive("LVMS_IMAGE")
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-anywhere", PrometheusOperator: true, KubeletDir: kubeletDir,
			Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}})
		Expect(cluster.Install(ctx, image)).To(Succeed())
		cluster.Run(ctx, "-n", namespace, "set", "env", "deployment/lvms-operator", "KUBELET_ROOT_DIR="+kubeletDir)
		cluster.Run(ctx, "-n", namespace, "rollout", "status", "deployment/lvms-operator", story.Timeout)
		Expect(cluster.ApplyFile(ctx, "config/samples/lvm_v1alpha1_lvmcluster.yaml")).To(Succeed())
		Expect(cluster.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
	}, NodeTimeout(20*time.Minute))

	It("mounts volumes below another directory of the kubelet", func(ctx SpecContext) {
		for _, v := range []story.Volume{
			{Namespace: "default", Name: "files", Class: "lvms-vg1", Size: "512Mi"},
			{Namespace: "default", Name: "block", Class: "lvms-vg1", Size: "256Mi", Block: true},
		} {
			Expect(cluster.Claim(ctx, v)).To(Succeed())
			Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
			sum, err := cluster.Write(ctx, v, v.Name)
			Expect(err).NotTo(HaveOccurred())
			Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
			Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
			Expect(cluster.Checksum(ctx, v, v.Name)).To(Equal(sum))
			Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
			Expect(cluster.Unclaim(ctx, v)).To(Succeed())
		}
		mounts := cluster.OnNode(ctx, "node1", "cat", "/proc/mounts")
		Expect(mounts).NotTo(ContainSubstring("/var/lib/kubelet"))
		Expect(mounts).NotTo(ContainSubstring("topolvm"))
	}, NodeTimeout(20*time.Minute))

	It("is scraped with a token after kubectl apply -k monitoring/prometheus-operator", func(ctx SpecContext) {
		isScrapedWithAToken(ctx)
	}, NodeTimeout(32*time.Minute))
})

func isScrapedWithAToken(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster.ApplyManifest(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: monitoring}}")).To(Succeed())
	cluster.Run(ctx, "apply", "-k", repositoryFile("monitoring/prometheus-operator"))
	p := startPrometheus(ctx, "monitoring", anywhere)
	// The targets are an agent and the operator. A single node has no standby.
	scrapes(ctx, p, 2)
	hasLabels(ctx, p, `up{job=~"(lvms-operator|vg-manager)-metrics-service"}`, "namespace", namespace, namespace)
	evaluates(ctx, p)
}

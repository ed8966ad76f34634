//go:build e2e

package components

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
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

// On a cluster other than OpenShift, metrics are read with a token, and monitoring/prometheus-operator has the
// permissions for discovery.
var _ = Describe("LVM Storage on any Kubernetes with the Prometheus Operator", Label("long"), Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		image = suite.Archive("LVMS_IMAGE")
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-anywhere", PrometheusOperator: true,
			Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}})
	}, NodeTimeout(20*time.Minute))

	It("is scraped with a token after kubectl apply -k monitoring/prometheus-operator", func(ctx SpecContext) {
		isScrapedWithAToken(ctx)
	}, NodeTimeout(16*time.Minute))
})

func isScrapedWithAToken(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster.Install(ctx, image)).To(Succeed())
	Expect(cluster.ApplyFile(ctx, "config/samples/lvm_v1alpha1_lvmcluster.yaml")).To(Succeed())
	Expect(cluster.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
	Expect(cluster.ApplyManifest(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: monitoring}}")).To(Succeed())
	cluster.Run(ctx, "apply", "-k", repositoryFile("monitoring/prometheus-operator"))
	p := startPrometheus(ctx, "monitoring", anywhere)
	// The targets are an agent and the operator. A single node has no standby.
	scrapes(ctx, p, 2)
	hasLabels(ctx, p, `up{job=~"(lvms-operator|vg-manager)-metrics-service"}`, "namespace", namespace, namespace)
	evaluates(ctx, p)
}

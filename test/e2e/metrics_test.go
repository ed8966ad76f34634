//go:build e2e

package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/prometheus"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const reader = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: metrics-reader, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-reader}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-reader}
subjects: [{kind: ServiceAccount, name: metrics-reader, namespace: default}]
`

// showsMetrics reads the metrics of operator and agents: without authentication, without permission, and like
// Prometheus.
func showsMetrics(ctx SpecContext) {
	Expect(cluster.ApplyManifest(ctx, reader)).To(Succeed())
	defer func() {
		_, _ = cluster.Kubectl(ctx, nil, "delete", "sa/metrics-reader", "clusterrole/metrics-reader",
			"clusterrolebinding/metrics-reader", "-n", "default")
	}()
	tokens := map[string]string{
		"nobody":   "",
		"somebody": cluster.Run(ctx, "create", "token", "-n", "default", "default"),
		"reader":   cluster.Run(ctx, "create", "token", "-n", "default", "metrics-reader"),
	}
	certificate, key, err := prometheus.ClientCertificate(ctx, cluster.Cluster)
	Expect(err).NotTo(HaveOccurred())
	platform, err := tls.X509KeyPair(certificate, key)
	Expect(err).NotTo(HaveOccurred())
	tokens["OpenShift's Prometheus"] = ""
	ask := func(who, address string) (string, string) {
		GinkgoHelper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
		Expect(err).NotTo(HaveOccurred())
		config := &tls.Config{InsecureSkipVerify: true}
		if who == "OpenShift's Prometheus" {
			config.Certificates = []tls.Certificate{platform}
		}
		if token := tokens[who]; token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		web := &http.Client{Timeout: suite.ResponseTimeout,
			Transport: &http.Transport{DialContext: cluster.Lab.Dial, DisableKeepAlives: true, TLSClientConfig: config}}
		response, err := web.Do(request)
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		return response.Status, string(body)
	}
	list := &corev1.PodList{}
	Expect(cluster.List(ctx, list, client.InNamespace(story.OperatorNamespace))).To(Succeed())
	asked := map[string]bool{}
	for _, pod := range list.Items {
		name := pod.Labels["app.kubernetes.io/name"]
		for _, port := range pod.Spec.Containers[0].Ports {
			if port.Name != "metrics" {
				continue
			}
			asked[name] = true
			address := fmt.Sprintf("%s:%d", pod.Status.PodIP, port.ContainerPort)
			for who, want := range map[string]string{"nobody": "401 Unauthorized", "somebody": "403 Forbidden",
				"reader": "200 OK", "OpenShift's Prometheus": "200 OK"} {
				status, body := ask(who, address)
				Expect(status).To(Equal(want), "%s asks %s", who, pod.Name)
				if want == "200 OK" {
					Expect(strings.Contains(body, "\nrest_client_requests_total{")).To(BeTrue(),
						"metrics of %s", pod.Name)
					if name == "vg-manager" {
						Expect(body).To(MatchRegexp(`(?m)^lvms_volume_group_state\{device_class="[^"]+",node="` +
							pod.Spec.NodeName + `",state="Ready"\} 1$`))
						Expect(body).To(MatchRegexp(`(?m)^lvms_capacity_bytes\{device_class="[^"]+",node="` +
							pod.Spec.NodeName + `"\} [1-9]`))
						Expect(body).To(MatchRegexp(`(?m)^lvms_device_state\{device="/dev/(ubd|sd)`))
						Expect(body).To(MatchRegexp(`(?m)^lvms_host_command_duration_seconds_count\{command="lvm `))
					}
				} else {
					Expect(body).NotTo(ContainSubstring("rest_client"))
				}
			}
		}
	}
	Expect(asked).To(Equal(map[string]bool{"lvms-operator": true, "vg-manager": true}))
}

//go:build e2e

package components

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/consoleplugin"
)

// where is the container of a Pod in which a shell line runs.
type where struct{ namespace, pod, container string }

var (
	// outsider is an unrelated Pod, neighbor is another Pod in the operator's namespace, and console has the labels of
	// OpenShift's console.
	outsider = where{"default", "outsider", "main"}
	neighbor = where{namespace, "neighbor", "main"}
	console  = where{"openshift-console", "console", "main"}
)

// served is the port on which the test Pods listen.
const served = 8080

// startPods creates the test Pods, once.
func startPods(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster.ApplyManifest(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: openshift-console}}`)).To(Succeed())
	for _, w := range []where{outsider, neighbor, console} {
		Expect(cluster.ApplyManifest(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: %s, name: %s, labels: {app: %[2]s, component: ui}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "%[3]s/busybox:1", command: [sh, -c, "echo served >/tmp/f; exec httpd -f -p %[4]d -h /tmp"]}
`, w.namespace, w.pod, cluster.Lab.Registry(), served))).To(Succeed())
	}
	for _, w := range []where{outsider, neighbor, console} {
		Expect(cluster.WaitRunning(ctx, w.namespace, w.pod)).To(Succeed())
	}
}

func addressOf(ctx context.Context, w where) string {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(cluster.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.pod}, pod)).To(Succeed())
	return pod.Status.PodIP
}

// Outcomes of an attempt. If a port refuses the connection, the packets have passed.
const (
	passes  = "passes"
	dropped = "is dropped"
)

// attempt connects from a Pod to a TCP port.
func attempt(ctx context.Context, from where, address string, port int) string {
	return outcome(ctx, from, fmt.Sprintf("nc -w 3 %s %d </dev/null", address, port))
}

// resolve queries the cluster's DNS over UDP.
func resolve(ctx context.Context, from where) string {
	return outcome(ctx, from, "nslookup kubernetes.default.svc.cluster.local")
}

func outcome(ctx context.Context, from where, line string) string {
	out, err := cluster.Kubectl(ctx, nil, "exec", "-n", from.namespace, from.pod, "-c", from.container, "--",
		"/bin/sh", "-c", line)
	switch {
	case err == nil:
		return passes
	case strings.Contains(out+err.Error(), "timed out"):
		return dropped
	}
	return out + err.Error()
}

// expect retries until the outcome is the expected one, because the policies are enforced with a delay.
func expect(ctx context.Context, want, what string, try func() string) {
	GinkgoHelper()
	Eventually(try).WithContext(ctx).WithTimeout(time.Minute).Should(Equal(want), what)
}

func letsIn(ctx context.Context) {
	GinkgoHelper()
	startPods(ctx)
	for _, c := range []struct {
		name    string
		port    int
		allowed []where
		refused []where
	}{
		{"lvms-operator", 9443, []where{outsider, neighbor, console}, nil},
		{"lvms-operator", 8443, []where{outsider, neighbor, console}, nil},
		{"lvms-operator", wellknown.SnapshotMetadataPort, []where{outsider, neighbor, console}, nil},
		{"lvms-operator", 8081, nil, []where{outsider, neighbor, console}},
		{"vg-manager", 8443, []where{outsider, neighbor, console}, nil},
		{"vg-manager", 8081, nil, []where{outsider, neighbor, console}},
		{"vg-manager", wellknown.AgentPort, nil, []where{outsider, neighbor, console}},
		{"vg-manager", wellknown.PeerPort, nil, []where{outsider, neighbor, console}},
		{consoleplugin.Name, 9443, []where{console}, []where{outsider, neighbor}},
	} {
		address := podsOf(ctx, c.name)[0].Status.PodIP
		for _, from := range c.allowed {
			expect(ctx, passes, fmt.Sprintf("%s to port %d of %s", from.pod, c.port, c.name),
				func() string { return attempt(ctx, from, address, c.port) })
		}
		for _, from := range c.refused {
			expect(ctx, dropped, fmt.Sprintf("%s to port %d of %s", from.pod, c.port, c.name),
				func() string { return attempt(ctx, from, address, c.port) })
		}
	}
}

// letsOut tests from the network of the product's own Pods, in a container that is added to them.
func letsOut(ctx context.Context) {
	GinkgoHelper()
	startPods(ctx)
	target := addressOf(ctx, outsider)
	agents := podsOf(ctx, "vg-manager")
	agent := agents[len(agents)-1].Status.PodIP
	for name, want := range map[string]string{"lvms-operator": passes, "vg-manager": passes,
		consoleplugin.Name: dropped} {
		from := joined(ctx, podsOf(ctx, name)[0])
		expect(ctx, want, name+" asks DNS", func() string { return resolve(ctx, from) })
		expect(ctx, want, name+" connects by TCP, as to an API server at whatever address and port",
			func() string { return attempt(ctx, from, target, served) })
		if name == "lvms-operator" {
			expect(ctx, passes, "the operator connects to a node agent",
				func() string { return attempt(ctx, from, agent, wellknown.AgentPort) })
		}
		expect(ctx, map[bool]string{true: passes, false: dropped}[name == "vg-manager"],
			name+" connects to the port of a node agent for other agents",
			func() string { return attempt(ctx, from, agent, wellknown.PeerPort) })
	}
}

// joined adds a container with a shell to a Pod.
func joined(ctx context.Context, pod corev1.Pod) where {
	GinkgoHelper()
	nobody := int64(65534)
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers,
		corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "shell", Image: cluster.Lab.Registry() + "/busybox:1", Command: []string{"sleep", "100000"},
			SecurityContext: &corev1.SecurityContext{RunAsUser: &nobody},
		}})
	pods := cluster.Clientset.CoreV1().Pods(pod.Namespace)
	_, err := pods.UpdateEphemeralContainers(ctx, pod.Name, &pod, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() (bool, error) {
		found, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, status := range found.Status.EphemeralContainerStatuses {
			if status.State.Running != nil {
				return true, nil
			}
		}
		return false, nil
	}).WithContext(ctx).Should(BeTrue(), "the shell in %s runs", pod.Name)
	return where{pod.Namespace, pod.Name, "shell"}
}

// leavesNeighborsAlone checks that Pods of other operators in the namespace are not affected.
func leavesNeighborsAlone(ctx context.Context) {
	GinkgoHelper()
	startPods(ctx)
	expect(ctx, passes, "a neighbor asks DNS", func() string { return resolve(ctx, neighbor) })
	expect(ctx, passes, "a neighbor connects to another namespace",
		func() string { return attempt(ctx, neighbor, addressOf(ctx, outsider), served) })
	expect(ctx, passes, "another namespace connects to a neighbor",
		func() string { return attempt(ctx, outsider, addressOf(ctx, neighbor), served) })
}

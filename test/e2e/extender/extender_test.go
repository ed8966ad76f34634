//go:build e2e

package extender

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

func runsTheExtender(ctx context.Context, certificate pki.Pair) {
	GinkgoHelper()
	cluster.Run(ctx, "label", "node", "node1", "node-role.kubernetes.io/control-plane=")
	Expect(cluster.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lvms-scheduler-tls"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate.Certificate, corev1.TLSPrivateKeyKey: certificate.Key},
	})).To(Succeed())
	Expect(cluster.InstallFrom(ctx, "config/scheduler-https", image)).To(Succeed())
	cluster.Run(ctx, "-n", namespace, "rollout", "status", "daemonset/lvms-scheduler", story.Timeout)
	Expect(cluster.Run(ctx, "-n", namespace, "get", "pods", "-l", "app.kubernetes.io/name=lvms-scheduler", "-o",
		"jsonpath={.items[*].spec.nodeName}")).To(Equal("node1"))
}

func registersTheWebhook(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster.InstallFrom(ctx, "config/pod-webhook", image)).To(Succeed())
	cluster.Run(ctx, "-n", namespace, "set", "env", "deployment/lvms-operator", "POD_WEBHOOK=true")
	cluster.Run(ctx, "-n", namespace, "rollout", "status", "deployment/lvms-operator", story.Timeout)
	Eventually(func() error {
		return cluster.Get(ctx, client.ObjectKey{Name: "lvms-pod-webhook"}, &admissionv1.MutatingWebhookConfiguration{})
	}).WithContext(ctx).Should(Succeed())
	Expect(cluster.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
}

// capacityOf returns the capacity of a node in bytes.
func capacityOf(ctx context.Context, node string) int64 {
	GinkgoHelper()
	text := cluster.Run(ctx, "get", "node", node, "-o", `jsonpath={.metadata.annotations.capacity\.topolvm\.io/thick}`)
	bytes, err := strconv.ParseInt(text, 10, 64)
	Expect(err).NotTo(HaveOccurred())
	return bytes
}

// claim creates a claim in the namespace default.
func claim(ctx context.Context, name, size string) {
	GinkgoHelper()
	Expect(cluster.Claim(ctx, story.Volume{Namespace: "default", Name: name, Class: "lvms-thick",
		Size: size})).To(Succeed())
}

// startPod creates a Pod in the namespace default that uses claims.
func startPod(ctx context.Context, name string, claims ...string) {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: cluster.Lab.Registry() + "/busybox:1",
			Command: []string{"/bin/sh", "-c", "trap exit TERM; sleep 86400 & wait"}}}}}
	for i, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: claim, MountPath: fmt.Sprint("/data", i)})
	}
	Expect(cluster.Create(ctx, pod)).To(Succeed())
}

func nodeOf(ctx context.Context, pod string) string {
	GinkgoHelper()
	return cluster.Run(ctx, "get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")
}

// placesTwoClaims leaves 3 GiB on a node, on which each of two claims of 1900 MiB fits, but not both.
// CSIStorageCapacity cannot express this. The other node has almost 4 GiB.
func placesTwoClaims(ctx context.Context) {
	GinkgoHelper()
	claim(ctx, "first", "1Gi")
	startPod(ctx, "first", "first")
	Expect(cluster.WaitRunning(ctx, "default", "first")).To(Succeed())
	used := nodeOf(ctx, "first")
	Eventually(func() int64 { return capacityOf(ctx, used) }).WithContext(ctx).Should(BeNumerically("<=", 3*lab.GiB))

	claim(ctx, "a", "1900Mi")
	claim(ctx, "b", "1900Mi")
	startPod(ctx, "both", "a", "b")
	pod := &corev1.Pod{}
	Expect(cluster.Get(ctx, client.ObjectKey{Namespace: "default", Name: "both"}, pod)).To(Succeed())
	Expect(pod.Annotations).To(HaveKeyWithValue("capacity.topolvm.io/thick", strconv.Itoa(3800<<20)))
	Expect(pod.Spec.Containers[0].Resources.Requests).To(HaveKey(corev1.ResourceName("topolvm.io/capacity")))
	Expect(cluster.WaitRunning(ctx, "default", "both")).To(Succeed())
	Expect(nodeOf(ctx, "both")).NotTo(Equal(used))
}

// saysWhy creates two claims that fit on no node together, although each fits on the node of the first Pod.
func saysWhy(ctx context.Context) {
	GinkgoHelper()
	claim(ctx, "c", "1900Mi")
	claim(ctx, "d", "1900Mi")
	startPod(ctx, "neither", "c", "d")
	Eventually(func() string {
		return cluster.Run(ctx, "get", "events", "--field-selector",
			"involvedObject.name=neither,reason=FailedScheduling",
			"-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
	}).WithContext(ctx).Should(ContainSubstring("out of VG free space"))
	Expect(cluster.Run(ctx, "get", "pod", "neither", "-o", "jsonpath={.status.phase}")).To(Equal("Pending"))
	Expect(strings.Fields(cluster.Run(ctx, "get", "pvc", "c", "d", "-o", "jsonpath={.items[*].status.phase}"))).To(
		HaveEach("Pending"))
	cluster.Run(ctx, "delete", "pod", "neither", "--wait=true")
	cluster.Run(ctx, "delete", "pvc", "c", "d")
}

// isTurnedOff deletes the ClusterRole first: it owns the registration of the webhook, which is still on.
func isTurnedOff(ctx context.Context) {
	GinkgoHelper()
	root, err := lab.Root()
	Expect(err).NotTo(HaveOccurred())
	cluster.Run(ctx, "delete", "-k", filepath.Join(root, "config/pod-webhook"))
	Eventually(func() bool {
		return apierrors.IsNotFound(cluster.Get(ctx, client.ObjectKey{Name: "lvms-pod-webhook"},
			&admissionv1.MutatingWebhookConfiguration{}))
	}).WithContext(ctx).Should(BeTrue())
	cluster.Run(ctx, "-n", namespace, "set", "env", "deployment/lvms-operator", "POD_WEBHOOK-")
	cluster.Run(ctx, "-n", namespace, "rollout", "status", "deployment/lvms-operator", story.Timeout)
	claim(ctx, "e", "100Mi")
	startPod(ctx, "unmarked", "e")
	Expect(cluster.Run(ctx, "get", "pod", "unmarked", "-o", "jsonpath={.metadata.annotations}")).To(BeEmpty())
	Expect(cluster.WaitRunning(ctx, "default", "unmarked")).To(Succeed())
	cluster.Run(ctx, "delete", "-k", filepath.Join(root, "config/scheduler"))
}

//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// A cluster with OpenShift's APIs, of a single node, and without the snapshot APIs.
var _ = Describe("LVM Storage on an OpenShift-like cluster", Ordered, func() {
	var openshift *story.Cluster
	removeCluster := func(ctx SpecContext) {
		GinkgoHelper()
		lvmCluster := &lvmv1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: story.OperatorNamespace, Name: "my-lvmcluster"}}
		Expect(openshift.Remove(ctx, lvmCluster, 3*time.Minute)).To(Succeed())
		scc := &metav1.PartialObjectMetadata{}
		scc.SetGroupVersionKind(schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"})
		Expect(apierrors.IsNotFound(openshift.Get(ctx, client.ObjectKey{Name: "lvms-vgmanager"}, scc))).To(BeTrue())
		Expect(apierrors.IsNotFound(openshift.Get(ctx, client.ObjectKey{Namespace: "openshift-config-managed", Name: "lvms-dashboard"}, &corev1.ConfigMap{}))).To(BeTrue())
	}

	BeforeAll(func(ctx SpecContext) {
		l, err := lab.Up(ctx, lab.Options{
			Name: "e2e-openshift", Nodes: 1, OpenShift: true, Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}, Progress: GinkgoWriter,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			noteRights(l)
			Expect(l.Down(ctx)).To(Succeed())
		})
		openshift, err = story.Open(l)
		Expect(err).NotTo(HaveOccurred())
		// OpenShift has these from its installation.
		_, err = openshift.Kubectl(ctx, nil, "create", "namespace", "openshift-config-managed")
		Expect(err).NotTo(HaveOccurred())
		_, err = openshift.Kubectl(ctx, nil, "create", "priorityclass", "openshift-user-critical", "--value=1000000000")
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	It("takes over what upstream left, while a Pod writes", func(ctx SpecContext) {
		takesUpstreamOver(ctx, openshift)
		removeCluster(ctx)
		Expect(openshift.Uninstall(ctx, image)).To(Succeed())
	}, NodeTimeout(10*time.Minute))

	It("makes its SecurityContextConstraints, serves volumes and takes all away again", func(ctx SpecContext) {
		Expect(openshift.Install(ctx, image)).To(Succeed())
		Expect(openshift.ApplyFile(ctx, "config/samples/lvm_v1alpha1_lvmcluster.yaml")).To(Succeed())
		Expect(openshift.WaitReady(ctx, "my-lvmcluster")).To(Succeed())

		scc := &metav1.PartialObjectMetadata{}
		scc.SetGroupVersionKind(schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"})
		Expect(openshift.Get(ctx, client.ObjectKey{Name: "lvms-vgmanager"}, scc)).To(Succeed())

		dashboard := &corev1.ConfigMap{}
		Expect(openshift.Get(ctx, client.ObjectKey{Namespace: "openshift-config-managed", Name: "lvms-dashboard"}, dashboard)).To(Succeed())
		Expect(dashboard.Labels).To(HaveKeyWithValue("console.openshift.io/dashboard", "true"))

		v := story.Volume{Namespace: "default", Name: "data", Class: "lvms-vg1", Size: "512Mi"}
		Expect(openshift.Claim(ctx, v)).To(Succeed())
		Expect(openshift.StartPod(ctx, v, "data")).To(Succeed())
		Expect(openshift.Write(ctx, v, "data")).To(HaveLen(64))
	}, NodeTimeout(5*time.Minute))

	It("serves TLS by the cluster's profile, without a restart", func(ctx SpecContext) {
		followsTheProfile(ctx, openshift)
	}, NodeTimeout(3*time.Minute))

	It("is upgraded while a Pod writes", func(ctx SpecContext) {
		upgrades(ctx, openshift)
		removeCluster(ctx)
	}, NodeTimeout(6*time.Minute))
})

// followsTheProfile changes the TLS profile, and asks the webhook and the metrics of operator and agent with a client that has TLS 1.2 only.
func followsTheProfile(ctx SpecContext, openshift *story.Cluster) {
	GinkgoHelper()
	c := single{openshift}
	pods := func() map[string]string {
		GinkgoHelper()
		list := &corev1.PodList{}
		Expect(c.List(ctx, list, client.InNamespace(story.OperatorNamespace))).To(Succeed())
		restarts := map[string]string{}
		for _, pod := range list.Items {
			restarts[pod.Name] = fmt.Sprintf("%s %d", pod.Status.PodIP, pod.Status.ContainerStatuses[0].RestartCount)
		}
		return restarts
	}
	before := pods()
	accepts := func(version uint16) func() map[string]bool {
		return func() map[string]bool {
			accepted := map[string]bool{}
			list := &corev1.PodList{}
			Expect(c.List(ctx, list, client.InNamespace(story.OperatorNamespace))).To(Succeed())
			for _, pod := range list.Items {
				for _, port := range pod.Spec.Containers[0].Ports {
					if port.Name != "healthz" {
						accepted[pod.Labels["app.kubernetes.io/name"]+" "+port.Name] = shakesHands(ctx, openshift.Lab, fmt.Sprintf("%s:%d", pod.Status.PodIP, port.ContainerPort), version)
					}
				}
			}
			return accepted
		}
	}
	all := map[string]bool{"lvms-operator webhook": true, "lvms-operator metrics": true, "vg-manager metrics": true}
	none := map[string]bool{"lvms-operator webhook": false, "lvms-operator metrics": false, "vg-manager metrics": false}
	Eventually(accepts(tls.VersionTLS12)).WithContext(ctx).WithTimeout(30 * time.Second).Should(Equal(all))
	c.kubectl(ctx, "{apiVersion: config.openshift.io/v1, kind: APIServer, metadata: {name: cluster}, spec: {tlsSecurityProfile: {type: Modern, modern: {}}}}", "apply", "-f", "-")
	Eventually(accepts(tls.VersionTLS12)).WithContext(ctx).WithTimeout(30 * time.Second).Should(Equal(none))
	Expect(accepts(tls.VersionTLS13)()).To(Equal(all))
	c.kubectl(ctx, "", "delete", "apiserver.config.openshift.io", "cluster")
	Expect(pods()).To(Equal(before), "nothing was restarted")
}

func shakesHands(ctx context.Context, l *lab.Lab, address string, version uint16) bool {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	raw, err := l.Dial(ctx, "tcp", address)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = raw.Close() }()
	return tls.Client(raw, &tls.Config{InsecureSkipVerify: true, MaxVersion: version}).HandshakeContext(ctx) == nil
}

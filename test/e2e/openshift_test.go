//go:build e2e

package e2e

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
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
	}

	BeforeAll(func(ctx SpecContext) {
		l, err := lab.Up(ctx, lab.Options{
			Name: "e2e-openshift", Nodes: 1, OpenShift: true, Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}, Progress: GinkgoWriter,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { Expect(l.Down(ctx)).To(Succeed()) })
		openshift, err = story.Open(l)
		Expect(err).NotTo(HaveOccurred())
		// OpenShift has this class from its installation.
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

		v := story.Volume{Namespace: "default", Name: "data", Class: "lvms-vg1", Size: "512Mi"}
		Expect(openshift.Claim(ctx, v)).To(Succeed())
		Expect(openshift.StartPod(ctx, v, "data")).To(Succeed())
		Expect(openshift.Write(ctx, v, "data")).To(HaveLen(64))
	}, NodeTimeout(5*time.Minute))

	It("is upgraded while a Pod writes", func(ctx SpecContext) {
		upgrades(ctx, openshift)
		removeCluster(ctx)
	}, NodeTimeout(6*time.Minute))
})

//go:build e2e

package openshift

import (
	"context"
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/story"
	"github.com/lvm-storage/lvm-operator/test/upstream"
)

// upgradeVolume is the claim of "makes its SecurityContextConstraints…".
var upgradeVolume = story.Volume{Namespace: "default", Name: "data", Class: "lvms-vg1", Size: "512Mi"}

// upgrades changes the operator's image, like OLM. There is no earlier release, so both images are this version.
func upgrades(ctx SpecContext, c suite.Cluster) {
	GinkgoHelper()
	sum, err := c.Checksum(ctx, upgradeVolume, "data")
	Expect(err).NotTo(HaveOccurred())
	Expect(c.StopPod(ctx, "default", "data")).To(Succeed())
	c.StartWriting(ctx, upgradeVolume.Name)
	before := c.OnNode1(ctx, "lvm vgs --noheadings --options vg_uuid,vg_seqno vg1")

	next, err := c.Lab.LoadImage(ctx, image, c.Lab.Registry()+"/lvms-operator:next")
	Expect(err).NotTo(HaveOccurred())
	c.Run(ctx, "-n", story.OperatorNamespace, "set", "image", "deployment/lvms-operator", "manager="+next)
	c.Run(ctx, "-n", story.OperatorNamespace, "rollout", "status", "deployment/lvms-operator", "--timeout=120s")
	agents := &appsv1.DaemonSet{}
	Eventually(func() bool {
		Expect(c.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: "vg-manager"},
			agents)).To(Succeed())
		status := agents.Status
		return agents.Spec.Template.Spec.Containers[0].Image == next &&
			status.ObservedGeneration == agents.Generation &&
			status.UpdatedNumberScheduled == 1 && status.NumberReady == 1
	}).WithContext(ctx).Should(BeTrue(), "the agent follows")
	Expect(c.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
	c.StillWrites(ctx)
	Expect(c.OnNode1(ctx, "lvm vgs --noheadings --options vg_uuid,vg_seqno vg1")).To(Equal(before),
		"nothing of the volume group was written")

	Expect(c.StopPod(ctx, "default", "writer")).To(Succeed())
	Expect(c.StartPod(ctx, upgradeVolume, "after")).To(Succeed())
	Expect(c.Checksum(ctx, upgradeVolume, "after")).To(Equal(sum))
	Expect(c.StopPod(ctx, "default", "after")).To(Succeed())
	Expect(c.Unclaim(ctx, upgradeVolume)).To(Succeed())
}

// leaveAsUpstream creates the objects and state of upstream LVMS: its CRDs and objects, the volume group and lvmd.yaml,
// and an agent with TopoLVM's own components.
func leaveAsUpstream(ctx context.Context, c suite.Cluster) {
	GinkgoHelper()
	archive := os.Getenv("LVMS_UPSTREAM_IMAGE")
	Expect(archive).NotTo(BeEmpty(),
		"LVMS_UPSTREAM_IMAGE names the archive of upstream's stand-in: run `make test-long ITEMS=e2e/`")
	agent, err := c.Lab.LoadImage(ctx, archive, c.Lab.Registry()+"/upstream:dev")
	Expect(err).NotTo(HaveOccurred())
	c.OnNode1(ctx, `set -e
lvm vgcreate --quiet vg1 --addtag @lvms /dev/ubdb
lvm lvcreate --quiet --extents 90%FREE --zero y --thin --chunksize 128k vg1/thin-pool-1
mkdir -p /etc/topolvm
cat >/etc/topolvm/lvmd.yaml <<EOF
device-classes:
- default: true
  name: vg1
  spare-gb: 0
  thin-pool: {name: thin-pool-1, overprovision-ratio: 10}
  type: thin
  volume-group: vg1
socket-name: /run/lvmd/lvmd.socket
EOF
chmod 600 /etc/topolvm/lvmd.yaml`)
	ns := c.InstallNamespace()
	Expect(c.ApplyManifest(ctx, upstream.CRDs)).To(Succeed())
	c.Run(ctx, "wait", "--for=condition=Established", story.Timeout, "crd/lvmclusters.lvm.topolvm.io",
		"crd/logicalvolumes.topolvm.io")
	c.Run(ctx, "create", "namespace", ns)
	c.Run(ctx, "create", "serviceaccount", "-n", ns, "vg-manager")
	c.Run(ctx, "create", "clusterrolebinding", "upstream", "--clusterrole=cluster-admin",
		"--serviceaccount="+ns+":vg-manager")
	c.Run(ctx, "create", "secret", "generic", "-n", ns, "vg-manager-metrics-cert")
	objects, err := upstream.Objects(upstream.Options{Namespace: ns, Node: "node1", Disk: "/dev/ubdb", Image: agent})
	Expect(err).NotTo(HaveOccurred())
	var owner metav1.OwnerReference
	for _, object := range objects {
		if kind := object.GetKind(); kind == "DaemonSet" || kind == "LVMVolumeGroup" ||
			kind == "LVMVolumeGroupNodeStatus" {
			object.SetOwnerReferences([]metav1.OwnerReference{owner})
		}
		Expect(c.Create(ctx, object, client.FieldOwner(upstream.FieldManager))).To(Succeed())
		if object.GetKind() == "LVMCluster" {
			yes := true
			owner = metav1.OwnerReference{APIVersion: object.GetAPIVersion(), Kind: "LVMCluster",
				Name: object.GetName(), UID: object.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes}
		}
	}
	c.Run(ctx, "annotate", "--overwrite", "node", "node1", "capacity.topolvm.io/vg1=1000000000",
		"capacity.topolvm.io/00default=1000000000")
	c.Run(ctx, "-n", ns, "rollout", "status", "daemonset/vg-manager", "--timeout=120s")
	Eventually(func() []storagev1.CSINodeDriver {
		node := &storagev1.CSINode{}
		Expect(c.Get(ctx, client.ObjectKey{Name: "node1"}, node)).To(Succeed())
		return node.Spec.Drivers
	}).WithContext(ctx).Should(HaveLen(1))
}

// volumeOfUpstream creates a volume like upstream's controller and provisioner, bound to a claim.
func volumeOfUpstream(ctx context.Context, c suite.Cluster, v story.Volume) {
	GinkgoHelper()
	name := "pvc-" + v.Name
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"app.kubernetes.io/created-by": "topolvm-controller"}}}
	c.RunWith(ctx,
		fmt.Sprintf(
			`{apiVersion: topolvm.io/v1, kind: LogicalVolume, metadata: {name: %s, labels: {app.kubernetes.io/created-by: topolvm-controller}},
  spec: {name: %s, nodeName: node1, deviceClass: vg1, size: %s}}`, name, name, v.Size), "create", "-f", "-",
		"--field-manager="+upstream.FieldManager)
	Eventually(func() string {
		Expect(c.Get(ctx, client.ObjectKeyFromObject(lv), lv)).To(Succeed())
		return lv.Status.VolumeID
	}).WithContext(ctx).ShouldNot(BeEmpty(), "TopoLVM makes the logical volume")
	mode := corev1.PersistentVolumeFilesystem
	fsType := "xfs"
	if v.Block {
		mode = corev1.PersistentVolumeBlock
		fsType = ""
	}
	Expect(c.Claim(ctx, v)).To(Succeed())
	claim := &corev1.PersistentVolumeClaim{}
	Expect(c.Get(ctx, client.ObjectKey{Namespace: v.Namespace, Name: v.Name}, claim)).To(Succeed())
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "topolvm.io"}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, VolumeMode: &mode,
			StorageClassName:              v.Class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: v.Namespace, Name: v.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "topolvm.io", VolumeHandle: lv.Status.VolumeID, FSType: fsType,
				VolumeAttributes: map[string]string{"storage.kubernetes.io/csiProvisionerIdentity": "1-topolvm.io"}}},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "topology.topolvm.io/node",
						Operator: corev1.NodeSelectorOpIn, Values: []string{"node1"}}}}}}},
		},
	}
	Expect(c.Create(ctx, pv)).To(Succeed())
}

// takesUpstreamOver installs the operator on a cluster with the objects of upstream, in their namespace.
func takesUpstreamOver(ctx SpecContext, c suite.Cluster) {
	GinkgoHelper()
	leaveAsUpstream(ctx, c)
	files := story.Volume{Namespace: "default", Name: "files", Class: "lvms-vg1", Size: "512Mi"}
	written := story.Volume{Namespace: "default", Name: "written", Class: "lvms-vg1", Size: "512Mi"}
	block := story.Volume{Namespace: "default", Name: "block", Class: "lvms-vg1", Size: "256Mi", Block: true}
	sums := map[string]string{}
	for _, v := range []story.Volume{files, block} {
		volumeOfUpstream(ctx, c, v)
		Expect(c.StartPod(ctx, v, v.Name)).To(Succeed())
		sum, err := c.Write(ctx, v, v.Name)
		Expect(err).NotTo(HaveOccurred())
		sums[v.Name] = sum
	}
	volumeOfUpstream(ctx, c, written)
	c.StartWriting(ctx, written.Name)
	group := c.OnNode1(ctx, "lvm vgs --noheadings --options vg_uuid vg1")
	volumes := c.OnNode1(ctx, "lvm lvs --noheadings --options lv_name,lv_uuid,lv_size vg1")

	By("installing the operator over it")
	Expect(c.Install(ctx, image)).To(Succeed())
	c.Run(ctx, "delete", "clusterrolebinding", "upstream")
	Expect(c.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
	c.StillWrites(ctx)
	Expect(c.OnNode1(ctx, "lvm vgs --noheadings --options vg_uuid vg1")).To(Equal(group))
	Expect(c.OnNode1(ctx, "lvm lvs --noheadings --options lv_name,lv_uuid,lv_size vg1")).To(Equal(volumes))
	id := c.Run(ctx, "get", "clusterversion", "version", "-o", "jsonpath={.spec.clusterID}")
	Expect(id).NotTo(BeEmpty())
	Expect(c.OnNode1(ctx, "lvm vgs --noheadings --options vg_tags vg1")).To(And(ContainSubstring("lvms.cluster="+id),
		ContainSubstring("lvms.class=vg1"), ContainSubstring("lvms.node=node1")))
	agents := &appsv1.DaemonSet{}
	Expect(c.Get(ctx, client.ObjectKey{Namespace: c.InstallNamespace(), Name: "vg-manager"}, agents)).To(Succeed())
	for _, volume := range agents.Spec.Template.Spec.Volumes {
		Expect(volume.Name).NotTo(Equal("metrics-cert"), "a volume that only upstream's agent had")
	}
	reclaim := &storagev1.StorageClass{}
	Expect(c.Get(ctx, client.ObjectKey{Name: "lvms-vg1"}, reclaim)).To(Succeed())
	Expect(*reclaim.ReclaimPolicy).To(Equal(corev1.PersistentVolumeReclaimRetain))

	By("expanding a volume that upstream has mounted")
	size, err := c.Expand(ctx, files, files.Name, "768Mi")
	Expect(err).NotTo(HaveOccurred())
	Expect(size).To(BeNumerically(">", 600<<20))

	By("moving the volumes to other Pods")
	for _, v := range []story.Volume{files, block} {
		Expect(c.Checksum(ctx, v, v.Name)).To(Equal(sums[v.Name]))
		Expect(c.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
		Expect(c.StartPod(ctx, v, v.Name+"-again")).To(Succeed())
		Expect(c.Checksum(ctx, v, v.Name+"-again")).To(Equal(sums[v.Name]))
		Expect(c.StopPod(ctx, v.Namespace, v.Name+"-again")).To(Succeed())
	}
	c.StillWrites(ctx)
	Expect(c.StopPod(ctx, "default", "writer")).To(Succeed())
	// The kubelet lets the Pod go once its own mount is gone, and unmounts the device's after that.
	Eventually(func() string { return c.OnNode1(ctx, "grep -c topolvm.io /proc/mounts || true") }).
		WithContext(ctx).Should(Equal("0"), "no mount is left")

	By("deleting them")
	for _, v := range []story.Volume{files, block, written} {
		Expect(c.Unclaim(ctx, v)).To(Succeed())
	}
	Eventually(func() string { return c.OnNode1(ctx, "lvm lvs --noheadings --options lv_name vg1") }).WithContext(ctx).
		Should(Equal("thin-pool-1"))
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	Expect(c.Get(ctx, client.ObjectKey{Namespace: c.InstallNamespace(), Name: "node1"}, status)).To(Succeed())
	Expect(status.Status.NodeStatus).To(HaveLen(1))
}

//go:build e2e

package components

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	// classFile is where MicroShift writes the device classes.
	classFile = "/var/lib/microshift/lvms/lvmd.yaml"
	// ownClasses are the default device classes of MicroShift, with less spare space.
	ownClasses = "socket-name: /run/topolvm/lvmd.socket\ndevice-classes:\n" +
		"- {name: default, volume-group: rhel, default: true, spare-gb: 1}\n"
	thinClass = "- {name: thin, volume-group: rhel, type: thin, thin-pool: {name: pool, overprovision-ratio: 2}}\n"
)

// unmanaged is the LVMCluster in docs/how-to/other-distributions.md. The StorageClass is that of MicroShift.
const unmanaged = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: lvmcluster, namespace: openshift-lvm-storage}
spec: {storage: {}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: topolvm-provisioner}
provisioner: topolvm.io
parameters: {csi.storage.k8s.io/fstype: xfs}
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: topolvm-thin}
provisioner: topolvm.io
parameters: {csi.storage.k8s.io/fstype: xfs, topolvm.io/device-class: thin}
volumeBindingMode: WaitForFirstConsumer
`

var _ = Describe("LVM Storage with the device classes of MicroShift", Label("microshift"), Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		image = suite.Archive("LVMS_IMAGE")
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-microshift", Disks: []lab.DiskSpec{{Size: 4 * lab.GiB},
			{Size: 400 * lab.MiB}, {Size: 400 * lab.MiB}}})
		cluster.Run(ctx, "-n", "kube-public", "create", "configmap", "microshift-version", "--from-literal=version=4.20.0")
		cluster.OnNode1(ctx, "vgcreate rhel /dev/ubdb && lvcreate --yes -L 512M -n root rhel && "+
			"lvcreate --yes --type thin-pool -L 512M -n pool rhel")
		writeClasses(ctx, ownClasses)
		Expect(cluster.Install(ctx, image)).To(Succeed())
		Expect(cluster.ApplyManifest(ctx, unmanaged)).To(Succeed())
	}, NodeTimeout(20*time.Minute))

	It("uses the file as it is, follows its changes, and changes nothing but volumes of claims", func(ctx SpecContext) {
		servesTheFile(ctx)
	}, NodeTimeout(20*time.Minute))

	It("restores the label of a device of its own volume group with LVM of the node", func(ctx SpecContext) {
		restoresALabel(ctx)
	}, NodeTimeout(20*time.Minute))
})

// managed adds a volume group of the operator's to the LVMCluster.
const managed = `{"spec":{"storage":{"deviceClasses":[{"name":"own","fstype":"ext4",` +
	`"deviceSelector":{"paths":["/dev/ubdc","/dev/ubdd"]}}]}}}`

// restoresALabel needs files that both the agent and LVM of the node read and write: the directory of the agent has the
// same path in both.
func restoresALabel(ctx context.Context) {
	GinkgoHelper()
	writeClasses(ctx, ownClasses)
	cluster.Run(ctx, "patch", "lvmcluster", "lvmcluster", "-n", namespace, "--type=merge", "-p", managed)
	Expect(cluster.WaitReady(ctx, "lvmcluster")).To(Succeed())
	v := story.Volume{Namespace: "default", Name: "own", Class: "lvms-own", Size: "256Mi"}
	sum := startsAndWrites(ctx, v)
	const labels = "pvs --noheadings -o pv_name,pv_uuid --select vg_name=own"
	before := cluster.OnNode1(ctx, labels)
	cluster.OnNode1(ctx, "wipefs --all --force /dev/ubdd")

	recovery := func(path string) func(context.Context) string {
		return func(ctx context.Context) string {
			return cluster.Run(ctx, "get", "lvmrecovery", "label", "-n", namespace, "-o", "jsonpath="+path)
		}
	}
	phase := recovery("{.status.phase}")
	Expect(cluster.ApplyManifest(ctx, `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMRecovery
metadata: {name: label, namespace: openshift-lvm-storage}
spec: {nodeName: node1, deviceClassName: own, action: RestoreLabels}
`)).To(Succeed())
	Eventually(phase).WithContext(ctx).WithPolling(time.Second).Should(Equal("AwaitingApproval"))
	cluster.Run(ctx, "patch", "lvmrecovery", "label", "-n", namespace, "--type=merge", "-p",
		`{"spec":{"approvedPlan":"`+recovery("{.status.plan.id}")(ctx)+`"}}`)
	Eventually(phase).WithContext(ctx).WithPolling(time.Second).Should(Equal("Succeeded"))
	Expect(cluster.OnNode1(ctx, labels)).To(Equal(before))
	Expect(cluster.Checksum(ctx, v, v.Name)).To(Equal(sum))
	Expect(cluster.OnNode1(ctx, "ls -d /etc/topolvm 2>/dev/null || true")).To(BeEmpty(), "another directory")
}

func writeClasses(ctx context.Context, text string) {
	GinkgoHelper()
	cluster.OnNode1(ctx, fmt.Sprintf("mkdir -p %s && printf %%b '%s' >%s", strings.TrimSuffix(classFile, "/lvmd.yaml"),
		strings.ReplaceAll(text, "\n", `\n`), classFile))
}

func servesTheFile(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() (string, error) {
		object := &lvmv1alpha1.LVMCluster{}
		err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "lvmcluster"}, object)
		managed := meta.FindStatusCondition(object.Status.Conditions, lvmv1alpha1.ConditionVolumeGroupsReady)
		if err != nil || managed == nil {
			return "", err
		}
		return managed.Reason, nil
	}).WithContext(ctx).Should(Equal("VGsUnmanaged"))
	const state = "vgs --noheadings -o vg_uuid,vg_tags,pv_count rhel; lvs --noheadings -o lv_uuid,lv_tags rhel"
	before := cluster.OnNode1(ctx, state)

	first := story.Volume{Namespace: "default", Name: "first", Class: "topolvm-provisioner", Size: "512Mi"}
	sum := startsAndWrites(ctx, first)
	size, err := cluster.Expand(ctx, first, first.Name, "768Mi")
	Expect(err).NotTo(HaveOccurred())
	Expect(size).To(BeNumerically(">", 600<<20))

	By("adding a device class to the file")
	writeClasses(ctx, ownClasses+thinClass)
	small := story.Volume{Namespace: "default", Name: "thin", Class: "topolvm-thin", Size: "256Mi", Block: true}
	startsAndWrites(ctx, small)
	Expect(cluster.OnNode1(ctx, "lvs --noheadings -o lv_size --select pool_lv=pool rhel")).To(ContainSubstring("256"))

	By("writing a file that is not valid")
	writeClasses(ctx, ownClasses+"- {name: thin}\n")
	Eventually(func() string {
		return cluster.Run(ctx, "-n", namespace, "logs", "daemonset/vg-manager")
	}).WithContext(ctx).WithPolling(2 * time.Second).Should(
		ContainSubstring("the device classes that were read before stay"))
	startsAndWrites(ctx, story.Volume{Namespace: "default", Name: "other", Class: "topolvm-provisioner", Size: "256Mi"})
	Expect(cluster.Checksum(ctx, first, first.Name)).To(Equal(sum))
	Expect(cluster.OnNode1(ctx, "cat "+classFile)).To(Equal(strings.TrimSpace(ownClasses + "- {name: thin}\n")))

	By("deleting the claims")
	for _, name := range []string{"first", "thin", "other"} {
		v := story.Volume{Namespace: "default", Name: name}
		Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
		Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	}
	Eventually(cluster.OnNode1).WithArguments(ctx, state).WithPolling(2*time.Second).Should(
		Equal(before), "the volume group, and the volume of the host")
}

// startsAndWrites creates a claim and a Pod with the same name, and returns the checksum of what the Pod writes.
func startsAndWrites(ctx context.Context, v story.Volume) string {
	GinkgoHelper()
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	sum, err := cluster.Write(ctx, v, v.Name)
	Expect(err).NotTo(HaveOccurred())
	return sum
}

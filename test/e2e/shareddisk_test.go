//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// lunSize is the size of the LUN, in bytes. No other disk of the nodes has it.
const lunSize = 1 * lab.GiB

// leavesASharedDiskAlone has a LUN that both nodes see.
func leavesASharedDiskAlone(ctx SpecContext) {
	lun := map[string]lab.Disk{"node1": attachLUN(ctx, "node1"), "node2": attachLUN(ctx, "node2")}
	wwn := lun["node1"].WWN
	Expect(lun["node2"].WWN).To(Equal(wwn))
	for node := range lun {
		Eventually(idsOn(node)).WithContext(ctx).Should(ContainElement("wwn:"+wwn), "devices of %s", node)
	}

	By("naming it for both nodes")
	patch := fmt.Sprintf(`[{"op":"add","path":"/spec/storage/deviceClasses/-","value":{"name":"san",`+
		`"deviceSelector":{"paths":["/dev/disk/by-id/wwn-%s"]}}}]`, wwn)
	_, err := cluster.Kubectl(ctx, nil, "-n", story.OperatorNamespace, "patch", "lvmcluster", clusterName, "--type",
		"json", "--patch", patch)
	Expect(err).To(MatchError(And(ContainSubstring("names one disk on several nodes"), ContainSubstring(wwn),
		ContainSubstring("node1 ("+lun["node1"].Device+")"), ContainSubstring("node2 ("+lun["node2"].Device+")"))))

	By("selecting it by its size, which admission does not compare")
	change(ctx, func(storage *lvmv1alpha1.Storage) {
		storage.DeviceClasses = append(storage.DeviceClasses, lvmv1alpha1.DeviceClass{
			Name: "san", DeviceSelector: &lvmv1alpha1.DeviceSelector{
				MinSize: resource.NewQuantity(lunSize, resource.BinarySI),
				MaxSize: resource.NewQuantity(lunSize, resource.BinarySI),
			},
		})
	})
	for node, other := range map[string]string{"node1": "node2", "node2": "node1"} {
		Expect(waitStatus(ctx, "san", node, lvmv1alpha1.VGStatusFailed).Reason).To(ContainSubstring("see excluded"))
		Eventually(func() []lvmv1alpha1.ExcludedDevice {
			return waitStatus(ctx, "san", node, lvmv1alpha1.VGStatusFailed).Excluded
		}).WithContext(ctx).Should(ContainElement(And(HaveField("Name", lun[node].Device),
			HaveField("Reasons", ContainElement(And(HavePrefix("SharedWithNode: "),
				ContainSubstring(other+" ("+lun[other].Device+")")))))))
		Expect(cluster.OnNode(ctx, node, "wipefs", "--no-act", lun[node].Device)).To(BeEmpty())
	}

	By("presenting it to one node only")
	removeDisk(ctx, "node2", "lun")
	waitStatus(ctx, "san", "node1", lvmv1alpha1.VGStatusReady)
	Expect(groups(ctx, "node1")).To(ContainElement("san"))
	v := story.Volume{Namespace: namespace, Name: "on-a-lun", Class: "lvms-san", Size: "256Mi"}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, "san")).To(Succeed())
	sum, err := cluster.Write(ctx, v, "san")
	Expect(err).NotTo(HaveOccurred())

	By("presenting it to the other node again")
	attachLUN(ctx, "node2")
	reason := func(ctx context.Context) string {
		return waitStatus(ctx, "san", "node2", lvmv1alpha1.VGStatusFailed).Reason
	}
	Eventually(reason).WithContext(ctx).Should(ContainSubstring("VGMoved"))
	waitStatus(ctx, "san", "node1", lvmv1alpha1.VGStatusReady)
	cluster.OnNode(ctx, "node2", "vgchange", "--activate", "y", "san")
	Eventually(reason).WithContext(ctx).Should(And(ContainSubstring("are active on node node2"),
		ContainSubstring("vgchange -an san")))
	cluster.OnNode(ctx, "node2", "vgchange", "-an", "san")
	Eventually(reason).WithContext(ctx).ShouldNot(ContainSubstring("are active on node node2"))
	Expect(cluster.Checksum(ctx, v, "san")).To(Equal(sum))

	By("removing everything")
	removeDisk(ctx, "node2", "lun")
	Expect(cluster.StopPod(ctx, namespace, "san")).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
	removeClass(ctx, "san")
	Expect(cluster.WaitReady(ctx, clusterName)).To(Succeed())
	Expect(groups(ctx, "node1")).NotTo(ContainElement("san"))
	removeDisk(ctx, "node1", "lun")
}

// attachLUN attaches the LUN to a node.
func attachLUN(ctx context.Context, node string) lab.Disk {
	GinkgoHelper()
	n, err := cluster.Lab.Node(node)
	Expect(err).NotTo(HaveOccurred())
	disk, err := n.AddDisk(ctx, lab.DiskSpec{Name: "lun", Kind: lab.Shared, Size: lunSize})
	Expect(err).NotTo(HaveOccurred())
	return disk
}

// idsOn returns the identities of the devices that a node lists.
func idsOn(node string) func(context.Context) []string {
	return func(ctx context.Context) []string {
		return strings.Fields(cluster.Run(ctx, "-n", story.OperatorNamespace, "get", "lvmvgns", node, "-o",
			"jsonpath={.status.devices[*].id}"))
	}
}

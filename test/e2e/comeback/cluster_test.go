//go:build e2e

package comeback

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/permissions"
	"github.com/lvm-storage/lvm-operator/test/story"
)

func nodeOf(name string) *lab.Node {
	GinkgoHelper()
	node, err := cluster.Lab.Node(name)
	Expect(err).NotTo(HaveOccurred())
	return node
}

// dataDisk is the name of the disk of the device class in the lab.
const dataDisk = "data"

// addDisk adds the disk of the device class to a node.
func addDisk(ctx context.Context, node *lab.Node) {
	GinkgoHelper()
	added, err := node.AddDisk(ctx, lab.DiskSpec{Name: dataDisk, Size: diskSize})
	Expect(err).NotTo(HaveOccurred())
	Expect(added.Device).To(Equal(disk))
}

// takenDisk is a disk that no node has. Its content is in a file.
type takenDisk struct {
	disk lab.Disk
	file string
}

// takeDisk powers a node off, and takes the disk of the device class out.
func takeDisk(ctx context.Context, node *lab.Node) takenDisk {
	GinkgoHelper()
	Expect(node.PowerOff(ctx)).To(Succeed())
	// The file is on the file system of the labs, so that it is not copied.
	dir, err := os.MkdirTemp(filepath.Dir(cluster.Lab.State()), "moved-disk-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	file := filepath.Join(dir, "disk.img")
	taken, err := node.TakeDisk(ctx, dataDisk, file)
	Expect(err).NotTo(HaveOccurred())
	return takenDisk{taken, file}
}

func (d takenDisk) insert(ctx context.Context, node *lab.Node) {
	GinkgoHelper()
	inserted, err := node.InsertDisk(ctx, d.disk, d.file)
	Expect(err).NotTo(HaveOccurred())
	Expect(inserted.Device).To(Equal(disk))
}

// endCluster stops the cluster for good.
func endCluster(ctx context.Context) {
	GinkgoHelper()
	Expect(permissions.Record(cluster.Lab)).To(Succeed())
	Expect(cluster.Lab.Down(ctx)).To(Succeed())
}

// declare declares an identity of the cluster.
func declare(ctx context.Context, id string) {
	GinkgoHelper()
	cluster.Run(ctx, "-n", story.OperatorNamespace, "set", "env", "deployment/lvms-operator", "CLUSTER_ID="+id)
	cluster.Run(ctx, "-n", story.OperatorNamespace, "rollout", "status", "deployment/lvms-operator", story.Timeout)
}

// setClusterID sets the identity of an OpenShift cluster.
func setClusterID(ctx context.Context, id string) {
	GinkgoHelper()
	cluster.Run(ctx, "patch", "clusterversion", "version", "--type=merge",
		"--patch", fmt.Sprintf(`{"spec":{"clusterID":%q}}`, id))
}

// expectIdentity waits until the volume group on a node is tagged with an identity.
func expectIdentity(ctx context.Context, node, id string) {
	GinkgoHelper()
	Eventually(cluster.OnNode).WithArguments(ctx, node, "vgs", "--noheadings", "-o", "vg_tags", class).
		Should(ContainSubstring("lvms.cluster=" + id))
}

// adoptAll allows a device class to use all volume groups of a former cluster.
func adoptAll(ctx context.Context, id string) {
	GinkgoHelper()
	cluster.Run(ctx, "-n", story.OperatorNamespace, "patch", "lvmcluster", clusterName, "--type", "json", "--patch",
		fmt.Sprintf(`[{"op":"add","path":"/spec/storage/deviceClasses/0/adoptClusters","value":[%q]}]`, id))
}

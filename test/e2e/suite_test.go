//go:build e2e

// Package e2e tests the tasks of an administrator and of a user on a lab's cluster with real LVM.
package e2e

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/rights"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const diskSize = 4 * lab.GiB

var (
	cluster *story.Cluster
	// disks are the paths of the data disks, the same on both nodes.
	disks []string
	// hostGroups are the volume groups that each node has before the installation: the root of some flavors.
	hostGroups = map[string][]string{}
	image      = os.Getenv("LVMS_IMAGE")
)

func TestEndToEnd(t *testing.T) {
	suite.Run(t, "LVM Storage")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	Expect(image).NotTo(BeEmpty(), "LVMS_IMAGE names the archive of the operator's image: run `make test-e2e`")
	name := "e2e"
	flavor := os.Getenv("LVMS_TEST_FLAVOR")
	if flavor != "" {
		name += "-" + flavor
	}
	l, err := lab.Up(ctx, lab.Options{
		Name: name, Nodes: 2, Snapshots: true, Progress: GinkgoWriter, Flavor: flavor,
		Disks: []lab.DiskSpec{{Size: diskSize}, {Size: diskSize}, {Size: diskSize}},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(rights.Record(l)).To(Succeed())
		Expect(l.Down(ctx)).To(Succeed())
	})
	disks = dataDisks(ctx, l)
	cluster, err = story.Open(l)
	Expect(err).NotTo(HaveOccurred())
	for _, node := range l.Nodes() {
		hostGroups[node.Name()] = allGroups(ctx, node.Name())
	}
}, NodeTimeout(10*time.Minute))

var _ = JustAfterEach(func(ctx SpecContext) { suite.ReportFailure(ctx, cluster) }, NodeTimeout(2*time.Minute))

// dataDisks returns the paths of the requested disks, whose names may differ between host flavors.
func dataDisks(ctx context.Context, l *lab.Lab) []string {
	GinkgoHelper()
	var paths []string
	for _, node := range l.Nodes() {
		all, err := node.Disks(ctx)
		Expect(err).NotTo(HaveOccurred())
		var here []string
		for _, disk := range all {
			if disk.Size == diskSize {
				here = append(here, disk.Device)
			}
		}
		Expect(here).To(HaveLen(3), "data disks of %s", node.Name())
		if paths != nil {
			Expect(here).To(Equal(paths), "the classes name the disks of both nodes")
		}
		paths = here
	}
	return paths
}

// withDisks inserts the paths of the data disks.
func withDisks(text string) string {
	return strings.NewReplacer("DISK1", disks[0], "DISK2", disks[1], "DISK3", disks[2]).Replace(text)
}

// onNode runs a command on a node and returns what it prints.
func onNode(ctx context.Context, name string, args ...string) string {
	GinkgoHelper()
	node, err := cluster.Lab.Node(name)
	Expect(err).NotTo(HaveOccurred())
	result, err := node.Exec(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(result.Stdout)
}

func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := cluster.Kubectl(ctx, nil, args...)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(out)
}

// apply applies a manifest and returns kubectl's error, as a user sees it.
func apply(ctx context.Context, manifest string) error {
	_, err := cluster.Kubectl(ctx, strings.NewReader(manifest), "apply", "-f", "-")
	return err
}

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
)

const diskSize = 4 * lab.GiB

var (
	cluster suite.Cluster
	// disks are the paths of the data disks, the same on both nodes.
	disks []string
	// hostGroups are the volume groups that each node has before the installation: the root of some flavors.
	hostGroups = map[string][]string{}
	image      string
)

func TestEndToEnd(t *testing.T) {
	suite.Run(t, "LVM Storage")
}

func TestEachSpecIsInOneChapter(t *testing.T) {
	suite.Chapters(t, "core", "volumes", "sharing", "disks", "nodes")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	image = suite.Archive("LVMS_IMAGE")
	name := "e2e"
	flavor := os.Getenv("LVMS_TEST_FLAVOR")
	if flavor != "" {
		name += "-" + flavor
	}
	cluster = suite.UpAndRecord(ctx, lab.Options{
		Name: name, Nodes: 2, Snapshots: true, Flavor: flavor,
		Disks: []lab.DiskSpec{{Size: diskSize}, {Size: diskSize}, {Size: diskSize}},
	})
	disks = dataDisks(ctx, cluster.Lab)
	for _, node := range cluster.Lab.Nodes() {
		hostGroups[node.Name()] = allGroups(ctx, node.Name())
	}
	for node, zone := range map[string]string{"node1": "a", "node2": "b"} {
		cluster.Run(ctx, "label", "node", node, "zone="+zone)
	}
	cluster.Run(ctx, "create", "namespace", namespace)
}, NodeTimeout(20*time.Minute))

var _ = JustAfterEach(func(ctx SpecContext) { suite.ReportFailure(ctx, cluster.Cluster) }, NodeTimeout(4*time.Minute))

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

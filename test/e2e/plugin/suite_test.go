//go:build e2e

// Package plugin tests `kubectl lvms` on a cluster: an administrator reviews devices, creates a device class from them,
// maintains and repairs it, and uses no other program.
package plugin

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	namespace = "default"
	node      = "node1"
	class     = "vg1"
)

var (
	cluster suite.Cluster
	program string
)

func TestPlugin(t *testing.T) { suite.Run(t, "kubectl lvms") }

var _ = Describe("An administrator with kubectl lvms", Ordered, func() {
	var disks []string

	BeforeAll(func(ctx SpecContext) {
		program = suite.Archive("LVMS_PLUGIN")
		options := lab.Options{Name: "e2e-plugin"}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			options.Disks = append(options.Disks, lab.DiskSpec{Name: name, Kind: lab.SCSI, Size: 320 * lab.MiB})
		}
		cluster = suite.Up(ctx, options)
		Expect(cluster.Install(ctx, suite.Archive("LVMS_IMAGE"))).To(Succeed())
		// Without device classes, the node agents list the devices.
		succeeds(ctx, "init", "--yes")
		n, err := cluster.Lab.Node(node)
		Expect(err).NotTo(HaveOccurred())
		attached, err := n.Disks(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, disk := range attached {
			disks = append(disks, disk.Device)
		}
	}, NodeTimeout(20*time.Minute))

	It("creates a device class from a review", func(ctx SpecContext) {
		createsAClass(ctx, disks[:2])
	}, NodeTimeout(30*time.Minute))

	It("replaces a device by one that is approved", func(ctx SpecContext) {
		replaces(ctx, disks[2])
	}, NodeTimeout(20*time.Minute))

	It("checks a file system", func(ctx SpecContext) {
		checks(ctx)
	}, NodeTimeout(30*time.Minute))

	It("suspends a volume and a device, and resumes them", func(ctx SpecContext) {
		suspends(ctx)
	}, NodeTimeout(24*time.Minute))

	It("deletes an orphan by the ID of the plan", func(ctx SpecContext) {
		deletesAnOrphan(ctx)
	}, NodeTimeout(30*time.Minute))

	It("restores overwritten labels", func(ctx SpecContext) {
		restoresLabels(ctx)
	}, NodeTimeout(30*time.Minute))

	It("removes a device", func(ctx SpecContext) {
		removes(ctx)
	}, NodeTimeout(30*time.Minute))

	It("adopts a volume group of another cluster, and imports a volume", func(ctx SpecContext) {
		adopts(ctx, disks[3])
	}, NodeTimeout(30*time.Minute))

	It("trims a thin pool", func(ctx SpecContext) {
		trims(ctx, disks[4])
	}, NodeTimeout(30*time.Minute))

	It("forgets a lost device with its volumes", func(ctx SpecContext) {
		forgets(ctx)
	}, NodeTimeout(30*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get lvmcluster,lvmvgns,lvmrec,lvmdeviceapprovals -A -o yaml")
}, NodeTimeout(30*time.Minute))

// result is what a command printed, and its exit code.
type result struct {
	out, messages string
	code          int
}

// lvms runs kubectl lvms as the administrator, without a terminal.
func lvms(ctx context.Context, args ...string) result {
	GinkgoHelper()
	command, err := cluster.Lab.Command(ctx, program, args...)
	Expect(err).NotTo(HaveOccurred())
	var out, messages bytes.Buffer
	command.Stdout, command.Stderr = &out, &messages
	err = command.Run()
	exit := &exec.ExitError{}
	if !errors.As(err, &exit) {
		Expect(err).NotTo(HaveOccurred())
	}
	r := result{out: out.String(), messages: messages.String(), code: command.ProcessState.ExitCode()}
	GinkgoWriter.Printf("$ kubectl lvms %s\n%s%s(exit code %d)\n", strings.Join(args, " "), r.out, r.messages, r.code)
	return r
}

// succeeds runs kubectl lvms, which must succeed, and returns what it printed.
func succeeds(ctx context.Context, args ...string) string {
	GinkgoHelper()
	r := lvms(ctx, args...)
	Expect(r.code).To(BeZero(), "%s%s", r.out, r.messages)
	return r.out + r.messages
}

// isHealthy waits until kubectl lvms status finds no problem.
func isHealthy(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() string {
		r := lvms(ctx, "status")
		if r.code == 0 {
			return ""
		}
		return r.out + r.messages
	}).WithContext(ctx).WithPolling(2 * time.Second).Should(BeEmpty())
}

// devices returns the devices of the volume group.
func devices(ctx context.Context) []string {
	GinkgoHelper()
	return strings.Fields(cluster.OnNode(ctx, node, "vgs", "--noheadings", "-o", "pv_name", class))
}

// withData returns the device of the volume group that has data. All of the volume is on one device.
func withData(ctx context.Context) string {
	GinkgoHelper()
	names := strings.Fields(cluster.OnNode(ctx, node, "pvs", "--noheadings", "-o", "pv_name", "-S",
		"vg_name="+class+" && pv_used>0"))
	Expect(names).To(HaveLen(1))
	return names[0]
}

// reviewFile writes a review to a file and returns its path.
func reviewFile(review []byte) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "review.yaml")
	Expect(os.WriteFile(path, review, 0o600)).To(Succeed())
	return path
}

// data is the volume of the story.
var data = story.Volume{Namespace: namespace, Name: "data", Class: "lvms-" + class, Size: "300Mi"}

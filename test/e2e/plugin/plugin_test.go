//go:build e2e

package plugin

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/test/lab"
)

// sum is the checksum of the file in the volume of the story.
var sum string

// createsAClass selects disks in the review and creates a device class from it, in a volume of which a Pod writes.
func createsAClass(ctx context.Context, disks []string) {
	GinkgoHelper()
	Eventually(func() string { return lvms(ctx, "discover").out }).WithContext(ctx).
		WithPolling(2 * time.Second).Should(And(ContainSubstring(disks[0]), ContainSubstring(disks[1])))
	review := map[string]any{}
	Expect(yaml.Unmarshal([]byte(lvms(ctx, "discover").out), &review)).To(Succeed())
	selected := 0
	for _, entry := range review["devices"].([]any) {
		device := entry.(map[string]any)
		if name, ok := device["device"].(string); ok && slices.Contains(disks, name) {
			device["select"], selected = true, selected+1
		}
	}
	Expect(selected).To(Equal(len(disks)))
	edited, err := yaml.Marshal(review)
	Expect(err).NotTo(HaveOccurred())
	file := reviewFile(edited)

	Expect(lvms(ctx, "init", file, "--class", class).code).To(Equal(1), "it asks, and there is no terminal")
	Expect(cluster.Run(ctx, "get", "lvmdeviceapprovals", "-A", "-o", "name")).To(BeEmpty())
	succeeds(ctx, "init", file, "--class", class, "--default", "--yes")
	Expect(cluster.WaitReady(ctx, "my-lvmcluster")).To(Succeed())
	Expect(devices(ctx)).To(ConsistOf(disks))
	isHealthy(ctx)
	Expect(succeeds(ctx, "approve")).To(ContainSubstring("No device waits for an approval"))

	Expect(cluster.Claim(ctx, data)).To(Succeed())
	Expect(cluster.StartPod(ctx, data, "writer")).To(Succeed())
	sum, err = cluster.Write(ctx, data, "writer")
	Expect(err).NotTo(HaveOccurred())
	Expect(succeeds(ctx, "volumes", "--class", class)).To(MatchRegexp(`default/data +node1 +vg1 +300Mi +Ready`))
}

// replaces moves the data of a device to a new one, which waits for an approval.
func replaces(ctx context.Context, next string) {
	GinkgoHelper()
	previous := withData(ctx)
	args := []string{"replace", "--node", node, "--device", previous, "--with", next, "--yes"}
	succeeds(ctx, append(args, "--wait=false")...)
	Eventually(func() string { return lvms(ctx, "approve").out }).WithContext(ctx).
		WithPolling(2 * time.Second).Should(ContainSubstring(next))
	Expect(devices(ctx)).NotTo(ContainElement(next))
	succeeds(ctx, "approve", "--node", node, "--device", next, "--yes")
	succeeds(ctx, args...)
	Expect(devices(ctx)).To(And(ContainElement(next), Not(ContainElement(previous))))
	Expect(cluster.OnNode(ctx, node, "wipefs", "--no-act", previous)).To(BeEmpty(), "the device is blank")
	isUnchanged(ctx)
	isHealthy(ctx)
}

// isUnchanged reads the volume in its running Pod.
func isUnchanged(ctx context.Context) {
	GinkgoHelper()
	now, err := cluster.Checksum(ctx, data, "writer")
	Expect(err).NotTo(HaveOccurred())
	Expect(now).To(Equal(sum))
}

// checks the file system of the volume, when its Pod no longer runs.
func checks(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster.StopPod(ctx, namespace, "writer")).To(Succeed())
	Expect(succeeds(ctx, "check", "--claim", namespace+"/"+data.Name, "--yes")).To(ContainSubstring("no errors"))
	Expect(cluster.StartPod(ctx, data, "writer")).To(Succeed())
	isUnchanged(ctx)
}

// planID finds the ID in the message of a command that did not approve a plan.
var planID = regexp.MustCompile(`--approve-plan ([0-9a-f]+)`)

// approves runs a command that makes a plan which can lose data: first without the ID of the plan, then with it.
func approves(ctx context.Context, args ...string) {
	GinkgoHelper()
	args = append(args, "--yes")
	r := lvms(ctx, args...)
	Expect(r.code).To(Equal(4), "%s%s", r.out, r.messages)
	id := planID.FindStringSubmatch(r.out + r.messages)
	Expect(id).NotTo(BeNil(), "%s%s", r.out, r.messages)
	another := append(slices.Clone(args), "--approve-plan", strings.Repeat("0", len(id[1])))
	Expect(lvms(ctx, another...).code).To(Equal(4), "another plan is not approved")
	succeeds(ctx, append(args, "--approve-plan", id[1])...)
}

// deletesAnOrphan deletes a logical volume that no object has.
func deletesAnOrphan(ctx context.Context) {
	GinkgoHelper()
	cluster.OnNode(ctx, node, "lvcreate", "--yes", "--name", "left", "--size", "16m", "--addtag", "lvms.pvc=shop/old",
		class)
	// The node agent compares volumes and objects once a minute, and reports an orphan when it was one for 30 seconds.
	Eventually(func() string { return lvms(ctx, "orphans").out }).WithContext(ctx).
		WithPolling(2 * time.Second).Should(ContainSubstring("left"))
	approves(ctx, "orphans", "delete", "--node", node, "--class", class, "--volume", "left")
	Expect(cluster.OnNode(ctx, node, "lvs", "--noheadings", "-o", "lv_name", class)).NotTo(ContainSubstring("left"))
	isUnchanged(ctx)
	isHealthy(ctx)
}

// restoresLabels writes the label of a device again that somebody has wiped.
func restoresLabels(ctx context.Context) {
	GinkgoHelper()
	disk := withData(ctx)
	cluster.OnNode(ctx, node, "wipefs", "--all", "--force", disk)
	Eventually(func() string { return lvms(ctx, "status").out }).WithContext(ctx).
		WithPolling(2 * time.Second).Should(And(ContainSubstring(disk), ContainSubstring("kubectl lvms restore-labels"),
		Not(ContainSubstring("kubectl lvms forget"))))
	succeeds(ctx, "restore-labels", "--node", node, "--class", class, "--yes")
	Expect(devices(ctx)).To(ContainElement(disk))
	isUnchanged(ctx)
	isHealthy(ctx)
}

// removes the device with the data, which is moved to the other one.
func removes(ctx context.Context) {
	GinkgoHelper()
	disk := withData(ctx)
	succeeds(ctx, "remove", "--node", node, "--device", disk, "--yes")
	Expect(devices(ctx)).NotTo(ContainElement(disk))
	isUnchanged(ctx)

	By("using it again")
	requests := strings.Fields(cluster.Run(ctx, "get", "lvmclusters", "-A", "-o",
		"jsonpath={.items[*].spec.storage.deviceClasses[*].deviceRequests[*].device}"))
	Expect(requests).NotTo(BeEmpty())
	succeeds(ctx, "uncordon", "--node", node, "--device", requests[len(requests)-1], "--yes")
	Eventually(devices).WithArguments(ctx).WithContext(ctx).WithPolling(2*time.Second).Should(
		ContainElement(disk), "it is blank as in the review")
	isHealthy(ctx)
}

// forgets the device with the data, which is lost, with the volume.
func forgets(ctx context.Context) {
	GinkgoHelper()
	n, err := cluster.Lab.Node(node)
	Expect(err).NotTo(HaveOccurred())
	attached, err := n.Disks(ctx)
	Expect(err).NotTo(HaveOccurred())
	lost := withData(ctx)
	at := slices.IndexFunc(attached, func(d lab.Disk) bool { return d.Device == lost })
	Expect(at).NotTo(Equal(-1))
	left := slices.DeleteFunc(devices(ctx), func(name string) bool { return name == lost })
	Expect(cluster.StopPod(ctx, namespace, "writer")).To(Succeed())
	Expect(n.PullDisk(ctx, attached[at].Name)).To(Succeed())
	Eventually(func() string { return lvms(ctx, "status").out }).WithContext(ctx).
		WithPolling(2 * time.Second).Should(ContainSubstring("kubectl lvms forget"))
	Expect(lvms(ctx, "forget", "--node", node, "--class", class, "--yes").out).To(ContainSubstring(
		namespace+"/"+data.Name), "the plan lists the lost claim")
	approves(ctx, "forget", "--node", node, "--class", class)
	Expect(devices(ctx)).To(ConsistOf(left))
	Expect(cluster.Unclaim(ctx, data)).To(Succeed())
	Expect(lvms(ctx, "status").out).To(And(ContainSubstring("correct the paths of device class "+class),
		Not(ContainSubstring("kubectl lvms forget"))))
}

//go:build e2e

package plugin

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/story"
)

// waiting is a Pod that waits for a suspended volume.
const waiting = "waiting"

// suspends suspends a volume and then its device. A Pod that runs keeps the volume. A new one waits until it is
// resumed.
func suspends(ctx context.Context) {
	GinkgoHelper()
	volume := story.Volume{Namespace: namespace, Name: "suspended", Class: data.Class, Size: "100Mi"}
	Expect(cluster.Claim(ctx, volume)).To(Succeed())
	Expect(cluster.StartPod(ctx, volume, "running")).To(Succeed())
	before, err := cluster.Write(ctx, volume, "running")
	Expect(err).NotTo(HaveOccurred())

	By("suspending the volume")
	succeeds(ctx, "suspend", "volume", "-n", namespace, volume.Name, "--reason", "backup of the shop", "--yes")
	Expect(cluster.Checksum(ctx, volume, "running")).To(Equal(before), "the Pod that runs keeps its volume")
	restart(ctx, volume, "suspended (by admin at ", "backup of the shop", "kubectl lvms resume volume")
	succeeds(ctx, "resume", "volume", "-n", namespace, volume.Name, "--yes")
	Expect(cluster.WaitRunning(ctx, namespace, waiting)).To(Succeed())
	Expect(cluster.Checksum(ctx, volume, waiting)).To(Equal(before))
	Expect(cluster.StopPod(ctx, namespace, waiting)).To(Succeed())

	By("suspending its device")
	Expect(cluster.StartPod(ctx, volume, "running")).To(Succeed())
	device := deviceOf(ctx, volume)
	succeeds(ctx, "suspend", "device", node, device, "--reason", "SMART warnings", "--yes")
	Expect(succeeds(ctx, "devices", "-o", "wide")).To(MatchRegexp(
		`suspended by admin at 20\S+Z: SMART warnings`))
	Expect(cluster.Checksum(ctx, volume, "running")).To(Equal(before), "the Pod that runs keeps its volume")
	restart(ctx, volume, device, "kubectl lvms resume device")
	succeeds(ctx, "resume", "device", node, device, "--yes")
	Expect(cluster.WaitRunning(ctx, namespace, waiting)).To(Succeed())
	Expect(cluster.Checksum(ctx, volume, waiting)).To(Equal(before))
	Expect(cluster.StopPod(ctx, namespace, waiting)).To(Succeed())
	Expect(cluster.Unclaim(ctx, volume)).To(Succeed())
	isHealthy(ctx)
}

// restart ends the running Pod of a volume and creates another one, which must wait with an event that has these texts.
func restart(ctx context.Context, volume story.Volume, texts ...string) {
	GinkgoHelper()
	Expect(cluster.StopPod(ctx, namespace, "running")).To(Succeed())
	Expect(cluster.CreatePod(ctx, volume, waiting)).To(Succeed())
	events := func() string {
		return cluster.Run(ctx, "get", "events", "-n", namespace, "--field-selector",
			"involvedObject.name="+waiting+",reason=FailedMount", "-o", "jsonpath={.items[*].message}")
	}
	for _, text := range texts {
		Eventually(events).WithContext(ctx).WithPolling(2 * time.Second).Should(
			ContainSubstring(text))
	}
	Expect(cluster.Run(ctx, "get", "pod", "-n", namespace, waiting, "-o", "jsonpath={.status.phase}")).To(
		Equal("Pending"))
}

// deviceOf returns the device that has the data of a volume. All of it is on one device.
func deviceOf(ctx context.Context, volume story.Volume) string {
	GinkgoHelper()
	pv := cluster.Run(ctx, "get", "pvc", "-n", volume.Namespace, volume.Name, "-o", "jsonpath={.spec.volumeName}")
	lv := cluster.Run(ctx, "get", "pv", pv, "-o", "jsonpath={.spec.csi.volumeHandle}")
	device := cluster.OnNode(ctx, node, "/bin/sh", "-c", "lvs --noheadings --options devices "+class+"/"+lv+
		" | sed 's/(.*//; s/ //g' | sort -u")
	Expect(device).To(HavePrefix("/dev/"))
	return device
}

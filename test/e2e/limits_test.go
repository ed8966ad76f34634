//go:build e2e

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// limitsIO limits the I/O of a block device by a VolumeAttributesClass, and changes the limits while a Pod runs. A
// class that is not valid changes nothing.
func limitsIO(ctx SpecContext) {
	for name, parameters := range map[string]map[string]string{
		"slow":  {wellknown.WriteBytesPerSecondParameter: "8Mi", wellknown.ReadIOPSParameter: "500"},
		"fast":  {wellknown.WriteBytesPerSecondParameter: "64Mi"},
		"wrong": {"writeBandwidth": "1Mi"},
		"free":  {wellknown.ReadIOPSParameter: iolimits.Unlimited},
	} {
		Expect(cluster.Create(ctx, &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name},
			DriverName: wellknown.DriverName, Parameters: parameters})).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { cluster.Run(ctx, "delete", "vac", name) })
	}
	v := story.Volume{Namespace: namespace, Name: "limited", Class: "lvms-thick-ext4", Size: "100Mi", Block: true,
		Attributes: "slow"}
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	Expect(limitsOf(ctx, v)).To(MatchRegexp(`^\d+:\d+ rbps=max wbps=8388608 riops=500 wiops=max$`))
	Expect(classInForce(ctx, v)).To(Equal("slow"))
	_, err := cluster.Write(ctx, v, v.Name)
	Expect(err).NotTo(HaveOccurred())

	By("selecting a class that is not valid")
	selectAttributes(ctx, v, "wrong")
	Eventually(func() string {
		return cluster.Run(ctx, "get", "pvc", "-n", v.Namespace, v.Name, "-o",
			`jsonpath={.status.conditions[?(@.type=="ModifyVolumeError")].message}`)
	}).WithContext(ctx).Should(ContainSubstring("writeBandwidth"))
	Expect(classInForce(ctx, v)).To(Equal("slow"))
	Expect(limitsOf(ctx, v)).To(ContainSubstring("wbps=8388608"))

	By("selecting other classes while the Pod runs")
	selectAttributes(ctx, v, "fast")
	Eventually(func() string { return limitsOf(ctx, v) }).WithContext(ctx).Should(
		MatchRegexp(`^\d+:\d+ rbps=max wbps=67108864 riops=max wiops=max$`))
	Eventually(func() string { return classInForce(ctx, v) }).WithContext(ctx).Should(
		Equal("fast"))
	selectAttributes(ctx, v, "free")
	Eventually(func() string { return limitsOf(ctx, v) }).WithContext(ctx).Should(
		BeEmpty())
	Eventually(func() string { return classInForce(ctx, v) }).WithContext(ctx).Should(
		Equal("free"))
	Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
}

func selectAttributes(ctx context.Context, v story.Volume, class string) {
	GinkgoHelper()
	cluster.Run(ctx, "patch", "pvc", "-n", v.Namespace, v.Name, "-p",
		fmt.Sprintf(`{"spec":{"volumeAttributesClassName":%q}}`, class))
}

func classInForce(ctx context.Context, v story.Volume) string {
	GinkgoHelper()
	return cluster.Run(ctx, "get", "pvc", "-n", v.Namespace, v.Name, "-o",
		"jsonpath={.status.currentVolumeAttributesClassName}")
}

// limitsOf returns the content of io.max of the cgroup of the Pod of a volume, which has the name of the volume.
func limitsOf(ctx context.Context, v story.Volume) string {
	GinkgoHelper()
	pod := cluster.Run(ctx, "get", "pod", "-n", v.Namespace, v.Name, "-o", "jsonpath={.metadata.uid} {.spec.nodeName}")
	var uid, node string
	_, err := fmt.Sscan(pod, &uid, &node)
	Expect(err).NotTo(HaveOccurred())
	return cluster.OnNode(ctx, node, "/bin/sh", "-c", fmt.Sprintf(`set -e
uid=%s
dir=$(find /sys/fs/cgroup -type d \( -name "*pod$uid*" -o -name "*pod$(echo $uid | tr - _)*" \) | head -1)
cat "$dir/io.max"`, uid))
}

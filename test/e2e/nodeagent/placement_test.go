//go:build e2e

package nodeagent

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/story"
)

// Device classes for thick volumes, on two devices each.
const (
	single  = "single"
	striped = "striped"
)

// thick is a volume that must not share a device with another one of the spread group.
func thick(name string) story.Volume {
	return story.Volume{Namespace: namespace, Name: name, Class: "lvms-" + single, Size: "96Mi",
		Labels: map[string]string{"lvm.topolvm.io/spread-group": "db", "lvm.topolvm.io/spread": "device",
			"lvm.topolvm.io/spread-policy": "required"}}
}

// segments returns fields of the segments of the logical volume of a claim.
func segments(ctx SpecContext, v story.Volume, fields string) string {
	GinkgoHelper()
	volume := cluster.Run(ctx, "get", "pvc", "-n", v.Namespace, v.Name, "-o", "jsonpath={.spec.volumeName}")
	handle := cluster.Run(ctx, "get", "pv", volume, "-o", "jsonpath={.spec.csi.volumeHandle}")
	return cluster.OnNode1(ctx, "lvs --noheadings --segments --options "+fields+" "+
		strings.TrimPrefix(v.Class, "lvms-")+"/"+handle)
}

// inUse starts a Pod with a new volume, and writes to it.
func inUse(ctx SpecContext, v story.Volume) {
	GinkgoHelper()
	Expect(cluster.Claim(ctx, v)).To(Succeed())
	Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
	_, err := cluster.Write(ctx, v, v.Name)
	Expect(err).NotTo(HaveOccurred())
}

func removed(ctx SpecContext, v story.Volume) {
	GinkgoHelper()
	Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
	Expect(cluster.Unclaim(ctx, v)).To(Succeed())
}

// placesVolumes creates thick volumes, each on one device, that share none, until there is no other device.
func placesVolumes(ctx SpecContext) {
	a, b, c := thick("a"), thick("b"), thick("c")
	inUse(ctx, a)
	inUse(ctx, b)
	devices := []string{segments(ctx, a, "devices"), segments(ctx, b, "devices")}
	Expect(devices).To(ConsistOf(MatchRegexp(`^/dev/ubdc\(\d+\)$`), MatchRegexp(`^/dev/ubdd\(\d+\)$`)))

	By("refusing a third volume, with the reason in the event of its claim")
	Expect(cluster.Claim(ctx, c)).To(Succeed())
	Expect(cluster.CreatePod(ctx, c, c.Name)).To(Succeed())
	Eventually(func() string {
		return cluster.Run(ctx, "get", "events", "-n", namespace, "--field-selector", "involvedObject.name=c", "-o",
			"jsonpath={.items[*].message}")
	}).WithContext(ctx).WithPolling(2 * time.Second).Should(And(
		ContainSubstring("apart from the devices with other volumes of the spread group default/db"),
		ContainSubstring("/dev/ubdc"), ContainSubstring("/dev/ubdd")))

	By("creating it when there is a device for it")
	removed(ctx, a)
	Expect(cluster.WaitRunning(ctx, namespace, c.Name)).To(Succeed())
	freed, _, _ := strings.Cut(devices[0], "(")
	Expect(segments(ctx, c, "devices")).To(HavePrefix(freed + "("))
	removed(ctx, b)
	removed(ctx, c)

	By("striping a volume")
	s := story.Volume{Namespace: namespace, Name: "s", Class: "lvms-" + striped, Size: "96Mi"}
	inUse(ctx, s)
	Expect(segments(ctx, s, "stripes,devices")).To(MatchRegexp(`^2 /dev/ubde\(\d+\),/dev/ubdf\(\d+\)$`))
	removed(ctx, s)
}

const orphanRecovery = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMRecovery
metadata: {name: orphan, namespace: ` + story.OperatorNamespace + `}
spec: {nodeName: node1, deviceClassName: ` + single + `, action: DeleteOrphans, volumes: [left]}
`

// erasesOrphans removes a logical volume without an object. Nobody finds its data on the devices afterwards.
func erasesOrphans(ctx SpecContext) {
	cluster.OnNode1(ctx, `lvcreate --yes --name left --size 16m --addtag lvms.pvc=shop/old `+single+` &&
		yes LEFT-BY-SHOP | dd of=/dev/`+single+`/left bs=1M count=8 iflag=fullblock oflag=direct`)
	found := func() string {
		return cluster.OnNode1(ctx, `for d in /dev/ubdc /dev/ubdd; do dd if=$d bs=1M iflag=direct | tr -d '\000' |
			grep -a LEFT-BY-SHOP; done 2>/dev/null | wc -l`)
	}
	Expect(found()).NotTo(Equal("0"))
	Expect(cluster.ApplyManifest(ctx, orphanRecovery)).To(Succeed())
	recovery := func(path string) string {
		return cluster.Run(ctx, "get", "lvmrec", "-n", story.OperatorNamespace, "orphan", "-o", "jsonpath="+path)
	}
	Eventually(func() string { return recovery("{.status.plan.id}") }).WithContext(ctx).
		WithPolling(2*time.Second).ShouldNot(BeEmpty(), "no plan")
	Expect(found()).NotTo(Equal("0"), "before the approval")
	cluster.Run(ctx, "patch", "lvmrec", "-n", story.OperatorNamespace, "orphan", "--type", "merge", "-p",
		`{"spec":{"approvedPlan":"`+recovery("{.status.plan.id}")+`"}}`)
	Eventually(func() string { return recovery("{.status.phase}") }).WithContext(ctx).
		WithPolling(2 * time.Second).Should(Equal("Succeeded"))
	Expect(cluster.OnNode1(ctx, "lvs --noheadings --options lv_name "+single)).To(BeEmpty())
	Expect(found()).To(Equal("0"))
}

//go:build e2e

package comeback

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// areDeleted deletes a Node with its claims while the node is off. When it returns, one volume is imported, and the
// other one is removed after deletedVolumeRetention.
func areDeleted(ctx SpecContext) {
	bringUp(ctx, lab.Options{Name: "comeback-deleted", Nodes: 2})
	n := nodeOf("node2")
	addDisk(ctx, n)
	createClasses(ctx, thinClass+"      deletedVolumeRetention: 24h\n")
	volumes := writeTwo(ctx)
	needed, unneeded := volumes[0], volumes[1]
	handleOfNeeded := needed.volume(ctx).Spec.CSI.VolumeHandle
	handleOfUnneeded := unneeded.volume(ctx).Spec.CSI.VolumeHandle
	content := volumesOn(ctx, n.Name())

	By("deleting the Node with its claims")
	Expect(n.PowerOff(ctx)).To(Succeed())
	// If the operator was on that node, another replica has to take over first.
	cluster.Run(ctx, "annotate", "node", n.Name(), "lvm.topolvm.io/release-claims=true")
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "node", n.Name(), "-o",
		"jsonpath={.metadata.finalizers}").Should(
		ContainSubstring(wellknown.NodeFinalizer))
	deleted := time.Now()
	cluster.Run(ctx, "delete", "node", n.Name())
	for _, w := range volumes {
		cluster.Run(ctx, "delete", "pod", "-n", namespace, w.pod(), "--force", "--grace-period=0", "--ignore-not-found")
	}
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "pvc,pv,logicalvolume", "-A", "-o", "name").
		Should(BeEmpty())

	By("starting the node again")
	Expect(n.Start(ctx)).To(Succeed())
	waitUsed(ctx, n.Name())
	Eventually(orphansOf(n.Name())).WithContext(ctx).Should(ConsistOf(
		"LogicalVolume "+class+"/"+handleOfNeeded+" "+namespace+"/"+needed.Name,
		"LogicalVolume "+class+"/"+handleOfUnneeded+" "+namespace+"/"+unneeded.Name))
	Eventually(func() []time.Time { return removalTimes(ctx, n.Name()) }).
		Should(HaveEach(BeTemporally("~", deleted.Add(24*time.Hour), 5*time.Minute)))
	Expect(volumesOn(ctx, n.Name())).To(ConsistOf(content), "nothing is created, removed or wiped")

	By("importing one of the volumes")
	importOn(ctx, n.Name(), handleOfNeeded)
	approveImport(ctx)
	needed.isBound(ctx)
	needed.isReadAgain(ctx, n.Name())

	By("waiting for the removal of the other one")
	ageDeletions(ctx, 25*time.Hour)
	cluster.Run(ctx, "delete", "pod", "-n", story.OperatorNamespace, "-l", "app.kubernetes.io/name=vg-manager",
		"--field-selector", "spec.nodeName="+n.Name())
	Eventually(volumesOn).WithArguments(ctx, n.Name()).WithPolling(2 * time.Second).
		ShouldNot(ContainElement(ContainSubstring(handleOfUnneeded)))
	Expect(volumesOn(ctx, n.Name())).To(ContainElement(ContainSubstring(handleOfNeeded)))
	Eventually(orphansOf(n.Name())).WithContext(ctx).Should(BeEmpty())
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "events", "-A").Should(
		ContainSubstring("DeletedVolumeRemoved"))
	needed.isRead(ctx, n.Name())
}

// removalTimes returns when the orphans of a node are removed.
func removalTimes(ctx context.Context, node string) []time.Time {
	GinkgoHelper()
	var times []time.Time
	for _, o := range statusOf(ctx, node, class).Orphans {
		var at time.Time
		if o.RemovalTime != nil {
			at = o.RemovalTime.Time
		}
		times = append(times, at)
	}
	return times
}

// ageDeletions makes the records of deleted volumes older.
func ageDeletions(ctx context.Context, age time.Duration) {
	GinkgoHelper()
	records := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: story.OperatorNamespace, Name: removednode.DeletedVolumes}
	Expect(cluster.Get(ctx, key, records)).To(Succeed())
	Expect(records.Data).To(HaveLen(2))
	for key, value := range records.Data {
		d := removednode.DeletedVolume{}
		Expect(json.Unmarshal([]byte(value), &d)).To(Succeed())
		d.Time = d.Time.Add(-age)
		data, err := json.Marshal(d)
		Expect(err).NotTo(HaveOccurred())
		records.Data[key] = string(data)
	}
	Expect(cluster.Update(ctx, records)).To(Succeed())
}

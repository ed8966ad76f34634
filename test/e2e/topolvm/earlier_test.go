//go:build e2e

package topolvm

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	// allObjects are the LogicalVolumes of both drivers.
	allObjects = "logicalvolumes." + earlierDriver + ",logicalvolumes." + driver
	// pluginsRegistry has the sockets with which drivers register.
	pluginsRegistry = "/var/lib/kubelet/plugins_registry"
)

// kept are the volumes of the earlier driver that are migrated.
var kept = []story.Volume{written, thick, thin, block, far}

// refused is requested from a StorageClass of the earlier driver when TopoLVM no longer runs.
var refused = volume("node1", "refused", "topolvm-provisioner", "256Mi")

func migrates(ctx SpecContext) {
	start(ctx, "e2e-topolvm-earlier")
	admin, switching := openPage("migrate-earlier-topolvm.md"), openPage("switch-from-topolvm.md")

	By("using volumes of TopoLVM with its earlier driver")
	installTopoLVM(ctx, admin, earlierDriver)
	sums := useEarlier(ctx)
	group, volumes := groupOf(ctx), onNodes(ctx, listVolumes)
	before := identities(ctx)

	By("stopping TopoLVM")
	admin.follow(ctx, "1. Stop the workloads")
	for _, v := range []story.Volume{thick, thin, block, unwanted} {
		Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
	}
	admin.follow(ctx, "2. Stop TopoLVM")
	registered(ctx)
	Expect(onNodes(ctx, listVolumes)).To(Equal(volumes))
	cluster.StillWrites(ctx)

	switching.saveExample("2. Write the LVMCluster")
	installOurs(ctx, switching)
	registered(ctx, driver, earlierDriver)
	admin.follow(ctx, "3. Install LVM Storage")
	cluster.StillWrites(ctx)

	servesEarlier(ctx, sums)
	deletesEarlier(ctx, admin)
	Expect(identities(ctx)).To(Equal(before))
	withdraws(ctx, admin)

	migrateAll(ctx, admin, before)
	replaceClasses(ctx, admin)
	admin.follow(ctx, "6. Clean up")
	nothingOfEarlier(ctx)
	useMigrated(ctx, sums)
	Expect(groupOf(ctx)).To(Equal(group))
}

// useEarlier creates volumes, writes to them, and takes a snapshot. It returns the checksums.
func useEarlier(ctx context.Context) map[string]string {
	GinkgoHelper()
	sums := map[string]string{}
	for _, v := range []story.Volume{thick, thin, block, far, unwanted} {
		Expect(cluster.Claim(ctx, v)).To(Succeed())
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
		sum, err := cluster.Write(ctx, v, v.Name)
		Expect(err).NotTo(HaveOccurred())
		sums[v.Name] = sum
	}
	Expect(cluster.Snapshot(ctx, thin, "before")).To(Succeed())
	Expect(cluster.Claim(ctx, written)).To(Succeed())
	cluster.StartWriting(ctx, written.Name)
	Expect(drivers(ctx, append([]story.Volume{unwanted}, kept...))).To(HaveEach(earlierDriver))
	Eventually(func() int { return strings.Count(finalizersOfNodes(ctx), earlierDriver+"/node") }).WithContext(ctx).
		Should(Equal(len(nodes)), "TopoLVM protects the Nodes")
	return sums
}

// persistentVolume returns the name of the PersistentVolume of a claim.
func persistentVolume(ctx context.Context, v story.Volume) string {
	GinkgoHelper()
	return cluster.Run(ctx, "-n", v.Namespace, "get", "pvc", v.Name, "-o", "jsonpath={.spec.volumeName}")
}

// drivers returns the drivers of volumes.
func drivers(ctx context.Context, volumes []story.Volume) []string {
	GinkgoHelper()
	var names []string
	for _, v := range volumes {
		names = append(names, cluster.Run(ctx, "get", "pv", persistentVolume(ctx, v), "-o",
			"jsonpath={.spec.csi.driver}"))
	}
	return names
}

// identities returns what does not change with the driver: claims, names and handles of PersistentVolumes, and logical
// volumes.
func identities(ctx context.Context) map[string]string {
	GinkgoHelper()
	all := map[string]string{}
	for _, v := range kept {
		claim := cluster.Run(ctx, "-n", v.Namespace, "get", "pvc", v.Name, "-o",
			"jsonpath={.metadata.uid} {.spec.volumeName} {.status.phase}")
		handle := cluster.Run(ctx, "get", "pv", persistentVolume(ctx, v), "-o", "jsonpath={.spec.csi.volumeHandle}")
		all[v.Name] = claim + " " + handle + " " + onNodes(ctx,
			"lvm lvs --noheadings --options lv_uuid --select lv_name="+handle+" myvg1")
	}
	return all
}

// servesEarlier uses the volumes of the earlier driver as before, without TopoLVM.
func servesEarlier(ctx context.Context, sums map[string]string) {
	GinkgoHelper()
	By("starting Pods on volumes of the earlier driver")
	for _, v := range []story.Volume{thick, thin, block} {
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
		Expect(cluster.Checksum(ctx, v, v.Name)).To(Equal(sums[v.Name]))
	}
	Expect(cluster.StartPod(ctx, far, "far-beside")).To(Succeed())
	Expect(cluster.StopPod(ctx, far.Namespace, far.Name)).To(Succeed())
	Expect(cluster.Checksum(ctx, far, "far-beside")).To(Equal(sums[far.Name]))

	By("expanding volumes of the earlier driver, one of them mounted by TopoLVM")
	for _, used := range []struct {
		volume story.Volume
		pod    string
	}{{thick, thick.Name}, {written, "writer"}, {block, block.Name}} {
		_, err := cluster.Expand(ctx, used.volume, used.pod, "768Mi")
		Expect(err).NotTo(HaveOccurred())
	}

	By("reading the statistics of the kubelets")
	// The kubelet asks TopoLVM's socket for those of a Pod that has run since before.
	Eventually(capacityInStatistics).WithContext(ctx).WithArguments(thick).Should(
		BeNumerically(">", 512*lab.MiB), "the capacity of an expanded volume")
	Eventually(capacityInStatistics).WithContext(ctx).WithArguments(far).Should(
		BeNumerically(">", 128*lab.MiB), "the capacity of a volume that TopoLVM has mounted for another Pod")
	Expect(drivers(ctx, kept)).To(HaveEach(earlierDriver))
	cluster.StillWrites(ctx)
}

// capacityInStatistics returns the capacity of a volume in the statistics of the kubelet, in bytes, or 0 if the kubelet
// has none.
func capacityInStatistics(ctx context.Context, v story.Volume) int64 {
	GinkgoHelper()
	var summary struct {
		Pods []struct {
			Volumes []struct {
				CapacityBytes int64 `json:"capacityBytes"`
				Claim         struct {
					Name string `json:"name"`
				} `json:"pvcRef"`
			} `json:"volume"`
		} `json:"pods"`
	}
	raw := cluster.Run(ctx, "get", "--raw", "/api/v1/nodes/"+v.Node+"/proxy/stats/summary")
	Expect(json.Unmarshal([]byte(raw), &summary)).To(Succeed())
	for _, pod := range summary.Pods {
		for _, found := range pod.Volumes {
			if found.Claim.Name == v.Name {
				return found.CapacityBytes
			}
		}
	}
	return 0
}

// deletesEarlier deletes a claim and a VolumeSnapshot of the earlier driver, and requests a volume of it.
func deletesEarlier(ctx context.Context, admin page) {
	GinkgoHelper()
	By("deleting a claim with the reclaim policy Retain, and a snapshot")
	pv := persistentVolume(ctx, unwanted)
	admin.command(ctx, `kubectl patch pv NAME --patch '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`,
		"NAME", pv)
	cluster.Run(ctx, "-n", unwanted.Namespace, "delete", "pvc", unwanted.Name)
	request(ctx, refused)
	volumes := len(strings.Fields(onNodes(ctx, "lvm lvs --noheadings --options lv_name myvg1")))
	Expect(cluster.RemoveSnapshot(ctx, "default", "before")).To(Succeed())
	noOrphans(ctx, allObjects)
	Expect(strings.Fields(onNodes(ctx, "lvm lvs --noheadings --options lv_name myvg1"))).To(HaveLen(volumes - 1))
	Expect(cluster.Run(ctx, "get", "volumesnapshotcontents", "-o", "name")).To(BeEmpty())
	Expect(cluster.Run(ctx, "get", "pv", pv, "-o", "jsonpath={.status.phase}")).To(Equal("Released"))

	By("deleting it with the reclaim policy Delete")
	cluster.Run(ctx, "patch", "pv", pv, "--patch", `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "pv", pv, "--ignore-not-found",
		"-o", "name").Should(BeEmpty())
	noOrphans(ctx, allObjects)
	Expect(strings.Fields(onNodes(ctx, "lvm lvs --noheadings --options lv_name myvg1"))).To(HaveLen(volumes - 2))

	By("requesting a volume of a StorageClass of the earlier driver")
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "events", "--field-selector",
		"reason=EarlierStorageClass,involvedObject.name="+refused.Name, "-o", "jsonpath={.items[*].message}").Should(
		ContainSubstring("create it again with StorageClass lvms-ssd"))
}

// withdraws requests a migration that is blocked, and withdraws it.
func withdraws(ctx context.Context, admin page) {
	GinkgoHelper()
	By("requesting the migration of a volume that a Pod uses")
	pv := persistentVolume(ctx, written)
	admin.run(ctx, "kubectl lvms migrate -n default written --wait=false --yes")
	Eventually(cluster.Run).WithContext(ctx).WithArguments("get", "pv", pv, "-o",
		`jsonpath={.metadata.annotations.lvm\.topolvm\.io/migration}`).Should(
		ContainSubstring("blocked: Pod default/writer uses claim default/written"))
	admin.command(ctx, "kubectl annotate persistentvolume NAME lvm.topolvm.io/migrate-", "NAME", pv)
	cluster.StillWrites(ctx)
}

// migrateAll stops the Pods and migrates the volumes: first one, and then the others.
func migrateAll(ctx context.Context, admin page, before map[string]string) {
	GinkgoHelper()
	By("migrating the volumes")
	counted := count(ctx, "writer")
	for _, pod := range []string{thick.Name, thin.Name, block.Name, "far-beside", "writer"} {
		Expect(cluster.StopPod(ctx, "default", pod)).To(Succeed())
	}
	admin.command(ctx, "kubectl lvms migrate -n NAMESPACE CLAIM", "NAMESPACE", thick.Namespace, "CLAIM", thick.Name)
	Expect(drivers(ctx, []story.Volume{thick, far})).To(Equal([]string{driver, earlierDriver}))
	admin.command(ctx, "kubectl lvms migrate --all")
	Expect(drivers(ctx, kept)).To(HaveEach(driver))
	Eventually(identities).WithContext(ctx).Should(Equal(before))
	noOrphans(ctx, allObjects)
	registered(ctx, driver)
	Expect(cluster.StartPod(ctx, written, "written")).To(Succeed())
	Expect(count(ctx, "written")).To(BeNumerically(">=", counted))
	Expect(cluster.StopPod(ctx, "default", "written")).To(Succeed())
}

// count returns the last number that the Pod writer has written, in a Pod with its volume.
func count(ctx context.Context, pod string) int {
	GinkgoHelper()
	var number int
	Eventually(func() error {
		out, err := cluster.Shell(ctx, "default", pod, "cat /data/count")
		if err == nil {
			number, err = strconv.Atoi(strings.TrimSpace(out))
		}
		return err
	}).WithContext(ctx).Should(Succeed())
	return number
}

// replaceClasses replaces the StorageClasses and the VolumeSnapshotClass. The claim that was refused gets its volume.
func replaceClasses(ctx context.Context, admin page) {
	GinkgoHelper()
	const replace = ` NAME -o yaml | sed 's/topolvm\.cybozu\.com/topolvm.io/g' | kubectl replace --force -f -`
	for _, class := range []string{written.Class, thin.Class, striped.Class} {
		admin.command(ctx, "kubectl get storageclass"+replace, "NAME", class)
	}
	admin.command(ctx, "kubectl get volumesnapshotclass"+replace, "NAME", thin.Class)
	Expect(cluster.WaitRunning(ctx, refused.Namespace, refused.Name)).To(Succeed())
	Expect(drivers(ctx, []story.Volume{refused})).To(HaveEach(driver))
}

// nothingOfEarlier checks that neither the API server nor the nodes have the name of the earlier driver, except in the
// annotations that record where volumes come from.
func nothingOfEarlier(ctx context.Context) {
	GinkgoHelper()
	for _, query := range [][2]string{
		{"pv", "{.items[*].spec.csi.driver} {.items[*].spec.nodeAffinity} {.items[*].metadata.finalizers}"},
		{"logicalvolumes." + driver, "{.items[*].metadata}"},
		{"storageclass", "{.items[*].provisioner} {.items[*].parameters}"},
		{"volumesnapshotclass", "{.items[*].driver}"},
		{"volumesnapshotcontent", "{.items[*].spec.driver}"},
		{"csistoragecapacity", "{.items[*].nodeTopology}"},
		{"csidriver,crd", "{.items[*].metadata.name}"},
		{"csinode", "{.items[*].spec} {.items[*].metadata.annotations}"},
		{"nodes", "{.items[*].metadata.labels} {.items[*].metadata.annotations} {.items[*].metadata.finalizers}"},
	} {
		Eventually(cluster.Run).WithContext(ctx).WithArguments("get", query[0], "-A", "-o",
			"jsonpath="+query[1]).ShouldNot(ContainSubstring("cybozu"), query[0])
	}
	Expect(cluster.Run(ctx, "get", "namespace", old, "--ignore-not-found")).To(BeEmpty())
	Expect(onNodes(ctx, "ls "+pluginsRegistry+"; cat /proc/mounts")).NotTo(ContainSubstring(earlierDriver))
}

// useMigrated uses the migrated volumes, and deletes all volumes.
func useMigrated(ctx context.Context, sums map[string]string) {
	GinkgoHelper()
	By("using the migrated volumes")
	for _, v := range []story.Volume{thick, thin, block, far} {
		Expect(cluster.StartPod(ctx, v, v.Name)).To(Succeed())
		Expect(cluster.Checksum(ctx, v, v.Name)).To(Equal(sums[v.Name]))
	}
	_, err := cluster.Expand(ctx, thick, thick.Name, "1Gi")
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.Snapshot(ctx, thin, "after")).To(Succeed())
	Expect(cluster.RemoveSnapshot(ctx, "default", "after")).To(Succeed())
	for _, v := range append([]story.Volume{refused}, kept...) {
		Expect(cluster.StopPod(ctx, v.Namespace, v.Name)).To(Succeed())
		removed(ctx, v)
	}
	Expect(strings.Fields(onNodes(ctx, "lvm lvs --noheadings --options lv_name myvg1 myvg2"))).To(
		ConsistOf("backup", "pool", "backup", "pool"))
}

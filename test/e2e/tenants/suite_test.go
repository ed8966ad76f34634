//go:build e2e

// Package tenants tests that a tenant of a shared cluster harms nobody else. The tenant has the permissions of the
// ClusterRole edit in one namespace. The tenant writes to block volumes what the LVM of a node would take for its own,
// requests impossible sizes and volumes of others, and floods the ports of the product. Meanwhile, a Pod in another
// namespace writes and is recreated over and over, and another tenant uses storage of the same node.
package tenants

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// The namespaces of the tenants. The one of the attempts is also the name of the user.
const (
	attacker  = "attacker"
	neighbor  = "neighbor"
	bystander = "bystander"
	// storageAdmin is a user who may create StorageClasses, and nothing else.
	storageAdmin = "storage-admin"
)

const (
	node         = "node1"
	class        = "vg1"
	storageClass = "lvms-" + class
	// encryptedClass is a StorageClass of the device class with encrypted volumes.
	encryptedClass = "encrypted"
	// disk is the data disk of the node.
	disk = "/dev/ubdb"
)

var (
	// cluster is the cluster as the administrator sees it, tenant as the tenant who attempts, and storage as the
	// administrator of StorageClasses.
	cluster, tenant, storage suite.Cluster
	// healthy is the state of the node before all attempts, and capacity that of the device class.
	healthy, capacity string
)

func TestTenants(t *testing.T) { suite.Run(t, "Tenants") }

const manifests = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, sizePercent: 90, overprovisionRatio: 10}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: neighbor}
stringData: {key: first first first first first first first}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: encrypted}
provisioner: topolvm.io
parameters:
  topolvm.io/device-class: vg1
  lvm.topolvm.io/encryption: luks2
  csi.storage.k8s.io/node-stage-secret-name: key
  csi.storage.k8s.io/node-stage-secret-namespace: neighbor
volumeBindingMode: WaitForFirstConsumer
`

// permissions are those of an ordinary tenant in one namespace, which does not allow privileged Pods, and those of an
// administrator of StorageClasses.
const permissions = `
apiVersion: v1
kind: Namespace
metadata: {name: attacker, labels: {pod-security.kubernetes.io/enforce: baseline}}
---
apiVersion: v1
kind: Namespace
metadata: {name: neighbor}
---
apiVersion: v1
kind: Namespace
metadata: {name: bystander}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edit, namespace: attacker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: attacker}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: snapshots, namespace: attacker}
rules: [{apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshots], verbs: [create, delete, get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: snapshots, namespace: attacker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: snapshots}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: attacker}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: storage-admin}
rules: [{apiGroups: [storage.k8s.io], resources: [storageclasses], verbs: [create, delete, get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: storage-admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: storage-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: storage-admin}]
`

var _ = BeforeSuite(func(ctx SpecContext) {
	name := "e2e-tenants"
	flavor := os.Getenv("LVMS_TEST_FLAVOR")
	if flavor != "" {
		name += "-" + flavor
	}
	cluster = suite.Up(ctx, lab.Options{Name: name, Nodes: 1, Flavor: flavor, Snapshots: true,
		Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}})
	Expect(cluster.Install(ctx, suite.Archive("LVMS_IMAGE"))).To(Succeed())
	Expect(cluster.ApplyManifest(ctx, permissions)).To(Succeed())
	cluster.Configure(ctx, manifests)
	tenant = as(attacker)
	storage = as(storageAdmin)
	startBystander(ctx)
	healthy = stateOf(ctx)
	capacity = capacityOf(ctx)
	Expect(healthy).To(ContainSubstring("Ready"))
}, NodeTimeout(20*time.Minute))

// failedBefore is how often the Pod of the bystander had failed before the attempt.
var failedBefore int

var _ = BeforeEach(func(ctx SpecContext) {
	Eventually(func() (err error) {
		failedBefore, err = writer.failures()
		return err
	}).WithContext(ctx).WithTimeout(2*cycleTimeout).Should(Succeed(), "the Pod of the bystander has recovered")
}, NodeTimeout(30*time.Minute))

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get events -A --sort-by=.lastTimestamp")
}, NodeTimeout(30*time.Minute))

func as(user string) suite.Cluster {
	GinkgoHelper()
	opened, err := cluster.As(user)
	Expect(err).NotTo(HaveOccurred())
	return suite.Cluster{Cluster: opened}
}

// groupOf returns the status of the volume group of the device class.
func groupOf(ctx context.Context) lvmv1alpha1.VGStatus {
	GinkgoHelper()
	object := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	Expect(cluster.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: node}, object)).To(Succeed())
	at := slices.IndexFunc(object.Status.NodeStatus, func(s lvmv1alpha1.VGStatus) bool { return s.Name == class })
	Expect(at).To(BeNumerically(">=", 0))
	return object.Status.NodeStatus[at]
}

// stateOf returns what a tenant must not change in the status of the node and of the LVMCluster: states, reasons,
// conditions, volume groups and their physical volumes, and orphans.
func stateOf(ctx context.Context) string {
	GinkgoHelper()
	group := groupOf(ctx)
	lines := []string{
		cluster.Run(ctx, "get", "lvmcluster", "-n", story.OperatorNamespace, "-o", "jsonpath={.items[*].status.state}"),
		fmt.Sprintf("%s: %s %q, UUID %s, orphans %v", group.Name, group.Status, group.Reason, group.UUID, group.Orphans),
	}
	for _, pv := range group.PhysicalVolumes {
		lines = append(lines, fmt.Sprintf("physical volume %s: %s %s", pv.UUID, pv.Path, pv.State))
	}
	for _, c := range group.Conditions {
		line := fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)
		if c.Status != metav1.ConditionTrue {
			line += ": " + c.Message
		}
		lines = append(lines, line) // the message of a healthy thin pool has its usage
	}
	return strings.Join(lines, "\n")
}

// capacityOf returns the capacity of the device class, as the node and the scheduler have it.
func capacityOf(ctx context.Context) string {
	GinkgoHelper()
	found := &corev1.Node{}
	Expect(cluster.Get(ctx, client.ObjectKey{Name: node}, found)).To(Succeed())
	all := []string{"node " + found.Annotations[wellknown.CapacityAnnotationPrefix+class]}
	var list storagev1.CSIStorageCapacityList
	Expect(cluster.List(ctx, &list, client.InNamespace(story.OperatorNamespace))).To(Succeed())
	for _, c := range list.Items {
		if c.StorageClassName == storageClass {
			all = append(all, fmt.Sprint("scheduler ", c.Capacity.Value()))
		}
	}
	return strings.Join(all, ", ")
}

// harmsNobody checks that another tenant can use storage, that the Pod of the bystander was recreated since the call,
// and that the status of the node is as before all attempts.
func harmsNobody(ctx context.Context) {
	GinkgoHelper()
	begun := writer.cycle()
	usesStorage(ctx)
	writer.isRecreatedSince(ctx, begun)
	changesNothing(ctx)
}

// leavesNothing checks that the volumes of attempts no longer exist, and that their capacity is free again.
func leavesNothing(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() string { return capacityOf(ctx) }).WithContext(ctx).Should(Equal(capacity))
	Expect(logicalVolumes(ctx)).To(HaveLen(1), "only the bystander has a volume")
	Eventually(func() []topolvmv1.LogicalVolume {
		var objects topolvmv1.LogicalVolumeList
		Expect(cluster.List(ctx, &objects)).To(Succeed())
		return objects.Items
	}).WithContext(ctx).Should(HaveLen(1), "only the bystander has a LogicalVolume")
	changesNothing(ctx)
}

// changesNothing checks that the status of the node is as before all attempts, and that the Pod of the bystander has
// not failed.
func changesNothing(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() string { return stateOf(ctx) }).WithContext(ctx).Should(Equal(healthy))
	failed, err := writer.failures()
	Expect(failed).To(Equal(failedBefore), "the Pod of the bystander: %v", err)
}

// onlyTheDisk lets LVM of the node read the disk of the device class alone: the content of the tenants' volumes does
// not affect what the test sees.
const onlyTheDisk = `devices { filter=["a|^` + disk + `$|","r|.*|"] global_filter=["a|^` + disk + `$|","r|.*|"] }`

// logicalVolumes returns the names of the thin volumes of the device class.
func logicalVolumes(ctx context.Context) []string {
	GinkgoHelper()
	return strings.Fields(cluster.OnNode(ctx, node, "lvs", "--config", onlyTheDisk, "--noheadings", "-o", "lv_name",
		"--select", "pool_lv!=''", class))
}

// usesStorage creates a volume of the neighbor, uses it in a Pod, and deletes both.
func usesStorage(ctx context.Context) {
	GinkgoHelper()
	within, cancel := context.WithTimeout(ctx, 6*time.Minute)
	defer cancel()
	v := story.Volume{Namespace: neighbor, Name: "data", Class: storageClass, Size: "64Mi"}
	DeferCleanup(func(ctx SpecContext) { forget(ctx, v, "data") })
	Expect(cluster.Claim(within, v)).To(Succeed())
	Expect(cluster.StartPod(within, v, "data")).To(Succeed(), "another tenant starts a Pod")
	_, err := cluster.Shell(within, neighbor, "data", "echo here > /data/file && sync && cat /data/file")
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.StopPod(within, neighbor, "data")).To(Succeed(), "another tenant deletes a Pod")
	Expect(cluster.Unclaim(within, v)).To(Succeed(), "another tenant deletes a claim")
}

// forget removes what an attempt that failed has left, so that the next one begins with the same node.
func forget(ctx context.Context, v story.Volume, pods ...string) {
	for _, pod := range pods {
		_ = cluster.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: pod}})
	}
	_ = cluster.Delete(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace,
		Name: v.Name}})
}

// eventsOf returns the messages of the events whose object has a name.
func eventsOf(namespace, name string) func(context.Context) string {
	return func(ctx context.Context) string {
		GinkgoHelper()
		return cluster.Run(ctx, "get", "events", "-n", namespace, "--field-selector", "involvedObject.name="+name, "-o",
			`jsonpath={range .items[*]}{.reason}: {.message}{"\n"}{end}`)
	}
}

// handleOf returns the volume handle of a claim, which is the name of its logical volume.
func handleOf(ctx context.Context, v story.Volume) string {
	GinkgoHelper()
	name := cluster.Run(ctx, "get", "pvc", "-n", v.Namespace, v.Name, "-o", "jsonpath={.spec.volumeName}")
	handle := cluster.Run(ctx, "get", "pv", name, "-o", "jsonpath={.spec.csi.volumeHandle}")
	Expect(handle).NotTo(BeEmpty())
	return handle
}

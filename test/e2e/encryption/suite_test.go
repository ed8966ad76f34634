//go:build e2e

// Package encryption tests encrypted volumes with a real kubelet: their key is in a Secret.
package encryption

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

var cluster suite.Cluster

func TestEncryption(t *testing.T) { suite.Run(t, "Encrypted volumes") }

const (
	namespace = "default"
	// firstKey and secondKey are keys, as in the Secret.
	firstKey  = "Zmlyc3QgZmlyc3QgZmlyc3QgZmlyc3QgZmlyc3Q="
	secondKey = "c2Vjb25kIHNlY29uZCBzZWNvbmQgc2Vjb25kIHNl"
)

// classes has an encrypted device class, with and without a thin pool.
const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: secret
      default: true
      fstype: xfs
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, sizePercent: 90, overprovisionRatio: 10}
      storageClassOptions:
        additionalParameters: &encrypted
          lvm.topolvm.io/encryption: luks2
          csi.storage.k8s.io/node-stage-secret-name: lvms-key
          csi.storage.k8s.io/node-stage-secret-namespace: volume-keys
    - name: thick-secret
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdc]}
      storageClassOptions:
        additionalParameters: *encrypted
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: plain}
provisioner: topolvm.io
parameters: {topolvm.io/device-class: secret, csi.storage.k8s.io/fstype: xfs}
volumeBindingMode: Immediate
`

var _ = Describe("Encrypted volumes", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		image := suite.Archive("LVMS_IMAGE")
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-encryption", Nodes: 1, Snapshots: true,
			Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}, {Size: 2 * lab.GiB}}})
		Expect(cluster.Install(ctx, image)).To(Succeed())
		cluster.Configure(ctx, classes)
		cluster.Run(ctx, "create", "namespace", "volume-keys")
	}, NodeTimeout(20*time.Minute))

	It("formats nothing without a key, and starts the Pod when the key is there", needsItsKey, NodeTimeout(
		20*time.Minute))
	It("keeps the data of Pods off the disk", keepsDataOffTheDisk, NodeTimeout(30*time.Minute))
	It("expands, and copies snapshots with the same key only", expandsAndCopies, NodeTimeout(24*time.Minute))
	It("survives a power cut", survivesAPowerCut, NodeTimeout(30*time.Minute))
	It("refuses a wrong key and replaces a key without copying data", replacesTheKey, NodeTimeout(24*time.Minute))
	It("serves block volumes of thick device classes", servesBlockVolumes, NodeTimeout(30*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get events -A --sort-by=.lastTimestamp",
		"logs -n "+story.OperatorNamespace+" -l app.kubernetes.io/name=vg-manager --tail=60 --prefix")
}, NodeTimeout(30*time.Minute))

// keys writes the Secret with the keys of the volumes.
func keys(ctx SpecContext, literals ...string) {
	GinkgoHelper()
	args := []string{"create", "secret", "generic", "lvms-key", "-n", "volume-keys", "--dry-run=client", "-o", "json"}
	for _, literal := range literals {
		args = append(args, "--from-literal="+literal)
	}
	cluster.RunWith(ctx, cluster.Run(ctx, args...), "apply", "-f", "-")
}

// failedMounts returns the events of a Pod whose volume could not be mounted.
func failedMounts(ctx SpecContext, pod string) func() string {
	return func() string {
		return cluster.Run(ctx, "get", "events", "-n", namespace, "--field-selector",
			"reason=FailedMount,involvedObject.name="+pod, "-o", "jsonpath={.items[*].message}")
	}
}

// mapped returns the open encrypted volumes of the node.
func mapped(ctx SpecContext) []string {
	GinkgoHelper()
	return strings.Fields(cluster.OnNode1(ctx, "ls /dev/mapper | grep ^lvms-crypt- || true"))
}

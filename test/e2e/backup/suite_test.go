//go:build e2e

// Package backup tests incremental backups of snapshots with the library of external-snapshot-metadata as the client.
package backup

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

var cluster suite.Cluster

func TestBackup(t *testing.T) { suite.Run(t, "Backup") }

const (
	namespace = "default"
	class     = "lvms-vg1"
	// published is the object with which clients find the service.
	published = "snapshotmetadataservices.cbt.storage.k8s.io"
)

const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, sizePercent: 90, overprovisionRatio: 10, chunkSize: 64Ki}
    - name: thick
      deviceSelector: {paths: [/dev/ubdc]}
`

// accounts are what an administrator creates for backup software, and an account without a permission.
const accounts = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: backup, namespace: default}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nobody, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: backup}
rules:
- {apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshots, volumesnapshotcontents], verbs: [get]}
- {apiGroups: [cbt.storage.k8s.io], resources: [snapshotmetadataservices], verbs: [get]}
- {apiGroups: [""], resources: [serviceaccounts/token], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: backup}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: backup}
subjects: [{kind: ServiceAccount, name: backup, namespace: default}]
`

var _ = Describe("Backup", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		image := suite.Archive("LVMS_IMAGE")
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-backup", Nodes: 1, Snapshots: true,
			Disks: []lab.DiskSpec{{Size: 2 * lab.GiB}, {Size: 400 * lab.MiB}}})
		Expect(cluster.Install(ctx, image)).To(Succeed())
		Expect(cluster.ApplyManifest(ctx, classes)).To(Succeed())
		cluster.Configure(ctx, accounts)
	}, NodeTimeout(20*time.Minute))

	It("publishes the service when the API is installed", publishes, NodeTimeout(30*time.Minute))
	It("backs up a snapshot, and then the changes", backsUp, NodeTimeout(30*time.Minute))
	It("resumes when the node agent is killed", resumes, NodeTimeout(20*time.Minute))
	It("refuses others", refuses, NodeTimeout(30*time.Minute))
	It("removes the service with the LVMCluster, and the authority with the operator", removes,
		NodeTimeout(20*time.Minute))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get volumesnapshots,volumesnapshotcontents -A -o yaml",
		"get "+published+" -o yaml")
}, NodeTimeout(30*time.Minute))

// publishes installs the CRD while the operator runs, which must not restart.
func publishes(ctx SpecContext) {
	pods := func() string {
		return cluster.Run(ctx, "get", "pods", "-n", story.OperatorNamespace, "-l",
			"app.kubernetes.io/name=lvms-operator", "-o", "jsonpath={range .items[*]}"+
				"{.metadata.name} {.status.containerStatuses[0].restartCount} {end}")
	}
	before := pods()
	crd, err := os.ReadFile(env.SnapshotMetadataCRD())
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.ApplyManifest(ctx, string(crd))).To(Succeed())
	Eventually(func() (string, error) {
		return cluster.Kubectl(ctx, nil, "get", published, "topolvm.io", "-o",
			"jsonpath={.spec.address} {.spec.audience}")
	}).WithContext(ctx).WithPolling(2 * time.Second).Should(
		Equal("lvms-snapshot-metadata.openshift-lvm-storage.svc:443 snapshot-metadata.topolvm.io"))
	Expect(pods()).To(Equal(before))
}

// program compiles the backup software, and returns its path.
func program(ctx context.Context) string {
	GinkgoHelper()
	root, err := lab.Root()
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "client")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path,
		"./test/e2e/backup/client")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	return path
}

// summary is what the client prints.
type summary struct {
	Capacity, Copied int64
	Ranges           int
	Resumed          []int64
	Failures         []string
}

// client runs the backup software in its Pod.
func client(ctx context.Context, flags string) (summary, error) {
	out, err := cluster.Shell(ctx, namespace, "backup", "/backup/client -account backup "+flags)
	if err != nil {
		return summary{}, err
	}
	var s summary
	return s, json.Unmarshal([]byte(out), &s)
}

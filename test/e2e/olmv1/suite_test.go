//go:build e2e

// Package olmv1 tests the installation with OLM v1 on a cluster with OpenShift's service CA, as documented, from a
// catalog in a mirror.
package olmv1

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/olm"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	namespace   = story.OperatorNamespace
	clusterName = "my-lvmcluster"
	// first and next are the versions of LVMS_IMAGE and LVMS_NEXT_IMAGE.
	first = "0.2.0"
	next  = "0.3.0"
)

var (
	// base and cluster are the same cluster.
	base      suite.Cluster
	cluster   olm.V1
	publisher olm.Publisher
	// images has the images of the operator by version.
	images = map[string]string{}
)

func TestOLMv1(t *testing.T) {
	suite.Run(t, "LVM Storage with OLM v1")
}

// bringUp starts a cluster with OLM v1, and publishes the images of the operator.
func bringUp(ctx context.Context, o lab.Options) {
	GinkgoHelper()
	o.OLMv1 = true
	base = suite.Up(ctx, o)
	cluster = olm.V1{Cluster: olm.Cluster{Cluster: base.Cluster}}
	var err error
	publisher, err = olm.NewPublisher(ctx, base.Lab, GinkgoT().TempDir(), GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	for version, variable := range map[string]string{first: "LVMS_IMAGE", next: "LVMS_NEXT_IMAGE"} {
		images[version], err = publisher.PublishImage(ctx, suite.Archive(variable), version)
		Expect(err).NotTo(HaveOccurred())
	}
}

// likeOpenShift creates a cluster with OpenShift's CRDs and service CA, and other objects of an OpenShift installation.
func likeOpenShift(ctx context.Context, name string) {
	GinkgoHelper()
	bringUp(ctx, lab.Options{Name: name, OpenShift: true, ServiceCA: true, Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}})
	base.PrepareOpenShift(ctx)
}

// publish adds a version to the catalog, and returns the catalog's image.
func publish(ctx context.Context, version string) string {
	GinkgoHelper()
	Expect(publisher.Publish(ctx, olm.Release{Version: version, Image: images[version]})).To(Succeed())
	catalog, err := publisher.PublishCatalog(ctx)
	Expect(err).NotTo(HaveOccurred())
	return catalog
}

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, base.Cluster, "get clustercatalog,clusterextension -o yaml",
		"logs -n olmv1-system deployment/operator-controller-controller-manager --tail=60")
}, NodeTimeout(30*time.Minute))

// runDocumented runs a documented command in a shell, like an administrator.
func runDocumented(ctx context.Context, page, beginning string) {
	GinkgoHelper()
	line, err := olm.DocumentedCommand(page, beginning)
	Expect(err).NotTo(HaveOccurred())
	command, err := cluster.Lab.Command(ctx, "sh", "-c", line)
	Expect(err).NotTo(HaveOccurred())
	out, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", line, out)
}

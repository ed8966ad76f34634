//go:build e2e

package topolvm

import (
	"context"
	_ "embed" // for the chart's manifests
	"os"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
)

// The drivers of TopoLVM: that of this version, and that of TopoLVM before 0.15, which useLegacy selects.
const (
	driver        = "topolvm.io"
	earlierDriver = "topolvm.cybozu.com"
)

//go:embed chart.yaml
var manifests string

//go:embed earlier.yaml
var earlierManifests string

//go:embed values.yaml
var values string

// chartImage is the image in the manifests.
const chartImage = "ghcr.io/topolvm/topolvm-with-sidecar:0.41.0"

// snapshotClass is what TopoLVM's documentation tells users to create. NAME is the driver.
const snapshotClass = `
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: topolvm-provisioner-thin}
driver: NAME
deletionPolicy: Delete
`

// pushImage pushes TopoLVM's image to the lab's registry once, and returns its name.
var pushImage = sync.OnceValues(func() (string, error) {
	return cluster.Lab.LoadImage(context.Background(), suite.Archive("LVMS_TOPOLVM_IMAGE"),
		cluster.Lab.Registry()+"/topolvm:dev")
})

// chartFolder returns a chart whose only template is what TopoLVM's chart renders, with the image in the lab.
func chartFolder(ctx context.Context, rendered string) string {
	GinkgoHelper()
	image, err := pushImage()
	Expect(err).NotTo(HaveOccurred())
	Expect(rendered).To(ContainSubstring(chartImage))
	folder := filepath.Join(GinkgoT().TempDir(), "topolvm")
	Expect(os.MkdirAll(filepath.Join(folder, "templates"), 0o755)).To(Succeed())
	for name, content := range map[string]string{
		"Chart.yaml":              "{apiVersion: v2, name: topolvm, version: 16.0.1}\n",
		"templates/manifest.yaml": strings.ReplaceAll(rendered, chartImage, image),
	} {
		Expect(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600)).To(Succeed())
	}
	return folder
}

// installTopoLVM installs TopoLVM as its documentation says, with one of its drivers.
func installTopoLVM(ctx context.Context, admin page, name string) {
	GinkgoHelper()
	rendered, settings := manifests, values
	if name == earlierDriver {
		rendered, settings = earlierManifests, "useLegacy: true\n"+strings.ReplaceAll(values, driver, earlierDriver)
	}
	cluster.Run(ctx, "create", "namespace", old)
	cluster.Run(ctx, "label", "namespace", old, "pod-security.kubernetes.io/enforce=privileged")
	Expect(os.WriteFile(filepath.Join(admin.folder, "values.yaml"), []byte(settings), 0o600)).To(Succeed())
	admin.run(ctx, "helm install --namespace=topolvm-system topolvm "+chartFolder(ctx, rendered)+
		" --values values.yaml --wait --timeout=10m")
	Expect(cluster.ApplyManifest(ctx, strings.ReplaceAll(snapshotClass, "NAME", name))).To(Succeed())
	registered(ctx, name)
}

// registered waits until the kubelets of the nodes have these drivers, and no others.
func registered(ctx context.Context, drivers ...string) {
	GinkgoHelper()
	for _, node := range nodes {
		Eventually(func() []string {
			return strings.Fields(cluster.Run(ctx, "get", "csinode", node, "-o", "jsonpath={.spec.drivers[*].name}"))
		}).WithContext(ctx).Should(ConsistOf(drivers), "the drivers of %s", node)
	}
}

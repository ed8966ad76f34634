//go:build lab

package sanity

import (
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
)

// TestTopoLVMOnOurEngine lets TopoLVM judge the product's engine and its CSI driver, on the same disks.
func TestTopoLVMOnOurEngine(t *testing.T) {
	storage := prepareDisks(t)
	t.Run("calls", func(t *testing.T) { compareDrivers(t, storage) })
	t.Run("csi-sanity", func(t *testing.T) {
		dir := t.TempDir()
		cluster := startCluster(t)
		config := testConfig(dir, startTopoLVM(t, cluster, storage, dir), thinClass)
		config.TestVolumeMutableParameters = nil
		gomega.RegisterFailHandler(ginkgo.Fail)
		var context *sanity.TestContext
		ginkgo.Describe(thinClass, func() { context = sanity.GinkgoTest(&config) })
		ginkgo.ReportAfterSuite("TopoLVM ran", func(report ginkgo.Report) { checkTopoLVM(t, report) })
		suite, reporter := ginkgo.GinkgoConfiguration()
		reporter.NoColor = true
		ginkgo.RunSpecs(t, suiteName, suite, reporter)
		context.Finalize()
		checkNothingIsLeft(t, cluster, storage)
	})
}

// notOfTopoLVM are csi-sanity's messages for capabilities that TopoLVM does not have.
var notOfTopoLVM = slices.Concat(notOffered, []string{
	"ControllerGetVolumeHealth not supported",
	"ControllerListVolumeHealth not supported",
	"ListVolumes not supported",
	"NodeGetStorageHealth not supported",
	"NodeGetVolumeHealth not supported",
	"Modify volume not supported",
	"Modify Volume not supported",
	"ControllerModifyVolume not supported",
	"GroupControllerService not supported",
	"NodeStageVolume not supported",
	"NodeUnstageVolume not supported",
	"Service does not have single node multi writer capability",
})

// checkTopoLVM fails if a spec was skipped for a reason that is not known.
func checkTopoLVM(t *testing.T, report ginkgo.Report) {
	ran := 0
	for _, spec := range report.SpecReports {
		switch {
		case spec.LeafNodeType != types.NodeTypeIt:
		case !spec.State.Is(types.SpecStateSkipped | types.SpecStatePending):
			ran++
		case spec.State.Is(types.SpecStateSkipped) && !slices.Contains(notOfTopoLVM, spec.Failure.Message):
			t.Errorf("%s: was skipped, and %q is not in the list of reasons", spec.FullText(), spec.Failure.Message)
		}
	}
	t.Logf("%d specs ran", ran)
}

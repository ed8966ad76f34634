//go:build lab

// Package sanity runs the conformance tests of the CSI community against the driver as the product wires it: TopoLVM's
// controller and node service, our engine behind them, a real API server, and real LVM on the disks of a bare lab node.
// hack/test-bare brings it there.
package sanity

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"github.com/topolvm/topolvm"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lvm-storage/lvm-operator/test/env"
)

// TestSanity starts the driver on this node and runs the specs for each device class.
func TestSanity(t *testing.T) {
	begun := time.Now()
	ctrl.SetLogger(zap.New(zap.WriteTo(ginkgo.GinkgoWriter)))
	dir := t.TempDir()
	cluster := startCluster(t)
	t.Logf("%3.0f s: the API server is up", time.Since(begun).Seconds())
	storage := prepareDisks(t)
	sockets := startDriver(t, cluster, storage, dir)
	t.Logf("%3.0f s: the driver is up", time.Since(begun).Seconds())

	gomega.RegisterFailHandler(ginkgo.Fail)
	thin, thick := testConfig(dir, sockets, thinClass), testConfig(dir, sockets, thickClass)
	var contexts []*sanity.TestContext
	ginkgo.Describe(thinClass, func() { contexts = append(contexts, sanity.GinkgoTest(&thin)) })
	ginkgo.Describe(thickClass, func() {
		contexts = append(contexts, sanity.GinkgoTest(&thick))
		refusesSnapshots(&thick)
	})
	ginkgo.ReportAfterSuite("every spec ran that applies", func(report ginkgo.Report) { checkReport(t, report) })
	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.SkipStrings = append(suite.SkipStrings, patterns(notForThick)...)
	ginkgo.RunSpecs(t, "csi-sanity", suite, reporter)
	for _, context := range contexts {
		context.Finalize()
	}
	t.Logf("%3.0f s: the specs ended", time.Since(begun).Seconds())
	checkNothingIsLeft(t, cluster, storage)
}

// startCluster starts the API server and etcd on this node.
func startCluster(t *testing.T) *env.Env {
	t.Helper()
	cluster, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Errorf("stop the API server: %v", err)
		}
	})
	return cluster
}

const (
	// volumeSize is enough for every file system and small enough to be made quickly.
	volumeSize = 320 << 20
	// expandedSize is a multiple of LVM's extents, since the specs want exactly what they asked for.
	expandedSize = 400 << 20
	// repetitions is how often a call that must be idempotent is repeated.
	repetitions = 3
)

// testConfig is what the specs need to know for one device class.
func testConfig(dir string, s sockets, class string) sanity.TestConfig {
	config := sanity.NewTestConfig()
	config.Address, config.ControllerAddress = s.node, s.controller
	config.TargetPath, config.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	config.TestVolumeSize, config.TestVolumeExpandSize = volumeSize, expandedSize
	config.TestVolumeParameters = map[string]string{topolvm.GetDeviceClassKey(): class}
	config.TestSnapshotParameters = map[string]string{}
	config.IdempotentCount = repetitions
	return config
}

// exception is a spec that does not apply, and why.
type exception struct{ spec, reason string }

const onlyThin = "LVM makes snapshots of this kind in a thin pool only; a thick class answers Unimplemented, which refusesSnapshots tests"

// notForThick are the specs that make a snapshot or a clone. TopoLVM has one set of capabilities for all its classes, so the
// specs cannot know. Those of the same kind that only send bad requests do run.
var notForThick = []exception{
	{"CreateVolume should create volume from an existing source snapshot", onlyThin},
	{"CreateVolume should create volume from an existing source volume", onlyThin},
	{"DeleteSnapshot [Controller Server] should return appropriate values", onlyThin},
	{"CreateSnapshot [Controller Server] should succeed when requesting to create a snapshot with already existing name and same source volume ID", onlyThin},
	{"CreateSnapshot [Controller Server] should fail when requesting to create a snapshot with already existing name and different source volume ID", onlyThin},
	{"CreateSnapshot [Controller Server] should succeed when creating snapshot with maximum-length name", onlyThin},
}

// patterns are the exceptions of the thick class as Ginkgo takes them.
func patterns(exceptions []exception) []string {
	var list []string
	for _, e := range exceptions {
		list = append(list, "^"+thickClass+" .*"+quote(e.spec))
	}
	return list
}

// quote takes the brackets of a spec's text literally.
func quote(text string) string {
	return strings.NewReplacer("[", `\[`, "]", `\]`, "(", `\(`, ")", `\)`).Replace(text)
}

// checkReport lists what was skipped and fails for a skip that nobody gave a reason for, and for a reason without a skip.
func checkReport(t *testing.T, report ginkgo.Report) {
	seconds, ran, used := map[string]time.Duration{}, map[string]int{}, map[string]bool{}
	for _, spec := range report.SpecReports {
		if spec.LeafNodeType != types.NodeTypeIt {
			continue
		}
		class, _, _ := strings.Cut(spec.FullText(), " ")
		if !spec.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
			seconds[class] += spec.RunTime
			ran[class]++
			continue
		}
		reason, known := reasonOf(spec, used)
		t.Logf("skipped: %s: %s", spec.FullText(), reason)
		if !known {
			t.Errorf("%s was skipped for a reason that is not in the list: %q", spec.FullText(), reason)
		}
	}
	for _, e := range notForThick {
		if !used[e.spec] {
			t.Errorf("no spec is called %q: take it out of the list", e.spec)
		}
	}
	for class, n := range ran {
		t.Logf("%s: %d specs in %.0f s", class, n, seconds[class].Seconds())
	}
}

// reasonOf tells why a spec was skipped, and whether that is a reason we know.
func reasonOf(spec types.SpecReport, used map[string]bool) (reason string, known bool) {
	for _, e := range notForThick {
		if strings.HasPrefix(spec.FullText(), thickClass+" ") && strings.Contains(spec.FullText(), e.spec) {
			used[e.spec] = true
			return e.reason, true
		}
	}
	if spec.State.Is(types.SpecStatePending) {
		return "csi-sanity itself leaves it out", true
	}
	reason = spec.Failure.Message
	return reason, slices.Contains(notOffered, reason)
}

// notOffered are csi-sanity's words for capabilities that TopoLVM's driver does not have.
var notOffered = []string{}

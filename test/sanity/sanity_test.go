//go:build lab

// Package sanity runs the conformance tests of the CSI community against the driver as the product wires it: controller
// and node service, engine, a real API server, and real LVM on the disks of a bare lab node.
// hack/test-bare brings it there.
package sanity

import (
	"maps"
	"path/filepath"
	"regexp"
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
	thin := testConfig(dir, sockets, thinClass)
	var contexts []*sanity.TestContext
	ginkgo.Describe(thinClass, func() { contexts = append(contexts, sanity.GinkgoTest(&thin)) })
	for _, class := range withoutSnapshots {
		config := testConfig(dir, sockets, class)
		ginkgo.Describe(class, func() {
			contexts = append(contexts, sanity.GinkgoTest(&config))
			refusesSnapshots(&config)
		})
	}
	ginkgo.ReportAfterSuite("every spec ran that applies", func(report ginkgo.Report) { checkReport(t, report) })
	suite, reporter := ginkgo.GinkgoConfiguration()
	reporter.NoColor = true
	suite.SkipStrings = append(suite.SkipStrings, patterns(notForThick)...)
	ginkgo.RunSpecs(t, suiteName, suite, reporter)
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
	suiteName = "csi-sanity"
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
	config.Address = s.node
	config.ControllerAddress = s.controller
	config.TargetPath, config.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	config.TestVolumeSize = volumeSize
	config.TestVolumeExpandSize = expandedSize
	config.TestVolumeParameters = map[string]string{topolvm.GetDeviceClassKey(): class}
	config.TestSnapshotParameters = map[string]string{}
	config.IdempotentCount = repetitions
	return config
}

// withoutSnapshots are the classes of thick volumes.
var withoutSnapshots = []string{thickClass, raidClass}

// exception is a spec that does not apply, and why.
type exception struct{ spec, reason string }

const onlyThin = "LVM makes snapshots of this kind in a thin pool only; a thick class answers Unimplemented, which " +
	"refusesSnapshots tests"

// notForThick are the specs that make a snapshot or a clone. The driver has one set of capabilities for all its
// classes, so the specs cannot know. Those of the same kind that only send bad requests do run.
var notForThick = []exception{
	{"CreateVolume should create volume from an existing source snapshot", onlyThin},
	{"CreateVolume should create volume from an existing source volume", onlyThin},
	{"DeleteSnapshot [Controller Server] should return appropriate values", onlyThin},
	{"CreateSnapshot [Controller Server] should succeed when requesting to create a snapshot with already existing " +
		"name and same source volume ID", onlyThin},
	{"CreateSnapshot [Controller Server] should fail when requesting to create a snapshot with already existing name " +
		"and different source volume ID", onlyThin},
	{"CreateSnapshot [Controller Server] should succeed when creating snapshot with maximum-length name", onlyThin},
}

// patterns are the exceptions of the thick classes as Ginkgo takes them: it puts the name of the suite in front of the
// texts.
func patterns(exceptions []exception) []string {
	var list []string
	for _, e := range exceptions {
		list = append(list, "^"+suiteName+" ("+strings.Join(withoutSnapshots, "|")+") .*"+regexp.QuoteMeta(e.spec))
	}
	return list
}

// notOffered are csi-sanity's words for what the driver does not claim to have. A new one in here is a capability that
// was lost.
var notOffered = []string{
	"Controller Publish, UnpublishVolume not supported",
	"ControllerModifyVolume not supported",
	"ControllerPublishVolume not supported",
	"ControllerUnpublishVolume not supported",
	"GetSnapshot not supported",
	"GroupControllerService not supported",
	"ListSnapshots not supported",
	"Modify Volume not supported",
	"Modify volume not supported",
}

// result is what happened to the specs of one class.
type result struct {
	ran     int
	took    time.Duration
	skipped map[string][]string // specs by reason
}

// checkReport lists what was skipped and why. It fails for a reason that is in none of the lists, and for a spec in
// notForThick that there is not.
func checkReport(t *testing.T, report ginkgo.Report) {
	results := map[string]*result{}
	used := map[string]bool{}
	for _, class := range append([]string{thinClass}, withoutSnapshots...) {
		results[class] = &result{skipped: map[string][]string{}}
	}
	for _, spec := range report.SpecReports {
		if class, text, _ := strings.Cut(spec.FullText(), " "); spec.LeafNodeType == types.NodeTypeIt {
			results[class].add(t, class, text, spec, used)
		}
	}
	for _, e := range notForThick {
		if !used[e.spec] {
			t.Errorf("no spec of the thick classes is called %q: take it out of the list", e.spec)
		}
	}
	for class, r := range results {
		t.Logf("%s: %d specs ran in %.0f s", class, r.ran, r.took.Seconds())
		for _, reason := range slices.Sorted(maps.Keys(r.skipped)) {
			t.Logf("%s: %d skipped: %s\n\t%s", class, len(r.skipped[reason]), reason,
				strings.Join(r.skipped[reason], "\n\t"))
		}
	}
}

// add takes one spec into the result.
func (r *result) add(t *testing.T, class, text string, spec types.SpecReport, used map[string]bool) {
	if !spec.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
		r.ran++
		r.took += spec.RunTime
		return
	}
	reason, known := reasonOf(class, text, spec, used)
	r.skipped[reason] = append(r.skipped[reason], text)
	if !known {
		t.Errorf("%s: %s: was skipped, and %q is not in the list of reasons", class, text, reason)
	}
}

// reasonOf tells why a spec was skipped, and whether that is a reason we know.
func reasonOf(class, text string, spec types.SpecReport, used map[string]bool) (reason string, known bool) {
	for _, e := range notForThick {
		if slices.Contains(withoutSnapshots, class) && strings.Contains(text, e.spec) {
			used[e.spec] = true
			return e.reason, true
		}
	}
	if spec.State.Is(types.SpecStatePending) {
		return "csi-sanity itself marks it as pending", true
	}
	return spec.Failure.Message, slices.Contains(notOffered, spec.Failure.Message)
}

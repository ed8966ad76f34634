//go:build lab

// Package sanity runs the conformance tests of the CSI community against the product's driver: controller and node
// service, engine, a real API server, and real LVM on the disks of a bare lab node (item bare/sanity of test/lane).
package sanity

import (
	"maps"
	"os"
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

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/groupsnapshot"
)

// TestMain makes the test's program the watchdog of group snapshots, as cmd/lvms does.
func TestMain(m *testing.M) {
	watchdog := groupsnapshot.WatchdogCommand()
	if len(os.Args) < 2 || os.Args[1] != watchdog.Name() {
		os.Exit(m.Run())
	}
	watchdog.SetArgs(os.Args[2:])
	if err := watchdog.Execute(); err != nil {
		os.Exit(1)
	}
}

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
	ginkgo.Describe(thinClass, func() {
		contexts = append(contexts, sanity.GinkgoTest(&thin))
		takesGroupSnapshots(&thin)
	})
	for _, class := range withoutSnapshots {
		config := testConfig(dir, sockets, class)
		ginkgo.Describe(class, func() {
			contexts = append(contexts, sanity.GinkgoTest(&config))
			refusesSnapshots(&config)
			refusesGroupSnapshots(&config)
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
	// volumeSize is enough for every file system, and small enough for quick tests.
	volumeSize = 320 << 20
	// expandedSize is a multiple of LVM's extents, because the specs expect exactly the requested size.
	expandedSize = 400 << 20
	// repetitions is how often an idempotent call is repeated.
	repetitions = 3
)

// testConfig returns the configuration of the specs for a device class.
func testConfig(dir string, s sockets, class string) sanity.TestConfig {
	config := sanity.NewTestConfig()
	config.Address = s.node
	config.ControllerAddress = s.controller
	config.TargetPath, config.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	config.TestVolumeSize = volumeSize
	config.TestVolumeExpandSize = expandedSize
	config.TestVolumeParameters = map[string]string{topolvm.GetDeviceClassKey(): class}
	config.TestVolumeMutableParameters = map[string]string{wellknown.WriteIOPSParameter: "1k"}
	config.TestSnapshotParameters = map[string]string{}
	config.IdempotentCount = repetitions
	return config
}

// withoutSnapshots are the classes with thick volumes.
var withoutSnapshots = []string{thickClass, raidClass}

// exception is a spec that does not apply, with the reason.
type exception struct{ spec, reason string }

const onlyThin = "LVM makes snapshots of this kind in a thin pool only; a thick class answers Unimplemented, which " +
	"refusesSnapshots tests"

// copied is why the clone of a thick volume is not requested here.
const copied = "the node agents copy the data of a thick volume over the network when the operator has it closed, and " +
	"this suite has neither; test/e2e/copies tests it"

// notForThick are the specs that create a snapshot or a clone. The capabilities of the driver are the same for all
// classes, so the specs cannot detect that a class has no snapshots. Specs that only send invalid requests do run.
var notForThick = []exception{
	{"CreateVolume should create volume from an existing source snapshot", onlyThin},
	{"CreateVolume should create volume from an existing source volume", copied},
	{"DeleteSnapshot [Controller Server] should return appropriate values", onlyThin},
	{"CreateSnapshot [Controller Server] should succeed when requesting to create a snapshot with already existing " +
		"name and same source volume ID", onlyThin},
	{
		"CreateSnapshot [Controller Server] should fail when requesting to create a snapshot with already existing name " +
			"and different source volume ID",
		onlyThin,
	},
	{"CreateSnapshot [Controller Server] should succeed when creating snapshot with maximum-length name", onlyThin},
}

// patterns returns the exceptions of the thick classes in the format of Ginkgo, which adds the name of the suite as a
// prefix.
func patterns(exceptions []exception) []string {
	var list []string
	for _, e := range exceptions {
		list = append(list, "^"+suiteName+" ("+strings.Join(withoutSnapshots, "|")+") .*"+regexp.QuoteMeta(e.spec))
	}
	return list
}

// notOffered are csi-sanity's messages for capabilities that the driver does not have. An additional message means that
// a capability was lost.
var notOffered = []string{
	"Controller Publish, UnpublishVolume not supported",
	"ControllerPublishVolume not supported",
	"ControllerUnpublishVolume not supported",
	"GetSnapshot not supported",
	"ListSnapshots not supported",
	// A snapshot can be restored on each node: it is copied if the volume is on another one.
	"SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported",
}

// result is the result of the specs for a class.
type result struct {
	ran     int
	took    time.Duration
	skipped map[string][]string // specs by reason
}

// checkReport lists the skipped specs with the reasons. It fails for an unknown reason, and for a spec in notForThick
// that does not exist.
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

// add adds a spec to the result.
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

// reasonOf returns why a spec was skipped, and whether the reason is known.
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

package rules

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// written is the file with the rules for Prometheus.
const written = "../tests/rules.yaml"

// scene has the series, with one sample for each step (STEP in seconds, END of them until the end), and the exact list
// of alerts at some times, as "NAME", or "NAME pending", with " xN" for several.
type scene struct {
	series map[string]string
	want   map[time.Duration][]string
}

func (s scene) end() time.Duration { return slices.Max(slices.Collect(maps.Keys(s.want))) }

// step returns the time between two samples and evaluations: a minute, or ten in a scene of many hours.
func (s scene) step() time.Duration {
	if s.end() > 4*time.Hour {
		return 10 * time.Minute
	}
	return time.Minute
}

// see has go test's cache see a file or folder that a child process reads: the result is not taken from the cache after
// a change.
func see(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(name); err != nil {
		t.Fatal(err)
	}
}

// play evaluates the rules with promtool, which is a part of Prometheus.
func (s scene) play(t *testing.T) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is not there: run make packages (Debian's package prometheus)")
	}
	see(t, written)
	rules, err := filepath.Abs(written)
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	step := s.step().String()
	values := strings.NewReplacer("STEP", strconv.Itoa(int(s.step().Seconds())),
		"END", strconv.Itoa(int(s.end()/s.step())))
	var input, tests []any
	for _, name := range slices.Sorted(maps.Keys(s.series)) {
		input = append(input, map[string]any{"series": name, "values": values.Replace(s.series[name])})
	}
	for _, at := range slices.Sorted(maps.Keys(s.want)) {
		tests = append(tests, map[string]any{"expr": "count by (alertname, alertstate) (ALERTS)",
			"eval_time": at.String(), "exp_samples": samples(t, s.want[at])})
	}
	file, err := yaml.Marshal(map[string]any{
		"rule_files": []string{rules}, "evaluation_interval": step,
		"tests": []any{map[string]any{"interval": step, "input_series": input, "promql_expr_test": tests}},
	})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "scene.yaml")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", name).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func samples(t *testing.T, alerts []string) []any {
	t.Helper()
	list := []any{}
	for _, alert := range alerts {
		alert, several, _ := strings.Cut(alert, " x")
		number := 1
		if several != "" {
			var err error
			if number, err = strconv.Atoi(several); err != nil {
				t.Fatal(err)
			}
		}
		name, pending := strings.CutSuffix(alert, " pending")
		if !slices.ContainsFunc(allAlerts(), func(a Alert) bool { return a.Name == name }) {
			t.Fatalf("there is no alert %s", name)
		}
		state := map[bool]string{true: "pending", false: "firing"}[pending]
		list = append(list, map[string]any{"labels": fmt.Sprintf("{alertname=%q, alertstate=%q}", name, state),
			"value": number})
	}
	return list
}

func allAlerts() []Alert {
	var all []Alert
	for _, g := range Groups() {
		all = append(all, g.Alerts...)
	}
	return all
}

const (
	day = 24 * time.Hour
	// class and node are the labels of a series, including those that Prometheus adds.
	class = `namespace="openshift-lvm-storage",pod="vg-manager-1",node="n1",device_class="vg1"`
	node  = `namespace="openshift-lvm-storage",pod="vg-manager-1",node="n1"`
)

// fileSystem returns the series of a volume with a broken file system. The namespace is that of its claim.
func fileSystem(volume string) string {
	return fmt.Sprintf(
		`lvms_volume_filesystem_abnormal{namespace="shop",pod="vg-manager-1",node="n1",device_class="vg1",volume=%q,persistentvolumeclaim="orders"}`, volume)
}

// well returns the series of a healthy cluster for two days. changes replaces or adds series; "" removes one.
func well(changes map[string]string) map[string]string {
	const steady = "xEND"
	series := map[string]string{
		`up{job="lvms-operator-metrics-service",namespace="openshift-lvm-storage",pod="lvms-operator-1"}`: "1" + steady,
		`up{job="vg-manager-metrics-service",` + node + `}`:                                               "1" + steady,
		`lvms_node_volume_groups{namespace="openshift-lvm-storage",pod="lvms-operator-1",node="n1"}`:      "1" + steady,
		`lvms_capacity_observed_timestamp_seconds{` + node +
			`}`: "0+STEP" + steady,
		`lvms_node_status_observed{` + node + `}`:           "1" + steady,
		`lvms_unmanaged_volume_group_devices{` + node + `}`: "0" + steady,
		`lvms_volume_group_missing_devices{` + class + `}`:  "0" + steady,
		`lvms_volume_group_failing_devices{` + class + `}`:  "0" + steady,
	}
	for _, state := range []string{"Ready", "Failed", "Degraded", "Progressing"} {
		value := map[bool]string{true: "1", false: "0"}[state == "Ready"]
		series[`lvms_volume_group_state{`+class+`,state="`+state+`"}`] = value + steady
		series[`lvms_lvmcluster_state{namespace="openshift-lvm-storage",lvmcluster="c",state="`+state+
			`"}`] = value + steady
	}
	maps.Copy(series, changes)
	maps.DeleteFunc(series, func(_, values string) bool { return values == "" })
	return series
}

// thin returns such a cluster with a thin pool of 100 bytes: its data and metadata in percent, and its provisioned
// bytes.
func thin(data, metadata, promised string) map[string]string {
	return well(map[string]string{
		`topolvm_thinpool_data_percent{` + class + `}`:     data,
		`topolvm_thinpool_metadata_percent{` + class + `}`: metadata,
		`topolvm_thinpool_size_bytes{` + class + `}`:       "100xEND",
		`lvms_thinpool_virtual_bytes{` + class + `}`:       promised,
		// The pool uses the whole group, which is fine.
		`topolvm_volumegroup_size_bytes{` + class + `}`: "110xEND",
		`lvms_volume_group_free_bytes{` + class + `}`:   "0xEND",
	})
}

// thick returns such a cluster with a thick class: the free bytes of 100.
func thick(free string) map[string]string {
	return well(map[string]string{
		`topolvm_volumegroup_size_bytes{` + class + `}`: "100xEND",
		`lvms_volume_group_free_bytes{` + class + `}`:   free,
	})
}

const (
	dataNear     = "ThinPoolDataUsageAtThresholdNearFull"
	dataCritical = "ThinPoolDataUsageAtThresholdCritical"
	dataFull     = "LVMSThinPoolDataFull"
	metaNear     = "ThinPoolMetaDataUsageAtThresholdNearFull"
	metaCritical = "ThinPoolMetaDataUsageAtThresholdCritical"
	metaFull     = "LVMSThinPoolMetadataFull"
)

func TestNothingIsWrong(t *testing.T) {
	quiet := map[time.Duration][]string{0: nil, 10 * time.Minute: nil, 30 * time.Minute: nil, time.Hour: nil,
		90 * time.Minute: nil, 2 * time.Hour: nil}
	long := map[time.Duration][]string{2 * time.Hour: nil, 7 * time.Hour: nil, day: nil, 2 * day: nil}

	for name, series := range map[string]map[string]string{
		"a healthy cluster": well(nil),
		"a cluster without an LVMCluster": {
			`up{job="lvms-operator-metrics-service",namespace="openshift-lvm-storage",pod="p"}`: "1xEND"},
		"a pool that is used":               thin("40xEND", "20xEND", "200xEND"),
		"just below every threshold":        thin("74.9xEND", "74.9xEND", "200xEND"),
		"a pool that is full by design":     thin("20+2x40 100xEND", "20xEND", "100xEND"),
		"a thick group that is used":        thick("26xEND"),
		"a pool that grows for a long time": thin("30+0.05x800", "10xEND", "200xEND"),
	} {
		t.Run(name, func(t *testing.T) { scene{series, quiet}.play(t) })
		t.Run(name+", for days", func(t *testing.T) { scene{series, long}.play(t) })
	}
}

func TestAPoolThatBreathesByDay(t *testing.T) {
	want := map[time.Duration][]string{}
	for h := range 48 {
		want[time.Duration(h)*time.Hour] = nil
	}
	scene{thin("50+0.2x71 64.4-0.2x71 50+0.2x71 64.4-0.2x71", "10xEND", "200xEND"), want}.play(t)
}

func TestAPoolFills(t *testing.T) {
	const minute = time.Minute
	for name, s := range map[string]scene{
		"data, in its order": {thin("74x9 75x9 85x9 95x60", "10xEND", "200xEND"), map[time.Duration][]string{
			9 * minute: nil, 10 * minute: {dataNear + " pending"}, 14 * minute: {dataNear + " pending"},
			15 * minute: {dataNear},
			20 * minute: {dataCritical + " pending"}, 21 * minute: {dataCritical}, 30 * minute: {dataFull},
			60 * minute: {dataFull},
		}},
		"metadata, in its order": {thin("10xEND", "74x9 75x9 85x9 95x60", "200xEND"), map[time.Duration][]string{
			9 * minute: nil, 10 * minute: {metaNear + " pending"}, 15 * minute: {metaNear},
			20 * minute: {metaCritical + " pending"}, 21 * minute: {metaCritical}, 30 * minute: {metaFull},
		}},
		// With upstream's rules, exactly 85.0 fires no alert, and values that alternate between 84.9 and 85.1 often
		// cause an alert that appears and disappears.
		"exactly at a threshold": {thin("85x60", "95x60", "200xEND"),
			map[time.Duration][]string{2 * minute: {dataCritical, metaFull}}},
		"to and fro about a threshold": {thin("84.9 85.1"+strings.Repeat(" 84.9 85.1", 60), "10xEND", "200xEND"),
			everyMinute(3, 120, dataCritical)},
		"emptied: it ends, ten later": {thin("90x20 40x100", "10xEND", "200xEND"),
			map[time.Duration][]string{20 * minute: {dataCritical}, 29 * minute: {dataCritical}, 32 * minute: nil}},
		"a gap of eight minutes": {thin("90x20 _x8 90x60", "10xEND", "200xEND"),
			everyMinute(2, 60, dataCritical)},
		"what it promises is not known": {thin("90x60", "10xEND", ""),
			map[time.Duration][]string{5 * minute: {dataCritical}}},
		"two agents during an upgrade": {with(thin("80x60", "10xEND", "200xEND"),
			`topolvm_thinpool_data_percent{`+strings.ReplaceAll(class, "vg-manager-1", "vg-manager-2")+`}`, "80x60"),
			map[time.Duration][]string{10 * minute: {dataNear}}},
		"within hours": {thin("50+0.2x170 84x100", "10xEND", "200xEND"),
			map[time.Duration][]string{20 * minute: nil, 50 * minute: {"LVMSThinPoolDataFillingUpInHours pending"},
				70 * minute: {"LVMSThinPoolDataFillingUpInHours"}, 130 * minute: {"LVMSThinPoolDataFillingUpInHours"}}},
		"within days": {thin("50+0.1x170", "10xEND", "200xEND"),
			map[time.Duration][]string{8 * time.Hour: nil, 23 * time.Hour: nil,
				26 * time.Hour: {"LVMSThinPoolDataFillingUpInDays"}}},
		"a new node, half full": {thin("_x60 60xEND", "_x60 10xEND", "200xEND"),
			map[time.Duration][]string{11 * time.Hour: nil, 20 * time.Hour: nil}},
		"promised much too much": {thin("55xEND", "10xEND", "500xEND"), map[time.Duration][]string{
			50 * minute: {"LVMSThinPoolOvercommitRisk pending"}, 61 * minute: {"LVMSThinPoolOvercommitRisk"}}},
		"written at once, to the half": {thin("10x60 10+4x10 50xEND", "10xEND", "200xEND"),
			map[time.Duration][]string{
				80 * minute: {"LVMSThinPoolDataFillingUpInHours pending"}, 100 * minute: nil, 130 * minute: nil}},
		"LVM's metadata area": {well(map[string]string{
			`lvms_volume_group_metadata_size_bytes{` + class + `}`:    "1044480xEND",
			`lvms_volume_group_metadata_free_bytes{` + class + `}`:    "400000x9 130000xEND",
			`lvms_volume_group_state{` + class + `,state="Degraded"}`: "0x30 1xEND",
		}), map[time.Duration][]string{9 * minute: nil, 15 * minute: {"LVMSVolumeGroupMetadataFull pending"},
			25 * minute: {"LVMSVolumeGroupMetadataFull"}, 60 * minute: {"LVMSVolumeGroupMetadataFull"}}},
		"promised much, and filling": {thin("80xEND", "10xEND", "500xEND"),
			map[time.Duration][]string{2 * time.Hour: {dataNear}}},
	} {
		t.Run(name, func(t *testing.T) { s.play(t) })
	}
}

// with returns series with one added.
func with(series map[string]string, name, values string) map[string]string {
	series[name] = values
	return series
}

// everyMinute expects the same alerts in every minute.
func everyMinute(from, to int, alerts ...string) map[time.Duration][]string {
	want := map[time.Duration][]string{}
	for m := from; m < to; m++ {
		want[time.Duration(m)*time.Minute] = alerts
	}
	return want
}

func TestAThickGroupFills(t *testing.T) {
	scene{thick("26x9 25x9 15x9 5x60"), map[time.Duration][]string{
		9 * time.Minute: nil, 15 * time.Minute: {"VolumeGroupUsageAtThresholdNearFull"},
		21 * time.Minute: {"VolumeGroupUsageAtThresholdCritical"}, 30 * time.Minute: {"LVMSVolumeGroupFull"},
	}}.play(t)
}

// redundant returns a cluster with a redundant class.
func redundant(health, syncing, percent, degraded string, changes map[string]string) map[string]string {
	series := well(map[string]string{
		`lvms_raid_health_status{` + class + `}`: health, `lvms_raid_sync_in_progress{` + class + `}`: syncing,
		`lvms_raid_sync_percent{` + class + `}`: percent, `lvms_raid_degraded_count{` + class + `}`: degraded,
	})
	maps.Copy(series, changes)
	return series
}

func TestDevicesAndRedundancy(t *testing.T) {
	const (
		minute  = time.Minute
		missing = `lvms_volume_group_missing_devices{` + class + `}`
		failing = `lvms_volume_group_failing_devices{` + class + `}`
		groupIs = `lvms_volume_group_state{` + class + `,state="`
		cluster = `lvms_lvmcluster_state{namespace="openshift-lvm-storage",lvmcluster="c",state="`
	)
	degraded := func(more map[string]string) map[string]string {
		maps.Copy(more, map[string]string{groupIs + `Ready"}`: "0xEND", groupIs + `Degraded"}`: "1xEND",
			cluster + `Ready"}`: "0xEND", cluster + `Degraded"}`: "1xEND"})
		return more
	}
	failed := func(more map[string]string) map[string]string {
		maps.Copy(more, map[string]string{groupIs + `Ready"}`: "0xEND", groupIs + `Failed"}`: "1xEND",
			cluster + `Ready"}`: "0xEND", cluster + `Failed"}`: "1xEND"})
		return more
	}
	const verdict = `lvms_device_smart_healthy{` + node + `,device="/dev/sdb",device_id="wwn:1"}`
	state := func(state string) string {
		return `lvms_device_state{` + node + `,device="/dev/sdb",device_id="wwn:1",state="` + state + `"}`
	}
	foreseen := []string{"LVMSDeviceFailurePredicted"}
	for name, s := range map[string]scene{
		"a disk is well": {well(map[string]string{verdict: "1x100", state("InUse"): "1x100"}),
			map[time.Duration][]string{60 * minute: nil}},
		"a disk predicts its failure": {well(map[string]string{verdict: "1x9 0x100", state("InUse"): "1x200"}),
			map[time.Duration][]string{9 * minute: nil, 10 * minute: {"LVMSDeviceFailurePredicted pending"},
				15 * minute: foreseen, 60 * minute: foreseen}},
		"it changes its mind": {well(map[string]string{verdict: "0x19 1x100"}),
			map[time.Duration][]string{19 * minute: foreseen, 29 * minute: foreseen, 31 * minute: nil}},
		"it foresaw that, and is pulled": {
			well(degraded(map[string]string{verdict: "0x100", state("InUse"): "1x9", state("Missing"): "_x9 1x100",
				missing: "0x9 1x100"})), map[time.Duration][]string{60 * minute: {"LVMSDeviceMissing"}}},
		"it foresaw that, and gives errors": {
			well(degraded(map[string]string{verdict: "0x100", state("InUse"): "1x9", state("Failing"): "_x9 1x100",
				failing: "0x9 1x100"})), map[time.Duration][]string{60 * minute: {"LVMSDeviceFailing"}}},
		"two disks predict it, one verdict is not scraped for a while": {
			well(map[string]string{verdict: "0x20 _x8 0x100",
				`lvms_device_smart_healthy{` + node + `,device="/dev/sdc",device_id=""}`: "0x100"}),
			everyMinute(6, 60, "LVMSDeviceFailurePredicted x2")},
		"a disk is pulled": {well(degraded(map[string]string{missing: "0x4 1x100"})), map[time.Duration][]string{
			6 * minute: {"LVMSDeviceMissing"}, 60 * minute: {"LVMSDeviceMissing"}}},
		"the last disk is pulled": {well(failed(map[string]string{missing: "1x100"})),
			map[time.Duration][]string{60 * minute: {"LVMSDeviceMissing"}}},
		"it comes back": {well(map[string]string{missing: "1x10 0x100"}),
			map[time.Duration][]string{10 * minute: {"LVMSDeviceMissing"}, 22 * minute: nil}},
		"a disk fails": {well(degraded(map[string]string{failing: "1x100"})),
			map[time.Duration][]string{minute: {"LVMSDeviceFailing"}, 60 * minute: {"LVMSDeviceFailing"}}},
		"one fails, one is pulled": {well(degraded(map[string]string{failing: "1x100", missing: "1x100"})),
			map[time.Duration][]string{60 * minute: {"LVMSDeviceMissing"}}},
		"a scrape gap at a disk": {well(degraded(map[string]string{missing: "1x10 _x8 1x50"})),
			everyMinute(2, 60, "LVMSDeviceMissing")},
		"a group cannot be set up": {well(failed(map[string]string{})),
			map[time.Duration][]string{4 * minute: {"LVMSVolumeGroupFailed pending", "LVMSClusterNotReady pending"},
				60 * minute: {"LVMSVolumeGroupFailed"}}},
		"something else is wrong": {well(degraded(map[string]string{})),
			map[time.Duration][]string{9 * minute: {"LVMSVolumeGroupDegraded pending"},
				60 * minute: {"LVMSVolumeGroupDegraded"}}},
		"degraded by its pool": {with(with(thin("90xEND", "10xEND", "200xEND"), groupIs+`Degraded"}`, "1xEND"),
			groupIs+`Ready"}`, "0xEND"), map[time.Duration][]string{60 * minute: {dataCritical}}},
		"file systems are broken": {well(map[string]string{fileSystem("a"): "1x100", fileSystem("b"): "_x5 1x100"}),
			map[time.Duration][]string{
				0: {"LVMSFileSystemBroken pending"}, 60 * minute: {"LVMSFileSystemBroken x2"}}},
		"one is repaired": {well(map[string]string{fileSystem("a"): "1x10 stale"}),
			map[time.Duration][]string{10 * minute: {"LVMSFileSystemBroken"}, 22 * minute: nil}},
		"a scrape gap at one": {well(map[string]string{fileSystem("a"): "1x10 _x8 1x50"}),
			everyMinute(2, 60, "LVMSFileSystemBroken")},
		"it broke with its disk": {well(degraded(map[string]string{failing: "1x100", fileSystem("a"): "1x100"})),
			map[time.Duration][]string{60 * minute: {"LVMSDeviceFailing"}}},
		"it broke as a disk was lost": {well(degraded(map[string]string{missing: "1x100", fileSystem("a"): "1x100"})),
			map[time.Duration][]string{60 * minute: {"LVMSDeviceMissing"}}},
		"a group of somebody else": {well(map[string]string{`lvms_unmanaged_volume_group_devices{` + node +
			`}`: "2x100"}), map[time.Duration][]string{59 * minute: {"LVMSUnmanagedVolumeGroup pending"},
			61 * minute: {"LVMSUnmanagedVolumeGroup"}}},
		"a new redundant volume": {redundant("1x20 0x100", "1x20 0x100", "10+4x20 100x100", "0xEND",
			map[string]string{groupIs + `Degraded"}`: "1x20 0x100", groupIs + `Ready"}`: "0x20 1x100"}),
			map[time.Duration][]string{minute: {"LVMSRAIDSyncSlow pending"}, 20 * minute: {"LVMSRAIDSyncSlow pending"},
				21 * minute: nil, 22 * minute: nil, 30 * minute: nil, 60 * minute: nil}},
		"a leg is lost": {redundant("0x4 1x100", "0xEND", "100xEND", "0x4 1x100",
			degraded(map[string]string{missing: "0x4 1x100"})),
			map[time.Duration][]string{6 * minute: {"LVMSRAIDDegraded"}, 60 * minute: {"LVMSRAIDDegraded"}}},
		"a leg gives errors": {redundant("1x100", "0xEND", "100xEND", "1x100",
			degraded(map[string]string{failing: "1x100"})),
			map[time.Duration][]string{60 * minute: {"LVMSRAIDDegraded"}}},
		"it is being repaired": {redundant("1x10 1x60 0x100", "0x10 1x60 0x100", "100x10 1+1x60 100x100",
			"1x10 0x100", nil), map[time.Duration][]string{10 * minute: {"LVMSRAIDDegraded"},
			40 * minute: {"LVMSRAIDSyncSlow pending"}, 100 * minute: nil}},
		"too many legs are lost": {redundant("2x100", "0xEND", "100xEND", "2x100",
			failed(map[string]string{missing: "2x100"})), map[time.Duration][]string{60 * minute: {"LVMSRAIDFailed"}}},
		"synchronizing hangs": {redundant("1xEND", "1xEND", "40xEND", "0xEND", nil),
			map[time.Duration][]string{119 * minute: {"LVMSRAIDSyncSlow pending"},
				3 * time.Hour: {"LVMSRAIDNotResyncing", "LVMSRAIDSyncSlow pending"}}},
		"synchronizing takes a day": {redundant("1xEND", "1xEND", "1+0.5x180", "0xEND", nil),
			map[time.Duration][]string{11 * time.Hour: {"LVMSRAIDSyncSlow pending"},
				13 * time.Hour: {"LVMSRAIDSyncSlow"}}},
		"a class of another node": {well(degraded(map[string]string{missing: "1x100",
			strings.ReplaceAll(groupIs, `"n1"`, `"n2"`) + `Degraded"}`: "1x100"})),
			map[time.Duration][]string{60 * minute: {"LVMSDeviceMissing", "LVMSVolumeGroupDegraded"}}},
		"an agent's Pod is replaced": {well(map[string]string{missing: "1x10",
			strings.ReplaceAll(missing, "vg-manager-1", "vg-manager-2"): "_x10 1x60"}),
			everyMinute(2, 60, "LVMSDeviceMissing")},
	} {
		t.Run(name, func(t *testing.T) { s.play(t) })
	}
}

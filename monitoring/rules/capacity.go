package rules

import (
	"fmt"
	"strings"
	"time"
)

// space is a resource that fills up: the data or the metadata of thin pools, or thick volume groups.
type space struct {
	// series is the recorded ratio, used / size. word is in the names of alerts, and what in their texts.
	series, word, what string
	// harmless is an expression for spaces that may be full without harm. Their level is always 0.
	harmless string
	// full says what happens when no space is left. action says what to do.
	full, action string
	// nearFull and critical are the names of two alerts that upstream also has.
	nearFull, critical string
	// severities are those of the five levels.
	severities [5]string
}

// The levels by severity. A value is at exactly one of them: there are no gaps, and no two alerts of a space fire at
// the same time.
const (
	fillsInDays = iota + 1
	nearFull
	fillsInHours
	almostFull
	full
)

// The thresholds as ratios. At highest a thin pool accepts no new volume (the default of highWaterMarkPercent).
const (
	near     = "0.75"
	critical = "0.85"
	highest  = "0.95"
)

// metadataArea is the recorded usage of LVM's metadata area, as a ratio.
const metadataArea = "lvms:volumegroup_metadata:ratio"

var spaces = []space{
	{
		series: "lvms:thinpool_data:ratio", word: "ThinPoolData", what: "thin pool data",
		harmless: "lvms:thinpool_overcommit:ratio <= 1",
		full:     "If it becomes full, writes to the volumes fail and their file systems become read-only.",
		action:   "Delete data that is not needed, or add a device to the device class.",
		nearFull: "ThinPoolDataUsageAtThresholdNearFull", critical: "ThinPoolDataUsageAtThresholdCritical",
		severities: [5]string{Warning, Warning, Critical, Critical, Critical},
	},
	{
		series: "lvms:thinpool_metadata:ratio", word: "ThinPoolMetadata", what: "thin pool metadata",
		full:     "If it becomes full, the thin pool fails and must be repaired.",
		action:   "Delete snapshots, or extend the metadata.",
		nearFull: "ThinPoolMetaDataUsageAtThresholdNearFull", critical: "ThinPoolMetaDataUsageAtThresholdCritical",
		severities: [5]string{Warning, Warning, Critical, Critical, Critical},
	},
	{
		series: "lvms:volumegroup_used:ratio", word: "VolumeGroup", what: "volume group",
		full:     "If it becomes full, volumes cannot be created or expanded there. Existing volumes are not affected.",
		action:   "Delete volumes that are not needed, or add a device to the device class.",
		nearFull: "VolumeGroupUsageAtThresholdNearFull", critical: "VolumeGroupUsageAtThresholdCritical",
		severities: [5]string{Info, Info, Warning, Warning, Warning},
	},
}

// Prediction is how the alerts for spaces that fill up in days predict usage: linearly, from the growth of each window.
type Prediction struct {
	// Windows are ranges of Prometheus. The alert needs both predictions.
	Windows [2]string
	// Days is how far ahead.
	Days int
}

// InDays is the prediction of the alerts LVMS*FillingUpInDays.
func InDays() Prediction { return Prediction{Windows: [2]string{"1d", "6h"}, Days: 4} }

// Threshold is a usage from which on an alert fires, as a ratio.
type Threshold struct{ Name, Ratio string }

// Thresholds returns the thresholds of all spaces, in ascending order.
func Thresholds() []Threshold {
	return []Threshold{{"nearFull", near}, {"critical", critical}, {"full", highest}}
}

func (s space) level() string { return strings.TrimSuffix(s.series, ":ratio") + ":level" }

// inDays is true if both the growth of one day and that of the last six hours fill the space within four days. A space
// that is not half full is not urgent. There must be data for a day, so that usage that grows by day and shrinks by
// night does not count.
func (s space) inDays() string {
	p := InDays()
	return fmt.Sprintf(
		`(%[1]s >= 0.5 and predict_linear(%[1]s[%[2]s], %[4]d * 86400) >= 1 and predict_linear(%[1]s[%[3]s], %[4]d * 86400) >= 1 and %[1]s offset 1d)`,
		s.series, p.Windows[0], p.Windows[1], p.Days)
}

// inHours is the same for four hours, with the growth of one hour and that of the last 15 minutes: writes that have
// ended do not count.
func (s space) inHours() string {
	return fmt.Sprintf(
		`(%[1]s >= 0.5 and predict_linear(%[1]s[1h], 4 * 3600) >= 1 and predict_linear(%[1]s[15m], 4 * 3600) >= 1 and %[1]s offset 30m)`, s.series)
}

// levels returns a rule that records a number for each space: 0 for none, or the most severe level that applies. `or`
// uses the first one.
func (s space) levels() Record {
	at := func(condition string, level int) string { return fmt.Sprintf("(%s) * 0 + %d", condition, level) }
	chain := strings.Join([]string{
		at(s.series+" >= "+highest, full), at(s.series+" >= "+critical, almostFull), at(s.inHours(), fillsInHours),
		at(s.series+" >= "+near, nearFull), at(s.inDays(), fillsInDays), s.series + " * 0",
	}, "\nor\n")
	if s.harmless != "" {
		chain = "(" + s.series + " * 0 and " + onClass + "(" + s.harmless + "))\nor\n" + chain
	}
	return Record{Name: s.level(), Expr: chain}
}

// alert returns the alert for a level. Its value is the ratio.
func (s space) alert(level int, name string, hold time.Duration, says string) Alert {
	return Alert{
		Name: name, Severity: s.severities[level-1], For: hold,
		Expr: fmt.Sprintf("max_over_time(%s%s) and max_over_time(%s%s) == %d", s.series, window,
			s.level(), window, level),
		Summary: "The " + s.what + " of device class {{ $labels.device_class }} on node {{ $labels.node }} " + says +
			".",
		Description: "The " + s.what + " of device class {{ $labels.device_class }} on node {{ $labels.node }} is {{ " +
			"$value | humanizePercentage }} full. " + s.full + " " + s.action + " See the runbook.",
	}
}

func (s space) alerts() []Alert {
	return []Alert{
		s.alert(full, "LVMS"+s.word+"Full", 0, "is at least 95% full"),
		s.alert(almostFull, s.critical, time.Minute, "is at least 85% full"),
		s.alert(fillsInHours, "LVMS"+s.word+"FillingUpInHours", 30*time.Minute,
			"is predicted to be full within 4 hours"),
		s.alert(nearFull, s.nearFull, 5*time.Minute, "is at least 75% full"),
		s.alert(fillsInDays, "LVMS"+s.word+"FillingUpInDays", time.Hour, "is predicted to be full within 4 days"),
	}
}

func capacity() Group {
	g := Group{Name: "lvms-capacity", Records: []Record{
		{"lvms:thinpool_data:ratio", "max " + byClass + "(topolvm_thinpool_data_percent) / 100"},
		{"lvms:thinpool_metadata:ratio", "max " + byClass + "(topolvm_thinpool_metadata_percent) / 100"},
		{"lvms:thinpool_overcommit:ratio", "max " + byClass + "(lvms_thinpool_virtual_bytes) / max " + byClass +
			"(topolvm_thinpool_size_bytes > 0)"},
		{"lvms:volumegroup_used:ratio", "1 - max " + byClass + "(lvms_volume_group_free_bytes) / max " + byClass +
			"(topolvm_volumegroup_size_bytes > 0)\nunless " + onClass + "topolvm_thinpool_size_bytes"},
		// LVM can use half of a metadata area.
		{metadataArea, "1 - 2 * min " + byClass + "(lvms_volume_group_metadata_free_bytes) / min " + byClass +
			"(lvms_volume_group_metadata_size_bytes > 0)"},
	}}
	for _, s := range spaces {
		g.Records = append(g.Records, s.levels())
		g.Alerts = append(g.Alerts, s.alerts()...)
	}
	g.Alerts = append(g.Alerts, Alert{
		Name: "LVMSVolumeGroupMetadataFull", Severity: Warning, For: 10 * time.Minute,
		Expr: "max_over_time(" + metadataArea + window + ") >= " + near,
		Summary: "The LVM metadata area of the volume group of device class {{ $labels.device_class }} " +
			"on node {{ $labels.node }} is at least 75% full.",
		Description: "LVM's metadata area of the volume group of device class {{ $labels.device_class }} " +
			"on node {{ $labels.node }} is {{ $value | humanizePercentage }} full. Before it is full, the device " +
			"class accepts no new volumes, snapshots and expansions on the node. Delete volumes or snapshots that " +
			"are not needed. See the runbook.",
	}, Alert{
		Name: "LVMSThinPoolOvercommitRisk", Severity: Info, For: time.Hour,
		Expr: "lvms:thinpool_overcommit:ratio >= 5 and " + onClass +
			"(lvms:thinpool_data:ratio >= 0.5) unless " + onClass +
			"(max_over_time(lvms:thinpool_data:level" + window + ") > 0)",
		Summary: "The thin pool of device class {{ $labels.device_class }} on node {{ $labels.node }} is " +
			"overcommitted, and at least half full.",
		Description: `The volumes of device class {{ $labels.device_class }} on node {{ $labels.node }} can use {{ printf "%.1f" $value }} times the size of their thin pool, which is at least half full. If the thin pool becomes full, writes fail. Add a device to the device class, or delete volumes that are not needed.`,
	})
	return g
}

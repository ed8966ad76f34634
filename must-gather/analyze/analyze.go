package analyze

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

var order = map[verdict.Severity]int{verdict.Critical: 0, verdict.Warning: 1, verdict.Info: 2}

// Finding is a problem, or information for the reader.
type Finding struct {
	Severity verdict.Severity `json:"severity"`
	// Rule is the name of the rule.
	Rule string `json:"rule"`
	// Text says what is wrong, where and why.
	Text string `json:"text"`
	// Do says what to do.
	Do string `json:"do,omitempty"`
	// Runbook is the name of a file in monitoring/runbooks, without .md.
	Runbook string `json:"runbook,omitempty"`
	// RunbookFile is the path of that file in the archive, if it is there.
	RunbookFile string `json:"runbookFile,omitempty"`
}

// rule evaluates the facts. Rules that find causes are before rules that find their consequences.
type rule struct {
	name string
	find func(*Facts) []Finding
}

var rules = []rule{
	{"node-not-ready", nodesNotReady},
	{"volume-group", problemsOf(verdict.VolumeGroup)},
	{"device-moved", devicesMoved},
	{"pool-fill", poolFill},
	{"operator", problemsOf(verdict.Operator)},
	{"crash-loop", crashLoops},
	{"webhook-certificate", webhookCertificates},
	{"claim-pending", claimsPending},
	{"pod-waiting", podsWaiting},
	{"volume", problemsOf(verdict.Volume)},
	{"driver-registration", driversNotRegistered},
	{"agents", agentsMissing},
	{"deletion-stuck", deletionsStuck},
	{"node-not-observed", problemsOf(verdict.Node)},
	{"device", problemsOf(verdict.Device)},
	{"certificate", certificates},
	{"version-skew", versionSkew},
	{"kernel-log", kernelLog},
	{"lvmcluster", problemsOf(verdict.Cluster)},
	{"recovery", problemsOf(verdict.Recovery)},
	{"alert", alerts},
	{"orphans", problemsOf(verdict.Orphan)},
	{"not-collected", gaps},
}

// Find evaluates all rules. It returns critical findings first, and for each severity causes before consequences.
func Find(f *Facts) []Finding {
	var found []Finding
	for _, r := range rules {
		for _, finding := range r.find(f) {
			finding.Rule = r.name
			finding.RunbookFile = f.Runbooks[finding.Runbook]
			finding.Text = strings.Join(strings.Fields(finding.Text), " ")
			found = append(found, finding)
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(order[a.Severity], order[b.Severity]) })
	return found
}

package analyze

import (
	"cmp"
	"slices"
	"strings"
)

// Severity of a Finding.
type Severity string

// The severities. Critical: data is lost or in danger, or something cannot be used. Warning: something is wrong or
// about to be. Info: what a reader should know.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
	Info     Severity = "info"
)

var order = map[Severity]int{Critical: 0, Warning: 1, Info: 2}

// Finding is something that is wrong, or that a reader should know.
type Finding struct {
	Severity Severity `json:"severity"`
	// Rule that found it.
	Rule string `json:"rule"`
	// Text names what, where and why.
	Text string `json:"text"`
	// Do is what to do about it.
	Do string `json:"do,omitempty"`
	// Runbook in monitoring/runbooks, without .md.
	Runbook string `json:"runbook,omitempty"`
	// RunbookFile is that runbook in the archive, if the archive has it.
	RunbookFile string `json:"runbookFile,omitempty"`
}

// rule looks at the facts. The order of rules is that of causes before what follows from them.
type rule struct {
	name string
	find func(*Facts) []Finding
}

var rules = []rule{
	{"node-not-ready", nodesNotReady},
	{"volume-group", volumeGroups},
	{"device-moved", devicesMoved},
	{"pool-fill", poolFill},
	{"operator", operatorDown},
	{"crash-loop", crashLoops},
	{"webhook-certificate", webhookCertificates},
	{"claim-pending", claimsPending},
	{"pod-waiting", podsWaiting},
	{"volume", volumesBroken},
	{"driver-registration", driversNotRegistered},
	{"agents", agentsMissing},
	{"deletion-stuck", deletionsStuck},
	{"node-not-observed", notObserved},
	{"certificate", certificates},
	{"version-skew", versionSkew},
	{"kernel-log", kernelLog},
	{"lvmcluster", clusterConditions},
	{"alert", alerts},
	{"orphans", orphans},
	{"not-collected", gaps},
}

// Find applies all rules: critical ones first, and in each severity causes before what follows from them.
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

package analyze

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// problemsOf returns the rule that finds the problems of a subject. `kubectl lvms status` shows the same ones.
func problemsOf(subject verdict.Subject) func(*Facts) []Finding {
	return func(f *Facts) []Finding {
		var found []Finding
		for _, p := range verdict.Problems(f.objects(), f.Now) {
			if p.Subject != subject {
				continue
			}
			finding := Finding{Severity: p.Severity, Runbook: p.Runbook, Text: textOf(p)}
			if p.Action != p.Message {
				finding.Do = p.Action
			}
			found = append(found, finding)
		}
		return found
	}
}

func (f *Facts) objects() verdict.Objects {
	o := verdict.Objects{Clusters: f.Clusters, Deployments: f.Deployments, NodeStatuses: f.NodeStatuses,
		Recoveries: f.Recoveries, Volumes: f.LogicalVolumes, ClustersUnread: !whole(f, "lvmclusters"),
		DeploymentsUnread: !whole(f, "deployments")}
	for i := range f.DaemonSets {
		if f.DaemonSets[i].Name == agentName {
			o.Namespaces = append(o.Namespaces, f.DaemonSets[i].Namespace)
		}
	}
	return o
}

// textOf says where a problem is, and what is wrong.
func textOf(p verdict.Problem) string {
	var where []string
	for _, part := range []struct{ format, value string }{{"%s", p.Object}, {"(claim %s)", p.Claim},
		{"in device class %s", p.DeviceClass}, {"on node %s", p.Node}} {
		if part.value != "" {
			where = append(where, fmt.Sprintf(part.format, part.value))
		}
	}
	place := strings.TrimPrefix(strings.TrimPrefix(strings.Join(where, " "), "in "), "on ")
	reason := strings.TrimSpace(p.Reason + " " + p.Device)
	text := cmp.Or(p.Message, "no reason reported")
	if place == "" {
		return reason + ": " + text
	}
	return place + ": " + reason + ": " + text
}

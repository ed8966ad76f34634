package analyze

import (
	"fmt"
	"slices"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lvm-storage/lvm-operator/internal/verdict"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/must-gather/archive"
)

const (
	nameLabel    = "app.kubernetes.io/name"
	operatorName = verdict.OperatorName
	agentName    = "vg-manager"
)

// whole reports whether all objects of a resource were read. Only then does a missing object mean that it does not
// exist.
func whole(f *Facts, resource string) bool {
	return !slices.ContainsFunc(f.Failures.Failures, func(failure archive.Failure) bool {
		return strings.HasPrefix(failure.What, resource) || strings.Contains(failure.What, "/"+resource) ||
			strings.HasPrefix(failure.What, everything)
	}) && !slices.ContainsFunc(f.Unreadable, func(name string) bool {
		return strings.Contains(name, "/"+resource) || strings.HasPrefix(name, archive.ErrorsFile)
	}) &&
		f.Failures.Omitted == 0
}

// everything is the name of the failed discovery, after which nothing could be read.
const everything = "what the API server has"

// storageNodes returns the nodes with a node status, a volume, or an agent.
func storageNodes(f *Facts) sets.Set[string] {
	nodes := sets.New[string]()
	for i := range f.NodeStatuses {
		nodes.Insert(f.NodeStatuses[i].Name)
	}
	for i := range f.LogicalVolumes {
		nodes.Insert(f.LogicalVolumes[i].Spec.NodeName)
	}
	for _, pod := range podsOf(f, agentName) {
		nodes.Insert(pod.Spec.NodeName)
	}
	return nodes.Delete("")
}

// notReady returns the condition that makes a node not ready, or nil.
func notReady(f *Facts, node string) *corev1.NodeCondition {
	for i := range f.Nodes {
		if f.Nodes[i].Name != node {
			continue
		}
		for c, condition := range f.Nodes[i].Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
				return &f.Nodes[i].Status.Conditions[c]
			}
		}
	}
	return nil
}

func podsOf(f *Facts, name string) []corev1.Pod {
	var pods []corev1.Pod
	for i := range f.Pods {
		if f.Pods[i].Labels[nameLabel] == name {
			pods = append(pods, f.Pods[i])
		}
	}
	return pods
}

// claimOf returns the claim of a LogicalVolume, or else its name.
func claimOf(lv *topolvmv1.LogicalVolume) string {
	if claim := view.Claim(lv); claim != "" {
		return claim
	}
	return lv.Name
}

// claimsOn returns the sorted claims with volumes on a node.
func claimsOn(f *Facts, node string) []string {
	var claims []string
	for i := range f.LogicalVolumes {
		if f.LogicalVolumes[i].Spec.NodeName == node {
			claims = append(claims, claimOf(&f.LogicalVolumes[i]))
		}
	}
	slices.Sort(claims)
	return claims
}

// some joins the first names of a list, and counts the others.
func some(names []string, limit int) string {
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
}

// at formats a time in UTC.
func at(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// lastEvent returns the newest event on an object for which take returns true, or nil.
func lastEvent(f *Facts, kind, namespace, name string, take func(*corev1.Event) bool) *corev1.Event {
	var last *corev1.Event
	for i := range f.Events {
		e := &f.Events[i]
		if e.InvolvedObject.Kind == kind && e.InvolvedObject.Namespace == namespace &&
			e.InvolvedObject.Name == name && take(e) &&
			(last == nil || seen(e).After(seen(last))) {
			last = e
		}
	}
	return last
}

func seen(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

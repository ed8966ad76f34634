package fence

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

const (
	// LostAfter is after which time a node that is not ready is lost. After the same time, Kubernetes deletes the Pods
	// of such a node by default (taint node.kubernetes.io/not-ready).
	LostAfter = 5 * time.Minute
	// ProgressLimit is how long a copy may make no progress while a Pod waits for the volume.
	ProgressLimit = 5 * time.Minute
	// renewInterval is the minimum time between two records of progress, each of which is a write.
	renewInterval = time.Minute
)

// Node is what the fence of a volume depends on at one side of its copy. The zero value is a ready node.
type Node struct {
	Name string
	// NotReady: the node is not ready, or does not exist. Lost: that is so for LostAfter, or the node does not exist.
	NotReady, Lost bool
	// Since is when the node stopped being ready, unless it is Missing: it does not exist.
	Since   time.Time
	Missing bool
	// IsOutOfService: somebody has said that the node is off, with a taint of Kubernetes (KEP-2268).
	IsOutOfService bool
}

// String says what is wrong with a node that is not ready.
func (n Node) String() string {
	switch {
	case !n.NotReady:
		return fmt.Sprintf("node %s is ready", n.Name)
	case n.Missing:
		return fmt.Sprintf("node %s does not exist", n.Name)
	}
	return fmt.Sprintf("node %s is not ready since %s", n.Name, n.Since.UTC().Format(time.RFC3339))
}

// Nodes are the nodes of the cluster that exist, by name.
type Nodes map[string]Node

// ReadNodes reads the nodes, in general from the cache.
func ReadNodes(ctx context.Context, reader client.Reader, now time.Time) (Nodes, error) {
	list := &corev1.NodeList{}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	return NodesOf(list.Items, now), nil
}

// NodesOf returns the nodes of a list.
func NodesOf(items []corev1.Node, now time.Time) Nodes {
	nodes := Nodes{}
	for i := range items {
		n := Node{Name: items[i].Name}
		for _, condition := range items[i].Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
				n.NotReady = true
				n.Since = condition.LastTransitionTime.Time
				n.Lost = now.Sub(n.Since) >= LostAfter
			}
		}
		n.IsOutOfService = slices.ContainsFunc(items[i].Spec.Taints,
			func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
		nodes[n.Name] = n
	}
	return nodes
}

// Get returns a node. One that does not exist is lost. The node "" is not known yet, and counts as ready.
func (n Nodes) Get(name string) Node {
	found, exists := n[name]
	if !exists && name != "" {
		return Node{Name: name, NotReady: true, Lost: true, Missing: true}
	}
	return found
}

// Progress is the most that a copy is known to have copied and compared, and when the operator has noticed it.
type Progress struct {
	Bytes int64
	Time  time.Time
}

// Renew returns the progress of a copy that began at some time and has copied and compared a number of bytes now. A
// copy that fails begins again where it was saved: what it copies for the second time is no progress. So the number is
// the largest one. It is not updated more often than each renewInterval.
func (p Progress) Renew(begun time.Time, bytes int64, now time.Time) Progress {
	isOther := p.Time.IsZero() || begun.After(p.Time) || p.Time.After(now)
	if isOther || bytes > p.Bytes && now.Sub(p.Time) >= renewInterval {
		return Progress{Bytes: bytes, Time: now}
	}
	return p
}

// Lease is what a fence depends on while the volume is copied. Progress is the zero value if the copy is complete or
// has not begun.
type Lease struct {
	Source, Target Node
	Progress       Progress
}

// Ended returns why the lease has ended, or "".
func (l Lease) Ended(now time.Time) string {
	switch {
	case l.Source.Lost:
		return l.Source.String()
	case l.Target.Lost:
		return l.Target.String()
	case !l.Progress.Time.IsZero() && now.Sub(l.Progress.Time) >= ProgressLimit:
		return l.unready() + fmt.Sprintf("node %s has copied nothing from node %s since %s", l.Target.Name,
			l.Source.Name, l.Progress.Time.UTC().Format(time.RFC3339))
	}
	return ""
}

// unready says which node is not ready, as the first part of a reason, or is "".
func (l Lease) unready() string {
	for _, n := range []Node{l.Source, l.Target} {
		if n.NotReady {
			return n.String() + ", and "
		}
	}
	return ""
}

// ProgressOf returns the progress that is recorded on the LogicalVolume of a clone. It is the zero value if none is.
func ProgressOf(lv *topolvmv1.LogicalVolume) Progress {
	at, number, _ := strings.Cut(lv.Annotations[wellknown.CopyProgressAnnotation], "/")
	t, err := time.Parse(time.RFC3339, at)
	bytes, wrong := strconv.ParseInt(number, 10, 64)
	if err != nil || wrong != nil {
		return Progress{}
	}
	return Progress{Bytes: bytes, Time: t}
}

// ProgressOfClone returns how far the copy to a clone is known to be: its node agent reports it in CopiedAnnotation. A
// node agent of an earlier version reports nothing there. If an earlier operator has recorded a number, which it knew
// from the status, the lease begins once more, without a number, so that it does not end during an upgrade.
func ProgressOfClone(lv *topolvmv1.LogicalVolume, now time.Time) Progress {
	known := ProgressOf(lv)
	record, err := view.Copied(lv)
	if err != nil && known.Bytes > 0 {
		return Progress{Time: now}
	}
	return known.Renew(time.Time{}, record.DoneBytes(), now)
}

// SetProgress records the progress on the LogicalVolume of a clone.
func SetProgress(lv *topolvmv1.LogicalVolume, p Progress) {
	metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.CopyProgressAnnotation,
		p.Time.UTC().Format(time.RFC3339)+"/"+strconv.FormatInt(p.Bytes, 10))
}

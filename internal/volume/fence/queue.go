package fence

import (
	"cmp"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// MaxCopies is the maximum number of moves and clones that are copied from a node at the same time, and to a node,
// which is what a node agent copies at the same time (package copies): a volume that waits for other copies would be
// closed for longer than needed.
const MaxCopies = 2

// Copy is a move or a clone that has a place among the MaxCopies of its nodes, or waits for one.
type Copy struct {
	// UID is that of the VolumeMove, or of the LogicalVolume of the clone.
	UID string
	// Source and Target are the nodes, "" if not known.
	Source, Target string
	// Created and Name are the age of the copy: the older one is the first.
	Created time.Time
	Name    string
	// Waits: it has no place yet.
	Waits bool
}

func (c *Copy) isOlder(than *Copy) bool {
	return cmp.Or(c.Created.Compare(than.Created), strings.Compare(c.Name, than.Name)) < 0
}

// Turn returns the position of a copy in the queue for its nodes, or 0 if it can begin. Only older copies that wait are
// before it.
func Turn(mine Copy, others []Copy) int32 {
	source, target, before := 0, 0, int32(0)
	for i := range others {
		other := &others[i]
		if other.UID == mine.UID || other.Waits && !other.isOlder(&mine) {
			continue
		}
		sameSource := mine.Source != "" && other.Source == mine.Source
		sameTarget := mine.Target != "" && other.Target == mine.Target
		if sameSource {
			source++
		}
		if sameTarget {
			target++
		}
		if other.Waits && (sameSource || sameTarget) {
			before++
		}
	}
	if source < MaxCopies && target < MaxCopies {
		return 0
	}
	return before + 1
}

// Moves returns the VolumeMoves that copy or wait for their turn. Those with a lost node, and those that make no
// progress, do not have a place.
func Moves(moves []v1alpha1.VolumeMove, nodes Nodes, now time.Time) []Copy {
	var copies []Copy
	for i := range moves {
		m := &moves[i]
		status := &m.Status
		waits := status.Phase == v1alpha1.MovePending && status.QueuePosition > 0
		c := Copy{UID: string(m.UID), Source: status.SourceNode, Target: cmp.Or(status.TargetNode, m.Spec.NodeName),
			Created: m.CreationTimestamp.Time, Name: m.Name, Waits: waits}
		lease := Lease{Source: nodes.Get(c.Source), Target: nodes.Get(c.Target), Progress: ProgressOfMove(m)}
		if (waits || status.Phase == v1alpha1.MoveCopying) && m.DeletionTimestamp.IsZero() && lease.Ended(now) == "" {
			copies = append(copies, c)
		}
	}
	return copies
}

// ProgressOfMove returns the progress that the status of a VolumeMove has.
func ProgressOfMove(m *v1alpha1.VolumeMove) Progress {
	if m.Status.ProgressTime == nil {
		return Progress{}
	}
	return Progress{Bytes: m.Status.ProgressBytes, Time: m.Status.ProgressTime.Time}
}

// Clones returns the clones of thick volumes for which a volume is fenced. volumes are the LogicalVolumes that are not
// settled: the clones that are not complete, and the volumes that are fenced.
func Clones(volumes []topolvmv1.LogicalVolume, nodes Nodes, now time.Time) []Copy {
	sources := map[string]*topolvmv1.LogicalVolume{}
	for i := range volumes {
		sources[volumes[i].Name] = &volumes[i]
	}
	var copies []Copy
	for i := range volumes {
		lv := &volumes[i]
		if !IsPendingClone(lv) {
			continue
		}
		node, isHolder := "", false
		if source := sources[lv.Spec.Source]; source != nil {
			node = source.Spec.NodeName
			isHolder = Holder(source) == OfClone(lv.UID)
		}
		lease := Lease{Source: nodes.Get(node), Target: nodes.Get(lv.Spec.NodeName), Progress: ProgressOf(lv)}
		if (isHolder || Name(lv) != "") && lease.Ended(now) == "" {
			copies = append(copies, Copy{UID: string(lv.UID), Source: node, Target: lv.Spec.NodeName,
				Created: lv.CreationTimestamp.Time, Name: lv.Name})
		}
	}
	return copies
}

// IsPendingClone reports whether a LogicalVolume is a clone of a thick volume that is to be created: it is neither
// complete, deleted nor refused.
func IsPendingClone(lv *topolvmv1.LogicalVolume) bool {
	return view.CloneVolume(lv) != "" && lv.DeletionTimestamp.IsZero() &&
		lv.Status.VolumeID == "" && !service.IsRefusal(lv.Status.Code)
}

package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/internal/volume/snapshotref"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// Leftover is a volume that no claim or snapshot uses and that nothing deletes: its claim was deleted, and its reclaim
// policy was Retain, or its PersistentVolume was deleted manually; or its VolumeSnapshot was deleted, and its deletion
// policy was Retain, or its VolumeSnapshotContent was deleted manually.
type Leftover struct {
	// LogicalVolume and Node are empty if only the PersistentVolume is left.
	LogicalVolume, Node string
	// PersistentVolume is empty if only the LogicalVolume is left.
	PersistentVolume string
	// SnapshotContents are the VolumeSnapshotContents that are left, sorted.
	SnapshotContents []string
}

// name returns a name to sort by.
func (l Leftover) name() string { return cmp.Or(l.LogicalVolume, l.PersistentVolume) }

// String names the objects of the volume, and its node.
func (l Leftover) String() string {
	if l.LogicalVolume == "" {
		return "PersistentVolume " + l.PersistentVolume
	}
	if l.PersistentVolume == l.LogicalVolume {
		return fmt.Sprintf("LogicalVolume and PersistentVolume %s on node %s", l.LogicalVolume, l.Node)
	}
	name := "LogicalVolume " + l.LogicalVolume + " on node " + l.Node
	if l.PersistentVolume != "" {
		name += " with PersistentVolume " + l.PersistentVolume
	}
	if len(l.SnapshotContents) > 0 {
		name += " with VolumeSnapshotContent " + strings.Join(l.SnapshotContents, " and ")
	}
	return name
}

// Leftovers are volumes that only the administrator can delete.
type Leftovers []Leftover

// String says how to delete the volumes, and names the first of them. The names are last, because a long event is
// truncated.
func (l Leftovers) String() string {
	var names []string
	for _, leftover := range l {
		names = append(names, leftover.String())
	}
	return fmt.Sprintf("volumes that no claim or snapshot uses must be deleted manually; if you need their data, copy "+
		"it first; then run, for the objects of each volume, `%s`: %s", strings.Join(l.commands(), " && "),
		text.List("volume", names))
}

// commands returns the commands that delete a volume. They have its names if there is only one.
func (l Leftovers) commands() []string {
	all := Leftover{}
	for _, one := range l {
		all.PersistentVolume = cmp.Or(all.PersistentVolume, one.PersistentVolume)
		all.LogicalVolume = cmp.Or(all.LogicalVolume, one.LogicalVolume)
		all.SnapshotContents = append(all.SnapshotContents, one.SnapshotContents...)
	}
	name := func(placeholder string, names ...string) string {
		if len(l) > 1 {
			return placeholder
		}
		return strings.Join(names, " ")
	}
	var commands []string
	if all.PersistentVolume != "" {
		commands = append(commands, "kubectl delete persistentvolume "+name("PERSISTENTVOLUME", all.PersistentVolume))
	}
	if len(all.SnapshotContents) > 0 {
		commands = append(commands, "kubectl delete volumesnapshotcontent "+
			name("VOLUMESNAPSHOTCONTENT", all.SnapshotContents...))
	}
	if all.LogicalVolume != "" {
		commands = append(commands, "kubectl delete logicalvolume "+name("LOGICALVOLUME", all.LogicalVolume))
	}
	return commands
}

// rememberedLeftovers are the Leftovers of Users, which Use keeps.
type rememberedLeftovers struct {
	complete  bool
	leftovers Leftovers
}

// Leftovers returns the users that nothing deletes. It reads what is necessary for this once. snapshots is whether the
// cluster has the VolumeSnapshot API; without it, it is unknown whether snapshots are used, and they are not returned.
func (u Users) Leftovers(ctx context.Context, live client.Reader, snapshots bool) (Leftovers, error) {
	if u.leftovers != nil && u.leftovers.complete {
		return u.leftovers.leftovers, nil
	}
	found, err := u.findLeftovers(ctx, live, snapshots)
	if err == nil && u.leftovers != nil {
		*u.leftovers = rememberedLeftovers{complete: true, leftovers: found}
	}
	return found, err
}

func (u Users) findLeftovers(ctx context.Context, live client.Reader, snapshots bool) (Leftovers, error) {
	if len(u.unused.list(snapshots)) == 0 {
		return nil, nil
	}
	if snapshots {
		// A VolumeSnapshotContent exists before its LogicalVolume, so it is not too late to read them here.
		if err := snapshotref.EachByUse(ctx, live, u.unused.addSnapshotContent); err != nil {
			return nil, err
		}
	}
	return u.unused.list(snapshots), nil
}

// unusedVolumes finds leftovers. LogicalVolumes must be added first, and claims last: the PersistentVolume of a new
// LogicalVolume may not exist yet, but its claim does.
type unusedVolumes struct {
	// byHandle has the volumes that are perhaps unused.
	byHandle map[string]Leftover
	// used has the volume handles and the names of LogicalVolumes that something uses.
	used sets.Set[string]
	// contents has, by the same, the retained VolumeSnapshotContents whose VolumeSnapshot was deleted.
	contents map[string]sets.Set[string]
}

func newUnusedVolumes() unusedVolumes {
	return unusedVolumes{byHandle: map[string]Leftover{}, used: sets.New[string](),
		contents: map[string]sets.Set[string]{}}
}

// addLogicalVolume adds a LogicalVolume that was created and is not being deleted. The snapshots of a group that is not
// complete are being created: their VolumeSnapshotContents exist only after all of them.
func (u unusedVolumes) addLogicalVolume(volume *topolvmv1.LogicalVolume) {
	if volume.Status.VolumeID != "" && volume.DeletionTimestamp.IsZero() && view.GroupPending(volume) == "" {
		u.byHandle[volume.Status.VolumeID] = Leftover{LogicalVolume: volume.Name, Node: volume.Spec.NodeName}
	}
}

// addPersistentVolume adds a PersistentVolume of our driver. Its volume is used unless it has no claim and the reclaim
// policy Retain: with the policy Delete, the provisioner deletes the volume.
func (u unusedVolumes) addPersistentVolume(volume *corev1.PersistentVolume) {
	handle := volume.Spec.CSI.VolumeHandle
	phase := volume.Status.Phase
	if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain ||
		phase != corev1.VolumeReleased && phase != corev1.VolumeAvailable || !volume.DeletionTimestamp.IsZero() {
		u.used.Insert(handle)
		return
	}
	leftover := u.byHandle[handle]
	leftover.PersistentVolume = volume.Name
	u.byHandle[handle] = leftover
}

// addClaim adds a claim. Its LogicalVolume is used, also if it has no PersistentVolume yet.
func (u unusedVolumes) addClaim(claim *corev1.PersistentVolumeClaim) {
	u.used.Insert(wellknown.ClaimVolumePrefix + string(claim.UID))
}

// addSnapshotContent adds a VolumeSnapshotContent. used is whether its volume is used.
func (u unusedVolumes) addSnapshotContent(content snapshotref.Content, used bool) {
	for _, handleOrName := range content.Volumes {
		if used {
			u.used.Insert(handleOrName)
			continue
		}
		if u.contents[handleOrName] == nil {
			u.contents[handleOrName] = sets.New[string]()
		}
		u.contents[handleOrName].Insert(content.Name)
	}
}

// list returns the volumes that nothing uses, by name.
func (u unusedVolumes) list(snapshots bool) Leftovers {
	var unused Leftovers
	for _, handle := range slices.Sorted(maps.Keys(u.byHandle)) {
		leftover := u.byHandle[handle]
		unknown := !snapshots && strings.HasPrefix(leftover.LogicalVolume, wellknown.SnapshotPrefix)
		if !unknown && !u.used.Has(handle) && !u.used.Has(leftover.LogicalVolume) {
			contents := u.contents[handle].Union(u.contents[leftover.LogicalVolume])
			leftover.SnapshotContents = sets.List(contents)
			unused = append(unused, leftover)
		}
	}
	slices.SortStableFunc(unused, func(a, b Leftover) int { return cmp.Compare(a.name(), b.name()) })
	return unused
}

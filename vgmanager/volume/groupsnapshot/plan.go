package groupsnapshot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Member is a volume of a group with its pending snapshot.
type Member struct {
	VG, Source, Snapshot string
	// Device is the UUID of the mapped device of the source. It is empty if the source is not active: then nothing can
	// write it while its volume group is locked, so it does not have to be suspended.
	Device string
	// Pool is the UUID of the mapped device with the thin pool of both.
	Pool string
	// SourceID and SnapshotID are their thin devices in the pool.
	SourceID, SnapshotID uint64
}

// NewMembers returns the members of a group in one volume group, sorted by source. volumes are the thin volumes of the
// volume group, and pools the UUIDs of the mapped devices of its thin pools that accept messages, both by name. It
// returns an error if it is not certain that the thin device of a snapshot belongs to a pending snapshot of the source
// and to no other volume: this thin device will be deleted.
func NewMembers(pairs []Pair, volumes map[string]lvm.ThinVolume, pools map[string]string) ([]Member, error) {
	var members []Member
	seen := map[string]bool{}
	for _, p := range pairs {
		if seen[p.Source] || seen[p.Snapshot] || p.Source == p.Snapshot {
			return nil, fmt.Errorf("volume %s/%s or snapshot %s/%s is in the group twice", p.VG, p.Source, p.VG,
				p.Snapshot)
		}
		seen[p.Source], seen[p.Snapshot] = true, true
		m, err := newMember(p, volumes, pools)
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Source, b.Source) })
	return members, nil
}

func newMember(p Pair, volumes map[string]lvm.ThinVolume, pools map[string]string) (Member, error) {
	source, hasSource := volumes[p.Source]
	snapshot, hasSnapshot := volumes[p.Snapshot]
	reason := ""
	switch {
	case !hasSource:
		return Member{}, fmt.Errorf("thin volume %s/%s: %w", p.VG, p.Source, lvm.ErrNotFound)
	case !hasSnapshot:
		return Member{}, fmt.Errorf("snapshot %s/%s: %w", p.VG, p.Snapshot, lvm.ErrNotFound)
	case slices.Contains(source.Tags, PendingTag):
		reason = "its source is a snapshot that is not complete"
	case !slices.Contains(snapshot.Tags, PendingTag):
		reason = "it does not have the tag " + PendingTag
	case snapshot.Active:
		reason = "it is active"
	case snapshot.Origin != p.Source:
		reason = fmt.Sprintf("LVM says that its source is %q", snapshot.Origin)
	case snapshot.Pool != source.Pool:
		reason = fmt.Sprintf("it is in thin pool %s and its source is in %s", snapshot.Pool, source.Pool)
	case pools[source.Pool] == "":
		reason = fmt.Sprintf("thin pool %s is not active, not writable, suspended or needs a check: see the "+
			"conditions of the LVMCluster", source.Pool)
	default:
		reason = otherWithID(snapshot, volumes)
	}
	if reason != "" {
		return Member{}, fmt.Errorf("%s/%s is not a pending snapshot of %s: %s", p.VG, p.Snapshot, p.Source, reason)
	}
	m := Member{VG: p.VG, Source: p.Source, Snapshot: p.Snapshot, Pool: pools[source.Pool], SourceID: source.ID,
		SnapshotID: snapshot.ID}
	if source.Active {
		m.Device = source.Device
	}
	return m, nil
}

// otherWithID returns why the thin device of a snapshot may belong to another volume, or "".
func otherWithID(snapshot lvm.ThinVolume, volumes map[string]lvm.ThinVolume) string {
	for name, v := range volumes {
		if name != snapshot.Name && v.Pool == snapshot.Pool && v.ID == snapshot.ID {
			return fmt.Sprintf("volume %s has the same thin device %d", name, v.ID)
		}
	}
	return ""
}

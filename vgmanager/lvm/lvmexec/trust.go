package lvmexec

import (
	"fmt"
	"slices"
	"sync"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// trust is what the caller knows about the devices of volume groups.
type trust struct {
	mu sync.Mutex
	// healthy has the volume groups whose devices may be passed to commands (SetHealthy).
	healthy map[string]bool
	// accepted has the physical volumes of each volume group that may be missing during a change (AcceptLoss).
	accepted map[string][]string
	// namesUnknown: the node's LVM is older than 2.03.12 and does not support --devices.
	namesUnknown bool
}

// maxNamed is the maximum number of devices to name to a command. With more devices, a full scan is not much slower,
// and the command line stays short.
const maxNamed = 64

// AcceptLoss sets the physical volumes, by UUID, whose removal from the volume group was requested. The group may be
// changed while they are missing. AcceptLoss replaces the previous list.
func (l *LVM) AcceptLoss(vg string, pvs []string) {
	l.trust.mu.Lock()
	defer l.trust.mu.Unlock()
	l.trust.accepted[vg] = slices.Clone(pvs)
}

// missing returns the missing physical volumes of a volume group whose loss is not accepted.
func (t *trust) missing(vg *lvm.VG) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lost []string
	known := 0
	for _, pv := range vg.PVs {
		if !pv.Missing {
			continue
		}
		known++
		if !slices.Contains(t.accepted[vg.Name], pv.UUID) {
			lost = append(lost, pv.UUID)
		}
	}
	if vg.MissingPVs > known {
		lost = append(lost, fmt.Sprintf("(%d more)", vg.MissingPVs-known))
	}
	return lost
}

// SetHealthy sets whether commands for volumes of a group may pass the group's devices to LVM (--devices), so that
// LVM does not scan all devices of the node. Set it only for a healthy group: LVM then does not detect, or warn
// about, another device with one of the group's physical volumes.
func (l *LVM) SetHealthy(vg string, healthy bool) {
	l.trust.mu.Lock()
	defer l.trust.mu.Unlock()
	if !healthy {
		delete(l.trust.healthy, vg)
		return
	}
	l.trust.healthy[vg] = true
}

// devicesOf returns the --devices options for a group. The caller must pass the group from a report of the same call,
// because LVM treats a physical volume as missing if its device is not named. devicesOf returns nothing if the group
// is not known to be healthy.
func (t *trust) devicesOf(group *lvm.VG) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.healthy[group.Name] || t.namesUnknown || group.MissingPVs > 0 || len(group.PVs) > maxNamed {
		return nil
	}
	var args []string
	for _, pv := range group.PVs {
		if pv.Missing || pv.Major == 0 {
			return nil
		}
		args = append(args, "--devices", pv.Name)
	}
	return args
}

// forbidNames records that the node's LVM does not support --devices.
func (t *trust) forbidNames() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.namesUnknown = true
}

package volumegroup

import (
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// move is the last known progress of a move.
type move struct {
	percent float64
	since   time.Time
}

// moves are the moves of extents that a process of this agent polls.
type moves struct {
	progress map[string]move
	now      func() time.Time
}

// unattended returns the moves without progress for moveStalls, and the moves that this process did not start or
// resume.
func (p *moves) unattended(vg *lvm.VG) map[string]bool {
	list := map[string]bool{}
	if vg == nil {
		return list
	}
	for _, m := range vg.Moves() {
		key := vg.UUID + m.Name
		percent := 0.0
		if m.Percent != nil {
			percent = *m.Percent
		}
		last, known := p.progress[key]
		switch {
		case !known:
			list[m.Name] = true
		case percent != last.percent:
			p.progress[key] = move{percent: percent, since: p.now()}
		case p.now().Sub(last.since) > moveStalls:
			list[m.Name] = true
		}
	}
	return list
}

// attend records that a process now polls the moves of a volume group.
func (p *moves) attend(vg *lvm.VG) {
	for _, m := range vg.Moves() {
		p.progress[vg.UUID+m.Name] = move{since: p.now()}
	}
}

package lvmtest

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// move is a running pvmove of all parts on a disk, as with --atomic.
type move struct {
	name, source string
	percent      float64
	// polled: a process waits for the end of the move.
	polled bool
	steps  []step
}

// step is the target of a part that is being moved.
type step struct {
	part *part
	to   map[string]int
}

// Progress sets the progress of the copies in the kernel: all moves, and all RAID volumes of the group that are not
// in sync. A move at 100 ends if it is polled.
func (node *Node) Progress(vg string, percent float64) {
	node.mu.Lock()
	defer node.mu.Unlock()
	g := node.groups[vg]
	for _, m := range g.moves {
		m.percent = percent
	}
	for _, v := range g.lvs {
		if v.SyncPercent != nil && *v.SyncPercent < 100 {
			v.SyncPercent = new(percent)
		}
	}
	g.finish()
}

// KillPollers ends the processes that poll the moves, as at the end of their container.
func (node *Node) KillPollers() {
	node.mu.Lock()
	defer node.mu.Unlock()
	killPollers(node)
}

func killPollers(node *Node) {
	for _, g := range node.groups {
		for _, m := range g.moves {
			m.polled = false
		}
	}
}

// finish ends the moves that are done.
func (g *group) finish() {
	g.moves = slices.DeleteFunc(g.moves, func(m *move) bool {
		done := m.polled && m.percent >= 100
		for _, s := range m.steps {
			if !done {
				break
			}
			delete(s.part.on, m.source)
			for path, n := range s.to {
				s.part.on[path] += n
			}
		}
		return done
	})
}

func (g *group) isMoving(p *part) bool {
	for _, m := range g.moves {
		if slices.ContainsFunc(m.steps, func(s step) bool { return s.part == p }) {
			return true
		}
	}
	return false
}

// isLocked returns true if a move locks the volume, so that LVM does not change it. Of a RAID volume or a pool only
// parts are locked.
func (g *group) isLocked(v *volume) bool {
	return v.kind == '-' && slices.ContainsFunc(v.parts, func(p *part) bool { return g.isMoving(p) })
}

func pvMoveStart(node *Node, c lvm.PVMoveStart) error {
	_, g, err := startMember(node, c.Source)
	if err != nil {
		return err
	}
	for _, m := range g.moves {
		if m.source == c.Source {
			m.polled = true
			g.finish()
			return nil
		}
	}
	m := &move{name: fmt.Sprintf("pvmove%d", len(g.moves)), source: c.Source, polled: true}
	g.moves = append(g.moves, m)
	if err := g.fill(m, c.Target); err != nil {
		g.moves = g.moves[:len(g.moves)-1]
		return fmt.Errorf("physical volume %s: %w", c.Source, err)
	}
	return nil
}

// fill finds a target for everything on the source: the named one, or any if it is empty. Targets that it found count
// as used.
func (g *group) fill(m *move, named string) error {
	var targets []string
	if named != "" {
		targets = []string{named}
	}
	for _, p := range g.all() {
		if p.on[m.source] == 0 {
			continue
		}
		target := part{}
		disks := slices.DeleteFunc(g.openDisks(targets),
			func(path string) bool { return path == m.source || g.hasSibling(p, path) })
		if err := g.take(&target, p.on[m.source], disks); err != nil {
			return err
		}
		m.steps = append(m.steps, step{part: p, to: target.on})
	}
	if len(m.steps) == 0 {
		return fmt.Errorf("nothing to move: %w", lvm.ErrNotFound)
	}
	return nil
}

// hasSibling returns true if another image of the same volume is on a disk.
func (g *group) hasSibling(p *part, path string) bool {
	for _, v := range g.lvs {
		if v.kind != 'r' || !slices.Contains(v.parts, p) {
			continue
		}
		number := func(p *part) byte { return p.suffix[len(p.suffix)-1] }
		return slices.ContainsFunc(v.parts, func(o *part) bool { return number(o) != number(p) && o.on[path] > 0 })
	}
	return false
}

func pvMoveResume(node *Node, _ lvm.PVMoveResume) error {
	for _, g := range node.groups {
		for _, m := range g.moves {
			m.polled = true
		}
		g.finish()
	}
	return nil
}

func pvMoveAbort(node *Node, c lvm.PVMoveAbort) error {
	d := node.disks[c.Source]
	if d == nil || d.detached || d.uuid == "" {
		return fmt.Errorf("physical volume %s: %w", c.Source, lvm.ErrNotFound)
	}
	if g := node.groups[d.group]; g != nil {
		g.moves = slices.DeleteFunc(g.moves, func(m *move) bool { return m.source == c.Source })
	}
	return nil
}

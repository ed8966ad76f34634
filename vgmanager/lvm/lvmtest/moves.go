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
func (f *Fake) Progress(vg string, percent float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.groups[vg]
	for _, m := range g.moves {
		m.percent = percent
	}
	for _, v := range g.lvs {
		if v.SyncPercent != nil && *v.SyncPercent < 100 {
			at := percent
			v.SyncPercent = &at
		}
	}
	f.finish(g)
}

// KillPollers ends the processes that poll the moves, as at the end of their container.
func (f *Fake) KillPollers() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.killPollers()
}

func (f *Fake) killPollers() {
	for _, g := range f.groups {
		for _, m := range g.moves {
			m.polled = false
		}
	}
}

// finish ends the moves that are done.
func (f *Fake) finish(g *group) {
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

func (f *Fake) isMoving(g *group, p *part) bool {
	for _, m := range g.moves {
		if slices.ContainsFunc(m.steps, func(s step) bool { return s.part == p }) {
			return true
		}
	}
	return false
}

// isLocked returns true if a move locks the volume, so that LVM does not change it. Of a RAID volume or a pool only
// parts are locked.
func (f *Fake) isLocked(g *group, v *volume) bool {
	return v.kind == '-' && slices.ContainsFunc(v.parts, func(p *part) bool { return f.isMoving(g, p) })
}

// pvMoveStart makes lvm.PVMoveStart.
func pvMoveStart(f *Fake, c lvm.PVMoveStart) error {
	_, g, err := f.member("PVMoveStart", c.Source)
	if err != nil {
		return err
	}
	for _, m := range g.moves {
		if m.source == c.Source {
			m.polled = true
			f.finish(g)
			return nil
		}
	}
	m := &move{name: fmt.Sprintf("pvmove%d", len(g.moves)), source: c.Source, polled: true}
	g.moves = append(g.moves, m)
	if err := f.fill(g, m, c.Target); err != nil {
		g.moves = g.moves[:len(g.moves)-1]
		return fmt.Errorf("physical volume %s: %w", c.Source, err)
	}
	return nil
}

// fill finds a target for everything on the source: the named one, or any if it is empty. Targets that it found count
// as used.
func (f *Fake) fill(g *group, m *move, named string) error {
	var targets []string
	if named != "" {
		targets = []string{named}
	}
	for _, p := range g.all() {
		if p.on[m.source] == 0 {
			continue
		}
		target := part{}
		disks := slices.DeleteFunc(f.openDisks(g, targets),
			func(path string) bool { return path == m.source || f.hasSibling(g, p, path) })
		if err := f.take(g, &target, p.on[m.source], disks); err != nil {
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
func (f *Fake) hasSibling(g *group, p *part, path string) bool {
	for _, v := range g.lvs {
		if v.kind != 'r' || !slices.Contains(v.parts, p) {
			continue
		}
		number := func(p *part) byte { return p.suffix[len(p.suffix)-1] }
		return slices.ContainsFunc(v.parts, func(o *part) bool { return number(o) != number(p) && o.on[path] > 0 })
	}
	return false
}

// pvMoveResume makes lvm.PVMoveResume.
func pvMoveResume(f *Fake, _ lvm.PVMoveResume) error {
	if err := f.begin("PVMoveResume", "of all"); err != nil {
		return err
	}
	for _, g := range f.groups {
		for _, m := range g.moves {
			m.polled = true
		}
		f.finish(g)
	}
	return nil
}

// pvMoveAbort makes lvm.PVMoveAbort.
func pvMoveAbort(f *Fake, c lvm.PVMoveAbort) error {
	if err := f.begin("PVMoveAbort", c.Source); err != nil {
		return err
	}
	d := f.disks[c.Source]
	if d == nil || d.detached || d.uuid == "" {
		return fmt.Errorf("physical volume %s: %w", c.Source, lvm.ErrNotFound)
	}
	if g := f.groups[d.group]; g != nil {
		g.moves = slices.DeleteFunc(g.moves, func(m *move) bool { return m.source == c.Source })
	}
	return nil
}

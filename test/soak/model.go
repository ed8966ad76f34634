package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Device classes of a walk. extraClass is added and removed.
const (
	thinClass   = "thin"
	thickClass  = "thick"
	mirrorClass = "mirror"
	extraClass  = "extra"
)

// Limits of a walk, so that no operation lacks space: the total size of the volumes of a class in MiB, and the number
// of files in each volume.
var room = map[string]int64{thinClass: 5000, thickClass: 900, mirrorClass: 600, extraClass: 300}

const (
	mostVolumes   = 9
	mostSnapshots = 4
	mostFiles     = 4
	fileMiB       = 4
	// smallestXFS is the minimum size of a claim for an XFS volume, in MiB.
	smallestXFS = 300
	fillName    = "filler"
)

// Volume is a claim that must exist.
type Volume struct {
	Class string
	MiB   int64
	Block bool
	// Running reports whether its Pod runs.
	Running bool
	// Files has the checksums of flushed data by file number. A block volume has the files one after another.
	Files map[int]string
}

// Snapshot is a VolumeSnapshot that must exist.
type Snapshot struct {
	Class string
	MiB   int64
	Block bool
	Files map[int]string
}

// Model is the expected state. It is not safe for concurrent use.
type Model struct {
	Volumes   map[string]*Volume
	Snapshots map[string]*Snapshot
	// Extra reports whether the extra class exists, Added whether the thick class has its additional device, and Failed
	// whether a device of the mirror returns errors.
	Extra, Added, Failed bool
	numbers              int
}

// NewModel returns the model at the start of a walk.
func NewModel() *Model {
	return &Model{Volumes: map[string]*Volume{}, Snapshots: map[string]*Snapshot{}}
}

// choice is a possible step with its weight.
type choice struct {
	weight int
	step   Step
}

// Next selects a possible step. The same random numbers result in the same steps.
func (m *Model) Next(r *rand.Rand) Step {
	choices := m.choices(r)
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	at := r.IntN(total)
	for _, c := range choices {
		if at -= c.weight; at < 0 {
			return m.withFault(r, c.step)
		}
	}
	panic("the weights do not add up")
}

// withFault adds a fault to one of three steps.
func (m *Model) withFault(r *rand.Rand, s Step) Step {
	if s.Op == opCheck || r.IntN(3) > 0 {
		return s
	}
	// Killed processes are frequent, and slow faults are rare. A mirror tolerates one lost device.
	all := []string{faultKillAgent, faultKillAgent, faultKillAgent, faultKillOperator, faultKillOperator, faultStopAPI,
		faultPowerCut, faultMoveClock}
	if !m.Failed && s.Op != opFailDevice {
		all = append(all, faultPullDisk)
	}
	s.During = all[r.IntN(len(all))]
	if s.During == faultPowerCut && (m.Failed || s.Op == opFill || s.Op == opFailDevice) {
		// A restart repairs the device, and the volume that fills the pool would have to be written again.
		s.During = faultKillAgent
	}
	if s.During == faultMoveClock && s.startsPod() {
		s.During = faultKillOperator // See moveClock.
	}
	return s
}

func (m *Model) choices(r *rand.Rand) []choice {
	var all []choice
	add := func(weight int, s Step) { all = append(all, choice{weight, s}) }
	classes := m.classes()
	class := classes[r.IntN(len(classes))]
	size := 64 + 32*r.Int64N(4)
	if class == thinClass {
		size += smallestXFS
	}
	block := r.IntN(4) == 0
	if len(m.Volumes) < mostVolumes && m.used(class)+size <= room[class] {
		add(6, Step{Op: opCreate, On: m.name("v"), Class: class, MiB: size, Block: block})
	}
	names := sorted(m.Volumes)
	if len(names) > 0 {
		m.volumeChoices(r, names[r.IntN(len(names))], add)
	}
	if snapshots := sorted(m.Snapshots); len(snapshots) > 0 {
		name := snapshots[r.IntN(len(snapshots))]
		s := m.Snapshots[name]
		if len(m.Volumes) < mostVolumes && m.used(s.Class)+s.MiB <= room[s.Class] {
			add(3, Step{Op: opRestore, On: m.name("v"), From: name, Class: s.Class, MiB: s.MiB, Block: s.Block})
		}
		add(2, Step{Op: opDeleteSnapshot, On: name})
	}
	m.adminChoices(add)
	return all
}

func (m *Model) volumeChoices(r *rand.Rand, name string, add func(int, Step)) {
	v := m.Volumes[name]
	if v.Running {
		if len(v.Files) < mostFiles {
			add(6, Step{Op: opWrite, On: name, MiB: int64(len(v.Files))})
		}
		if grown := v.MiB + 32*(1+r.Int64N(3)); m.used(v.Class)-v.MiB+grown <= room[v.Class] && !m.degraded(v.Class) {
			add(3, Step{Op: opExpand, On: name, MiB: grown})
		}
		add(2, Step{Op: opStop, On: name})
	} else {
		add(4, Step{Op: opStart, On: name})
	}
	if !m.degraded(v.Class) {
		add(2, Step{Op: opDelete, On: name})
	}
	if v.Class != thinClass {
		return
	}
	if len(m.Snapshots) < mostSnapshots && m.used(v.Class)+v.MiB <= room[v.Class] {
		add(4, Step{Op: opSnapshot, On: m.name("s"), From: name})
	}
	if len(m.Volumes) < mostVolumes && m.used(v.Class)+v.MiB <= room[v.Class] {
		add(3, Step{Op: opClone, On: m.name("v"), From: name, Class: v.Class, MiB: v.MiB, Block: v.Block})
	}
}

func (m *Model) adminChoices(add func(int, Step)) {
	add(1, Step{Op: opFill, On: fillName, Class: thinClass})
	add(1, Step{Op: either(m.Added, opRemoveDevice, opAddDevice), On: thickClass})
	if m.used(extraClass) == 0 {
		add(1, Step{Op: either(m.Extra, opRemoveClass, opAddClass), On: extraClass})
	}
	add(1, Step{Op: either(m.Failed, opHealDevice, opFailDevice), On: mirrorClass})
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// degraded reports whether a group lacks a device. Such a group is not changed, so claims that require a change wait.
func (m *Model) degraded(class string) bool { return m.Failed && class == mirrorClass }

func (m *Model) classes() []string {
	classes := []string{thinClass, thinClass, thickClass, mirrorClass}
	if m.Failed {
		classes = classes[:3]
	}
	if m.Extra {
		classes = append(classes, extraClass)
	}
	return classes
}

// used returns the total size of the volumes and snapshots of a class, in MiB.
func (m *Model) used(class string) int64 {
	var sum int64
	for _, v := range m.Volumes {
		if v.Class == class {
			sum += v.MiB
		}
	}
	for _, s := range m.Snapshots {
		if s.Class == class {
			sum += s.MiB
		}
	}
	return sum
}

func (m *Model) name(prefix string) string { return fmt.Sprintf("%s%d", prefix, m.numbers+1) }

// Possible returns why a step is not possible now, or "". A replay skips such steps.
func (m *Model) Possible(s Step) string {
	volume := m.Volumes[s.On]
	from := m.Volumes[s.From]
	problem := ""
	need := func(ok bool, text string) {
		if !ok && problem == "" {
			problem = text
		}
	}
	switch s.Op {
	case opCreate, opRestore, opClone:
		need(volume == nil, "the volume exists")
		need(s.Class != extraClass || m.Extra, "the class does not exist")
		need(s.Op != opRestore || m.Snapshots[s.From] != nil, "there is no such snapshot")
		need(s.Op != opClone || from != nil, "there is no such volume")
	case opWrite, opExpand, opStop:
		need(volume != nil && volume.Running, "its Pod does not run")
	case opStart:
		need(volume != nil && !volume.Running, "its Pod runs, or there is no such volume")
	case opDelete:
		need(volume != nil && !m.degraded(volume.Class), "there is no such volume, or its class misses a device")
	case opSnapshot:
		need(from != nil && m.Snapshots[s.On] == nil, "there is no such volume, or the snapshot exists")
	case opDeleteSnapshot:
		need(m.Snapshots[s.On] != nil, "there is no such snapshot")
	case opAddDevice, opRemoveDevice:
		need(m.Added == (s.Op == opRemoveDevice), "it is so already")
	case opAddClass, opRemoveClass:
		need(m.Extra == (s.Op == opRemoveClass) && m.used(extraClass) == 0, "it is so already, or has volumes")
	case opFailDevice, opHealDevice:
		need(m.Failed == (s.Op == opHealDevice), "it is so already")
	}
	return problem
}

// Done records the effect of a step. sum is the checksum of what opWrite wrote.
func (m *Model) Done(s Step, sum string) {
	switch s.Op {
	case opCreate, opRestore, opClone:
		m.numbers++
		files := map[int]string{}
		switch s.Op {
		case opRestore:
			files = maps.Clone(m.Snapshots[s.From].Files)
		case opClone:
			files = maps.Clone(m.Volumes[s.From].Files)
		}
		m.Volumes[s.On] = &Volume{Class: s.Class, MiB: s.MiB, Block: s.Block, Running: true, Files: files}
	case opWrite:
		m.Volumes[s.On].Files[int(s.MiB)] = sum
	case opExpand:
		m.Volumes[s.On].MiB = s.MiB
	case opStop, opStart:
		m.Volumes[s.On].Running = s.Op == opStart
	case opDelete:
		delete(m.Volumes, s.On)
	case opSnapshot:
		m.numbers++
		v := m.Volumes[s.From]
		m.Snapshots[s.On] = &Snapshot{Class: v.Class, MiB: v.MiB, Block: v.Block, Files: maps.Clone(v.Files)}
	case opDeleteSnapshot:
		delete(m.Snapshots, s.On)
	case opAddDevice, opRemoveDevice:
		m.Added = s.Op == opAddDevice
	case opAddClass, opRemoveClass:
		m.Extra = s.Op == opAddClass
	case opFailDevice, opHealDevice:
		m.Failed = s.Op == opFailDevice
	}
}

func sorted[V any](all map[string]V) []string { return slices.Sorted(maps.Keys(all)) }

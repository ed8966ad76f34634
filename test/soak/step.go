package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Operations of a walk.
const (
	opCreate         = "create"          // a volume and its Pod
	opWrite          = "write"           // a file, flushed
	opExpand         = "expand"          // a volume to MiB
	opSnapshot       = "snapshot"        // On is the snapshot, From the volume
	opRestore        = "restore"         // From is the snapshot
	opClone          = "clone"           // From is the volume
	opStop           = "stop"            // the Pod of a volume
	opStart          = "start"           // the Pod of a volume
	opDelete         = "delete"          // a volume and its Pod
	opDeleteSnapshot = "delete-snapshot" //
	opFill           = "fill"            // the thin pool, by a volume that is deleted then
	opAddDevice      = "add-device"      // to the class
	opRemoveDevice   = "remove-device"   // that was added to the class
	opAddClass       = "add-class"       //
	opRemoveClass    = "remove-class"    //
	opFailDevice     = "fail-device"     // every access to it gives an error from now on
	opHealDevice     = "heal-device"     //
	opCheck          = "check"           // is everything as it must be
)

var ops = []string{
	opCreate, opWrite, opExpand, opSnapshot, opRestore, opClone, opStop, opStart, opDelete, opDeleteSnapshot, opFill,
	opAddDevice, opRemoveDevice, opAddClass, opRemoveClass, opFailDevice, opHealDevice, opCheck,
}

// Faults that occur during an operation and end by themselves.
const (
	faultKillAgent    = "kill-agent"
	faultKillOperator = "kill-operator"
	faultStopAPI      = "stop-api"
	faultPowerCut     = "power-cut"
	faultMoveClock    = "move-clock"
	faultPullDisk     = "pull-disk"
)

var faults = []string{faultKillAgent, faultKillOperator, faultStopAPI, faultPowerCut, faultMoveClock, faultPullDisk}

// startsPod reports whether the step starts a Pod.
func (s Step) startsPod() bool {
	return slices.Contains([]string{opCreate, opRestore, opClone, opStart, opFill}, s.Op)
}

// Step is an operation with the fault that occurs at the same time.
type Step struct {
	Op string
	// On is the object of the operation. From is the source of a new object.
	On, From string
	// Class, MiB and Block describe a new volume. MiB is also the new size of an expanded volume.
	Class string
	MiB   int64
	Block bool
	// During is the fault, or "".
	During string
}

// String returns the format that Parse reads.
func (s Step) String() string {
	words := []string{s.Op}
	add := func(key, value string) {
		if value != "" {
			words = append(words, key+"="+value)
		}
	}
	add("on", s.On)
	add("from", s.From)
	add("class", s.Class)
	if s.MiB != 0 {
		add("mib", strconv.FormatInt(s.MiB, 10))
	}
	if s.Block {
		add("block", "true")
	}
	add("during", s.During)
	return strings.Join(words, " ")
}

// Parse parses a step. Its error names the unknown word.
func Parse(line string) (Step, error) {
	words := strings.Fields(line)
	if len(words) == 0 || !slices.Contains(ops, words[0]) {
		return Step{}, fmt.Errorf("step %q: the first word has to be one of %s", line, strings.Join(ops, ", "))
	}
	s := Step{Op: words[0]}
	texts := map[string]*string{"on": &s.On, "from": &s.From, "class": &s.Class, "during": &s.During}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch target := texts[key]; {
		case value == "":
			err = fmt.Errorf("want KEY=VALUE")
		case target != nil:
			*target = value
		case key == "mib":
			s.MiB, err = strconv.ParseInt(value, 10, 64)
		case key == "block":
			s.Block, err = strconv.ParseBool(value)
		default:
			err = fmt.Errorf("there is no %q", key)
		}
		if err != nil {
			return Step{}, fmt.Errorf("step %q: %q: %w", line, word, err)
		}
	}
	if s.During != "" && !slices.Contains(faults, s.During) {
		return Step{}, fmt.Errorf("step %q: during has to be one of %s", line, strings.Join(faults, ", "))
	}
	return s, nil
}

// ParseAll parses one step for each line. It skips empty lines and lines that begin with #.
func ParseAll(text string) ([]Step, error) {
	var steps []Step
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s, err := Parse(line)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// Shorten returns the steps that concern the given names: those on them and on their sources, and the last two.
func Shorten(steps []Step, names ...string) []Step {
	about := map[string]bool{}
	for _, name := range names {
		about[name] = true
	}
	var kept []Step
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		if i < len(steps)-2 && !about[s.On] && !about[s.From] {
			continue
		}
		for _, name := range []string{s.On, s.From, s.Class} {
			if name != "" {
				about[name] = true
			}
		}
		kept = append(kept, s)
	}
	slices.Reverse(kept)
	return kept
}

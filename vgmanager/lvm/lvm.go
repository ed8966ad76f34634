// Package lvm has LVM's objects and their changes as values: volume groups, physical and logical volumes, one type for
// each change, and errors. It runs nothing: package lvmexec does, and package output decodes what LVM prints.
//
// Sizes are in bytes. No change passes --force or answers a question of LVM with yes, unless its comment says which
// question and why.
package lvm

import (
	"fmt"
	"regexp"
)

// Change is a change of the node's LVM as a value. The errors that a change returns, according to the comment of its
// type, are those of whoever makes it (lvmexec.LVM, lvmtest.Fake).
type Change interface {
	// String names the change in messages.
	fmt.Stringer
	// Command returns what the change runs. It has no Args if there is nothing to do.
	Command() Command
}

// WholeNode replaces the name of the volume group in commands that do not affect a single volume group.
const WholeNode = ""

// Command is a command that changes something.
type Command struct {
	// Args are the arguments of LVM.
	Args []string
	// Steps: the change also runs other commands, or reads something first (lvmexec, steps.go).
	Steps bool
	// Message: the arguments are those of dmsetup, and what they change is not in LVM's metadata.
	Message bool
	// VG is the volume group that the command changes, or WholeNode.
	VG string
	// Whole: the volume group must not miss a physical volume whose loss is not accepted (AcceptLoss). LVM also runs
	// the command then, marks the physical volume as missing in the metadata, and the mark stays after the device
	// returns. Therefore a new report is read first, or the devices themselves (ReadGroupsWith).
	Whole bool
	// Named: the command may get the group's devices (--devices).
	Named bool
	// Incomplete: a command with Whole set may run although the volume group misses physical volumes. It has a check
	// that allows it only if it does not need them, and it does not write the metadata.
	Incomplete bool
	// Check is called, if it is set, with the volume group as it is when the command starts. It requires Whole.
	Check func(*VG) error
	// Removes are the names of the logical volumes that the command removes. It requires Whole.
	Removes []string
	// Long: the command can take hours and must not be ended. If it takes longer than the caller waits, it continues,
	// and it is not started a second time meanwhile.
	Long bool
	// Invalid is why the command must not run, or nil.
	Invalid error
}

// tagPattern matches the tags that LVM accepts (lvm(8)), up to maxTag bytes. None can be an option of a command.
var tagPattern = regexp.MustCompile(`^[A-Za-z0-9_+.][A-Za-z0-9_+.\-/=!:&#]*$`)

const maxTag = 1024

// Validate returns Invalid, or an error if the command adds a tag that LVM does not accept: parts of tags are texts of
// objects.
func (c Command) Validate() error {
	for i := range len(c.Args) - 1 {
		tag := c.Args[i+1]
		if c.Args[i] == "--addtag" && (len(tag) > maxTag || !tagPattern.MatchString(tag)) {
			return fmt.Errorf("%w: LVM does not accept the tag %q: nothing is changed", ErrInvalid, tag)
		}
	}
	return c.Invalid
}

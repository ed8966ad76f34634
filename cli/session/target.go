package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// Target is the device class of a node that a command is for.
type Target struct {
	// Namespace is the namespace of the operator, in which the status of the node is.
	Namespace, Node, Class string
	// Status is what the node agent reported last.
	Status *v1alpha1.LVMVolumeGroupNodeStatus
}

// Group returns the volume group of the target.
func (t Target) Group() *v1alpha1.VGStatus {
	for i := range t.Status.Status.NodeStatus {
		if group := &t.Status.Status.NodeStatus[i]; group.Name == t.Class {
			return group
		}
	}
	return nil
}

func (t Target) String() string { return "device class " + t.Class + " on node " + t.Node }

// TargetFlags select a target.
type TargetFlags struct{ Node, Class string }

// AddTargetFlags adds the flags that select a target.
func (e *Environment) AddTargetFlags(command *cobra.Command, f *TargetFlags) {
	command.Flags().StringVar(&f.Node, "node", "", "the node")
	command.Flags().StringVar(&f.Class, "class", "", "the device class. It is not required if the node has only one")
	e.CompleteNodes(command)
	e.CompleteClasses(command)
}

// NewTarget returns the device class of a node. Without the name of a device class, the node must have only one.
func NewTarget(nodes []v1alpha1.LVMVolumeGroupNodeStatus, f TargetFlags) (Target, error) {
	if f.Node == "" {
		return Target{}, fmt.Errorf("--node is missing: give the node; kubectl lvms classes lists the nodes")
	}
	found, err := objects.OnNode(slices.Clone(nodes), f.Node)
	if err != nil {
		return Target{}, err
	}
	if len(found) > 1 {
		return Target{}, fmt.Errorf("node %s has an LVMVolumeGroupNodeStatus in several namespaces: give the "+
			"namespace of the operator with -n", f.Node)
	}
	var classes []string
	for i := range found[0].Status.NodeStatus {
		classes = append(classes, found[0].Status.NodeStatus[i].Name)
	}
	at := Target{Namespace: found[0].Namespace, Node: f.Node, Class: f.Class, Status: &found[0]}
	switch {
	case len(classes) == 0:
		return Target{}, fmt.Errorf("node %s has no device class: see kubectl lvms classes", f.Node)
	case at.Class == "" && len(classes) > 1:
		return Target{}, fmt.Errorf("node %s has several device classes: give one of them with --class: %s", f.Node,
			strings.Join(classes, ", "))
	case at.Class == "":
		at.Class = classes[0]
	case !slices.Contains(classes, at.Class):
		return Target{}, fmt.Errorf("node %s does not have the device class %s: it has %s", f.Node, at.Class,
			strings.Join(classes, ", "))
	}
	return at, nil
}

// Target reads the node statuses, and returns the target that the flags select.
func (e *Environment) Target(ctx context.Context, s *Source, f TargetFlags, t *Terminal) (Target, error) {
	nodes, err := s.NodeStatuses(ctx)
	if err != nil {
		return Target{}, err
	}
	at, err := NewTarget(nodes, f)
	if err != nil {
		return Target{}, err
	}
	t.NoteTarget(s, at, e.Now())
	return at, nil
}

// NoteTarget says what was not read, and warns if the node agent may not carry out anything.
func (t *Terminal) NoteTarget(s *Source, at Target, now time.Time) {
	for _, note := range s.Notes {
		fmt.Fprintln(t.ErrOut, "note:", note)
	}
	if reason, message := verdict.NotCurrent(at.Status, now); reason != "" {
		fmt.Fprintf(t.ErrOut, "warning: node %s: the state is not current, and the node agent may not carry out "+
			"anything: %s\n", at.Node, output.OneLine(message))
	}
}

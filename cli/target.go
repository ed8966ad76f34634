package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// target is the device class of a node that a command is for.
type target struct {
	// namespace is the namespace of the operator, in which the status of the node is.
	namespace, node, class string
	// status is what the node agent reported last.
	status *v1alpha1.LVMVolumeGroupNodeStatus
}

// group returns the volume group of the target.
func (t target) group() *v1alpha1.VGStatus {
	for i := range t.status.Status.NodeStatus {
		if group := &t.status.Status.NodeStatus[i]; group.Name == t.class {
			return group
		}
	}
	return nil
}

func (t target) String() string { return "device class " + t.class + " on node " + t.node }

// targetFlags select a target.
type targetFlags struct{ node, class string }

// addTargetFlags adds the flags that select a target.
func (e *environment) addTargetFlags(command *cobra.Command, f *targetFlags) {
	command.Flags().StringVar(&f.node, "node", "", "the node")
	command.Flags().StringVar(&f.class, "class", "", "the device class. It is not required if the node has only one")
	e.completeNodes(command)
	e.completeClasses(command)
}

// newTarget returns the device class of a node. Without the name of a device class, the node must have only one.
func newTarget(nodes []v1alpha1.LVMVolumeGroupNodeStatus, f targetFlags) (target, error) {
	if f.node == "" {
		return target{}, fmt.Errorf("--node is missing: give the node; kubectl lvms classes lists the nodes")
	}
	found, err := onNode(slices.Clone(nodes), f.node)
	if err != nil {
		return target{}, err
	}
	if len(found) > 1 {
		return target{}, fmt.Errorf("node %s has an LVMVolumeGroupNodeStatus in several namespaces: give the "+
			"namespace of the operator with -n", f.node)
	}
	var classes []string
	for i := range found[0].Status.NodeStatus {
		classes = append(classes, found[0].Status.NodeStatus[i].Name)
	}
	at := target{namespace: found[0].Namespace, node: f.node, class: f.class, status: &found[0]}
	switch {
	case len(classes) == 0:
		return target{}, fmt.Errorf("node %s has no device class: see kubectl lvms classes", f.node)
	case at.class == "" && len(classes) > 1:
		return target{}, fmt.Errorf("node %s has several device classes: give one of them with --class: %s", f.node,
			strings.Join(classes, ", "))
	case at.class == "":
		at.class = classes[0]
	case !slices.Contains(classes, at.class):
		return target{}, fmt.Errorf("node %s does not have the device class %s: it has %s", f.node, at.class,
			strings.Join(classes, ", "))
	}
	return at, nil
}

// target reads the node statuses, and returns the target that the flags select.
func (e *environment) target(ctx context.Context, s *source, f targetFlags, t *terminal) (target, error) {
	nodes, err := s.nodeStatuses(ctx)
	if err != nil {
		return target{}, err
	}
	at, err := newTarget(nodes, f)
	if err != nil {
		return target{}, err
	}
	t.noteTarget(s, at, e.now())
	return at, nil
}

// noteTarget says what was not read, and warns if the node agent may not carry out anything.
func (t *terminal) noteTarget(s *source, at target, now time.Time) {
	for _, note := range s.notes {
		fmt.Fprintln(t.errOut, "note:", note)
	}
	if reason, message := notCurrent(at.status, now); reason != "" {
		fmt.Fprintf(t.errOut, "warning: node %s: the state is not current, and the node agent may not carry out "+
			"anything: %s\n", at.node, single(message))
	}
}

// volumesOfClaims returns the names of the logical volumes of claims in LVM, and where all of them are.
func volumesOfClaims(all []topolvmv1.LogicalVolume, claims []string, f targetFlags) ([]string, targetFlags, error) {
	var names []string
	for _, claim := range claims {
		if namespace, name, _ := strings.Cut(claim, "/"); namespace == "" || name == "" {
			return nil, f, fmt.Errorf("--claim %s has no namespace: give NAMESPACE/NAME", claim)
		}
		lv := volumeOfClaim(all, claim)
		if lv == nil {
			return nil, f, fmt.Errorf("no LogicalVolume on a node names the claim %s. If the volume was created by "+
				"upstream LVMS or TopoLVM, give --node, --class and --volume instead: kubectl get pv has the volume "+
				"handle", claim)
		}
		var err error
		if f.node, err = same("node", claim, f.node, lv.Spec.NodeName); err != nil {
			return nil, f, err
		}
		// A LogicalVolume without a device class is in the default one, which may be any.
		if lv.Spec.DeviceClass != "" {
			if f.class, err = same("device class", claim, f.class, lv.Spec.DeviceClass); err != nil {
				return nil, f, err
			}
		}
		names = append(names, lv.Status.VolumeID)
	}
	return names, f, nil
}

func volumeOfClaim(all []topolvmv1.LogicalVolume, claim string) *topolvmv1.LogicalVolume {
	for i := range all {
		lv := &all[i]
		isSnapshot := lv.Spec.AccessType == "ro" && lv.Spec.Source != ""
		isPartOfMove := lv.Annotations[v1alpha1.MoveAnnotation] != ""
		if lv.Annotations[v1alpha1.ClaimAnnotation] == claim && lv.Status.VolumeID != "" && !isSnapshot &&
			!isPartOfMove && lv.DeletionTimestamp == nil {
			return lv
		}
	}
	return nil
}

func same(what, claim, before, now string) (string, error) {
	if before != "" && before != now {
		return "", fmt.Errorf("the claim %s is on the %s %s, and not on %s: run the command once for each "+
			"%s", claim, what,
			now, before, what)
	}
	return now, nil
}

// volumeNames returns names of logical volumes without the volume group, each once. The status has names with it.
func volumeNames(given []string, group string) []string {
	var names []string
	for _, name := range given {
		if name = strings.TrimPrefix(name, group+"/"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// parseImports returns the volumes and claims of arguments like NAME or NAME=NAMESPACE/CLAIM.
func parseImports(given []string, group string) ([]string, []v1alpha1.RecoveryClaim, error) {
	var names []string
	var claims []v1alpha1.RecoveryClaim
	for _, argument := range given {
		name, claim, hasClaim := strings.Cut(argument, "=")
		name = strings.TrimPrefix(name, group+"/")
		if slices.Contains(names, name) {
			return nil, nil, fmt.Errorf("--volume %s is given twice", name)
		}
		names = append(names, name)
		if !hasClaim {
			continue
		}
		namespace, claimName, _ := strings.Cut(claim, "/")
		if namespace == "" || claimName == "" {
			return nil, nil, fmt.Errorf("--volume %s: %q is not a claim: give NAME=NAMESPACE/CLAIM", argument, claim)
		}
		claims = append(claims, v1alpha1.RecoveryClaim{Volume: name, Namespace: namespace, Name: claimName})
	}
	return names, claims, nil
}

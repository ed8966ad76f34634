package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// evacuation is what evacuate does with the volumes of a node.
type evacuation struct {
	node string
	// moves are the claims whose volumes are moved, sorted. thick has those of thick volumes, with their size in bytes.
	moves []string
	thick map[string]int64
	// stay says why other volumes cannot be moved, sorted.
	stay []string
	// running are the claims that are being moved already.
	running []string
	// size is the size of the volumes that are moved, and allocated the data of thin ones, at most, in bytes.
	size, allocated int64
	// needed is the size of the volumes that are moved, for each device class, in bytes.
	needed map[string]int64
	// free is the free capacity for each device class on the other nodes, in bytes. With redundancy, less of it can be
	// used.
	free map[string]int64
}

func (e *environment) evacuateCommand() *cobra.Command {
	w, rate := &writing{}, "100Mi"
	command := &cobra.Command{Use: "evacuate NODE", Short: "Move all volumes of a node to other nodes",
		Long: `Create a VolumeMove for each volume of a node, and say which volumes cannot be moved, and why. The data of thin
volumes is copied while Pods use them; that of thick volumes, which have no snapshots, only while no Pod uses them. Each
volume is switched when no Pod that is bound to a node uses its claim: the next step is kubectl drain, which ends the
Pods and keeps new ones from the node.

The forecast is for the data that is allocated in the thin pools, with two copies at once, at the rate of --rate. For a
thick volume, it is how long its Pods cannot start: all of it is copied, and then read again to compare the copy. The
operator selects the nodes; it does not exceed their free capacity.`,
		Example: `  # What would be moved, how long would it take, and what would stay?
  kubectl lvms evacuate worker-1 --dry-run

  # Copy the volumes, then end the Pods
  kubectl lvms evacuate worker-1
  kubectl drain worker-1 --ignore-daemonsets --delete-emptydir-data`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			if err := w.validate(); err != nil {
				return err
			}
			perSecond, err := resource.ParseQuantity(rate)
			if err != nil || perSecond.Value() <= 0 {
				return fmt.Errorf("--rate %q is not supported: use bytes for each second above 0, for example 100Mi",
					rate)
			}
			return e.evacuate(command, w, args[0], perSecond.Value())
		}}
	command.Flags().StringVar(&rate, "rate", rate,
		"bytes for each second that are copied from the node, for the forecast")
	w.addWriteFlags(command)
	return command
}

func (e *environment) evacuate(command *cobra.Command, w *writing, node string, rate int64) error {
	ctx, t := command.Context(), e.terminal(command)
	s, err := e.source("")
	if err != nil {
		return err
	}
	plan, namespace, err := s.planEvacuation(ctx, node)
	if err != nil {
		return err
	}
	out := t.out
	if w.isDryRun() {
		out = t.errOut
	}
	fmt.Fprint(out, plan.text(rate))
	moves := make([]*v1alpha1.VolumeMove, 0, len(plan.moves))
	for _, claim := range plan.moves {
		moves = append(moves, newMove(namespace, claim, ""))
	}
	if w.isDryRun() {
		return printMoves(t, moves...)
	}
	if len(moves) > 0 {
		question := "Move " + countOf(len(moves), "volume?", "volumes?")
		if err := t.confirm(ctx, w, question); err != nil {
			return err
		}
	}
	var errs []error
	for _, move := range moves {
		errs = append(errs, createMove(ctx, s.client, t, move))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "See the progress with: kubectl lvms moves\n"+
		"When the copies wait for Pods, end them with: kubectl drain %s --ignore-daemonsets --delete-emptydir-data\n",
		node)
	if len(plan.stay) > 0 {
		return fmt.Errorf("%w: %s of node %s cannot be moved", errNotPossible,
			countOf(len(plan.stay), "volume", "volumes"), node)
	}
	return nil
}

func (s *source) planEvacuation(ctx context.Context, node string) (*evacuation, string, error) {
	clusters, err := s.clusters(ctx)
	if err != nil {
		return nil, "", err
	}
	if len(clusters) == 0 {
		return nil, "", fmt.Errorf("%w: there is no LVMCluster", errNotPossible)
	}
	volumes, err := s.volumes(ctx)
	if err != nil {
		return nil, "", err
	}
	statuses, err := s.nodeStatuses(ctx)
	if err != nil {
		return nil, "", err
	}
	moves, err := s.moves(ctx)
	if err != nil {
		return nil, "", err
	}
	return newEvacuation(node, &clusters[0], volumes, statuses, moves), clusters[0].Namespace, nil
}

// newEvacuation decides what happens to the volumes of a node.
func newEvacuation(node string, cluster *v1alpha1.LVMCluster, volumes []topolvmv1.LogicalVolume,
	statuses []v1alpha1.LVMVolumeGroupNodeStatus, moves []v1alpha1.VolumeMove) *evacuation {
	p := &evacuation{node: node, free: map[string]int64{}, needed: map[string]int64{}, thick: map[string]int64{}}
	largest := map[string]int64{}
	used := map[string]int64{}
	thin := thinClasses(cluster)
	for i := range statuses {
		for _, group := range statuses[i].Status.NodeStatus {
			free, pool := group.Free, group.ThinPool
			switch isThin := thin[group.Name]; {
			case isThin && pool == nil:
				continue
			case isThin && statuses[i].Name == node:
				used[group.Name] = int64(float64(pool.Size.Value()) / 100 * float64(pool.DataPercent))
			case isThin:
				free = pool.Free
			}
			if statuses[i].Name != node && free != nil {
				p.free[group.Name] += free.Value()
				largest[group.Name] = max(largest[group.Name], free.Value())
			}
		}
	}
	for i := range volumes {
		lv := &volumes[i]
		if lv.Spec.NodeName != node || lv.Annotations[v1alpha1.MoveAnnotation] != "" {
			continue
		}
		class := cmp.Or(lv.Spec.DeviceClass, cluster.Spec.Storage.DefaultDeviceClass())
		claim := lv.Annotations[v1alpha1.ClaimAnnotation]
		size := lv.Spec.Size.Value()
		isThin, known := thin[class]
		why := whyStays(lv)
		switch {
		case why != "":
		case !known:
			why = fmt.Sprintf("the LVMCluster has no device class %q", class)
		case openMove(moves, claim) != nil:
			p.running = append(p.running, claim)
			continue
		case size > largest[class]:
			why = fmt.Sprintf("it has %s, and the other nodes have at most %s free in device class %s", amountOf(size),
				amountOf(largest[class]), class)
		default:
			p.moves = append(p.moves, claim)
			p.size += size
			p.needed[class] += size
			if !isThin {
				p.thick[claim] = size
			}
			continue
		}
		p.stay = append(p.stay, fmt.Sprintf("%s (%s): %s", cmp.Or(claim, "volume"), lv.Name, why))
	}
	for class, size := range p.needed {
		p.allocated += min(size, used[class])
	}
	slices.Sort(p.moves)
	slices.Sort(p.stay)
	slices.Sort(p.running)
	return p
}

// thinClasses returns which device classes have a thin pool.
func thinClasses(cluster *v1alpha1.LVMCluster) map[string]bool {
	thin := map[string]bool{}
	for _, class := range cluster.Spec.Storage.DeviceClasses {
		thin[class.Name] = class.ThinPoolConfig != nil
	}
	return thin
}

// whyStays returns why a volume cannot be moved to any node, or "".
func whyStays(lv *topolvmv1.LogicalVolume) string {
	switch {
	case lv.Spec.AccessType == "ro":
		return "it is a snapshot: snapshots stay on their node"
	case lv.Annotations[v1alpha1.ClaimAnnotation] == "":
		return "its claim is not known"
	case !lv.DeletionTimestamp.IsZero() || lv.Status.VolumeID == "":
		return "it is being created or deleted"
	}
	return ""
}

// copyTime returns how long bytes take at a rate in bytes for each second, at least a second.
func copyTime(bytes, rate int64) time.Duration {
	return max(time.Second, time.Duration(float64(bytes)/float64(rate)*float64(time.Second)).Round(time.Second))
}

// thickPause returns how long Pods cannot start while a thick volume is moved. All of it is read twice: to copy it, and
// to compare the copy.
func thickPause(size, rate int64) time.Duration { return copyTime(size, rate) + copyTime(size, rate) }

// amountOf returns a number of bytes as sizeOf does.
func amountOf(n int64) string { return sizeOf(resource.NewQuantity(n, resource.BinarySI)) }

// text describes the evacuation, with a forecast for a rate in bytes for each second.
func (p *evacuation) text(rate int64) string {
	var b strings.Builder
	if len(p.moves) == 0 {
		fmt.Fprintf(&b, "Node %s: no volumes can be moved.\n", p.node)
	} else {
		fmt.Fprintf(&b, "Node %s: %s can be moved, %s.\n", p.node, countOf(len(p.moves), "volume", "volumes"),
			amountOf(p.size))
	}
	for _, class := range slices.Sorted(maps.Keys(p.free)) {
		fmt.Fprintf(&b, "The other nodes have %s free in device class %s.\n", amountOf(p.free[class]), class)
	}
	for _, class := range slices.Sorted(maps.Keys(p.needed)) {
		if p.needed[class] > p.free[class] {
			fmt.Fprintf(&b, "Device class %s: the volumes need %s, and the other nodes have %s free together: some "+
				"moves stay Pending.\n", class, amountOf(p.needed[class]), amountOf(p.free[class]))
		}
	}
	if p.allocated > 0 {
		fmt.Fprintf(&b, "The thin ones have at most %s of data. At %s for each second, their copies take at most "+
			"about %s.\n", amountOf(p.allocated), amountOf(rate), copyTime(p.allocated, rate))
	}
	if len(p.thick) > 0 {
		b.WriteString("Thick volumes are copied while their Pods are stopped, two at once; the others wait.\n")
	}
	for _, claim := range p.moves {
		fmt.Fprintf(&b, "  move  %s", claim)
		if size, thick := p.thick[claim]; thick {
			fmt.Fprintf(&b, ": thick, %s, its Pods cannot start for about %s at %s for each second", amountOf(size),
				thickPause(size, rate), amountOf(rate))
		}
		b.WriteString("\n")
	}
	for _, claim := range p.running {
		fmt.Fprintf(&b, "  moves already  %s\n", claim)
	}
	for _, why := range p.stay {
		fmt.Fprintf(&b, "  stays  %s\n", why)
	}
	return b.String()
}

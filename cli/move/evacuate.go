package move

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
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/internal/volume/room"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// evacuation is what evacuate does with the volumes of a node.
type evacuation struct {
	node string
	// moves are the volumes that are moved, in the order in which the VolumeMoves are created: the largest first, which
	// leaves the least free capacity unused.
	moves []evacuated
	// stay says why other volumes cannot be moved, sorted.
	stay []string
	// running are the claims that are being moved already.
	running []string
	// used is the data in the thin pools of the node by device class, in bytes.
	used map[string]int64
	// pools are the thin pools of the node by device class.
	pools map[string]*v1alpha1.ThinPoolStatus
	// nodes are what the other nodes have, by device class. With redundancy, less of it can be used.
	nodes map[string]map[string]room.Node
}

// evacuated is a volume that is moved.
type evacuated struct {
	claim, class string
	size         int64
	thick        bool
	// waits: when the volumes before it are moved, no node has enough free capacity for it, but at most left.
	waits bool
	left  int64
	// doubtful: its node may have no room for its data, which is not known.
	doubtful bool
}

func evacuateCommand(e *session.Environment) *cobra.Command {
	w := &session.Writing{}
	rate := "100Mi"
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
			if err := w.Validate(); err != nil {
				return err
			}
			perSecond, err := resource.ParseQuantity(rate)
			if err != nil || perSecond.Value() <= 0 {
				return fmt.Errorf("--rate %q is not supported: use bytes for each second above 0, for example 100Mi",
					rate)
			}
			return evacuate(e, command, w, args[0], perSecond.Value())
		}}
	command.Flags().StringVar(&rate, "rate", rate,
		"bytes for each second that are copied from the node, for the forecast")
	w.AddWriteFlags(command)
	return command
}

func evacuate(e *session.Environment, command *cobra.Command, w *session.Writing, node string, rate int64) error {
	ctx := command.Context()
	t := e.Terminal(command)
	s, err := e.Source("")
	if err != nil {
		return err
	}
	plan, namespace, err := planEvacuation(ctx, s, node)
	if err != nil {
		return err
	}
	out := t.Out
	if w.IsDryRun() {
		out = t.ErrOut
	}
	fmt.Fprint(out, plan.text(rate))
	moves := make([]*v1alpha1.VolumeMove, 0, len(plan.moves))
	for _, v := range plan.moves {
		moves = append(moves, newMove(namespace, v.claim, ""))
	}
	if w.IsDryRun() {
		return printMoves(t, moves...)
	}
	if len(moves) > 0 {
		question := "Move " + output.CountOf(len(moves), "volume?", "volumes?")
		if err := t.Confirm(ctx, w, question); err != nil {
			return err
		}
	}
	var errs []error
	for _, move := range moves {
		errs = append(errs, createMove(ctx, s.Client, t, move))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(t.Out, "See the progress with: kubectl lvms moves\n"+
		"When the copies wait for Pods, end them with: kubectl drain %s --ignore-daemonsets --delete-emptydir-data\n",
		node)
	if n := len(plan.stay) + plan.waiting(); n > 0 {
		return fmt.Errorf("%w: %s of node %s cannot be moved", session.ErrNotPossible,
			output.CountOf(n, "volume", "volumes"), node)
	}
	return nil
}

func planEvacuation(ctx context.Context, s *session.Source, node string) (*evacuation, string, error) {
	clusters, err := s.Clusters(ctx)
	if err != nil {
		return nil, "", err
	}
	if len(clusters) == 0 {
		return nil, "", fmt.Errorf("%w: there is no LVMCluster", session.ErrNotPossible)
	}
	volumes, err := s.Volumes(ctx)
	if err != nil {
		return nil, "", err
	}
	statuses, err := s.NodeStatuses(ctx)
	if err != nil {
		return nil, "", err
	}
	moves, err := s.Moves(ctx)
	if err != nil {
		return nil, "", err
	}
	return newEvacuation(node, &clusters[0], volumes, statuses, moves), clusters[0].Namespace, nil
}

// newEvacuation decides what happens to the volumes of a node.
func newEvacuation(node string, cluster *v1alpha1.LVMCluster, volumes []topolvmv1.LogicalVolume,
	statuses []v1alpha1.LVMVolumeGroupNodeStatus, moves []v1alpha1.VolumeMove) *evacuation {
	thin := thinClasses(cluster)
	p := &evacuation{node: node}
	p.readCapacity(thin, statuses)
	for i := range volumes {
		lv := &volumes[i]
		if lv.Spec.NodeName != node || view.Move(lv) != "" {
			continue
		}
		class := cmp.Or(lv.Spec.DeviceClass, classspec.Default(cluster.Spec.Storage))
		claim := view.Claim(lv)
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
		case room.Best(p.nodes[class], p.needs(class, size)) == "":
			why = p.noRoom(class, size)
		default:
			p.moves = append(p.moves, evacuated{claim: claim, class: class, size: size, thick: !isThin})
			continue
		}
		p.stay = append(p.stay, fmt.Sprintf("%s (%s): %s", cmp.Or(claim, "volume"), lv.Name, why))
	}
	slices.SortFunc(p.moves, func(a, b evacuated) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.claim, b.claim))
	})
	slices.Sort(p.stay)
	slices.Sort(p.running)
	p.place()
	return p
}

// needs returns what a volume of the node needs on another one.
func (p *evacuation) needs(class string, size int64) room.Volume {
	return room.Copy(size, p.pools[class])
}

// noRoom returns why no other node has room for a volume.
func (p *evacuation) noRoom(class string, size int64) string {
	largest := int64(0)
	for _, node := range p.nodes[class] {
		largest = max(largest, node.Free)
	}
	if size > largest {
		return fmt.Sprintf("it has %s, and the other nodes have at most %s free in device class %s", amountOf(size),
			amountOf(largest), class)
	}
	return fmt.Sprintf("the thin pools of the other nodes that have %s free in device class %s are too full for copies",
		amountOf(size), class)
}

// readCapacity reads the thin pools of the node, and what the other nodes have.
func (p *evacuation) readCapacity(thin map[string]bool, statuses []v1alpha1.LVMVolumeGroupNodeStatus) {
	p.used = map[string]int64{}
	p.pools = map[string]*v1alpha1.ThinPoolStatus{}
	p.nodes = map[string]map[string]room.Node{}
	for i := range statuses {
		for _, group := range statuses[i].Status.NodeStatus {
			if statuses[i].Name == p.node {
				if thin[group.Name] && group.ThinPool != nil {
					p.pools[group.Name] = group.ThinPool
					p.used[group.Name] = room.Used(group.ThinPool)
				}
				continue
			}
			node, known := room.Of(&group, thin[group.Name])
			if !known {
				continue
			}
			if p.nodes[group.Name] == nil {
				p.nodes[group.Name] = map[string]room.Node{}
			}
			p.nodes[group.Name][statuses[i].Name] = node
		}
	}
}

// mostFree returns the most free capacity of a node to which data can be copied.
func mostFree(nodes map[string]room.Node) int64 {
	most := int64(0)
	for _, node := range nodes {
		if node.IsOpen() {
			most = max(most, node.Free)
		}
	}
	return most
}

// place assigns each volume to a node, as the operator does.
func (p *evacuation) place() {
	left := map[string]map[string]room.Node{}
	for class, nodes := range p.nodes {
		left[class] = maps.Clone(nodes)
	}
	for i := range p.moves {
		v := &p.moves[i]
		needs := p.needs(v.class, v.size)
		name := room.Best(left[v.class], needs)
		if v.waits = name == ""; v.waits {
			v.left = mostFree(left[v.class])
			continue
		}
		node := left[v.class][name]
		v.doubtful = node.Doubt(needs) != ""
		node.Free -= v.size
		node.Assigned += v.size
		left[v.class][name] = node
	}
}

// waiting returns how many moves stay Pending.
func (p *evacuation) waiting() int {
	n := 0
	for _, v := range p.moves {
		if v.waits {
			n++
		}
	}
	return n
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
	case view.Claim(lv) == "":
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

// amountOf returns a number of bytes as output.SizeOf does.
func amountOf(n int64) string { return output.SizeOf(resource.NewQuantity(n, resource.BinarySI)) }

// text describes the evacuation, with a forecast for a rate in bytes for each second.
func (p *evacuation) text(rate int64) string {
	var b strings.Builder
	needed := map[string]int64{}
	waiting := map[string]int{}
	var size, allocated int64
	var thick bool
	for _, v := range p.moves {
		if v.waits {
			waiting[v.class]++
			continue
		}
		size += v.size
		needed[v.class] += v.size
		thick = thick || v.thick
	}
	for class, bytes := range needed {
		allocated += min(bytes, p.used[class])
	}
	if n := len(p.moves) - p.waiting(); n == 0 {
		fmt.Fprintf(&b, "Node %s: no volumes can be moved.\n", p.node)
	} else {
		fmt.Fprintf(&b, "Node %s: %s can be moved, %s.\n", p.node, output.CountOf(n, "volume", "volumes"),
			amountOf(size))
	}
	for _, class := range slices.Sorted(maps.Keys(p.nodes)) {
		free, data, known := sum(p.nodes[class])
		if known {
			fmt.Fprintf(&b, "The other nodes have %s free in device class %s, and room for %s of copied data.\n",
				amountOf(free), class, amountOf(data))
			continue
		}
		fmt.Fprintf(&b, "The other nodes have %s free in device class %s.\n", amountOf(free), class)
	}
	for _, class := range slices.Sorted(maps.Keys(waiting)) {
		fmt.Fprintf(&b, "Device class %s: %s Pending, because no other node has enough free capacity left.\n", class,
			output.CountOf(waiting[class], "move stays", "moves stay"))
	}
	if allocated > 0 {
		fmt.Fprintf(&b, "The thin ones have at most %s of data. At %s for each second, their copies take at most "+
			"about %s.\n", amountOf(allocated), amountOf(rate), copyTime(allocated, rate))
	}
	if thick {
		b.WriteString("Thick volumes are copied while their Pods are stopped, two at once; the others wait.\n")
	}
	for _, v := range p.moves {
		fmt.Fprintf(&b, "  move  %s%s\n", v.claim, v.text(rate))
	}
	for _, claim := range p.running {
		fmt.Fprintf(&b, "  moves already  %s\n", claim)
	}
	for _, why := range p.stay {
		fmt.Fprintf(&b, "  stays  %s\n", why)
	}
	return b.String()
}

// text returns what follows the claim of a volume that is moved.
func (v evacuated) text(rate int64) string {
	switch {
	case v.waits:
		return fmt.Sprintf(": stays Pending: it has %s, and the moves above leave at most %s free on a node",
			amountOf(v.size), amountOf(v.left))
	case v.doubtful:
		return ": its data is not known, and may not fit into a thin pool of the other nodes: then the node " +
			"refuses the copy"
	case v.thick:
		return fmt.Sprintf(": thick, %s, its Pods cannot start for about %s at %s for each second", amountOf(v.size),
			thickPause(v.size, rate), amountOf(rate))
	}
	return ""
}

// sum returns what nodes have together. known: all of them have reported how much data can be copied to them.
func sum(nodes map[string]room.Node) (free, data int64, known bool) {
	known = true
	for _, node := range nodes {
		free += node.Free
		if node.Pool == nil || node.Pool.CopyFree == nil {
			known = false
			continue
		}
		data += node.Pool.CopyFree.Value()
	}
	return free, data, known
}

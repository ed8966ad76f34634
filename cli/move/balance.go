package move

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/internal/volume/room"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

const (
	// balanceSpread is the difference between the fullest and the emptiest node from which on a move is proposed, and
	// balanceGain by how much less full a move must leave the fullest one. Both are in percent of the thin pool.
	balanceSpread, balanceGain = 5.0, 1.0
	// maxBalanceMoves is the maximum number of moves for a device class.
	maxBalanceMoves = 100
)

// BalanceReport says how full the nodes are, and which moves even that out.
type BalanceReport struct {
	APIVersion string        `json:"apiVersion"`
	Nodes      []BalanceNode `json:"nodes"`
	Moves      []BalanceMove `json:"moves"`
}

// BalanceNode is the thin pool of a device class on a node.
type BalanceNode struct {
	DeviceClass string `json:"deviceClass"`
	Node        string `json:"node"`
	// Size is that of the thin pool, and Provisioned that of its volumes and snapshots, in bytes.
	Size        int64 `json:"size"`
	Provisioned int64 `json:"provisioned"`
	// Used is how much of the pool has data, in percent.
	Used float64 `json:"used"`
	// Before and After are the size of the volumes in percent of the pool, now and after the moves.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// room is what the node has for new volumes.
	room room.Node
}

// BalanceMove is a proposed move.
type BalanceMove struct {
	DeviceClass string `json:"deviceClass"`
	Claim       string `json:"claim"`
	Size        int64  `json:"size"`
	From        string `json:"from"`
	To          string `json:"to"`
}

func balanceCommand(e *session.Environment) *cobra.Command {
	o := &output.Options{}
	command := &cobra.Command{Use: "balance", Short: "Show which moves of volumes would even out the nodes",
		Long: `Show how full the thin pools of the nodes are, and which moves of volumes would even them out. Nothing is
moved.

The measure is the size of the volumes in percent of the thin pool. The data in them can be less, and is known for the
whole pool only (USED). Snapshots count, and stay on their node. A move is proposed only to a node that has enough free
capacity for the volume. The list does not consider allowedTopologies of a StorageClass, and spread groups; the operator
does.`,
		Example: `  # Which moves would even out the nodes?
  kubectl lvms balance

  # Perform one of them
  kubectl lvms move shop/data --to worker-3`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			s, err := e.Source("")
			if err != nil {
				return err
			}
			report, err := balance(command.Context(), s)
			if err != nil {
				return err
			}
			out := command.OutOrStdout()
			output.PrintNotes(command.ErrOrStderr(), o, s.Notes)
			if o.IsTable() {
				if err := o.Print(out, nil, balanceNodeTable(report.Nodes)); err != nil {
					return err
				}
				if len(report.Moves) == 0 {
					_, err := fmt.Fprintln(out, "\nNo move would even out the nodes by more than one percent.")
					return err
				}
				fmt.Fprintln(out)
			}
			return o.Print(out, report, balanceMoveTable(report.Moves))
		}}
	o.AddFlags(command)
	return command
}

func balance(ctx context.Context, s *session.Source) (*BalanceReport, error) {
	clusters, err := s.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	if len(clusters) == 0 {
		return nil, fmt.Errorf("%w: there is no LVMCluster", session.ErrNotPossible)
	}
	volumes, err := s.Volumes(ctx)
	if err != nil {
		return nil, err
	}
	statuses, err := s.NodeStatuses(ctx)
	if err != nil {
		return nil, err
	}
	moves, err := s.Moves(ctx)
	if err != nil {
		return nil, err
	}
	return newBalance(&clusters[0], volumes, statuses, moves), nil
}

// balancing is the state of a device class while moves are planned.
type balancing struct {
	nodes map[string]*BalanceNode
	// volumes are those that can be moved, by node, the largest first.
	volumes map[string][]BalanceMove
}

// newBalance plans moves for each thin device class.
func newBalance(cluster *v1alpha1.LVMCluster, volumes []topolvmv1.LogicalVolume,
	statuses []v1alpha1.LVMVolumeGroupNodeStatus, moves []v1alpha1.VolumeMove) *BalanceReport {
	report := &BalanceReport{APIVersion: output.Version, Nodes: []BalanceNode{}, Moves: []BalanceMove{}}
	classes := poolsOf(statuses)
	thin := thinClasses(cluster)
	for i := range volumes {
		lv := &volumes[i]
		class := cmp.Or(lv.Spec.DeviceClass, classspec.Default(cluster.Spec.Storage))
		b := classes[class]
		if b == nil || b.nodes[lv.Spec.NodeName] == nil {
			continue
		}
		size := lv.Spec.Size.Value()
		node := b.nodes[lv.Spec.NodeName]
		node.Provisioned += size
		claim := view.Claim(lv)
		if thin[class] && whyStays(lv) == "" && openMove(moves, claim) == nil && view.Move(lv) == "" {
			b.volumes[node.Node] = append(b.volumes[node.Node],
				BalanceMove{DeviceClass: class, Claim: claim, Size: size, From: node.Node})
		}
	}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		report.Moves = append(report.Moves, classes[class].plan()...)
		for _, name := range slices.Sorted(maps.Keys(classes[class].nodes)) {
			report.Nodes = append(report.Nodes, *classes[class].nodes[name])
		}
	}
	return report
}

// poolsOf returns the thin pools by device class and node.
func poolsOf(statuses []v1alpha1.LVMVolumeGroupNodeStatus) map[string]*balancing {
	classes := map[string]*balancing{}
	for i := range statuses {
		for _, group := range statuses[i].Status.NodeStatus {
			pool := group.ThinPool
			if pool == nil || pool.Size.Value() <= 0 {
				continue
			}
			if classes[group.Name] == nil {
				classes[group.Name] = &balancing{map[string]*BalanceNode{}, map[string][]BalanceMove{}}
			}
			node := &BalanceNode{DeviceClass: group.Name, Node: statuses[i].Name, Size: pool.Size.Value(),
				Used: float64(pool.DataPercent)}
			node.room, _ = room.Of(&group, true)
			classes[group.Name].nodes[node.Node] = node
		}
	}
	return classes
}

// ratio returns the size of the volumes in percent of the pool.
func (n *BalanceNode) ratio(change int64) float64 {
	return (float64(n.Provisioned) + float64(change)) / float64(n.Size) * 100
}

// plan proposes moves from the fullest to the emptiest node, until they differ little or no move helps. Provisioned is
// that before the moves afterwards.
func (b *balancing) plan() []BalanceMove {
	before := map[string]int64{}
	for name, node := range b.nodes {
		before[name] = node.Provisioned
		node.Before = node.ratio(0)
		slices.SortFunc(b.volumes[name], func(x, y BalanceMove) int {
			return cmp.Or(cmp.Compare(y.Size, x.Size), cmp.Compare(x.Claim, y.Claim))
		})
	}
	var moves []BalanceMove
	for len(moves) < maxBalanceMoves {
		move, found := b.next()
		if !found {
			break
		}
		moves = append(moves, move)
	}
	for name, node := range b.nodes {
		node.After = node.ratio(0)
		node.Provisioned = before[name]
	}
	return moves
}

// next performs the move that evens out the fullest and the emptiest node best.
func (b *balancing) next() (BalanceMove, bool) {
	names := slices.SortedFunc(maps.Keys(b.nodes), func(x, y string) int {
		return cmp.Or(cmp.Compare(b.nodes[x].ratio(0), b.nodes[y].ratio(0)), cmp.Compare(x, y))
	})
	if len(names) < 2 {
		return BalanceMove{}, false
	}
	to, from := b.nodes[names[0]], b.nodes[names[len(names)-1]]
	if from.ratio(0)-to.ratio(0) < balanceSpread {
		return BalanceMove{}, false
	}
	best := from.ratio(0) - balanceGain
	index := -1
	for i, move := range b.volumes[from.Node] {
		fullest := max(from.ratio(-move.Size), to.ratio(move.Size))
		needs := room.Copy(move.Size, nil)
		fits := to.room.Refusal(needs) == "" && to.room.Doubt(needs) == ""
		if fits && fullest < best {
			best = fullest
			index = i
		}
	}
	if index < 0 {
		return BalanceMove{}, false
	}
	move := b.volumes[from.Node][index]
	move.To = to.Node
	b.volumes[from.Node] = slices.Delete(b.volumes[from.Node], index, index+1)
	from.Provisioned -= move.Size
	to.Provisioned += move.Size
	to.room.Free -= move.Size
	to.room.Assigned += move.Size
	return move, true
}

func balanceNodeTable(nodes []BalanceNode) *metav1.Table {
	table := output.NewTable([]string{"Class", "Node", "Pool", "Used", "Volumes", "Volumes/Pool", "After"}, nil)
	for _, n := range nodes {
		output.AddRow(table, n.DeviceClass, n.Node, amountOf(n.Size), fmt.Sprintf("%.0f%%", n.Used),
			amountOf(n.Provisioned), fmt.Sprintf("%.0f%%", n.Before), fmt.Sprintf("%.0f%%", n.After))
	}
	return table
}

func balanceMoveTable(moves []BalanceMove) *metav1.Table {
	table := output.NewTable([]string{"Class", "Claim", "Size", "From", "To"}, nil)
	for _, m := range moves {
		output.AddRow(table, m.DeviceClass, m.Claim, amountOf(m.Size), m.From, m.To)
	}
	return table
}

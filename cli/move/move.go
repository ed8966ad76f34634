package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

func moveCommand(e *session.Environment) *cobra.Command {
	w := &session.Writing{}
	to := ""
	back := false
	command := &cobra.Command{Use: "move CLAIM", Short: "Move the volume of a claim to another node",
		Long: `Move the volume of a claim to another node. It creates a VolumeMove. The data of a thin volume is copied while
Pods use it. A thick volume has no snapshots: it is copied only while no Pod uses it, and its Pods cannot start until
that is complete. When no Pod that is bound to a node uses the claim, the volume is switched to the other node. Until
then, you can delete the VolumeMove, and the volume stays on its node.

If a VolumeMove of the claim has not ended, the command shows the progress of that one. A claim is NAME in the namespace
of -n, or NAMESPACE/NAME.

With --back, nothing is copied: the node from which the volume was moved has kept the old logical volume, which becomes
the volume again. This is for a volume whose new node is lost. What was written there since the switch is not in it.`,
		Example: `  # Move the volume to the node with the most free capacity, and wait
  kubectl lvms move -n shop data

  # Move it to a node, without waiting
  kubectl lvms move shop/data --to worker-2 --wait=false

  # The new node is lost: use the old logical volume again
  kubectl lvms move shop/data --back`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			if err := w.Validate(); err != nil {
				return err
			}
			claims, err := objects.QualifyClaims(args, e.Namespace())
			if err != nil {
				return err
			}
			if back {
				return moveBack(e, command, w, claims[0], to)
			}
			return move(e, command, w, claims[0], to)
		}}
	command.Flags().StringVar(&to, "to", "", "the node to which the volume is moved. Without it, the operator selects "+
		"one")
	command.Flags().BoolVar(&back, "back", false, "use the old logical volume again that the last move has kept, "+
		"because the node of the volume is lost")
	w.AddFlags(command)
	return command
}

func move(e *session.Environment, command *cobra.Command, w *session.Writing, claim, to string) error {
	ctx := command.Context()
	t := e.Terminal(command)
	s, err := e.Source("")
	if err != nil {
		return err
	}
	namespace, err := namespaceOfOperator(ctx, s)
	if err != nil {
		return err
	}
	moves, err := s.Moves(ctx)
	if err != nil {
		return err
	}
	move := openMove(moves, claim)
	switch {
	case move == nil:
		move = newMove(namespace, claim, to)
	case to != "" && move.Spec.NodeName != to:
		return fmt.Errorf("%w: VolumeMove %s moves the claim %s to node %q: delete it first", session.ErrNotPossible,
			move.Name, claim, cmp.Or(move.Status.TargetNode, move.Spec.NodeName))
	}
	if w.IsDryRun() {
		return printMoves(t, move)
	}
	if move.Name == "" {
		text, err := whatMoveDoes(ctx, s, claim, cmp.Or(to, "another node"))
		if err != nil {
			return err
		}
		fmt.Fprintln(t.Out, text)
		if err := t.Confirm(ctx, w, "Move the volume?"); err != nil {
			return err
		}
		if err := createMove(ctx, s.Client, t, move); err != nil {
			return err
		}
	}
	if !w.Wait {
		return nil
	}
	return followMove(ctx, e, s.Client, w, t, move)
}

// moveRate is the assumption for the forecast of a move, in bytes for each second.
const moveRate = 100 << 20

// whatMoveDoes describes the move of a claim's volume to a node. That of a thick volume has a forecast of the pause.
func whatMoveDoes(ctx context.Context, s *session.Source, claim, to string) (string, error) {
	clusters, err := s.Clusters(ctx)
	if err != nil {
		return "", err
	}
	volumes, err := s.Volumes(ctx)
	if err != nil {
		return "", err
	}
	for i := range volumes {
		lv := &volumes[i]
		if view.Claim(lv) != claim || view.Move(lv) != "" || lv.Spec.AccessType == "ro" {
			continue
		}
		size := lv.Spec.Size.Value()
		class := cmp.Or(lv.Spec.DeviceClass, classspec.Default(clusters[0].Spec.Storage))
		if thin, known := thinClasses(&clusters[0])[class]; known && !thin {
			return fmt.Sprintf("The volume of the claim %s is thick: it is copied to %s only while no Pod uses it, "+
				"and its Pods cannot start for about %s at %s for each second. Then it is switched.", claim, to,
				thickPause(size, moveRate), amountOf(moveRate)), nil
		}
	}
	return fmt.Sprintf("The volume of the claim %s is copied to %s while Pods use it, and switched when no Pod does.",
		claim, to), nil
}

// namespaceOfOperator returns the namespace of the LVMCluster, which is that of the operator.
func namespaceOfOperator(ctx context.Context, s *session.Source) (string, error) {
	clusters, err := s.Clusters(ctx)
	switch {
	case err != nil:
		return "", err
	case len(clusters) == 0:
		return "", fmt.Errorf("%w: there is no LVMCluster", session.ErrNotPossible)
	}
	return clusters[0].Namespace, nil
}

// openMove returns the move of a claim that has not ended and whose volume is not on the target node, or nil.
func openMove(moves []v1alpha1.VolumeMove, claim string) *v1alpha1.VolumeMove {
	for i := range moves {
		m := &moves[i]
		if m.Spec.Claim.String() == claim && !m.Ended() && m.Status.Phase != v1alpha1.MoveKeepingSource {
			return m
		}
	}
	return nil
}

// newMove returns a VolumeMove. The API server gives it a name.
func newMove(namespace, claim, to string) *v1alpha1.VolumeMove {
	of, name, _ := strings.Cut(claim, "/")
	return &v1alpha1.VolumeMove{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "VolumeMove"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: of + "-" + name + "-"},
		Spec:       v1alpha1.VolumeMoveSpec{Claim: v1alpha1.VolumeMoveClaim{Namespace: of, Name: name}, NodeName: to}}
}

func createMove(ctx context.Context, c client.Client, t *session.Terminal, move *v1alpha1.VolumeMove) error {
	claim := move.Spec.Claim.String()
	if err := c.Create(ctx, move); err != nil {
		return session.ExplainWrite(err, "create", session.MovesResource, "a VolumeMove for the claim "+claim)
	}
	fmt.Fprintf(t.Out, "VolumeMove %s of the claim %s was created.\n", move.Name, claim)
	return nil
}

// printMoves prints VolumeMoves as YAML documents.
func printMoves(t *session.Terminal, moves ...*v1alpha1.VolumeMove) error {
	for i, move := range moves {
		data, err := yaml.Marshal(map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "VolumeMove",
			"metadata": map[string]any{"namespace": move.Namespace, "generateName": move.GenerateName},
			"spec":     move.Spec})
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(t.Out, "---")
		}
		fmt.Fprint(t.Out, string(data))
	}
	return nil
}

// followMove shows the progress of a move until the volume is on the target node.
func followMove(ctx context.Context, e *session.Environment, c client.Client, w *session.Writing, t *session.Terminal,
	move *v1alpha1.VolumeMove) error {
	return follow(ctx, e, c, w, t, move, func(m *v1alpha1.VolumeMove) (bool, error) {
		switch m.Status.Phase {
		case v1alpha1.MoveFailed:
			return false, session.Final(fmt.Errorf("%w: %s", session.ErrNotPossible, output.OneLine(m.Status.Message)))
		case v1alpha1.MoveKeepingSource, v1alpha1.MoveCompleted:
			return true, nil
		}
		return false, nil
	})
}

// follow shows the progress of a move until it is done.
func follow(ctx context.Context, e *session.Environment, c client.Client, w *session.Writing, t *session.Terminal,
	move *v1alpha1.VolumeMove, isDone func(*v1alpha1.VolumeMove) (bool, error)) error {
	last := ""
	err := e.Poll(ctx, w, t, func(ctx context.Context) (bool, error) {
		m := &v1alpha1.VolumeMove{}
		err := c.Get(ctx, client.ObjectKeyFromObject(move), m)
		if apierrors.IsNotFound(err) {
			return false, session.Final(fmt.Errorf("%w: VolumeMove %s was deleted", session.ErrNotPossible, move.Name))
		}
		if err != nil {
			return false, err
		}
		if text := progressOfMove(m); text != last {
			fmt.Fprintln(t.Out, text)
			last = text
		}
		return isDone(m)
	})
	if errors.Is(err, session.ErrTimeout) {
		return fmt.Errorf("%w: VolumeMove %s continues", err, move.Name)
	}
	return err
}

// progressOfMove returns a line about a move.
func progressOfMove(m *v1alpha1.VolumeMove) string {
	text := cmp.Or(string(m.Status.Phase), string(v1alpha1.MovePending))
	if m.Status.Phase == v1alpha1.MoveCopying && m.Status.TotalBytes > 0 && !m.Status.Thick {
		text += fmt.Sprintf(" (round %d, %d%%)", m.Status.Round, percentOf(m.Status.CopiedBytes, m.Status.TotalBytes))
	}
	return text + ": " + cmp.Or(output.OneLine(m.Status.Message), "the operator has not begun")
}

func percentOf(part, whole int64) int64 {
	return int64(min(100, float64(part)/float64(whole)*100)) // the product of integers could overflow
}

// MoveList is the list of moves.
type MoveList struct {
	APIVersion string                `json:"apiVersion"`
	Items      []v1alpha1.VolumeMove `json:"items"`
}

func movesCommand(e *session.Environment) *cobra.Command {
	o := &output.Options{}
	command := &cobra.Command{Use: "moves", Short: "List the moves of volumes between nodes",
		Long: `List the VolumeMoves, with their progress, and the Pods that a switch waits for. The oldest is first.`,
		Example: `  # Which moves wait for Pods?
  kubectl lvms moves -o wide`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			s, err := e.Source(e.Namespace())
			if err != nil {
				return err
			}
			moves, err := s.Moves(command.Context())
			if err != nil {
				return err
			}
			slices.SortFunc(moves, func(a, b v1alpha1.VolumeMove) int {
				return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
			})
			output.PrintNotes(command.ErrOrStderr(), o, s.Notes)
			return o.Print(command.OutOrStdout(), MoveList{APIVersion: output.Version, Items: moves}, moveTable(moves))
		}}
	o.AddFlags(command)
	return command
}

func moveTable(moves []v1alpha1.VolumeMove) *metav1.Table {
	table := output.NewTable([]string{"Claim", "From", "To", "Phase", "Copied", "Pods", "VolumeMove"},
		[]string{"Message"})
	for i := range moves {
		m := &moves[i]
		copied := ""
		if m.Status.TotalBytes > 0 && m.Status.Round > 0 {
			copied = fmt.Sprintf("%d%% of round %d", percentOf(m.Status.CopiedBytes, m.Status.TotalBytes),
				m.Status.Round)
		}
		pods := strings.Join(m.Status.Pods, ",")
		if more := int(m.Status.PodCount) - len(m.Status.Pods); more > 0 {
			pods += fmt.Sprintf(" and %d more", more)
		}
		output.AddRow(table, m.Spec.Claim.String(), m.Status.SourceNode, cmp.Or(m.Status.TargetNode, m.Spec.NodeName),
			string(m.Status.Phase), copied, pods, m.Name, output.OneLine(m.Status.Message))
	}
	return table
}

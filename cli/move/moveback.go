package move

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// moveBack requests that the volume of a claim is moved back to the node that has kept its old logical volume, and
// follows that.
func moveBack(e *session.Environment, command *cobra.Command, w *session.Writing, claim, to string) error {
	ctx := command.Context()
	t := e.Terminal(command)
	if to != "" {
		return errors.New("--to and --back cannot be used together: the volume goes back to the node that it came from")
	}
	s, err := e.Source("")
	if err != nil {
		return err
	}
	moves, err := s.Moves(ctx)
	if err != nil {
		return err
	}
	move := switchedMove(moves, claim)
	if move == nil {
		return fmt.Errorf("%w: no VolumeMove keeps an old logical volume of the claim %s", session.ErrNotPossible,
			claim)
	}
	before := move.DeepCopy()
	lost := move.Status.TargetNode
	metav1.SetMetaDataAnnotation(&move.ObjectMeta, wellknown.MoveBackAnnotation, lost)
	if w.IsDryRun() {
		return printMoveBack(t, move)
	}
	if before.Annotations[wellknown.MoveBackAnnotation] != lost {
		fmt.Fprintln(t.Out, whatMoveBackDoes(move))
		if err := t.Confirm(ctx, w, "Move the volume back?"); err != nil {
			return err
		}
		if err := s.Client.Patch(ctx, move, client.MergeFrom(before)); err != nil {
			return session.ExplainWrite(err, "change", session.MovesResource, "the VolumeMove "+move.Name)
		}
		fmt.Fprintf(t.Out, "The operator moves the volume back to node %s when node %s is known to be off.\n",
			move.Status.SourceNode, lost)
	}
	if !w.Wait {
		return nil
	}
	return follow(ctx, e, s.Client, w, t, move, func(m *v1alpha1.VolumeMove) (bool, error) {
		isBack := m.Status.TargetNode != lost && m.Status.Phase == v1alpha1.MoveKeepingSource
		return isBack || m.Ended(), nil
	})
}

// switchedMove returns the newest move of a claim that has switched its volume and has not ended, or nil.
func switchedMove(moves []v1alpha1.VolumeMove, claim string) *v1alpha1.VolumeMove {
	var newest *v1alpha1.VolumeMove
	for i := range moves {
		m := &moves[i]
		if m.Spec.Claim.String() == claim && !m.Ended() && m.Status.SwitchTime != nil &&
			(newest == nil || newest.Status.SwitchTime.Before(m.Status.SwitchTime)) {
			newest = m
		}
	}
	return newest
}

func whatMoveBackDoes(m *v1alpha1.VolumeMove) string {
	return fmt.Sprintf("Node %s has kept the volume of the claim %s as it was at %s. What was written on node %s "+
		"since then is not in it: the logical volume there is kept too, until spec.keepSource has passed after the "+
		"node has returned.", m.Status.SourceNode, m.Spec.Claim, m.Status.SwitchTime.UTC().Format(time.RFC3339),
		m.Status.TargetNode)
}

// printMoveBack prints what is written to a VolumeMove.
func printMoveBack(t *session.Terminal, m *v1alpha1.VolumeMove) error {
	data, err := yaml.Marshal(map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "VolumeMove",
		"metadata": map[string]any{"namespace": m.Namespace, "name": m.Name,
			"annotations": map[string]string{wellknown.MoveBackAnnotation: m.Status.TargetNode}}})
	if err != nil {
		return err
	}
	fmt.Fprint(t.Out, string(data))
	return nil
}

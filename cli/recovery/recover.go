package recovery

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// recoveryRun carries out one recovery: it creates the LVMRecovery or continues an open one, shows the plan, approves
// exactly this plan if the user agrees, and follows it to its end.
type recoveryRun struct {
	env      *session.Environment
	source   *session.Source
	terminal *session.Terminal
	writing  *session.Writing
	request  recoveryRequest
	// approve is the ID of the only plan that may be approved, or "".
	approve string
	// created is true if this run created the LVMRecovery.
	created bool
	// approved is the ID of the plan that this run approved.
	approved string
	// progress is what was printed last.
	progress string
}

func (r *recoveryRun) run(ctx context.Context) error {
	recovery, err := r.begin(ctx)
	if err != nil || recovery == nil {
		return err
	}
	for {
		if recovery, err = r.await(ctx, recovery); err != nil {
			return r.explainInterruption(err, recovery)
		}
		switch {
		case verdict.HasEnded(recovery):
			r.printResult(recovery)
			return nil
		case recovery.Status.Phase == v1alpha1.RecoveryNotApplicable:
			return r.notPossible(ctx, recovery)
		case !needsApproval(recovery):
			fmt.Fprintf(r.terminal.Out, "%s continues without this command.\n", recoveryName(recovery))
			return nil
		}
		if err := r.approvePlan(ctx, recovery); err != nil {
			return err
		}
	}
}

// begin returns the LVMRecovery to follow, or nil if nothing is written.
func (r *recoveryRun) begin(ctx context.Context) (*v1alpha1.LVMRecovery, error) {
	all, err := session.List(ctx, r.source.Client, &v1alpha1.LVMRecoveryList{},
		func(page *v1alpha1.LVMRecoveryList) []v1alpha1.LVMRecovery { return page.Items },
		client.InNamespace(r.request.at.Namespace))
	if err != nil {
		return nil, session.ExplainList(err, session.RecoveriesResource, "in the namespace "+r.request.at.Namespace)
	}
	open := openRecovery(all, r.request.at)
	switch {
	case open == nil:
		return r.create(ctx)
	case !r.request.isSame(open):
		return nil, otherRecovery(open, r.request.at)
	}
	if r.writing.IsDryRun() {
		return nil, r.printContinuation(open)
	}
	fmt.Fprintf(r.terminal.Out, "%s exists already. Continuing with it.\n", recoveryName(open))
	return open, nil
}

// otherRecovery returns the error that another recovery of the device class has not ended.
func otherRecovery(open *v1alpha1.LVMRecovery, at session.Target) error {
	goOn := verdict.CommandOf(open)
	if goOn == "" {
		goOn = "wait for it"
	}
	return fmt.Errorf("%s (action %s) of the %s has not ended: %s. The node agent carries out one LVMRecovery of a "+
		"device class at a time, the oldest first. To continue with that one: %s. To cancel it: %s", recoveryName(open),
		open.Spec.Action, at, recoveryProgress(open), goOn, cancellation(open))
}

func (r *recoveryRun) create(ctx context.Context) (*v1alpha1.LVMRecovery, error) {
	recovery := r.request.object()
	if r.writing.IsDryRun() {
		fmt.Fprint(r.terminal.ErrOut, r.request.preview())
		text, err := session.Manifest(recovery)
		fmt.Fprint(r.terminal.Out, text)
		return nil, err
	}
	fmt.Fprint(r.terminal.Out, r.request.preview())
	if err := r.terminal.Confirm(ctx, r.writing, "Create the LVMRecovery?"); err != nil {
		return nil, err
	}
	if err := r.source.Client.Create(ctx, recovery); err != nil {
		return nil, session.ExplainWrite(err, "create", session.RecoveriesResource, "the LVMRecovery in the namespace "+
			recovery.Namespace)
	}
	r.created = true
	fmt.Fprintf(r.terminal.Out, "%s was created.\n", recoveryName(recovery))
	return recovery, nil
}

// printContinuation prints what a run would write for an LVMRecovery that exists.
func (r *recoveryRun) printContinuation(recovery *v1alpha1.LVMRecovery) error {
	fmt.Fprintf(r.terminal.ErrOut, "%s exists already: %s.\n", recoveryName(recovery), recoveryProgress(recovery))
	if !needsApproval(recovery) {
		fmt.Fprintln(r.terminal.ErrOut, "Nothing would be written now.")
		return nil
	}
	text, err := planText(recovery)
	if err != nil {
		return err
	}
	fmt.Fprint(r.terminal.ErrOut, text, "The approval is this JSON patch of "+recoveryName(recovery)+":\n")
	patch, err := yaml.Marshal(approvalPatch(recovery))
	fmt.Fprint(r.terminal.Out, string(patch))
	return err
}

// await follows a recovery until it needs somebody, ends or cannot help. Without --wait, it stops when the node agent
// no longer needs this command.
func (r *recoveryRun) await(ctx context.Context, recovery *v1alpha1.LVMRecovery) (*v1alpha1.LVMRecovery, error) {
	latest := recovery
	err := r.env.Poll(ctx, r.writing, r.terminal, func(ctx context.Context) (bool, error) {
		found, err := r.read(ctx, recovery)
		if err != nil {
			return false, err
		}
		latest = found
		if progress := recoveryProgress(latest); progress != r.progress {
			r.progress = progress
			fmt.Fprintf(r.terminal.Out, "%s %s\n", r.env.Now().Format("15:04:05"), progress)
		}
		isUnneeded := !r.writing.Wait && (isApproved(latest) || latest.Status.Phase == v1alpha1.RecoveryRunning)
		return verdict.HasEnded(latest) || needsApproval(latest) || isUnneeded ||
			latest.Status.Phase == v1alpha1.RecoveryNotApplicable, nil
	})
	return latest, err
}

// read returns the recovery as it is now. It is an error if it was deleted.
func (r *recoveryRun) read(ctx context.Context, recovery *v1alpha1.LVMRecovery) (*v1alpha1.LVMRecovery, error) {
	found := &v1alpha1.LVMRecovery{}
	err := r.source.Client.Get(ctx, client.ObjectKeyFromObject(recovery), found)
	if apierrors.IsNotFound(err) || err == nil && (found.UID != recovery.UID || found.DeletionTimestamp != nil) {
		return nil, session.Final(fmt.Errorf("%s was deleted in the meantime, so the recovery was canceled",
			recoveryName(recovery)))
	}
	if err != nil {
		return nil, session.ExplainGet(err, session.RecoveriesResource, recoveryName(recovery))
	}
	return found, nil
}

// approvePlan shows the plan of a recovery and approves it if the user agrees. If the recovery has another plan by
// then, nothing is approved.
func (r *recoveryRun) approvePlan(ctx context.Context, recovery *v1alpha1.LVMRecovery) error {
	text, err := planText(recovery)
	if err != nil {
		return err
	}
	fmt.Fprint(r.terminal.Out, text)
	if err := r.consent(ctx, recovery); err != nil {
		return err
	}
	now, err := r.read(ctx, recovery)
	if err != nil {
		return err
	}
	if hasOtherPlan(now, recovery) {
		fmt.Fprintln(r.terminal.Out, "The plan has changed in the meantime. Nothing was approved.")
		return nil
	}
	err = session.PatchWith(ctx, r.source.Client, recovery, approvalPatch(recovery))
	if err == nil {
		r.approved = recovery.Status.Plan.ID
		fmt.Fprintf(r.terminal.Out, "The plan %s was approved.\n", r.approved)
		return nil
	}
	// The API server gives no reason if the plan is another one than the patch is for.
	if now, readErr := r.read(ctx, recovery); readErr == nil && hasOtherPlan(now, recovery) {
		fmt.Fprintln(r.terminal.Out, "The plan has changed in the meantime. Nothing was approved.")
		return nil
	}
	return session.ExplainWrite(err, "patch", session.RecoveriesResource, recoveryName(recovery))
}

// hasOtherPlan returns true if the plan that was shown no longer waits for its approval.
func hasOtherPlan(now, shown *v1alpha1.LVMRecovery) bool {
	return now.Status.Phase != v1alpha1.RecoveryAwaitingApproval || now.Status.Plan == nil ||
		now.Status.Plan.ID != shown.Status.Plan.ID
}

// typedDigits is how many digits of the ID of a plan a user types to approve a loss.
const typedDigits = 8

// consent returns nil if the plan may be approved. --yes approves a plan that can lose data only together with its ID.
func (r *recoveryRun) consent(ctx context.Context, recovery *v1alpha1.LVMRecovery) error {
	plan := recovery.Status.Plan
	stays := fmt.Sprintf("Nothing was changed on the node, and %s stays. To cancel it: %s", recoveryName(recovery),
		cancellation(recovery))
	if r.approve != "" && r.approve != plan.ID {
		return fmt.Errorf("%w: --approve-plan %s is not the current plan, which is %s. Check the plan above, and run "+
			"the command again. %s", session.ErrNeedsApproval, r.approve, plan.ID, stays)
	}
	why := risk(r.request.action, plan)
	switch {
	case r.writing.Yes && (why == "" || r.approve != ""):
		return nil
	case r.writing.Yes:
		return fmt.Errorf("%w: %s, and --yes alone does not approve that. Check the plan above, and run the command "+
			"again with --yes --approve-plan %s. %s", session.ErrNeedsApproval, why, plan.ID, stays)
	case !r.terminal.Interactive:
		return fmt.Errorf("%w: there is no terminal to ask on. Check the plan above, and run the command again with "+
			"--yes --approve-plan %s. %s", session.ErrNeedsApproval, plan.ID, stays)
	}
	question := "Approve the plan? [y/N]: "
	want := "y"
	if why != "" {
		want = plan.ID[:min(len(plan.ID), typedDigits)]
		question = fmt.Sprintf("Data can be lost: %s. To approve the plan, type the first %d digits of its ID: ", why,
			typedDigits)
	}
	answer, err := r.terminal.Ask(ctx, question)
	if err != nil {
		return err
	}
	if answer != want && answer != plan.ID && (want != "y" || !session.IsYes(answer)) {
		return fmt.Errorf("%w: the answer was not %s. %s", session.ErrNeedsApproval, want, stays)
	}
	return nil
}

func (r *recoveryRun) printResult(recovery *v1alpha1.LVMRecovery) {
	fmt.Fprintf(r.terminal.Out, "%s has ended: %s\n", recoveryName(recovery), output.OneLine(recovery.Status.Message))
	if freed := recovery.Status.FreedBytes; freed != nil {
		fmt.Fprintf(r.terminal.Out, "Freed in the thin pool: %s\n", cmp.Or(output.BytesText(*freed), "nothing"))
	}
}

// notPossible reports that a recovery cannot help. If this run created the LVMRecovery, it deletes it: it would keep
// later ones of the device class waiting.
func (r *recoveryRun) notPossible(ctx context.Context, recovery *v1alpha1.LVMRecovery) error {
	rest := fmt.Sprintf("%s stays, and later LVMRecoveries of the device class wait for it. If you do not need it: %s",
		recoveryName(recovery), cancellation(recovery))
	if r.created && r.approved == "" {
		err := r.source.Client.Delete(ctx, recovery, client.Preconditions{UID: &recovery.UID,
			ResourceVersion: &recovery.ResourceVersion})
		if err == nil {
			rest = recoveryName(recovery) + " was deleted again"
		}
	}
	return fmt.Errorf("%w: the action %s does not help on the %s now: %s. %s", session.ErrNotPossible,
		recovery.Spec.Action, r.request.at, output.OneLine(recovery.Status.Message), rest)
}

// explainInterruption returns the error of waiting, with what becomes of the recovery.
func (r *recoveryRun) explainInterruption(err error, recovery *v1alpha1.LVMRecovery) error {
	if session.IsFinal(err) {
		return err
	}
	err = session.Interrupted(err)
	hint := ""
	if recovery.Status.Phase == "" {
		hint = " Check that the vg-manager Pod of the node runs."
	}
	return fmt.Errorf("%w: %s: %s. It continues without this command; to wait for it, run the command again.%s", err,
		recoveryName(recovery), recoveryProgress(recovery), hint)
}

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// fieldManager is the owner of the fields that the commands write.
const fieldManager = "kubectl-lvms"

// The errors of commands that write and that have an exit code of their own.
var (
	errNotPossible   = errors.New("the request cannot be carried out")
	errTimeout       = errors.New("the time of --timeout is over")
	errNeedsApproval = errors.New("the plan is not approved")
)

const (
	dryRunNone   = "none"
	dryRunClient = "client"
)

// writing is how a command changes something.
type writing struct {
	dryRun  string
	yes     bool
	wait    bool
	timeout time.Duration
}

// addFlags adds the flags of a command that writes, and waits until what it has requested is done.
func (w *writing) addFlags(command *cobra.Command) {
	w.addWriteFlags(command)
	command.Flags().BoolVar(&w.wait, "wait", true, "wait until it is done, and show the progress")
	command.Flags().DurationVar(&w.timeout, "timeout", w.timeout, "how long to wait at most. After that, the request "+
		"stays, and the same command continues to wait for it")
}

// addWriteFlags adds the flags of a command that writes, and does not wait.
func (w *writing) addWriteFlags(command *cobra.Command) {
	w.timeout = 30 * time.Minute
	command.Flags().StringVar(&w.dryRun, "dry-run", dryRunNone, "client: print what would be written as YAML and "+
		"change nothing; none: change it")
	command.Flags().Lookup("dry-run").NoOptDefVal = dryRunClient
	command.Flags().BoolVarP(&w.yes, "yes", "y", false, "do not ask. It is required if there is no terminal")
	_ = command.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{dryRunNone, dryRunClient},
		cobra.ShellCompDirectiveNoFileComp))
}

// validate returns an error if a flag has a value that is not supported.
func (w *writing) validate() error {
	if w.dryRun != dryRunNone && w.dryRun != dryRunClient {
		return fmt.Errorf("--dry-run %q is not supported: use %s or %s", w.dryRun, dryRunNone, dryRunClient)
	}
	if w.timeout <= 0 {
		return fmt.Errorf("--timeout %s is not supported: use a time above 0, for example 30m", w.timeout)
	}
	return nil
}

// isDryRun returns true if nothing is to be written.
func (w *writing) isDryRun() bool { return w.dryRun == dryRunClient }

// terminal is where a command says what it does, and asks.
type terminal struct {
	in          *bufio.Reader
	interactive bool
	out, errOut io.Writer
}

// terminal returns the terminal of a command.
func (e *environment) terminal(command *cobra.Command) *terminal {
	in := command.InOrStdin()
	return &terminal{in: bufio.NewReader(in), interactive: e.isTerminal(in), out: command.OutOrStdout(),
		errOut: command.ErrOrStderr()}
}

// isTerminal returns true if a person types the input.
func isTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// confirm asks a question whose answer is yes or no. With --yes, it does not ask. Without a terminal, it refuses.
func (t *terminal) confirm(ctx context.Context, w *writing, question string) error {
	if w.yes {
		return nil
	}
	answer, err := t.ask(ctx, question+" [y/N]: ")
	if err != nil {
		return err
	}
	if !isYes(answer) {
		return errors.New("nothing was changed, because the answer was not yes")
	}
	return nil
}

// isYes returns true if an answer is yes.
func isYes(answer string) bool {
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}

// ask returns the answer to a question. Without a terminal, nobody can answer it.
func (t *terminal) ask(ctx context.Context, question string) (string, error) {
	if !t.interactive {
		return "", errors.New("nothing was changed: there is no terminal to ask on. Check what --dry-run=client " +
			"prints, and add --yes")
	}
	fmt.Fprint(t.out, question)
	answers := make(chan string, 1)
	go func() {
		line, _ := t.in.ReadString('\n') // an input that has ended is no answer
		answers <- strings.TrimSpace(line)
	}()
	select {
	case answer := <-answers:
		return answer, nil
	case <-ctx.Done():
		fmt.Fprintln(t.out)
		return "", errors.New("nothing was changed: the question was interrupted")
	}
}

// The pauses between two reads of an object that a command waits for.
const (
	firstPause = time.Second
	maxPause   = 15 * time.Second
	// maxFailures is how often a read may fail in a row while a command waits.
	maxFailures = 5
)

// poll calls done, with growing pauses, until it returns true or a final error. It returns errTimeout after the time of
// --timeout. A read that fails for another reason than a permission is repeated a few times.
func (e *environment) poll(ctx context.Context, w *writing, t *terminal,
	done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, errTimeout)
	defer cancel()
	failures := 0
	for pause := firstPause; ; pause = min(pause*3/2, maxPause) {
		isDone, err := done(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && isDone:
			return nil
		case err == nil:
			failures = 0
		case isLasting(err) || failures == maxFailures:
			return err
		default:
			failures++
			fmt.Fprintf(t.errOut, "warning: %v. Trying again.\n", err)
		}
		if err := e.pause(ctx, pause); err != nil {
			return context.Cause(ctx)
		}
	}
}

// interrupted returns the error of a wait as people read it.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return err
}

// errFinal marks an error that another read cannot resolve.
type errFinal struct{ error }

func (e errFinal) Unwrap() error { return e.error }

// final returns an error that another read cannot resolve.
func final(err error) error { return errFinal{err} }

// isFinal returns true for an error of final.
func isFinal(err error) bool { return errors.As(err, &errFinal{}) }

// isLasting returns true if another read is not likely to succeed.
func isLasting(err error) bool {
	return isFinal(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// sleep waits, and returns an error if the context ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explainWrite returns the error of a write, with the permission that is missing. What the API server says about an
// object that is not valid stays as it is.
func explainWrite(err error, verb, resource, object string) error {
	group := schema.ParseGroupResource(resource)
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err) && !isDenial(err):
		return fmt.Errorf("cannot %s %s: you need the permission for the verb %s on the resource %s of the API group "+
			"%s. Ask an administrator of the cluster for it: %w", verb, object, verb, group.Resource,
			nameOfGroup(group), err)
	case apierrors.IsInvalid(err), apierrors.IsConflict(err):
		return fmt.Errorf("cannot %s %s: %w", verb, object, err)
	case isRefusal(err):
		return fmt.Errorf("cannot %s %s, the API server refused it: %w", verb, object, err)
	}
	return fmt.Errorf("cannot %s %s. If the API server did not respond, it is unknown whether the change was saved: "+
		"check it before you try again: %w", verb, object, err)
}

// isDenial returns true if admission refused a request, and not a missing permission.
func isDenial(err error) bool {
	return strings.Contains(err.Error(), "admission webhook") || strings.Contains(err.Error(), "denied request")
}

// isRefusal returns true if the API server or a webhook answered that it did not do what was requested.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500
}

// manifest returns an object as YAML, as it is sent to the API server.
func manifest(object client.Object) (string, error) {
	gvk, err := gvkOf(object)
	if err != nil {
		return "", err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", err
	}
	fields["apiVersion"], fields["kind"] = gvk.GroupVersion().String(), gvk.Kind
	delete(fields, "status")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	data, err := yaml.Marshal(fields)
	return string(data), err
}

func gvkOf(object client.Object) (schema.GroupVersionKind, error) {
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return kinds[0], nil
}

// operation is an operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patchWith applies a JSON patch to an object. The object in memory stays as it is.
func patchWith(ctx context.Context, c client.Client, object client.Object, patch []operation) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	copied, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("a copy of %T is not an object", object)
	}
	return c.Patch(ctx, copied, client.RawPatch(types.JSONPatchType, data))
}

package device

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// change is a change of a device class in an LVMCluster.
type change struct {
	class      classAt
	operations []session.Operation
	// effects say what the change leads to.
	effects []string
}

// deviceRun is a command that changes a device class.
type deviceRun struct {
	env      *session.Environment
	source   *session.Source
	terminal *session.Terminal
	writing  *session.Writing
	at       session.Target
	// compute returns the change for the LVMClusters as they are now.
	compute func([]v1alpha1.LVMCluster) (change, error)
	// changed is true if there is something to change.
	changed bool
}

// apply shows the change, asks, and writes it. It returns false if nothing is to be waited for, after a dry run.
func (r *deviceRun) apply(ctx context.Context) (bool, error) {
	shown, err := r.read(ctx)
	if err != nil {
		return false, err
	}
	out := r.terminal.Out
	if r.writing.IsDryRun() {
		out = r.terminal.ErrOut
	}
	fmt.Fprint(out, shown.preview(r.at))
	if r.writing.IsDryRun() {
		fmt.Fprintln(r.terminal.ErrOut, "This is the JSON patch of "+shown.class.name()+":")
		patch, err := yaml.Marshal(shown.patch())
		fmt.Fprint(r.terminal.Out, string(patch))
		return false, err
	}
	if len(shown.operations) == 0 {
		return true, nil
	}
	r.changed = true
	if err := r.terminal.Confirm(ctx, r.writing, "Change the LVMCluster?"); err != nil {
		return false, err
	}
	return true, r.write(ctx, shown)
}

func (r *deviceRun) read(ctx context.Context) (change, error) {
	clusters, err := session.List(ctx, r.source.Client, &v1alpha1.LVMClusterList{},
		func(page *v1alpha1.LVMClusterList) []v1alpha1.LVMCluster { return page.Items },
		client.InNamespace(r.at.Namespace))
	if err != nil {
		return change{}, session.ExplainList(err, session.ClustersResource, "in the namespace "+r.at.Namespace)
	}
	return r.compute(clusters)
}

// patch returns the JSON patch of a change, or an empty one if nothing changes.
func (c change) patch() []session.Operation {
	if len(c.operations) == 0 {
		return []session.Operation{}
	}
	return c.class.guarded(c.operations)
}

func (c change) preview(at session.Target) string {
	var text strings.Builder
	if len(c.operations) == 0 {
		fmt.Fprintf(&text, "%s already has this for the %s. Nothing is changed.\n", c.class.name(), at)
		return text.String()
	}
	fmt.Fprintf(&text, "The device class %s in %s is changed:\n", at.Class, c.class.name())
	for _, o := range c.operations {
		fmt.Fprintln(&text, "  "+c.describe(o))
	}
	for _, effect := range c.effects {
		fmt.Fprintln(&text, "-", effect)
	}
	return text.String()
}

// describe returns an operation as a person reads it.
func (c change) describe(o session.Operation) string {
	field, rest, _ := strings.Cut(strings.TrimPrefix(o.Path, c.class.path("")), "/")
	if requests := c.class.class().DeviceRequests; o.Op == "remove" {
		if index, err := strconv.Atoi(rest); err == nil {
			requests = requests[index : index+1]
		}
		var lines []string
		for _, request := range requests {
			lines = append(lines, "- "+field+": "+inline(request))
		}
		return strings.Join(lines, "\n  ")
	}
	if field == "deviceSelector" {
		field += "." + strings.TrimSuffix(rest, "/-")
	}
	value := o.Value
	if list, ok := value.([]any); ok && len(list) == 1 {
		value = list[0]
	}
	return "+ " + field + ": " + inline(value)
}

// inline returns a value of an LVMCluster as YAML on one line.
func inline(value any) string {
	switch v := value.(type) {
	case v1alpha1.DeviceRequest:
		suspend := ""
		if v.Suspend {
			suspend = ", suspend: true"
		}
		if v.SuspendReason != "" {
			suspend += fmt.Sprintf(", suspendReason: %q", v.SuspendReason)
		}
		return fmt.Sprintf("{node: %s, device: %s, action: %s%s}", v.Node, v.Device, v.Action, suspend)
	case v1alpha1.VolumeGroupAdoption:
		return fmt.Sprintf("{node: %s, volumeGroupUUID: %s}", v.Node, v.VolumeGroupUUID)
	}
	return fmt.Sprint(value)
}

// write writes the change that was shown. If the LVMCluster was changed in the meantime, it writes only if the change
// is still the same.
func (r *deviceRun) write(ctx context.Context, shown change) error {
	now := shown
	for pause := session.FirstPause / 4; ; pause *= 2 {
		err := session.PatchWith(ctx, r.source.Client, now.class.cluster, now.patch())
		switch {
		case err == nil:
			fmt.Fprintf(r.terminal.Out, "%s was changed.\n", now.class.name())
			return nil
		case !apierrors.IsConflict(err) || pause >= session.FirstPause<<(session.MaxConflicts-2):
			return session.ExplainWrite(err, "patch", session.ClustersResource, now.class.name())
		}
		if err := r.env.Pause(ctx, pause); err != nil {
			return err
		}
		if now, err = r.read(ctx); err != nil {
			return err
		}
		if now.preview(r.at) != shown.preview(r.at) {
			return fmt.Errorf("%s was changed in the meantime, so that this change is another one than the one above. "+
				"Nothing was changed: run the command again", shown.class.name())
		}
	}
}

// follow waits until a request is carried out. If canWait is true, a blocked device is not an error, because the volume
// group is about to get another one.
func (r *deviceRun) follow(ctx context.Context, m member, action v1alpha1.DeviceAction, canWait bool) error {
	return r.followUntil(ctx, m, func(status *v1alpha1.LVMVolumeGroupNodeStatus) (session.RequestState, string) {
		return progressOf(status, m, action)
	}, canWait)
}

// followUntil waits until the status of the node says that a request is carried out.
func (r *deviceRun) followUntil(ctx context.Context, m member,
	progress func(*v1alpha1.LVMVolumeGroupNodeStatus) (session.RequestState, string), canWait bool) error {
	if !r.writing.Wait {
		return nil
	}
	blocked := 0
	last := ""
	err := r.env.Poll(ctx, r.writing, r.terminal, func(ctx context.Context) (bool, error) {
		status := &v1alpha1.LVMVolumeGroupNodeStatus{}
		key := client.ObjectKeyFromObject(r.at.Status)
		if err := r.source.Client.Get(ctx, key, status); err != nil {
			return false, session.ExplainGet(err, session.NodeStatusesResource,
				"LVMVolumeGroupNodeStatus "+key.String())
		}
		state, text := progress(status)
		if reason, message := verdict.NotCurrent(status, r.env.Now()); reason != "" {
			state = session.RequestPending
			text = "the state of the node is not current: " + output.OneLine(message)
		}
		if text != last {
			last = text
			fmt.Fprintf(r.terminal.Out, "%s %s: %s\n", r.env.Now().Format("15:04:05"), m.name(), text)
		}
		if blocked++; state != session.RequestBlocked {
			blocked = 0
		}
		if blocked >= session.BlockedPolls && !canWait {
			return false, session.Final(fmt.Errorf("%w: device %s of the %s: %s. The request stays. To withdraw it: "+
				"kubectl lvms uncordon --node %s --class %s --device "+
				"%s", session.ErrNotPossible, m.name(), r.at, text, r.at.Node, r.at.Class,
				m.pv.UUID))
		}
		return state == session.RequestDone, nil
	})
	if err != nil && session.IsWaitOver(err) {
		return fmt.Errorf("%w: device %s of the %s: %s. The request stays; to wait for it, run the command again",
			session.Interrupted(err), m.name(), r.at, last)
	}
	if err == nil {
		fmt.Fprintf(r.terminal.Out, "Done: device %s of the %s.\n", m.name(), r.at)
	}
	return err
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// change is a change of a device class in an LVMCluster.
type change struct {
	class      classAt
	operations []operation
	// effects say what the change leads to.
	effects []string
}

// deviceRun is a command that changes a device class.
type deviceRun struct {
	env      *environment
	source   *source
	terminal *terminal
	writing  *writing
	at       target
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
	out := r.terminal.out
	if r.writing.isDryRun() {
		out = r.terminal.errOut
	}
	fmt.Fprint(out, shown.preview(r.at))
	if r.writing.isDryRun() {
		fmt.Fprintln(r.terminal.errOut, "This is the JSON patch of "+shown.class.name()+":")
		patch, err := yaml.Marshal(shown.patch())
		fmt.Fprint(r.terminal.out, string(patch))
		return false, err
	}
	if len(shown.operations) == 0 {
		return true, nil
	}
	r.changed = true
	if err := r.terminal.confirm(ctx, r.writing, "Change the LVMCluster?"); err != nil {
		return false, err
	}
	return true, r.write(ctx, shown)
}

func (r *deviceRun) read(ctx context.Context) (change, error) {
	clusters, err := list(ctx, r.source.client, &v1alpha1.LVMClusterList{},
		func(page *v1alpha1.LVMClusterList) []v1alpha1.LVMCluster { return page.Items },
		client.InNamespace(r.at.namespace))
	if err != nil {
		return change{}, explain(err, clustersResource, "in the namespace "+r.at.namespace)
	}
	return r.compute(clusters)
}

// patch returns the JSON patch of a change, or an empty one if nothing changes.
func (c change) patch() []operation {
	if len(c.operations) == 0 {
		return []operation{}
	}
	return c.class.guarded(c.operations)
}

func (c change) preview(at target) string {
	var text strings.Builder
	if len(c.operations) == 0 {
		fmt.Fprintf(&text, "%s already has this for the %s. Nothing is changed.\n", c.class.name(), at)
		return text.String()
	}
	fmt.Fprintf(&text, "The device class %s in %s is changed:\n", at.class, c.class.name())
	for _, o := range c.operations {
		fmt.Fprintln(&text, "  "+c.describe(o))
	}
	for _, effect := range c.effects {
		fmt.Fprintln(&text, "-", effect)
	}
	return text.String()
}

// describe returns an operation as a person reads it.
func (c change) describe(o operation) string {
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

// maxConflicts is how often a change is computed again because the object was changed in the meantime. The operator and
// the node agents write its status often.
const maxConflicts = 5

// write writes the change that was shown. If the LVMCluster was changed in the meantime, it writes only if the change
// is still the same.
func (r *deviceRun) write(ctx context.Context, shown change) error {
	now := shown
	for pause := firstPause / 4; ; pause *= 2 {
		err := patchWith(ctx, r.source.client, now.class.cluster, now.patch())
		switch {
		case err == nil:
			fmt.Fprintf(r.terminal.out, "%s was changed.\n", now.class.name())
			return nil
		case !apierrors.IsConflict(err) || pause >= firstPause<<(maxConflicts-2):
			return explainWrite(err, "patch", clustersResource, now.class.name())
		}
		if err := r.env.pause(ctx, pause); err != nil {
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

// blockedPolls is after how many reads in a row a blocked request is an error: the state can be that of an earlier one.
const blockedPolls = 5

// follow waits until a request is carried out. If canWait is true, a blocked device is not an error, because the volume
// group is about to get another one.
func (r *deviceRun) follow(ctx context.Context, m member, action v1alpha1.DeviceAction, canWait bool) error {
	return r.followUntil(ctx, m, func(status *v1alpha1.LVMVolumeGroupNodeStatus) (requestState, string) {
		return progressOf(status, m, action)
	}, canWait)
}

// followUntil waits until the status of the node says that a request is carried out.
func (r *deviceRun) followUntil(ctx context.Context, m member,
	progress func(*v1alpha1.LVMVolumeGroupNodeStatus) (requestState, string), canWait bool) error {
	if !r.writing.wait {
		return nil
	}
	blocked, last := 0, ""
	err := r.env.poll(ctx, r.writing, r.terminal, func(ctx context.Context) (bool, error) {
		status := &v1alpha1.LVMVolumeGroupNodeStatus{}
		key := client.ObjectKeyFromObject(r.at.status)
		if err := r.source.client.Get(ctx, key, status); err != nil {
			return false, explainGet(err, nodeStatusesResource, "LVMVolumeGroupNodeStatus "+key.String())
		}
		state, text := progress(status)
		if reason, message := notCurrent(status, r.env.now()); reason != "" {
			state, text = requestPending, "the state of the node is not current: "+single(message)
		}
		if text != last {
			last = text
			fmt.Fprintf(r.terminal.out, "%s %s: %s\n", r.env.now().Format("15:04:05"), m.name(), text)
		}
		if blocked++; state != requestBlocked {
			blocked = 0
		}
		if blocked >= blockedPolls && !canWait {
			return false, final(fmt.Errorf("%w: device %s of the %s: %s. The request stays. To withdraw it: "+
				"kubectl lvms uncordon --node %s --class %s --device "+
				"%s", errNotPossible, m.name(), r.at, text, r.at.node, r.at.class,
				m.pv.UUID))
		}
		return state == requestDone, nil
	})
	if err != nil && isWaitOver(err) {
		return fmt.Errorf("%w: device %s of the %s: %s. The request stays; to wait for it, run the command again",
			interrupted(err), m.name(), r.at, last)
	}
	if err == nil {
		fmt.Fprintf(r.terminal.out, "Done: device %s of the %s.\n", m.name(), r.at)
	}
	return err
}

// isWaitOver returns true if a wait ended before its goal, because of its time or the user.
func isWaitOver(err error) bool {
	return errors.Is(err, errTimeout) || errors.Is(err, context.Canceled)
}

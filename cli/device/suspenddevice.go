package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

func suspendDeviceCommand(e *session.Environment) *cobra.Command {
	return suspensionOfDevice(e, true, "Give the volumes on a device to no new Pod",
		"Give the volumes that have data on a device, wholly or partly, to no new Pod, and place no new data on the "+
			"device. All\nvolumes of a thin pool have data on each device of the pool. No new volume is created in "+
			"such a pool."+whatSuspendedMeans+howRequestsWork,
		`  # Suspend a suspicious disk
  kubectl lvms suspend device worker-1 /dev/sdb --reason "SMART warnings"`)
}

func resumeDeviceCommand(e *session.Environment) *cobra.Command {
	return suspensionOfDevice(e, false, "Give the volumes on a suspended device to new Pods",
		`Give the volumes on a suspended device to new Pods. The volume group places new data on the device again,
unless it is drained or removed. A volume that was suspended itself stays suspended.`,
		`  # Resume a disk
  kubectl lvms resume device worker-1 /dev/sdb`)
}

func suspensionOfDevice(e *session.Environment, suspend bool, short, long, example string) *cobra.Command {
	f := &deviceFlags{}
	reason := ""
	command := &cobra.Command{Use: "device NODE DEVICE", Short: short,
		Long: long + "\n\nA device is a path, a link in /dev/disk/by-id or /dev/disk/by-path, an ID, or the UUID of " +
			"a physical volume.",
		Example: example, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" {
				return errors.New("give the node and the device: kubectl lvms devices lists them")
			}
			if err := validateReason(reason); err != nil {
				return err
			}
			f.Node = args[0]
			f.device = args[1]
			return suspendDevice(e, command, f, suspend, reason)
		}}
	f.Writing.AddFlags(command)
	if suspend {
		command.Flags().StringVar(&reason, "reason", "", "why, for the people who see the status of the device")
	}
	command.Flags().StringVar(&f.Class, "class", "", "the device class. It is not required if only one has the device")
	e.CompleteClasses(command)
	return command
}

func suspendDevice(e *session.Environment, command *cobra.Command, f *deviceFlags, suspend bool, reason string) error {
	r, m, err := memberRun(e, command, f)
	if err != nil {
		return err
	}
	if suspend && m.pv.State == v1alpha1.PhysicalVolumeMissing {
		return fmt.Errorf("device %s of the %s is missing, and LVM cannot suspend a missing device: suspend its "+
			"volumes with kubectl lvms suspend volume", m.name(), r.at)
	}
	var affected []string
	record := ""
	if suspend {
		if affected, err = r.volumesOf(command.Context(), m); err != nil {
			return err
		}
		user, err := session.WhoAmI(command.Context(), r.source.Client)
		if err != nil {
			return err
		}
		record = suspendedBy(user, e.Now(), reason)
	}
	r.compute = func(clusters []v1alpha1.LVMCluster) (change, error) {
		class, err := findClass(clusters, r.at.Class)
		if err != nil {
			return change{}, err
		}
		return change{class: class, operations: suspendOperations(class, m, suspend, record),
			effects: m.effectsOfSuspension(suspend, affected)}, nil
	}
	if goOn, err := r.apply(command.Context()); err != nil || !goOn || !suspend && !r.changed {
		return err
	}
	return r.followUntil(command.Context(), m, func(status *v1alpha1.LVMVolumeGroupNodeStatus) (session.RequestState,
		string) {
		return suspensionOf(status, m, suspend)
	}, false)
}

// suspendOperations returns how the requests of a device class are changed so that the device is suspended, or not. A
// request to drain or remove the device stays. Without one, a suspended device is also cordoned. The record of an
// earlier suspension stays.
func suspendOperations(c classAt, m member, suspend bool, record string) []session.Operation {
	current := m.requestIn(c)
	switch {
	case current == nil && !suspend, current != nil && current.Suspend == suspend:
		return nil
	case current == nil:
		return replaceRequests(c, m, &v1alpha1.DeviceRequest{Node: m.at.Node, Device: m.pv.UUID,
			Action: v1alpha1.DeviceActionCordon, Suspend: true, SuspendReason: record})
	case !suspend && current.Action == v1alpha1.DeviceActionCordon:
		return replaceRequests(c, m, nil)
	}
	next := v1alpha1.DeviceRequest{Node: m.at.Node, Device: m.pv.UUID, Action: current.Action, Suspend: suspend}
	if suspend {
		next.SuspendReason = record
	}
	return replaceRequests(c, m, &next)
}

// volumesOf returns the volumes that have, or may have, data on a device, with their Pods.
func (r *deviceRun) volumesOf(ctx context.Context, m member) ([]string, error) {
	found, err := r.source.Volumes(ctx)
	if err != nil {
		return nil, err
	}
	var bound []boundVolume
	for i := range found {
		lv := &found[i]
		// A LogicalVolume without a device class is in the default one, which may be any.
		if lv.Spec.NodeName == m.at.Node && (lv.Spec.DeviceClass == "" || lv.Spec.DeviceClass == m.at.Class) {
			bound = append(bound, boundVolume{claim: view.Claim(lv), lv: *lv})
		}
	}
	notes := len(r.source.Notes)
	pods := podsOf(ctx, r.source, bound)
	for _, note := range r.source.Notes[notes:] {
		fmt.Fprintln(r.terminal.ErrOut, "note:", note)
	}
	var texts []string
	for _, v := range bound {
		text := cmp.Or(v.claim, "LogicalVolume "+v.lv.Name)
		if users := pods[v.claim]; len(users) > 0 {
			text += " (Pods: " + limited(users) + ")"
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts, nil
}

// effectsOfSuspension returns what the suspension or resumption of a device leads to, in sentences.
func (m member) effectsOfSuspension(suspend bool, volumes []string) []string {
	if !suspend {
		return []string{"New Pods get the volumes on the device again, except those that were suspended themselves.",
			"The device accepts new data again, unless the request to drain or remove it stays. To keep it cordoned " +
				"after that: kubectl lvms cordon."}
	}
	effects := []string{"New Pods do not get the volumes that have data on the device: they wait, with the event " +
		"FailedMount, until the device is resumed. Pods that run keep them, and can write to them."}
	has := "These volumes have data on the device: "
	if len(m.at.Group().PhysicalVolumes) > 1 {
		has = "The volume group also has other devices. These of its volumes may have data on the device: "
	}
	if len(volumes) == 0 {
		effects = append(effects, "The volume group has no volume yet.")
	} else {
		effects = append(effects, has+limited(volumes)+". To list all: kubectl lvms volumes --node "+m.at.Node+
			" --class "+m.at.Class)
	}
	if m.at.Group().ThinPool != nil {
		effects = append(effects, "If the thin pool has data on the device, no new volume is created in it, and all "+
			"its volumes are suspended. Snapshots, clones and expansion are possible.")
	}
	return append(effects, "No new data is placed on the device outside of a thin pool.",
		fmt.Sprintf("To undo this: kubectl lvms resume device %s %s", m.at.Node, m.pv.UUID))
}

// suspensionOf returns whether a device is suspended or resumed, as requested, and what happens.
func suspensionOf(status *v1alpha1.LVMVolumeGroupNodeStatus, m member, suspend bool) (session.RequestState, string) {
	state, text := progressOf(status, m, "")
	group := session.Target{Node: m.at.Node, Class: m.at.Class, Status: status}.Group()
	if group == nil {
		return session.RequestPending, text
	}
	index := slices.IndexFunc(group.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return pv.UUID == m.pv.UUID
	})
	switch {
	case index < 0:
		return state, text
	case group.PhysicalVolumes[index].Suspended == suspend:
		return session.RequestDone, text
	}
	return session.RequestPending, text
}

package view

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

const sharedNote = "A volume group with the device also has other devices. The API does not record on which of them " +
	"a volume is, so all volumes of the volume group are listed."

func volumesCommand(e *session.Environment) *cobra.Command {
	o := &output.Options{}
	filter := volumeFilter{}
	device := ""
	command := &cobra.Command{
		Use:   "volumes",
		Short: "List the volumes and snapshots by claim, node, device class or device",
		Long: `List the volumes and snapshots, with the claim or VolumeSnapshot that each was created for. The claim
of a volume that upstream LVMS or TopoLVM created is not known.

With --device, list what may be on a device: the volumes of the volume group that has the device, or a device that is
built on it, for example a partition. If the volume group has several devices, the API does not record which of them a
volume is on. To see this, run on the node: lvs -o lv_name,devices VOLUME-GROUP. Orphans, the logical volumes that no
LogicalVolume refers to, are not listed: status shows them. What a VolumeMove created for a claim has "(move)" after
the claim.

The flag -n selects the namespace of the claims. For --device, the node statuses are read in all namespaces.`,
		Example: `  # Which volume does a claim have?
  kubectl lvms volumes -n shop --claim data

  # What lies on this disk?
  kubectl lvms volumes --node worker-1 --device /dev/sdb`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			volumes, err := readVolumes(command.Context(), e, o, filter, device)
			if err != nil {
				return err
			}
			output.PrintNotes(command.ErrOrStderr(), o, volumes.Notes)
			return output.PrintList(command, o, volumes, volumeTable(volumes))
		},
	}
	o.AddFlags(command)
	command.Flags().StringVar(&filter.claim, "claim", "",
		"list only the volumes of this claim or VolumeSnapshot, as NAME or NAMESPACE/NAME")
	command.Flags().StringVar(&filter.node, "node", "", "list only the volumes on this node")
	command.Flags().StringVar(&filter.class, "class", "", "list only the volumes of this device class")
	command.Flags().StringVar(&device, "device", "", "list only the volumes that may be on this device: a path, a "+
		"link in /dev/disk/by-id or /dev/disk/by-path, an ID, or the UUID of a physical volume")
	e.CompleteNodes(command)
	e.CompleteClasses(command)
	e.CompleteDevices(command)
	e.CompleteClaims(command)
	return command
}

func readVolumes(ctx context.Context, e *session.Environment, o *output.Options, filter volumeFilter,
	device string) (output.VolumeList, error) {
	if err := o.Validate(); err != nil {
		return output.VolumeList{}, err
	}
	filter, err := filter.withNamespace(e.Namespace())
	if err != nil {
		return output.VolumeList{}, err
	}
	s, err := e.Source("")
	if err != nil {
		return output.VolumeList{}, err
	}
	if device != "" {
		if filter.places, err = placesOf(ctx, s, device, filter.node); err != nil {
			return output.VolumeList{}, err
		}
	}
	found, err := s.Volumes(ctx)
	if err != nil {
		return output.VolumeList{}, err
	}
	volumes := newVolumes(found, filter)
	volumes.Notes = s.Notes
	return volumes, nil
}

// withNamespace returns the filter with the namespace of the claim: the one of --claim, or that of -n.
func (f volumeFilter) withNamespace(given string) (volumeFilter, error) {
	f.namespace = given
	namespace, name, isQualified := strings.Cut(f.claim, "/")
	if !isQualified {
		return f, nil
	}
	if given != "" && given != namespace {
		return f, fmt.Errorf("--claim %s is not in the namespace %s of -n: give only one of the two namespaces",
			f.claim, given)
	}
	f.namespace = namespace
	f.claim = name
	return f, nil
}

// placesOf returns the device classes that use a device. The result is not nil.
func placesOf(ctx context.Context, s *session.Source, device, node string) ([]objects.Place, error) {
	nodes, err := s.NodeStatuses(ctx)
	if err != nil {
		return nil, err
	}
	if nodes, err = objects.OnNode(nodes, node); err != nil {
		return nil, err
	}
	at, found := objects.Locate(nodes, device)
	switch {
	case !found:
		return nil, fmt.Errorf("no node lists the device %s: see kubectl lvms devices", device)
	case len(at.Places) == 0:
		s.Notes = append(s.Notes, "The node status says that no device class uses the device "+device+
			", or a device that is built on it.")
	case at.Shared:
		s.Notes = append(s.Notes, sharedNote)
	}
	return append([]objects.Place{}, at.Places...), nil
}

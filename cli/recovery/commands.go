// Package recovery has the commands that carry out recoveries (LVMRecovery), and lists and deletes orphans.
package recovery

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

const howRecoveriesWork = `

It creates an LVMRecovery, waits until the node agent has made a plan, and shows the plan: the volumes that are lost,
damaged and kept, with their claims. Nothing is changed on the node before you approve the plan. Then it shows the
progress until the recovery has ended. If an LVMRecovery for the same has not ended, it continues with that one, so you
can interrupt the command and run it again.

If a plan can lose data, you approve it by typing the first digits of its ID. --yes approves such a plan only with
--approve-plan and the ID of the plan: the first run prints the plan, and ends with the exit code 4.`

// recoveryCommand describes a command that carries out one recovery.
type recoveryCommand struct {
	use, short, long, example string
	action                    v1alpha1.RecoveryAction
	// AddFlags adds the flags of this command only.
	addFlags func(*cobra.Command)
	// resolve completes where the recovery is, before it is looked up. It may be nil.
	resolve func(context.Context, *session.Source, session.TargetFlags) (session.TargetFlags, error)
	// complete adds the volumes to the request. It may be nil.
	complete func(*recoveryRequest) error
}

// Commands returns the commands that carry out recoveries, and the one that lists orphans.
func Commands(e *session.Environment) []*cobra.Command {
	return []*cobra.Command{repairCommand(e), forgetCommand(e), restoreLabelsCommand(e), restoreMetadataCommand(e),
		acceptMetadataCommand(e), trimCommand(e), importCommand(e), checkCommand(e), orphansCommand(e)}
}

func newRecoveryCommand(e *session.Environment, c recoveryCommand) *cobra.Command {
	w := &session.Writing{}
	f := &session.TargetFlags{}
	approve := ""
	command := &cobra.Command{
		Use:               c.use,
		Short:             c.short,
		Long:              c.long + howRecoveriesWork,
		Example:           c.example,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return startRecovery(e, command, c, w, *f, approve)
		},
	}
	e.AddTargetFlags(command, f)
	w.AddFlags(command)
	command.Flags().StringVar(&approve, "approve-plan", "", "the ID of the only plan that may be approved. --yes "+
		"requires it for a plan that can lose data")
	if c.addFlags != nil {
		c.addFlags(command)
	}
	return command
}

func startRecovery(e *session.Environment, command *cobra.Command, c recoveryCommand, w *session.Writing,
	f session.TargetFlags, approve string) error {
	if err := w.Validate(); err != nil {
		return err
	}
	ctx := command.Context()
	t := e.Terminal(command)
	s, err := e.Source(e.Namespace())
	if err != nil {
		return err
	}
	if c.resolve != nil {
		if f, err = c.resolve(ctx, s, f); err != nil {
			return err
		}
	}
	at, err := e.Target(ctx, s, f, t)
	if err != nil {
		return err
	}
	request := recoveryRequest{action: c.action, at: at}
	if c.complete != nil {
		if err := c.complete(&request); err != nil {
			return err
		}
	}
	run := &recoveryRun{env: e, source: s, terminal: t, writing: w, request: request, approve: approve}
	return run.run(ctx)
}

func repairCommand(e *session.Environment) *cobra.Command {
	return newRecoveryCommand(e, recoveryCommand{
		use: "repair", action: v1alpha1.RecoveryRepairThinPool,
		short: "Check and repair the metadata of a thin pool",
		long: `Check the metadata of the thin pool of a device class on a node, and repair it: a pool that needs a
check, is read-only, cannot be activated, or whose metadata is full. No Pod can use volumes of the pool meanwhile.`,
		example: `  # See what would be created
  kubectl lvms repair --node worker-1 --class vg1 --dry-run

  # Check the thin pool, show the plan, and ask for its approval
  kubectl lvms repair --node worker-1 --class vg1

  # In a script: approve exactly the plan that the first run printed
  kubectl lvms repair --node worker-1 --class vg1 --yes --approve-plan 3f9c0a51b7d2`,
	})
}

func forgetCommand(e *session.Environment) *cobra.Command {
	return newRecoveryCommand(e, recoveryCommand{
		use: "forget", action: v1alpha1.RecoveryRemoveLostDevices,
		short: "Remove lost devices from a volume group, with the volumes that are lost with them",
		long: `Remove the missing devices of a device class on a node from its volume group, with the volumes that
cannot be read without them. All other volumes are kept. If a device is only unplugged, attach it again instead.
Before that, save what can be read from a device that fails: docs/how-to/recover.md says how.`,
		example: `  # Show which volumes are lost with the missing devices
  kubectl lvms forget --node worker-1 --class vg1`,
	})
}

func restoreLabelsCommand(e *session.Environment) *cobra.Command {
	return newRecoveryCommand(e, recoveryCommand{
		use: "restore-labels", action: v1alpha1.RecoveryRestoreLabels,
		short: "Write overwritten LVM labels of attached devices again",
		long: `Write the LVM labels and metadata of attached devices of a volume group again, after a command like
wipefs or dd overwrote them. Volumes can be in use meanwhile. Do not restart the node before.`,
		example: `  # Show the devices whose labels were overwritten, and restore them
  kubectl lvms restore-labels --node worker-1 --class vg1`,
	})
}

func restoreMetadataCommand(e *session.Environment) *cobra.Command {
	return newRecoveryCommand(e, recoveryCommand{
		use: "restore-metadata", action: v1alpha1.RecoveryRestoreMetadata,
		short: "Restore the metadata of a volume group from LVM's archive on the node",
		long: `Restore a volume group that was deleted with LVM commands, or whose metadata was replaced by that of an
earlier time, from LVM's archive on the node. No Pod can use volumes of the group meanwhile.`,
		example: `  # Restore a volume group after vgremove
  kubectl lvms restore-metadata --node worker-1 --class vg1`,
	})
}

func acceptMetadataCommand(e *session.Environment) *cobra.Command {
	return newRecoveryCommand(e, recoveryCommand{
		use: "accept-metadata", action: v1alpha1.RecoveryAcceptMetadata,
		short: "Use the present metadata of a volume group although the node has seen a later change",
		long: `Use the present metadata of a volume group from now on, although the node has seen a later change, for
example after vgcfgrestore. Until then, no volume of it is created, moved, erased or removed, because space that the
metadata calls free can have data. No volume is changed.`,
		example: `  # After you have checked the volumes of the group
  kubectl lvms accept-metadata --node worker-1 --class vg1`,
	})
}

func trimCommand(e *session.Environment) *cobra.Command {
	return newRecoveryCommand(e, recoveryCommand{
		use: "trim", action: v1alpha1.RecoveryFreePoolSpace,
		short: "Free the blocks of deleted files in a thin pool",
		long: `Trim the mounted file systems of the volumes of a thin pool, so that the pool gets back the blocks of
deleted files. Pods continue to use the volumes, and no data is lost.`,
		example: `  # Free space in a thin pool that is nearly full, without a question
  kubectl lvms trim --node worker-1 --class vg1 --yes`,
	})
}

func importCommand(e *session.Environment) *cobra.Command {
	var volumes []string
	return newRecoveryCommand(e, recoveryCommand{
		use: "import", action: v1alpha1.RecoveryImportVolumes,
		short: "Create the claims of logical volumes that have none, or move them to the node that has the disks",
		long: `Create the claim, the PersistentVolume and the LogicalVolume of logical volumes that no object refers
to, and move the objects of volumes whose disks came from another node. Nothing is written to the volumes. Without
--volume, all volumes are imported whose tags name a claim. orphans lists the volumes.`,
		example: `  # Import all orphans whose claim is known, and volumes of disks that were moved to this node
  kubectl lvms import --node worker-1 --class vg1

  # Import one logical volume with another claim
  kubectl lvms import --node worker-1 --class vg1 --volume 2f0c8f6e-7d5f-4b0e-a8d3-3a4c7e0c7c11=shop/data-restored`,
		addFlags: func(command *cobra.Command) {
			command.Flags().StringSliceVar(&volumes, "volume", nil, "import only this logical volume: NAME, or "+
				"NAME=NAMESPACE/CLAIM to give it another claim. It can be repeated")
			completeOrphans(e, command)
		},
		complete: func(r *recoveryRequest) (err error) {
			r.volumes, r.claims, err = parseImports(volumes, r.at.Group().Group())
			return err
		},
	})
}

func checkCommand(e *session.Environment) *cobra.Command {
	var claims, volumes, ofClaims []string
	return newRecoveryCommand(e, recoveryCommand{
		use: "check", action: v1alpha1.RecoveryCheckFileSystems,
		short: "Check and repair the file systems of volumes",
		long: `Check the file systems of volumes completely (e2fsck, xfs_repair), and repair those with errors. The
check changes nothing. It waits until no Pod uses the volumes, and can take hours. If no file system has errors, the
command ends.

Give the volumes by their claims, or by the names of their logical volumes, which are the handles of their
PersistentVolumes.`,
		example: `  # Check the file system of a claim, after its Pods were deleted
  kubectl lvms check --claim shop/data

  # Check a volume whose claim is not known
  kubectl lvms check --node worker-1 --class vg1 --volume 0f8bc5e1-3c55-4f0a-9c39-5bd7f1c5c6d2`,
		addFlags: func(command *cobra.Command) {
			command.Flags().StringSliceVar(&claims, "claim", nil, "check the volume of this claim, as "+
				"NAMESPACE/NAME. It can be repeated")
			command.Flags().StringSliceVar(&volumes, "volume", nil, "check this logical volume. It can be repeated")
			completeClaimsOfAll(e, command)
			completeVolumes(e, command)
		},
		resolve: func(ctx context.Context, s *session.Source, f session.TargetFlags) (session.TargetFlags, error) {
			if len(claims)+len(volumes) == 0 {
				return f, errors.New("the volumes are missing: give --claim or --volume")
			}
			if len(claims) == 0 {
				return f, nil
			}
			all, err := s.Volumes(ctx)
			if err != nil {
				return f, err
			}
			ofClaims, f, err = volumesOfClaims(all, claims, f)
			return f, err
		},
		complete: func(r *recoveryRequest) error {
			r.volumes = volumeNames(append(ofClaims, volumes...), r.at.Group().Group())
			return nil
		},
	})
}

// completeClaimsOfAll completes claims of all namespaces: -n is the namespace of the operator.
func completeClaimsOfAll(e *session.Environment, command *cobra.Command) {
	e.Complete(command, "claim", func(ctx context.Context, reader client.Reader, _ *cobra.Command) ([]string, error) {
		return session.NamesOfVolumes(ctx, reader, func(lv *topolvmv1.LogicalVolume) string {
			return view.Claim(lv)
		})
	})
}

// completeVolumes completes logical volumes of the node of --node, or of all nodes.
func completeVolumes(e *session.Environment, command *cobra.Command) {
	e.Complete(command, "volume", func(ctx context.Context, reader client.Reader, c *cobra.Command) ([]string, error) {
		node, _ := c.Flags().GetString("node")
		return session.NamesOfVolumes(ctx, reader, func(lv *topolvmv1.LogicalVolume) string {
			if node != "" && lv.Spec.NodeName != node {
				return ""
			}
			return lv.Status.VolumeID
		})
	})
}

// completeOrphans completes the logical volumes without objects of the node and the device class of the flags.
func completeOrphans(e *session.Environment, command *cobra.Command) {
	e.Complete(command, "volume", func(ctx context.Context, reader client.Reader, c *cobra.Command) ([]string, error) {
		node, _ := c.Flags().GetString("node")
		class, _ := c.Flags().GetString("class")
		return session.NamesOfNodes(ctx, reader, func(n *v1alpha1.LVMVolumeGroupNodeStatus) []string {
			var found []string
			for _, o := range newOrphans([]v1alpha1.LVMVolumeGroupNodeStatus{*n}, node, class).Items {
				if o.Kind == v1alpha1.OrphanLogicalVolume {
					_, name, _ := strings.Cut(o.Name, "/")
					found = append(found, name)
				}
			}
			return found
		})
	})
}

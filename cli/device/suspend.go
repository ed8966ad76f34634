package device

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// maxReason is the maximum number of characters of the reason of a suspension.
const maxReason = 500

const whatSuspendedMeans = `

A new Pod does not get a suspended volume: it waits, with the event FailedMount, which says who suspended it, until the
volume is resumed. A Pod that runs keeps the volume and can write to it. After a restart of its node, it is like a new
Pod. To take the volume away from a Pod that runs, suspend the volume, and delete the Pod.

Snapshots, clones and expansion are possible, and the claim can be deleted.`

func suspendCommand(e *session.Environment) *cobra.Command {
	suspend := &cobra.Command{Use: "suspend", Short: "Give a volume, or the volumes on a device, to no new Pod",
		Long: "Give a volume, or the volumes on a device, to no new Pod." + whatSuspendedMeans,
		Example: `  # Suspend the volume of a claim
  kubectl lvms suspend volume -n shop data

  # Suspend a suspicious disk
  kubectl lvms suspend device worker-1 /dev/sdb --reason "SMART warnings"`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions}
	suspend.AddCommand(suspendVolumeCommand(e), suspendDeviceCommand(e))
	return suspend
}

func resumeCommand(e *session.Environment) *cobra.Command {
	resume := &cobra.Command{Use: "resume", Short: "Give a suspended volume, or the volumes on a device, to new Pods",
		Long: "Give a suspended volume, or the volumes on a suspended device, to new Pods again.",
		Example: `  # Resume the volume of a claim
  kubectl lvms resume volume -n shop data

  # Resume a disk
  kubectl lvms resume device worker-1 /dev/sdb`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions}
	resume.AddCommand(resumeVolumeCommand(e), resumeDeviceCommand(e))
	return resume
}

// suspension is the suspension or the resumption of volumes.
type suspension struct {
	session.Writing
	reason  string
	suspend bool
}

func suspendVolumeCommand(e *session.Environment) *cobra.Command {
	f := &suspension{suspend: true}
	command := volumeCommand(e, f, "Give the volume of a claim to no new Pod",
		"Give the volumes of claims to no new Pod."+whatSuspendedMeans+`

It sets an annotation of the LogicalVolume, with your user name, the time and --reason.`,
		`  # Suspend a volume before a backup
  kubectl lvms suspend volume -n shop data --reason "backup"`)
	command.Flags().StringVar(&f.reason, "reason", "", "why, for the people who see the event of a Pod")
	return command
}

func resumeVolumeCommand(e *session.Environment) *cobra.Command {
	return volumeCommand(e, &suspension{}, "Give the suspended volume of a claim to new Pods",
		"Give the suspended volumes of claims to new Pods. Pods that wait get them within about two minutes.",
		`  # Resume a volume
  kubectl lvms resume volume -n shop data`)
}

func volumeCommand(e *session.Environment, f *suspension, short, long, example string) *cobra.Command {
	command := &cobra.Command{Use: "volume CLAIM...", Short: short,
		Long:    long + "\n\nA claim is NAME in the namespace of -n, or NAMESPACE/NAME.",
		Example: example, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			if err := f.validate(); err != nil {
				return err
			}
			if len(args) == 0 {
				return errors.New("the claim is missing: give NAME with -n, or NAMESPACE/NAME; kubectl lvms volumes " +
					"lists the claims")
			}
			claims, err := objects.QualifyClaims(args, e.Namespace())
			if err != nil {
				return err
			}
			return suspendVolumes(e, command, f, claims)
		}}
	f.AddWriteFlags(command)
	return command
}

func (f *suspension) validate() error {
	if err := validateReason(f.reason); err != nil {
		return err
	}
	return f.Writing.Validate()
}

func validateReason(reason string) error {
	if length := utf8.RuneCountInString(reason); length > maxReason {
		return fmt.Errorf("--reason has %d characters: give at most %d", length, maxReason)
	}
	return nil
}

func suspendVolumes(e *session.Environment, command *cobra.Command, f *suspension, claims []string) error {
	ctx := command.Context()
	s, err := e.Source("")
	if err != nil {
		return err
	}
	pvs, err := s.PersistentVolumes(ctx)
	if err != nil {
		return err
	}
	volumes, err := s.Volumes(ctx)
	if err != nil {
		return err
	}
	chosen, err := volumesBoundTo(claims, pvs, volumes)
	if err != nil {
		return err
	}
	t := e.Terminal(command)
	chosen = f.pending(t, chosen)
	if len(chosen) == 0 {
		return nil
	}
	text := ""
	if f.suspend {
		user, err := session.WhoAmI(ctx, s.Client)
		if err != nil {
			return err
		}
		text = suspendedBy(user, e.Now(), f.reason)
	}
	out := t.Out
	if f.IsDryRun() {
		out = t.ErrOut
	}
	fmt.Fprint(out, f.preview(chosen, podsOf(ctx, s, chosen), text))
	for _, note := range s.Notes {
		fmt.Fprintln(t.ErrOut, "note:", note)
	}
	if f.IsDryRun() {
		return f.print(t, chosen, text)
	}
	question := map[bool]string{true: "Suspend ", false: "Resume "}[f.suspend] + output.CountOf(len(chosen), "volume?",
		"volumes?")
	if err := t.Confirm(ctx, &f.Writing, question); err != nil {
		return err
	}
	return f.write(ctx, s.Client, t, chosen, text)
}

// boundVolume is the volume of a claim.
type boundVolume struct {
	claim string
	lv    topolvmv1.LogicalVolume
}

// volumesBoundTo returns the volumes of claims. The PersistentVolume decides: it can be bound to another claim than the
// one that the volume was created for.
func volumesBoundTo(claims []string, pvs []corev1.PersistentVolume,
	volumes []topolvmv1.LogicalVolume) ([]boundVolume, error) {
	var chosen []boundVolume
	for _, claim := range claims {
		at := slices.IndexFunc(pvs, func(pv corev1.PersistentVolume) bool {
			return objects.ClaimOfVolume(&pv) == claim && pv.Status.Phase == corev1.VolumeBound
		})
		if at < 0 {
			return nil, fmt.Errorf("no PersistentVolume is bound to the claim %s: check its name and namespace with "+
				"kubectl get pvc -A. A claim that is Pending has no volume yet", claim)
		}
		pv := &pvs[at]
		if objects.DriverOf(pv) != wellknown.DriverName {
			return nil, fmt.Errorf("PersistentVolume %s of the claim %s has the driver %q: only volumes of the driver "+
				"%s can be suspended or resumed", pv.Name, claim, objects.DriverOf(pv), wellknown.DriverName)
		}
		index := slices.IndexFunc(volumes, func(lv topolvmv1.LogicalVolume) bool {
			return lv.Status.VolumeID == pv.Spec.CSI.VolumeHandle
		})
		if index < 0 {
			return nil, fmt.Errorf("no LogicalVolume has the volume ID %s of PersistentVolume %s of the claim %s: see "+
				"kubectl lvms status", pv.Spec.CSI.VolumeHandle, pv.Name, claim)
		}
		chosen = append(chosen, boundVolume{claim: claim, lv: volumes[index]})
	}
	return chosen, nil
}

// suspendedBy returns the text of SuspendedAnnotation, and of the suspendReason of a DeviceRequest.
func suspendedBy(user string, now time.Time, reason string) string {
	text := "by " + user + " at " + now.UTC().Format(time.RFC3339)
	if reason = output.OneLine(reason); reason != "" {
		text += ": " + reason
	}
	return text
}

// pending returns the volumes that are not as requested, and says what the others are.
func (f *suspension) pending(t *session.Terminal, volumes []boundVolume) []boundVolume {
	var left []boundVolume
	for _, v := range volumes {
		text, suspended := view.Suspended(&v.lv)
		devices := view.SuspendedDevices(&v.lv)
		switch {
		case suspended != f.suspend:
			left = append(left, v)
		case suspended:
			fmt.Fprintf(t.Out, "The volume of the claim %s is suspended already, %s. Nothing is changed.\n", v.claim,
				cmp.Or(text, "by an unknown user"))
		default:
			fmt.Fprintf(t.Out, "The volume of the claim %s is not suspended. Nothing is changed.\n", v.claim)
		}
		if !f.suspend && devices != "" {
			fmt.Fprintf(t.ErrOut, "note: The volume of the claim %s has data on the suspended device %s of node "+
				"%s, so new Pods do not get it until the device is resumed: kubectl lvms resume device %s %s\n",
				v.claim, devices, v.lv.Spec.NodeName, v.lv.Spec.NodeName, strings.Split(devices, ", ")[0])
		}
	}
	return left
}

// preview says what is changed, and what that leads to.
func (f *suspension) preview(volumes []boundVolume, pods map[string][]string, text string) string {
	var all strings.Builder
	title := "These volumes are resumed:"
	effects := []string{"New Pods get them again."}
	if f.suspend {
		title = "These volumes are suspended, " + text + ":"
		effects = []string{
			"New Pods do not get them: they wait, with the event FailedMount, until the volumes are resumed.",
			"Pods that run keep them, and can write to them. After a restart of their node, they do not get them.",
			"Snapshots, clones and expansion are possible, and the claims can be deleted.",
			"To undo this: kubectl lvms resume volume " + strings.Join(claimsIn(volumes), " "),
		}
	}
	fmt.Fprintln(&all, title)
	for _, v := range volumes {
		fmt.Fprintf(&all, "  %s: %s on node %s, device class %s%s\n", v.claim, output.SizeOf(&v.lv.Spec.Size),
			v.lv.Spec.NodeName, cmp.Or(v.lv.Spec.DeviceClass, "(default)"), podText(pods[v.claim]))
	}
	for _, effect := range effects {
		fmt.Fprintln(&all, "-", effect)
	}
	return all.String()
}

func claimsIn(volumes []boundVolume) []string {
	var claims []string
	for _, v := range volumes {
		claims = append(claims, v.claim)
	}
	return claims
}

// patch returns the merge patch of a volume. The UID makes the API server refuse it if the LogicalVolume was recreated.
func (f *suspension) patch(v boundVolume, text string) map[string]any {
	annotations := map[string]any{wellknown.SuspendedAnnotation: nil}
	if f.suspend {
		annotations[wellknown.SuspendedAnnotation] = text
	}
	return map[string]any{"metadata": map[string]any{"uid": v.lv.UID, "annotations": annotations}}
}

func (f *suspension) print(t *session.Terminal, volumes []boundVolume, text string) error {
	for i, v := range volumes {
		patch, err := yaml.Marshal(f.patch(v, text))
		if err != nil {
			return err
		}
		begin := ""
		if i > 0 {
			begin = "---\n"
		}
		fmt.Fprintf(t.Out, "%s# merge patch of LogicalVolume %s\n%s", begin, v.lv.Name, patch)
	}
	return nil
}

func (f *suspension) write(ctx context.Context, c client.Client, t *session.Terminal, volumes []boundVolume,
	text string) error {
	done := map[bool]string{true: "suspended", false: "resumed"}[f.suspend]
	for _, v := range volumes {
		patch, err := json.Marshal(f.patch(v, text))
		if err != nil {
			return err
		}
		if err := c.Patch(ctx, v.lv.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
			return session.ExplainWrite(err, "patch", session.VolumesResource,
				"LogicalVolume "+v.lv.Name+" of the claim "+v.claim)
		}
		fmt.Fprintf(t.Out, "The volume of the claim %s was %s.\n", v.claim, done)
	}
	return nil
}

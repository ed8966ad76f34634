package setup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// migrateFlags are the flags and arguments of migrate.
type migrateFlags struct {
	session.Writing
	claims []string
	all    bool
}

func migrateCommand(e *session.Environment) *cobra.Command {
	f := &migrateFlags{}
	command := &cobra.Command{Use: "migrate [CLAIM...]",
		Short: "Recreate PersistentVolumes of TopoLVM before 0.15 for this driver",
		Long: `Recreate PersistentVolumes of the driver topolvm.cybozu.com for the driver topolvm.io. The former is the
driver of TopoLVM before 0.15, and of later versions with useLegacy. Claims, logical volumes and data stay as they are.

Before, scale the workloads to 0, and stop TopoLVM. The operator migrates no volume that a Pod uses, or on whose node
TopoLVM still runs. It requires a device class with the name of TopoLVM's device class, for the same volume group.

A claim is NAME in the namespace of -n, or NAMESPACE/NAME. With --all, all volumes are migrated, or those of the
claims in the namespace of -n.`,
		Example: `  # Show what would be migrated
  kubectl lvms migrate --all --dry-run

  # Migrate the volume of a claim
  kubectl lvms migrate -n shop data`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			f.claims = args
			if err := f.Writing.Validate(); err != nil {
				return err
			}
			return migrate(e, command, f)
		}}
	command.Flags().BoolVar(&f.all, "all", false, "migrate all volumes of the driver topolvm.cybozu.com")
	f.Writing.AddFlags(command)
	return command
}

func migrate(e *session.Environment, command *cobra.Command, f *migrateFlags) error {
	claims, err := claimsOf(f.claims, f.all, e.Namespace())
	if err != nil {
		return err
	}
	s, err := e.Source("")
	if err != nil {
		return err
	}
	ctx := command.Context()
	pvs, err := s.PersistentVolumes(ctx)
	if err != nil {
		return err
	}
	chosen, notes, err := chooseMigrations(pvs, claims, e.Namespace())
	if err != nil {
		return err
	}
	t := e.Terminal(command)
	for _, note := range notes {
		fmt.Fprintln(t.ErrOut, "note:", note)
	}
	if len(chosen) == 0 {
		fmt.Fprintln(t.ErrOut, "No volume to migrate.")
		return nil
	}
	r := &migrationRun{env: e, client: s.Client, terminal: t, writing: &f.Writing, volumes: chosen}
	return r.run(ctx)
}

// claimsOf returns the claims of the arguments as NAMESPACE/NAME, or none for --all.
func claimsOf(args []string, all bool, namespace string) ([]string, error) {
	if all != (len(args) == 0) {
		return nil, errors.New("give the claims whose volumes are migrated, or --all")
	}
	return objects.QualifyClaims(args, namespace)
}

// chooseMigrations returns the PersistentVolumes of the claims that have to be migrated, sorted by claim. Without
// claims, it returns those of all claims of a namespace, or of all namespaces if it is "".
func chooseMigrations(pvs []corev1.PersistentVolume, claims []string,
	namespace string) (chosen []corev1.PersistentVolume, notes []string, err error) {
	byClaim := map[string]*corev1.PersistentVolume{}
	for i := range pvs {
		pv := &pvs[i]
		claim := objects.ClaimOfVolume(pv)
		byClaim[claim] = pv
		if len(claims) == 0 && objects.DriverOf(pv) == wellknown.EarlierDriverName && claim != "" &&
			(namespace == "" || pv.Spec.ClaimRef.Namespace == namespace) {
			chosen = append(chosen, *pv)
		}
	}
	for _, claim := range claims {
		pv := byClaim[claim]
		switch {
		case pv == nil:
			return nil, nil, fmt.Errorf("no PersistentVolume is for the claim %s: check its name and namespace with "+
				"kubectl get pvc -A. If its migration was interrupted, the operator recreates the PersistentVolume",
				claim)
		case objects.DriverOf(pv) == wellknown.DriverName:
			notes = append(notes, fmt.Sprintf("PersistentVolume %s of the claim %s has the driver %s already.", pv.Name,
				claim, wellknown.DriverName))
		case objects.DriverOf(pv) != wellknown.EarlierDriverName:
			return nil, nil, fmt.Errorf("PersistentVolume %s of the claim %s has the driver %q: only volumes of the "+
				"driver %s are migrated", pv.Name, claim, objects.DriverOf(pv), wellknown.EarlierDriverName)
		default:
			chosen = append(chosen, *pv)
		}
	}
	slices.SortFunc(chosen, func(a, b corev1.PersistentVolume) int {
		return cmp.Compare(objects.ClaimOfVolume(&a), objects.ClaimOfVolume(&b))
	})
	return chosen, notes, nil
}

// migrationRun requests migrations, and follows them.
type migrationRun struct {
	env      *session.Environment
	client   client.Client
	terminal *session.Terminal
	writing  *session.Writing
	// volumes are those that are not migrated yet.
	volumes []corev1.PersistentVolume
	// told is the last message for each PersistentVolume.
	told map[string]string
}

func (r *migrationRun) run(ctx context.Context) error {
	out := r.terminal.Out
	if r.writing.IsDryRun() {
		out = r.terminal.ErrOut
	}
	fmt.Fprint(out, migrationText(r.volumes))
	if r.writing.IsDryRun() {
		return r.printPatches()
	}
	question := "Migrate " + output.CountOf(len(r.volumes), "volume?", "volumes?")
	if err := r.terminal.Confirm(ctx, r.writing, question); err != nil {
		return err
	}
	for i := range r.volumes {
		pv := &r.volumes[i]
		patch, err := json.Marshal(migrationPatch(pv))
		if err != nil {
			return err
		}
		err = r.client.Patch(ctx, pv.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
		if err != nil {
			return session.ExplainWrite(err, "patch", session.PersistentVolumesResource, "PersistentVolume "+pv.Name)
		}
		fmt.Fprintf(r.terminal.Out, "The migration of PersistentVolume %s was requested.\n", pv.Name)
	}
	if !r.writing.Wait {
		return nil
	}
	return r.follow(ctx)
}

// migrationText says what is migrated, and what that leads to.
func migrationText(pvs []corev1.PersistentVolume) string {
	var text strings.Builder
	fmt.Fprintf(&text, "These PersistentVolumes are recreated with the driver %s instead of %s:\n",
		wellknown.DriverName, wellknown.EarlierDriverName)
	for i := range pvs {
		pv := &pvs[i]
		size := pv.Spec.Capacity[corev1.ResourceStorage]
		fmt.Fprintf(&text, "  %s of the claim %s: %s on node %s\n", pv.Name, objects.ClaimOfVolume(pv),
			output.SizeOf(&size), cmp.Or(view.NodeOfEarlierVolume(pv), "unknown"))
	}
	for _, effect := range []string{
		"Claims, logical volumes and data stay as they are. No data is copied.",
		"A volume that a Pod uses, or on whose node TopoLVM runs, is not migrated before this has ended.",
		"The claim has the phase Lost for a moment.",
		"TopoLVM no longer knows the volumes: its LogicalVolumes are deleted. Do not start it again for them.",
	} {
		fmt.Fprintln(&text, "-", effect)
	}
	return text.String()
}

// migrationPatch returns the merge patch that requests a migration. The UID makes the API server refuse it if the
// PersistentVolume was recreated. The message of an earlier attempt is removed.
func migrationPatch(pv *corev1.PersistentVolume) map[string]any {
	return map[string]any{"metadata": map[string]any{"uid": pv.UID, "annotations": map[string]any{
		wellknown.MigrateAnnotation: "true", wellknown.MigrationAnnotation: nil}}}
}

func (r *migrationRun) printPatches() error {
	for i := range r.volumes {
		patch, err := yaml.Marshal(migrationPatch(&r.volumes[i]))
		if err != nil {
			return err
		}
		begin := ""
		if i > 0 {
			begin = "---\n"
		}
		fmt.Fprintf(r.terminal.Out, "%s# merge patch of PersistentVolume %s\n%s", begin, r.volumes[i].Name, patch)
	}
	return nil
}

// follow waits until all volumes are migrated, or all that are left are blocked.
func (r *migrationRun) follow(ctx context.Context) error {
	r.told = map[string]string{}
	blockedFor := 0
	err := r.env.Poll(ctx, r.writing, r.terminal, func(ctx context.Context) (bool, error) {
		allBlocked, err := r.look(ctx)
		if err != nil || len(r.volumes) == 0 {
			return len(r.volumes) == 0, err
		}
		if blockedFor++; !allBlocked {
			blockedFor = 0
		}
		if blockedFor >= session.BlockedPolls {
			return false, session.Final(fmt.Errorf("%w: %s blocked, for the reasons above. %s", session.ErrNotPossible,
				output.CountOf(len(r.volumes), "migration is", "migrations are"), r.left()))
		}
		return false, nil
	})
	if err != nil && session.IsWaitOver(err) {
		return fmt.Errorf("%w: %s not complete. %s", session.Interrupted(err),
			output.CountOf(len(r.volumes), "migration is", "migrations are"), r.left())
	}
	return err
}

// left says what becomes of the requests.
func (r *migrationRun) left() string {
	return "The operator carries out the requests when possible; to wait for it, run the command again. To " +
		"withdraw a request: kubectl annotate persistentvolume " + r.volumes[0].Name + " " +
		wellknown.MigrateAnnotation + "-"
}

// look reads the volumes, and removes those that are migrated from the list. It returns true if all others are blocked.
func (r *migrationRun) look(ctx context.Context) (allBlocked bool, err error) {
	allBlocked = true
	var left []corev1.PersistentVolume
	for i := range r.volumes {
		pv := &corev1.PersistentVolume{}
		err := r.client.Get(ctx, client.ObjectKey{Name: r.volumes[i].Name}, pv)
		if err != nil && !apierrors.IsNotFound(err) {
			return false, session.ExplainGet(err, session.PersistentVolumesResource,
				"PersistentVolume "+r.volumes[i].Name)
		}
		state, message := migrationState(pv)
		if message != r.told[r.volumes[i].Name] {
			r.told[r.volumes[i].Name] = message
			fmt.Fprintf(r.terminal.Out, "%s %s: %s\n", r.env.Now().Format("15:04:05"),
				objects.ClaimOfVolume(&r.volumes[i]), message)
		}
		if state != session.RequestDone {
			left = append(left, r.volumes[i])
			allBlocked = allBlocked && state == session.RequestBlocked
		}
	}
	r.volumes = left
	return allBlocked, nil
}

// migrationState returns the state of a migration, and says it. The PersistentVolume is empty if it does not exist.
func migrationState(pv *corev1.PersistentVolume) (session.RequestState, string) {
	message := pv.Annotations[wellknown.MigrationAnnotation]
	switch {
	case objects.DriverOf(pv) == wellknown.DriverName:
		return session.RequestDone, "migrated"
	case strings.HasPrefix(message, view.MigrationBlockedPrefix):
		return session.RequestBlocked, output.OneLine(message)
	case pv.Spec.CSI == nil || !pv.DeletionTimestamp.IsZero():
		return session.RequestPending, "the PersistentVolume is being recreated"
	case pv.Annotations[wellknown.MigrateAnnotation] != "true":
		return session.RequestBlocked, "the request was withdrawn"
	}
	return session.RequestPending, cmp.Or(output.OneLine(message), "the operator has not begun")
}

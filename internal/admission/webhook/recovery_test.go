package webhook

import (
	"os"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
	"github.com/lvm-storage/lvm-operator/test/env"
)

// recoveryWith returns a recovery with a plan for a claim, whose ID is that of its content.
func recoveryWith(action lvmv1alpha1.RecoveryAction, claim string) *lvmv1alpha1.LVMRecovery {
	recovery := &lvmv1alpha1.LVMRecovery{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "ours"},
		Spec: lvmv1alpha1.LVMRecoverySpec{NodeName: "n1", DeviceClassName: "vg1", Action: action}}
	recovery.Status.Plan = planFor(action, claim)
	return recovery
}

func planFor(action lvmv1alpha1.RecoveryAction, claim string) *lvmv1alpha1.RecoveryPlan {
	plan := &lvmv1alpha1.RecoveryPlan{CreationTime: metav1.NewTime(time.Unix(1_700_000_000, 0)),
		Devices: []lvmv1alpha1.RecoveryDevice{}, VolumeGroupUUID: "u",
		ImportedVolumes: []lvmv1alpha1.RecoveryVolume{{Name: "a", Claim: claim}}}
	plan.ID = recoveryplan.ID(action, "n1", "vg1", plan)
	return plan
}

const imports = lvmv1alpha1.RecoveryImportVolumes

func TestAnImportIsApprovedAsItIsShown(t *testing.T) {
	shown := recoveryWith(imports, "shop/data")
	planned := shown.Status.Plan.ID
	other := planFor(imports, "victim/data").ID
	unplanned := recoveryWith(imports, "")
	unplanned.Status.Plan = nil
	forged := recoveryWith(imports, "shop/data")
	forged.Status.Plan.ID = other
	elsewhere := recoveryWith(lvmv1alpha1.RecoveryDeleteOrphans, "")
	elsewhere.Status.Plan.ID = "p1"
	approved := forged.DeepCopy()
	approved.Spec.ApprovedPlan = other
	for name, test := range map[string]struct {
		before *lvmv1alpha1.LVMRecovery
		id     string
		want   string
	}{
		"the shown plan":                {shown, planned, ""},
		"another plan":                  {shown, other, `is another one, with the ID "` + planned + `"`},
		"no plan":                       {unplanned, planned, "no plan yet"},
		"the ID of another plan":        {forged, other, "not the ID of the plan that the status shows"},
		"the ID that it should have":    {forged, planned, "is another one"},
		"approved before":               {approved, other, ""},
		"an approval is withdrawn":      {approved, "", ""},
		"another action, which is free": {elsewhere, "p1", ""},
	} {
		after := test.before.DeepCopy()
		after.Spec.ApprovedPlan = test.id
		_, err := RecoveryValidator{}.ValidateUpdate(t.Context(), test.before, after)
		wantError(t, name, err, test.want)
	}
	for name, test := range map[string]struct{ id, want string }{
		"created without an approval": {"", ""}, "created with one": {planned, "no plan yet"}} {
		created := shown.DeepCopy()
		created.Spec.ApprovedPlan = test.id
		_, err := RecoveryValidator{}.ValidateCreate(t.Context(), created)
		wantError(t, name, err, test.want)
	}
}

// A plan that was shown for a moment could be approved a moment later, when its ID is genuine.
func TestAPlanOfAnImportIsShownWithItsOwnID(t *testing.T) {
	before := recoveryWith(imports, "shop/data")
	forged := before.DeepCopy()
	forged.Status.Plan.ImportedVolumes[0].Claim = "victim/data"
	running := forged.DeepCopy()
	running.Status.Phase = lvmv1alpha1.RecoveryRunning
	removed := before.DeepCopy()
	removed.Status.Plan = nil
	elsewhere := recoveryWith(lvmv1alpha1.RecoveryFreePoolSpace, "")
	changed := elsewhere.DeepCopy()
	changed.Status.Plan.ID = "other"
	for name, test := range map[string]struct {
		before, after *lvmv1alpha1.LVMRecovery
		want          string
	}{
		"another content under the same ID":        {before, forged, "status.plan.id"},
		"a new plan":                               {removed, before, ""},
		"another plan":                             {before, recoveryWith(imports, "victim/data"), ""},
		"the plan is removed":                      {before, removed, ""},
		"a phase, with the plan of an older agent": {forged, running, ""},
		"another action":                           {elsewhere, changed, ""},
	} {
		_, err := RecoveryValidator{}.ValidateUpdate(t.Context(), test.before, test.after)
		wantError(t, name, err, test.want)
	}
}

func wantError(t *testing.T, name string, err error, want string) {
	t.Helper()
	refused := err != nil && want != "" && strings.Contains(err.Error(), want)
	if (want != "" || err != nil) && !refused {
		t.Errorf("%s: got %v, want %q", name, err, want)
	}
}

// registration returns how the webhook of LVMRecoveries is registered.
func registration(t *testing.T) admissionregistrationv1.ValidatingWebhook {
	t.Helper()
	configuration, err := env.Webhooks()
	if err != nil {
		t.Fatal(err)
	}
	for _, hook := range configuration.Webhooks {
		if hook.Name == "vlvmrecovery.kb.io" {
			return hook
		}
	}
	t.Fatal("LVMRecoveries have no webhook")
	return admissionregistrationv1.ValidatingWebhook{}
}

// Without the webhook, an import could be approved that is not the one that is shown. Kustomize and the chart have the
// conditions under which it is required.
func TestNoImportIsApprovedWithoutTheWebhook(t *testing.T) {
	hook := registration(t)
	if *hook.FailurePolicy != admissionregistrationv1.Fail || len(hook.MatchConditions) != 2 {
		t.Errorf("got %+v", hook)
	}
	chart, err := os.ReadFile("../../../charts/lvms-operator/templates/webhook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// The template is not YAML. Its texts are in quotes, and on several lines.
	text := strings.Join(strings.Fields(strings.ReplaceAll(string(chart), "''", "'")), " ")
	for _, condition := range hook.MatchConditions {
		if !strings.Contains(text, condition.Expression) {
			t.Errorf("the chart lacks the condition %s", condition.Name)
		}
	}
}

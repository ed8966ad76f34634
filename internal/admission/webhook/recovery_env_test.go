//go:build env

package webhook

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/env"
)

// makeRecovery creates a recovery with a plan.
func makeRecovery(t *testing.T, action lvmv1alpha1.RecoveryAction) *lvmv1alpha1.LVMRecovery {
	t.Helper()
	recovery := recoveryWith(action, "shop/data")
	plan := recovery.Status.Plan
	recovery.Name, recovery.Namespace = strings.ToLower(string(action)), testNamespace
	if err := testClient.Create(t.Context(), recovery); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = testClient.Delete(context.Background(), recovery) })
	recovery.Status.Plan = plan
	if err := testClient.Status().Update(t.Context(), recovery); err != nil {
		t.Fatal(err)
	}
	return recovery
}

// approve approves a plan as `kubectl patch` does.
func approve(ctx context.Context, recovery *lvmv1alpha1.LVMRecovery, id string) error {
	return testClient.Patch(ctx, recovery.DeepCopy(), client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"approvedPlan":%q}}`, id)))
}

func TestTheAPIServerRefusesAnApprovalOfWhatIsNotShown(t *testing.T) {
	ctx := t.Context()
	recovery := makeRecovery(t, imports)
	planned, other := recovery.Status.Plan.ID, planFor(imports, "victim/data")
	wantError(t, "another plan", approve(ctx, recovery, other.ID), "is another one")
	forged := recovery.DeepCopy()
	forged.Status.Plan.ID = other.ID
	wantError(t, "a plan under the ID of another one", testClient.Status().Update(ctx, forged), "status.plan.id")
	wantError(t, "the shown plan", approve(ctx, recovery, planned), "")
	created := recoveryWith(imports, "")
	created.Namespace, created.Spec.ApprovedPlan = testNamespace, planned
	wantError(t, "approved before there is a plan", testClient.Create(ctx, created), "no plan yet")
	free := makeRecovery(t, lvmv1alpha1.RecoveryFreePoolSpace)
	wantError(t, "another action", approve(ctx, free, "anything"), "")
}

// While the operator is down, only what needs it is refused: a pool must be repaired, and an import be deleted.
func TestOnlyImportsNeedTheOperator(t *testing.T) {
	ctx := t.Context()
	recovery := makeRecovery(t, imports)
	free := makeRecovery(t, lvmv1alpha1.RecoveryFreePoolSpace)
	down := registration(t)
	url := "https://127.0.0.1:1"
	down.ClientConfig = admissionv1.WebhookClientConfig{URL: &url}
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "down"},
		Webhooks: []admissionv1.ValidatingWebhook{down}}
	if err := testClient.Create(ctx, configuration); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = testClient.Delete(context.Background(), configuration) })
	const refused = "failed calling webhook"
	var err error
	for end := time.Now().Add(env.Patience); ; time.Sleep(50 * time.Millisecond) {
		// Until the API server knows the webhook, a change is allowed, so another one is the next attempt.
		err = approve(ctx, recovery, recovery.Status.Plan.ID)
		if err != nil || time.Now().After(end) {
			break
		}
		if err := approve(ctx, recovery, ""); err != nil && !strings.Contains(err.Error(), refused) {
			t.Fatal(err)
		}
	}
	wantError(t, "approval of an import", err, refused)
	wantError(t, "approval of another action", approve(ctx, free, free.Status.Plan.ID), "")
	running := free.DeepCopy()
	running.Status.Phase = lvmv1alpha1.RecoveryRunning
	wantError(t, "status of another action", testClient.Status().Patch(ctx, running, client.MergeFrom(free)), "")
	labeled := recovery.DeepCopy()
	labeled.Labels = map[string]string{"a": "b"}
	wantError(t, "label of an import", testClient.Patch(ctx, labeled, client.MergeFrom(recovery)), "")
	wantError(t, "deletion of an import", testClient.Delete(ctx, labeled), "")
}

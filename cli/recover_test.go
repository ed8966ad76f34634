package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// cluster is a fake API server whose LVMRecoveries a test changes as the node agent would.
type cluster struct {
	t *testing.T
	client.Client
	// getErrors are the errors of the next reads of an LVMRecovery.
	getErrors []error
	// beforePatch is called before the next patch.
	beforePatch func()
	writes      int
}

// newCluster returns a fake API server with objects.
func newCluster(t *testing.T, objects ...client.Object) *cluster {
	c := &cluster{t: t}
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.LVMRecovery{}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			c.writes++
			o.SetUID("uid-1") // the fake client gives no UID
			return w.Create(ctx, o, opts...)
		},
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if len(c.getErrors) > 0 {
				err := c.getErrors[0]
				c.getErrors = c.getErrors[1:]
				if err != nil {
					return err
				}
			}
			return w.Get(ctx, key, o, opts...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			c.writes++
			if before := c.beforePatch; before != nil {
				c.beforePatch = nil
				before()
			}
			return w.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			c.writes++
			return w.Delete(ctx, o, opts...)
		},
	}).Build()
	return c
}

// recovery returns the only LVMRecovery, or nil.
func (c *cluster) recovery() *v1alpha1.LVMRecovery {
	c.t.Helper()
	all := &v1alpha1.LVMRecoveryList{}
	if err := c.List(c.t.Context(), all); err != nil || len(all.Items) > 1 {
		c.t.Fatalf("%d LVMRecoveries, %v", len(all.Items), err)
	}
	if len(all.Items) == 0 {
		return nil
	}
	return &all.Items[0]
}

// report returns a step in which the node agent writes the status of the LVMRecovery.
func (c *cluster) report(status v1alpha1.LVMRecoveryStatus) func() {
	return func() {
		c.t.Helper()
		recovery := c.recovery()
		recovery.Status = status
		if err := c.Status().Update(c.t.Context(), recovery); err != nil {
			c.t.Fatal(err)
		}
	}
}

// planned returns a plan for the repair of a thin pool with its ID.
func planned(plan v1alpha1.RecoveryPlan) v1alpha1.RecoveryPlan {
	plan.CreationTime = metav1.NewTime(now)
	plan.ID = v1alpha1.PlanID(v1alpha1.RecoveryRepairThinPool, "worker-1", "vg1", &plan)
	return plan
}

// awaiting is the status of a recovery whose plan awaits its approval.
func awaiting(plan v1alpha1.RecoveryPlan) v1alpha1.LVMRecoveryStatus {
	return v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryAwaitingApproval, Plan: &plan}
}

// Plans, and other states of a recovery.
var (
	harmless = planned(v1alpha1.RecoveryPlan{Repair: v1alpha1.RepairClearCheck})
	losing   = planned(v1alpha1.RecoveryPlan{LostVolumeCount: 1,
		LostVolumes: []v1alpha1.RecoveryVolume{{Name: "a", Claim: "shop/data"}}})
	losingMore = planned(v1alpha1.RecoveryPlan{LostVolumeCount: 2})
	succeeded  = v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoverySucceeded, Message: "the pool was repaired"}
	rejected   = v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryNotApplicable, Message: "nothing to repair"}
)

var repair = strings.Fields("repair --node worker-1")

// approvedPlan returns the plan that is approved, or "".
func (c *cluster) approvedPlan() string {
	if r := c.recovery(); r != nil {
		return r.Spec.ApprovedPlan
	}
	return ""
}

// prints checks the exit code of a command, and parts of its output.
func prints(t *testing.T, got result, code int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(got.out+got.err, text) {
			t.Errorf("%q is missing", text)
		}
	}
	if got.code != code || t.Failed() {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
}

func TestARecoveryFromTheRequestToItsEnd(t *testing.T) {
	c := newCluster(t, healthyObjects("storage")...)
	steps := []func(){c.report(v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryPreparing, Message: "waits for Pod " +
		"x"}),
		c.report(awaiting(harmless)),
		func() {
			if c.approvedPlan() != harmless.ID {
				t.Error("the plan is not approved")
			}
			status := awaiting(harmless)
			status.Phase, status.Message = v1alpha1.RecoveryRunning, "repairs"
			c.report(status)()
		}, c.report(succeeded)}
	got := plugin.runWith(t, c, "y\nyes\n", steps, repair...)
	prints(t, got, 0, "An LVMRecovery with the action RepairThinPool is created in the namespace storage",
		"Create the LVMRecovery? [y/N]: ", "08:15:30 the node agent of worker-1 has not read the LVMRecovery yet",
		"Preparing: waits for Pod x", "Plan "+harmless.ID+" of LVMRecovery storage/worker-1-vg1-", "No volume is lost.",
		"Approve the plan? [y/N]: ", "The plan "+harmless.ID+" was approved.", "Running: repairs", "has ended: the pool was "+
			"repaired")
	want := v1alpha1.LVMRecoverySpec{NodeName: "worker-1", DeviceClassName: "vg1", ApprovedPlan: harmless.ID,
		Action: v1alpha1.RecoveryRepairThinPool}
	r := c.recovery()
	expect.Equal(t, "Spec.Action", r.Spec.Action, want.Action)
	expect.Equal(t, "Spec.NodeName", r.Spec.NodeName, want.NodeName)
	expect.Equal(t, "Spec.DeviceClassName", r.Spec.DeviceClassName, want.DeviceClassName)
	expect.Equal(t, "Namespace", r.Namespace, "storage")
	expect.Equal(t, "writes", c.writes, 2)
}

func TestYesAloneNeverApprovesALoss(t *testing.T) {
	for _, plan := range []v1alpha1.RecoveryPlan{losing, losingMore,
		planned(v1alpha1.RecoveryPlan{Repair: v1alpha1.RepairRebuild}),
		planned(v1alpha1.RecoveryPlan{DamagedVolumes: []v1alpha1.RecoveryVolume{{Name: "a"}}})} {
		c := newCluster(t, healthyObjects("storage")...)
		got := plugin.runWith(t, c, "", []func(){c.report(awaiting(plan))}, append(repair, "--yes")...)
		prints(t, got, exitNeedsApproval, "error: the plan is not approved:", "--yes --approve-plan "+plan.ID,
			"kubectl -n storage delete lvmrecovery worker-1-vg1-")
		if c.approvedPlan() != "" || c.recovery() == nil {
			t.Errorf("approved %q", c.approvedPlan())
		}
	}
}

func TestTheSecondRunApprovesThePlanByItsID(t *testing.T) {
	c := newCluster(t, healthyObjects("storage")...)
	plugin.runWith(t, c, "", []func(){c.report(awaiting(losing))}, append(repair, "--yes")...)
	got := plugin.runWith(t, c, "", nil, append(repair, "--yes", "--approve-plan", "other")...)
	prints(t, got, exitNeedsApproval, "exists already. Continuing with it.", "--approve-plan other is not the "+
		"current plan")
	got = plugin.runWith(t, c, "", []func(){c.report(succeeded)}, append(repair, "--yes", "--approve-plan", losing.ID)...)
	prints(t, got, 0, "exists already. Continuing with it.", "The plan "+losing.ID+" was approved.", "has ended")
	if c.approvedPlan() != losing.ID {
		t.Errorf("approved %q", c.approvedPlan())
	}
}

func TestALossIsApprovedByTypingTheIDOfThePlan(t *testing.T) {
	for answer, code := range map[string]int{"y": exitNeedsApproval, losingMore.ID: exitNeedsApproval,
		"": exitNeedsApproval, losing.ID[:7]: exitNeedsApproval, losing.ID[:8]: 0, losing.ID: 0} {
		c := newCluster(t, healthyObjects("storage")...)
		got := plugin.runWith(t, c, "y\n"+answer+"\n", []func(){c.report(awaiting(losing)), c.report(succeeded)}, repair...)
		prints(t, got, code, "Data can be lost: 1 volume is lost. To approve the plan, type the first 8 digits of its ID: ")
		if (c.approvedPlan() == losing.ID) != (code == 0) {
			t.Errorf("%q: approved %q", answer, c.approvedPlan())
		}
	}
}

func TestAPlanThatChangesIsShownAndAskedForAgain(t *testing.T) {
	// The plan changes while the user reads it, and again between the check and the patch.
	for name, change := range map[string]func(*cluster){
		"before the check": func(c *cluster) {
			c.getErrors = []error{nil, nil} // the first reads
			c.Client = changeOnGet(c, 3, awaiting(losingMore))
		},
		"before the patch": func(c *cluster) { c.beforePatch = c.report(awaiting(losingMore)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, healthyObjects("storage")...)
			change(c)
			got := plugin.runWith(t, c, "y\n"+losing.ID+"\nno\n", []func(){c.report(awaiting(losing))}, repair...)
			prints(t, got, exitNeedsApproval, "The plan has changed in the meantime. Nothing was approved.",
				"Plan "+losingMore.ID+" of LVMRecovery", "2 volumes are LOST", "2 volumes are lost. To approve the plan, type the first 8 "+
					"digits of its ID: ")
			if c.approvedPlan() != "" {
				t.Errorf("approved %q", c.approvedPlan())
			}
		})
	}
}

// changeOnGet returns a client that reports a status before the n-th read of an LVMRecovery.
func changeOnGet(c *cluster, n int, status v1alpha1.LVMRecoveryStatus) client.Client {
	inner, _ := c.Client.(client.WithWatch)
	return interceptor.NewClient(inner, interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch,
		key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if n--; n == 0 {
			c.report(status)()
		}
		return w.Get(ctx, key, o, opts...)
	}})
}

func TestAPlanThatChangesAfterTheApprovalIsAskedForAgain(t *testing.T) {
	c := newCluster(t, healthyObjects("storage")...)
	got := plugin.runWith(t, c, "", []func(){c.report(awaiting(losing)), c.report(awaiting(losingMore))},
		append(repair, "--yes", "--approve-plan", losing.ID)...)
	prints(t, got, exitNeedsApproval, "The plan "+losing.ID+" was approved.", "--approve-plan "+losing.ID+" is not the current plan, "+
		"which is "+losingMore.ID)
}

func TestWithoutATerminalNothingIsCreated(t *testing.T) {
	c := newCluster(t, healthyObjects("storage")...)
	got := plugin.runWith(t, c, "", nil, repair...)
	prints(t, got, exitError, "nothing was changed: there is no terminal to ask on")
	got = plugin.runWith(t, c, "n\n", nil, repair...)
	prints(t, got, exitError, "nothing was changed, because the answer was not yes")
	if c.recovery() != nil || c.writes != 0 {
		t.Error("something was written")
	}
}

func TestDryRunPrintsTheObjectOnly(t *testing.T) {
	c := newCluster(t, healthyObjects("storage")...)
	got := plugin.runWith(t, c, "", nil, append(repair, "--dry-run")...)
	want := `apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMRecovery
metadata:
  generateName: worker-1-vg1-
  namespace: storage
spec:
  action: RepairThinPool
  deviceClassName: vg1
  nodeName: worker-1
`
	if got.code != 0 || got.out != want || !strings.Contains(got.err, "The node agent makes a plan.") {
		t.Errorf("got %+v", got)
	}
	plugin.runWith(t, c, "", []func(){c.report(awaiting(losing))}, append(repair, "--yes")...)
	writes := c.writes
	got = plugin.runWith(t, c, "", nil, append(repair, "--dry-run=client")...)
	if got.code != 0 || !strings.HasPrefix(got.out, "- op: test\n  path: /metadata/uid\n  value: uid-1\n") ||
		!strings.Contains(got.err, "1 volume is LOST") || c.writes != writes {
		t.Errorf("got %+v, %d writes", got, c.writes-writes)
	}
}

func TestARecoveryThatDoesNotHelpIsRemovedAgain(t *testing.T) {
	c := newCluster(t, healthyObjects("storage")...)
	got := plugin.runWith(t, c, "", []func(){c.report(rejected)}, append(repair, "--yes")...)
	prints(t, got, exitProblems, "error: the request cannot be carried out: the action RepairThinPool does not help "+
		"on the device class vg1 on node worker-1 now: nothing to repair. LVMRecovery storage/worker-1-vg1-", "was "+
		"deleted again")
	if c.recovery() != nil {
		t.Error("the LVMRecovery is left, and keeps others waiting")
	}
	existing := recoveryRequest{action: v1alpha1.RecoveryRepairThinPool, at: at}.object()
	existing.Name, existing.Status = "mine", rejected
	c = newCluster(t, append(healthyObjects("storage"), existing)...)
	got = plugin.runWith(t, c, "", nil, append(repair, "--yes")...)
	prints(t, got, exitProblems, "LVMRecovery storage/mine stays", "kubectl -n storage delete lvmrecovery mine")
	if c.recovery() == nil {
		t.Error("an LVMRecovery of somebody else was deleted")
	}
}

func TestAnotherOpenRecoveryIsNamed(t *testing.T) {
	c := newCluster(t, brokenObjects("storage")...)
	got := plugin.runWith(t, c, "", nil, "trim", "--node", "worker-2", "--yes")
	prints(t, got, exitError, "LVMRecovery storage/lost-disk (action RemoveLostDevices) of the device class vg1 on "+
		"node worker-2 has not ended: the plan "+waitingRecovery("storage").Status.Plan.ID+" awaits approval.", "kubectl -n storage delete lvmrecovery "+
		"lost-disk")
	if c.writes != 0 {
		t.Error("something was written")
	}
}

func TestACheckWithoutErrorsSucceeds(t *testing.T) {
	c := newCluster(t, healthyObjects("storage")...)
	clean := v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryNotApplicable, Message: "no errors were found",
		CompletionTime: ptr.To(metav1.NewTime(now))}
	check := strings.Fields("check --claim shop/data --yes")
	prints(t, plugin.runWith(t, c, "", []func(){c.report(clean)}, check...), 0, "has ended: no errors were found")
	r := c.recovery()
	if strings.Join(r.Spec.Volumes, " ") != "id-pvc-1" || r.Spec.NodeName != "worker-1" ||
		r.Spec.DeviceClassName != "vg1" {
		t.Errorf("got %+v", r.Spec)
	}
	r.Status.CompletionTime = nil // it has not ended yet, so the next run continues it
	c.report(r.Status)()
	prints(t, plugin.runWith(t, c, "", nil, check...), exitProblems, "Continuing with it")
}

func TestVolumesOfClaims(t *testing.T) {
	snapshot := volume("snap", "worker-1", "vg1", "shop/snap")
	snapshot.Spec.AccessType, snapshot.Spec.Source = "ro", "pvc-1"
	c := newCluster(t, append(brokenObjects("storage"), snapshot)...)
	for args, want := range map[string]string{
		"check":                   "the volumes are missing: give --claim or --volume",
		"check --claim data":      "--claim data has no namespace: give NAMESPACE/NAME",
		"check --claim shop/none": "no LogicalVolume on a node names the claim shop/none",
		"check --claim shop/snap": "no LogicalVolume on a node names the claim shop/snap",
		"check --claim shop/data,shop/data-2": "the claim shop/data-2 is on the node worker-2, and not on " +
			"worker-1",
		"check --claim shop/data --class vg2":         "the claim shop/data is on the device class vg1, and not on vg2",
		"orphans delete --node worker-1":              "--volume is missing",
		"repair --node worker-1 --dry-run=server":     `--dry-run "server" is not supported`,
		"repair --node worker-1 --timeout 0s":         "--timeout 0s is not supported",
		"import --node worker-1 --volume a=b --yes":   `"b" is not a claim`,
		"repair --class vg1":                          "--node is missing",
		"repair --node worker-1 extra --yes":          `unknown command "extra"`,
		"orphans delete --node worker-9 --volume abc": "node worker-9 has no LVMVolumeGroupNodeStatus",
	} {
		prints(t, plugin.runWith(t, c, "", nil, strings.Fields(args)...), exitError, want)
	}
	if c.writes != 0 {
		t.Error("something was written")
	}
}

func TestWithoutWaitTheCommandEndsAfterTheApproval(t *testing.T) {
	c := newCluster(t, healthyObjects("storage")...)
	got := plugin.runWith(t, c, "", []func(){c.report(awaiting(harmless))}, append(repair, "--yes", "--wait=false")...)
	prints(t, got, 0, "The plan "+harmless.ID+" was approved.", "continues without this command")
	if c.approvedPlan() != harmless.ID {
		t.Errorf("approved %q", c.approvedPlan())
	}
}

func TestTheTimeout(t *testing.T) {
	c := newCluster(t, healthyObjects("storage")...)
	got := plugin.runWith(t, c, "", nil, append(repair, "--yes", "--timeout", "20ms")...)
	prints(t, got, exitTimeout, "error: the time of --timeout is over: LVMRecovery storage/worker-1-vg1-", "has not "+
		"read the LVMRecovery yet", "run the command again. Check that the vg-manager Pod of the node runs.")
}

func TestFailedReads(t *testing.T) {
	broken := errors.New("connection refused")
	c := newCluster(t, healthyObjects("storage")...)
	c.getErrors = []error{broken, broken}
	got := plugin.runWith(t, c, "", []func(){func() {}, func() {}, c.report(awaiting(harmless)), c.report(succeeded)},
		append(repair, "--yes")...)
	prints(t, got, 0, "warning: cannot get LVMRecovery storage/worker-1-vg1-", "connection refused. Trying again.")

	// A read that fails for a long time, or before the approval, approves nothing.
	for name, failing := range map[string][]error{"always": {broken, broken, broken, broken, broken, broken, broken},
		"before the approval": {nil, nil, broken},
		"forbidden":           {apierrors.NewForbidden(schema.ParseGroupResource(recoveriesResource), "x", broken)}} {
		c = newCluster(t, healthyObjects("storage")...)
		c.getErrors = failing
		got = plugin.runWith(t, c, "", []func(){c.report(awaiting(harmless))}, append(repair, "--yes")...)
		prints(t, got, exitError, "cannot get LVMRecovery")
		if c.approvedPlan() != "" {
			t.Errorf("%s: a plan was approved", name)
		}
	}
	for _, resource := range []string{nodeStatusesResource, recoveriesResource} {
		reader := fakeReader(failing(resource, broken), healthyObjects("storage")...)
		prints(t, plugin.runWith(t, reader, "", nil, append(repair, "--yes")...), exitError, "cannot list "+resource)
	}
}

func TestARecoveryThatIsDeletedMeanwhileIsNoSuccess(t *testing.T) {
	c := newCluster(t, healthyObjects("storage")...)
	got := plugin.runWith(t, c, "", []func(){func() {
		if err := c.Delete(t.Context(), c.recovery()); err != nil {
			t.Fatal(err)
		}
	}}, append(repair, "--yes")...)
	prints(t, got, exitError, "was deleted in the meantime, so the recovery was canceled")
}

func TestFailedWritesNameThePermission(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.ParseGroupResource(recoveriesResource), "", errors.New("no role"))
	timeout := errors.New("connection reset")
	for want, err := range map[string]error{"you need the permission for the verb create on the resource " +
		"lvmrecoveries": forbidden,
		"it is unknown whether the change was saved": timeout} {
		inner, _ := newCluster(t, healthyObjects("storage")...).Client.(client.WithWatch)
		c := interceptor.NewClient(inner, interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return err
			}})
		prints(t, plugin.runWith(t, c, "", nil, append(repair, "--yes")...), exitError, want)
	}
}

func TestThePatchApprovesOnlyThePlanThatWasShown(t *testing.T) {
	recovery := waitingRecovery("storage")
	recovery.UID = "uid-7"
	want := []operation{{Op: "test", Path: "/metadata/uid", Value: types.UID("uid-7")},
		{Op: "test", Path: "/status/plan/id", Value: recovery.Status.Plan.ID}, {Op: "add", Path: "/spec/approvedPlan", Value: recovery.Status.Plan.ID}}
	for i, o := range approvalPatch(recovery) {
		if o != want[i] {
			t.Errorf("got %+v", o)
		}
	}
}

func TestARefusalOfAdmissionIsNoMissingPermission(t *testing.T) {
	for text, isPermission := range map[string]bool{
		`admission webhook "vlvmcluster.kb.io" denied the request: paths: /dev/sdb is used twice`:          false,
		"ValidatingAdmissionPolicy 'p' with binding 'p' denied request: only in the operator's namespace":  false,
		`User "jane" cannot patch resource "lvmclusters" in API group "lvm.topolvm.io" in the namespace x`: true,
	} {
		status := apierrors.NewForbidden(schema.ParseGroupResource(clustersResource), "lvmcluster", errors.New(text))
		err := explainWrite(status, "patch", clustersResource, "LVMCluster storage/lvmcluster")
		if !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "you need the permission") != isPermission {
			t.Errorf("got %v", err)
		}
	}
}

package recovery

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
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

var repair = strings.Fields("repair --node worker-1")

func TestARecoveryFromTheRequestToItsEnd(t *testing.T) {
	c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
	steps := []func(){c.Report(v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryPreparing, Message: "waits for Pod " +
		"x"}),
		c.Report(clitest.Awaiting(clitest.Harmless)),
		func() {
			if c.ApprovedPlan() != clitest.Harmless.ID {
				t.Error("the plan is not approved")
			}
			status := clitest.Awaiting(clitest.Harmless)
			status.Phase = v1alpha1.RecoveryRunning
			status.Message = "repairs"
			c.Report(status)()
		}, c.Report(clitest.Succeeded)}
	got := plugin.RunWith(t, c, "y\nyes\n", steps, repair...)
	clitest.Prints(t, got, 0, "An LVMRecovery with the action RepairThinPool is created in the namespace storage",
		"Create the LVMRecovery? [y/N]: ", "08:15:30 the node agent of worker-1 has not read the LVMRecovery yet",
		"Preparing: waits for Pod x", "Plan "+clitest.Harmless.ID+" of LVMRecovery storage/worker-1-vg1-", "No volume is lost.",
		"Approve the plan? [y/N]: ", "The plan "+clitest.Harmless.ID+" was approved.", "Running: repairs", "has ended: the pool was "+
			"repaired")
	want := v1alpha1.LVMRecoverySpec{NodeName: "worker-1", DeviceClassName: "vg1", ApprovedPlan: clitest.Harmless.ID,
		Action: v1alpha1.RecoveryRepairThinPool}
	r := c.Recovery()
	expect.Equal(t, "Spec.Action", r.Spec.Action, want.Action)
	expect.Equal(t, "Spec.NodeName", r.Spec.NodeName, want.NodeName)
	expect.Equal(t, "Spec.DeviceClassName", r.Spec.DeviceClassName, want.DeviceClassName)
	expect.Equal(t, "Namespace", r.Namespace, "storage")
	expect.Equal(t, "writes", c.Writes, 2)
}

func TestYesAloneNeverApprovesALoss(t *testing.T) {
	for _, plan := range []v1alpha1.RecoveryPlan{clitest.Losing, clitest.LosingMore,
		clitest.Planned(v1alpha1.RecoveryPlan{Repair: v1alpha1.RepairRebuild}),
		clitest.Planned(v1alpha1.RecoveryPlan{DamagedVolumes: []v1alpha1.RecoveryVolume{{Name: "a"}}})} {
		c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
		got := plugin.RunWith(t, c, "", []func(){c.Report(clitest.Awaiting(plan))}, append(repair, "--yes")...)
		clitest.Prints(t, got, session.ExitNeedsApproval, "error: the plan is not approved:", "--yes --approve-plan "+plan.ID,
			"kubectl -n storage delete lvmrecovery worker-1-vg1-")
		if c.ApprovedPlan() != "" || c.Recovery() == nil {
			t.Errorf("approved %q", c.ApprovedPlan())
		}
	}
}

func TestTheSecondRunApprovesThePlanByItsID(t *testing.T) {
	c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
	plugin.RunWith(t, c, "", []func(){c.Report(clitest.Awaiting(clitest.Losing))}, append(repair, "--yes")...)
	got := plugin.RunWith(t, c, "", nil, append(repair, "--yes", "--approve-plan", "other")...)
	clitest.Prints(t, got, session.ExitNeedsApproval, "exists already. Continuing with it.", "--approve-plan other is not the "+
		"current plan")
	got = plugin.RunWith(t, c, "", []func(){c.Report(clitest.Succeeded)}, append(repair, "--yes", "--approve-plan", clitest.Losing.ID)...)
	clitest.Prints(t, got, 0, "exists already. Continuing with it.", "The plan "+clitest.Losing.ID+" was approved.", "has ended")
	if c.ApprovedPlan() != clitest.Losing.ID {
		t.Errorf("approved %q", c.ApprovedPlan())
	}
}

func TestALossIsApprovedByTypingTheIDOfThePlan(t *testing.T) {
	for answer, code := range map[string]int{"y": session.ExitNeedsApproval, clitest.LosingMore.ID: session.ExitNeedsApproval,
		"": session.ExitNeedsApproval, clitest.Losing.ID[:7]: session.ExitNeedsApproval, clitest.Losing.ID[:8]: 0, clitest.Losing.ID: 0} {
		c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
		got := plugin.RunWith(t, c, "y\n"+answer+"\n", []func(){c.Report(clitest.Awaiting(clitest.Losing)), c.Report(clitest.Succeeded)}, repair...)
		clitest.Prints(t, got, code, "Data can be lost: 1 volume is lost. To approve the plan, type the first 8 digits of its ID: ")
		if (c.ApprovedPlan() == clitest.Losing.ID) != (code == 0) {
			t.Errorf("%q: approved %q", answer, c.ApprovedPlan())
		}
	}
}

func TestAPlanThatChangesIsShownAndAskedForAgain(t *testing.T) {
	// The plan changes while the user reads it, and again between the check and the patch.
	for name, change := range map[string]func(*clitest.Cluster){
		"before the check": func(c *clitest.Cluster) {
			c.GetErrors = []error{nil, nil} // the first reads
			c.Client = changeOnGet(c, 3, clitest.Awaiting(clitest.LosingMore))
		},
		"before the patch": func(c *clitest.Cluster) { c.BeforePatch = c.Report(clitest.Awaiting(clitest.LosingMore)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
			change(c)
			got := plugin.RunWith(t, c, "y\n"+clitest.Losing.ID+"\nno\n", []func(){c.Report(clitest.Awaiting(clitest.Losing))}, repair...)
			clitest.Prints(t, got, session.ExitNeedsApproval, "The plan has changed in the meantime. Nothing was approved.",
				"Plan "+clitest.LosingMore.ID+" of LVMRecovery", "2 volumes are LOST", "2 volumes are lost. To approve the plan, type the first 8 "+
					"digits of its ID: ")
			if c.ApprovedPlan() != "" {
				t.Errorf("approved %q", c.ApprovedPlan())
			}
		})
	}
}

// changeOnGet returns a client that reports a status before the n-th read of an LVMRecovery.
func changeOnGet(c *clitest.Cluster, n int, status v1alpha1.LVMRecoveryStatus) client.Client {
	inner, _ := c.Client.(client.WithWatch)
	return interceptor.NewClient(inner, interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch,
		key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if n--; n == 0 {
			c.Report(status)()
		}
		return w.Get(ctx, key, o, opts...)
	}})
}

func TestAPlanThatChangesAfterTheApprovalIsAskedForAgain(t *testing.T) {
	c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
	got := plugin.RunWith(t, c, "", []func(){c.Report(clitest.Awaiting(clitest.Losing)), c.Report(clitest.Awaiting(clitest.LosingMore))},
		append(repair, "--yes", "--approve-plan", clitest.Losing.ID)...)
	clitest.Prints(t, got, session.ExitNeedsApproval, "The plan "+clitest.Losing.ID+" was approved.", "--approve-plan "+clitest.Losing.ID+" is not the current plan, "+
		"which is "+clitest.LosingMore.ID)
}

func TestWithoutATerminalNothingIsCreated(t *testing.T) {
	c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
	got := plugin.RunWith(t, c, "", nil, repair...)
	clitest.Prints(t, got, session.ExitError, "nothing was changed: there is no terminal to ask on")
	got = plugin.RunWith(t, c, "n\n", nil, repair...)
	clitest.Prints(t, got, session.ExitError, "nothing was changed, because the answer was not yes")
	if c.Recovery() != nil || c.Writes != 0 {
		t.Error("something was written")
	}
}

func TestDryRunPrintsTheObjectOnly(t *testing.T) {
	c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
	got := plugin.RunWith(t, c, "", nil, append(repair, "--dry-run")...)
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
	if got.Code != 0 || got.Out != want || !strings.Contains(got.Err, "The node agent makes a plan.") {
		t.Errorf("got %+v", got)
	}
	plugin.RunWith(t, c, "", []func(){c.Report(clitest.Awaiting(clitest.Losing))}, append(repair, "--yes")...)
	writes := c.Writes
	got = plugin.RunWith(t, c, "", nil, append(repair, "--dry-run=client")...)
	if got.Code != 0 || !strings.HasPrefix(got.Out, "- op: test\n  path: /metadata/uid\n  value: uid-1\n") ||
		!strings.Contains(got.Err, "1 volume is LOST") || c.Writes != writes {
		t.Errorf("got %+v, %d writes", got, c.Writes-writes)
	}
}

func TestARecoveryThatDoesNotHelpIsRemovedAgain(t *testing.T) {
	c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
	got := plugin.RunWith(t, c, "", []func(){c.Report(clitest.Rejected)}, append(repair, "--yes")...)
	clitest.Prints(t, got, session.ExitProblems, "error: the request cannot be carried out: the action RepairThinPool does not help "+
		"on the device class vg1 on node worker-1 now: nothing to repair. LVMRecovery storage/worker-1-vg1-", "was "+
		"deleted again")
	if c.Recovery() != nil {
		t.Error("the LVMRecovery is left, and keeps others waiting")
	}
	existing := recoveryRequest{action: v1alpha1.RecoveryRepairThinPool, at: at}.object()
	existing.Name = "mine"
	existing.Status = clitest.Rejected
	c = clitest.NewCluster(t, append(clitest.HealthyObjects("storage"), existing)...)
	got = plugin.RunWith(t, c, "", nil, append(repair, "--yes")...)
	clitest.Prints(t, got, session.ExitProblems, "LVMRecovery storage/mine stays", "kubectl -n storage delete lvmrecovery mine")
	if c.Recovery() == nil {
		t.Error("an LVMRecovery of somebody else was deleted")
	}
}

func TestAnotherOpenRecoveryIsNamed(t *testing.T) {
	c := clitest.NewCluster(t, clitest.BrokenObjects("storage")...)
	got := plugin.RunWith(t, c, "", nil, "trim", "--node", "worker-2", "--yes")
	clitest.Prints(t, got, session.ExitError, "LVMRecovery storage/lost-disk (action RemoveLostDevices) of the device class vg1 on "+
		"node worker-2 has not ended: the plan "+clitest.WaitingRecovery("storage").Status.Plan.ID+" awaits approval.", "kubectl -n storage delete lvmrecovery "+
		"lost-disk")
	if c.Writes != 0 {
		t.Error("something was written")
	}
}

func TestACheckWithoutErrorsSucceeds(t *testing.T) {
	c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
	clean := v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryNotApplicable, Message: "no errors were found",
		CompletionTime: ptr.To(metav1.NewTime(clitest.Now))}
	check := strings.Fields("check --claim shop/data --yes")
	clitest.Prints(t, plugin.RunWith(t, c, "", []func(){c.Report(clean)}, check...), 0, "has ended: no errors were found")
	r := c.Recovery()
	if strings.Join(r.Spec.Volumes, " ") != "id-pvc-1" || r.Spec.NodeName != "worker-1" ||
		r.Spec.DeviceClassName != "vg1" {
		t.Errorf("got %+v", r.Spec)
	}
	r.Status.CompletionTime = nil // it has not ended yet, so the next run continues it
	c.Report(r.Status)()
	clitest.Prints(t, plugin.RunWith(t, c, "", nil, check...), session.ExitProblems, "Continuing with it")
}

func TestVolumesOfClaims(t *testing.T) {
	snapshot := clitest.Volume("snap", "worker-1", "vg1", "shop/snap")
	snapshot.Spec.AccessType = "ro"
	snapshot.Spec.Source = "pvc-1"
	c := clitest.NewCluster(t, append(clitest.BrokenObjects("storage"), snapshot)...)
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
		clitest.Prints(t, plugin.RunWith(t, c, "", nil, strings.Fields(args)...), session.ExitError, want)
	}
	if c.Writes != 0 {
		t.Error("something was written")
	}
}

func TestWithoutWaitTheCommandEndsAfterTheApproval(t *testing.T) {
	c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
	got := plugin.RunWith(t, c, "", []func(){c.Report(clitest.Awaiting(clitest.Harmless))}, append(repair, "--yes", "--wait=false")...)
	clitest.Prints(t, got, 0, "The plan "+clitest.Harmless.ID+" was approved.", "continues without this command")
	if c.ApprovedPlan() != clitest.Harmless.ID {
		t.Errorf("approved %q", c.ApprovedPlan())
	}
}

func TestTheTimeout(t *testing.T) {
	c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
	got := plugin.RunWith(t, c, "", nil, append(repair, "--yes", "--timeout", "20ms")...)
	clitest.Prints(t, got, session.ExitTimeout, "error: the time of --timeout is over: LVMRecovery storage/worker-1-vg1-", "has not "+
		"read the LVMRecovery yet", "run the command again. Check that the vg-manager Pod of the node runs.")
}

func TestFailedReads(t *testing.T) {
	broken := errors.New("connection refused")
	c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
	c.GetErrors = []error{broken, broken}
	got := plugin.RunWith(t, c, "", []func(){func() {}, func() {}, c.Report(clitest.Awaiting(clitest.Harmless)), c.Report(clitest.Succeeded)},
		append(repair, "--yes")...)
	clitest.Prints(t, got, 0, "warning: cannot get LVMRecovery storage/worker-1-vg1-", "connection refused. Trying again.")

	// A read that fails for a long time, or before the approval, approves nothing.
	for name, failing := range map[string][]error{"always": {broken, broken, broken, broken, broken, broken, broken},
		"before the approval": {nil, nil, broken},
		"forbidden":           {apierrors.NewForbidden(schema.ParseGroupResource(session.RecoveriesResource), "x", broken)}} {
		c = clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
		c.GetErrors = failing
		got = plugin.RunWith(t, c, "", []func(){c.Report(clitest.Awaiting(clitest.Harmless))}, append(repair, "--yes")...)
		clitest.Prints(t, got, session.ExitError, "cannot get LVMRecovery")
		if c.ApprovedPlan() != "" {
			t.Errorf("%s: a plan was approved", name)
		}
	}
	for _, resource := range []string{session.NodeStatusesResource, session.RecoveriesResource} {
		reader := clitest.FakeReader(clitest.Failing(resource, broken), clitest.HealthyObjects("storage")...)
		clitest.Prints(t, plugin.RunWith(t, reader, "", nil, append(repair, "--yes")...), session.ExitError, "cannot list "+resource)
	}
}

func TestARecoveryThatIsDeletedMeanwhileIsNoSuccess(t *testing.T) {
	c := clitest.NewCluster(t, clitest.HealthyObjects("storage")...)
	got := plugin.RunWith(t, c, "", []func(){func() {
		if err := c.Delete(t.Context(), c.Recovery()); err != nil {
			t.Fatal(err)
		}
	}}, append(repair, "--yes")...)
	clitest.Prints(t, got, session.ExitError, "was deleted in the meantime, so the recovery was canceled")
}

func TestFailedWritesNameThePermission(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.ParseGroupResource(session.RecoveriesResource), "", errors.New("no role"))
	timeout := errors.New("connection reset")
	for want, err := range map[string]error{"you need the permission for the verb create on the resource " +
		"lvmrecoveries": forbidden,
		"it is unknown whether the change was saved": timeout} {
		inner, _ := clitest.NewCluster(t, clitest.HealthyObjects("storage")...).Client.(client.WithWatch)
		c := interceptor.NewClient(inner, interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return err
			}})
		clitest.Prints(t, plugin.RunWith(t, c, "", nil, append(repair, "--yes")...), session.ExitError, want)
	}
}

func TestThePatchApprovesOnlyThePlanThatWasShown(t *testing.T) {
	recovery := clitest.WaitingRecovery("storage")
	recovery.UID = "uid-7"
	want := []session.Operation{{Op: "test", Path: "/metadata/uid", Value: types.UID("uid-7")},
		{Op: "test", Path: "/status/plan/id", Value: recovery.Status.Plan.ID}, {Op: "add", Path: "/spec/approvedPlan", Value: recovery.Status.Plan.ID}}
	for i, o := range approvalPatch(recovery) {
		if o != want[i] {
			t.Errorf("got %+v", o)
		}
	}
}

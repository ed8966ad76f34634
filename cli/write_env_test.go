//go:build env

package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
)

// newNamespace creates a namespace with the objects of a healthy cluster.
func newNamespace(t *testing.T, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := server.Client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	create(t, clitest.HealthyNode(name))
}

func recoveriesIn(t *testing.T, namespace string) []v1alpha1.LVMRecovery {
	t.Helper()
	all := &v1alpha1.LVMRecoveryList{}
	if err := server.Client.List(t.Context(), all, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return all.Items
}

// startAgent does what the node agent does with the LVMRecoveries of a namespace: it makes a plan, and carries it out
// if exactly this plan is approved.
func startAgent(t *testing.T, namespace string, planned v1alpha1.LVMRecoveryStatus) {
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-stopped
		_ = server.Client.DeleteAllOf(context.Background(), &v1alpha1.LVMRecovery{}, client.InNamespace(namespace))
	})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			all := &v1alpha1.LVMRecoveryList{}
			_ = server.Client.List(ctx, all, client.InNamespace(namespace))
			for i := range all.Items {
				r := &all.Items[i]
				if verdict.HasEnded(r) {
					continue
				}
				r.Status = *planned.DeepCopy()
				if plan := r.Status.Plan; plan != nil {
					plan.ID = recoveryplan.ID(r.Spec.Action, r.Spec.NodeName, r.Spec.DeviceClassName, plan)
				}
				if plan := r.Status.Plan; plan != nil && r.Spec.ApprovedPlan == plan.ID {
					r.Status.Phase = v1alpha1.RecoverySucceeded
					r.Status.Message = "done"
				}
				_ = server.Client.Status().Update(ctx, r)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
}

func planOf(plan v1alpha1.RecoveryPlan) v1alpha1.LVMRecoveryStatus {
	status := clitest.Awaiting(plan)
	status.Plan.Devices = []v1alpha1.RecoveryDevice{}
	status.Plan.CreationTime = metav1.NewTime(clitest.Now)
	return status
}

// dryRunPatch returns the JSON patch that a dry run prints, as JSON.
func dryRunPatch(t *testing.T, args ...string) []byte {
	t.Helper()
	got := runReal(t, kubeconfig(t, server.Config), append(args, "--dry-run")...)
	patch, err := yaml.YAMLToJSON([]byte(got.Out))
	if err != nil || got.Code != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
	return patch
}

func TestARecoveryOnARealAPIServer(t *testing.T) {
	const namespace = "recover"
	newNamespace(t, namespace)
	file := kubeconfig(t, server.Config)
	command := func(args string) clitest.Result {
		return runReal(t, file, append([]string{"-n", namespace}, strings.Fields(args)...)...)
	}
	clitest.Prints(t, command("repair --node worker-1"), session.ExitError, "there is no terminal to ask on")
	clitest.Prints(t, command("repair --node worker-1 --dry-run"), 0, "generateName: worker-1-vg1-")
	if found := recoveriesIn(t, namespace); len(found) > 0 {
		t.Fatalf("something was written: %+v", found)
	}
	clitest.Prints(t, command("repair --node worker-1 --yes --timeout 2s"), session.ExitTimeout, "Check that the vg-manager Pod of "+
		"the node")
	startAgent(t, namespace, planOf(clitest.Losing))
	clitest.Prints(t, command("repair --node worker-1 --yes"), session.ExitNeedsApproval, "Continuing with it", "--approve-plan "+clitest.Losing.ID)
	found := recoveriesIn(t, namespace)
	if len(found) != 1 || found[0].Spec.ApprovedPlan != "" {
		t.Fatalf("got %+v", found)
	}
	clitest.Prints(t, command("trim --node worker-1 --yes"), session.ExitError, "(action RepairThinPool) of the device class vg1 on "+
		"node")
	clitest.Prints(t, command("repair --node worker-1 --yes --approve-plan "+clitest.Losing.ID), 0, "has ended: done")
	if found := recoveriesIn(t, namespace); len(found) != 1 || found[0].Spec.ApprovedPlan != clitest.Losing.ID {
		t.Fatalf("got %+v", found)
	}
}

func TestTheObjectOfADryRunIsValid(t *testing.T) {
	const namespace = "dry-run"
	newNamespace(t, namespace)
	create(t, clitest.Volume("dry-run-1", "worker-1", "vg1", "shop/dry-run"))
	file := kubeconfig(t, server.Config)
	for _, args := range []string{"repair", "forget", "restore-labels", "restore-metadata", "trim", "import",
		"import --volume a=shop/data,b", "check --claim shop/dry-run", "check --volume a", "orphans delete --volume " +
			"vg1/a"} {
		got := runReal(t, file, strings.Fields(args+" --node worker-1 --dry-run -n "+namespace)...)
		if got.Code != 0 {
			t.Fatalf("%s: %+v", args, got)
		}
		object := &v1alpha1.LVMRecovery{}
		if err := yaml.UnmarshalStrict([]byte(got.Out), object); err != nil {
			t.Fatal(err)
		}
		if err := client.NewDryRunClient(server.Client).Create(t.Context(), object); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
	// What the CRD does not allow is shown as the API server says it.
	got := runReal(t, file, "check", "--node", "worker-1", "--volume", strings.Repeat("a", 128), "--yes", "-n", namespace)
	clitest.Prints(t, got, session.ExitError, "spec.volumes[0]: Too long")
}

func TestAnApprovalIsRefusedIfThePlanIsAnotherOne(t *testing.T) {
	const namespace = "approval"
	newNamespace(t, namespace)
	recovery := &v1alpha1.LVMRecovery{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"},
		Spec: v1alpha1.LVMRecoverySpec{NodeName: "worker-1", DeviceClassName: "vg1",
			Action: v1alpha1.RecoveryRepairThinPool}, Status: planOf(clitest.Losing)}
	create(t, recovery)
	shown := dryRunPatch(t, "repair", "--node", "worker-1", "-n", namespace)
	changed := &v1alpha1.LVMRecovery{}
	if err := server.Client.Get(t.Context(), client.ObjectKeyFromObject(recovery), changed); err != nil {
		t.Fatal(err)
	}
	changed.Status = planOf(clitest.LosingMore)
	if err := server.Client.Status().Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if err := server.Client.Patch(t.Context(), recovery, client.RawPatch(types.JSONPatchType, shown)); err == nil {
		t.Error("a plan was approved that was not shown")
	}
	if got := recoveriesIn(t, namespace); got[0].Spec.ApprovedPlan != "" {
		t.Errorf("got %+v", got[0].Spec)
	}
}

func TestRequestsOnARealAPIServer(t *testing.T) {
	const namespace = "requests"
	if err := server.Client.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	node := clitest.PairedNode(namespace, "90Gi")
	node.Status.Devices[len(node.Status.Devices)-1].VolumeGroupUUID = strings.Repeat("u", 65)
	create(t, node)
	cluster := clitest.StorageCluster(namespace)
	cluster.Spec.Storage.DeviceClasses[1].AdoptClusters = []v1alpha1.ClusterIdentity{"kept"}
	create(t, cluster)
	file := kubeconfig(t, server.Config)
	command := func(args string) clitest.Result {
		return runReal(t, file, append([]string{"-n", namespace, "--node", "worker-1", "--class", "vg1"},
			strings.Fields(args)...)...)
	}
	class := func() v1alpha1.DeviceClass {
		found := &v1alpha1.LVMCluster{}
		if err := server.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), found); err != nil {
			t.Fatal(err)
		}
		return found.Spec.Storage.DeviceClasses[1]
	}
	before := class()
	clitest.Prints(t, command("cordon --device /dev/sdb --dry-run"), 0, "op: replace\n  path: /metadata/resourceVersion")
	if len(class().DeviceRequests) > 0 {
		t.Fatal("the dry run writes")
	}
	clitest.Prints(t, command("cordon --device /dev/sdb --yes --timeout 2s"), session.ExitTimeout, "was changed.", "The request stays")
	clitest.Prints(t, command("cordon --device /dev/sdb --yes --wait=false"), 0, "Nothing is changed.")
	if got := class().DeviceRequests; len(got) != 1 || got[0] != clitest.Request("pv-b", v1alpha1.DeviceActionCordon) {
		t.Fatalf("got %+v", got)
	}
	clitest.Prints(t, command("replace --device /dev/sdb --with /dev/sdc --yes --wait=false"), 0, "was changed.")
	now := class()
	if len(now.DeviceRequests) != 1 || now.DeviceRequests[0].Action != v1alpha1.DeviceActionRemove ||
		len(now.DeviceSelector.OptionalPaths) != 2 || len(now.AdoptClusters) != 1 {
		t.Fatalf("got %+v", now)
	}
	suspend := func(verb string) clitest.Result {
		return runReal(t, file, "-n", namespace, verb, "device", "worker-1", "pv-b", "--yes", "--wait=false")
	}
	for _, verb := range []string{"suspend", "resume"} {
		clitest.Prints(t, suspend(verb), 0, "was changed.")
		clitest.Prints(t, suspend(verb), 0, "Nothing is changed.")
		if got := class().DeviceRequests; len(got) != 1 || got[0].Action != v1alpha1.DeviceActionRemove ||
			got[0].Suspend != (verb == "suspend") {
			t.Fatalf("%s: got %+v", verb, got)
		}
	}
	clitest.Prints(t, command("uncordon --device pv-b --yes --wait=false"), 0, "was changed.")
	now = class()
	now.DeviceSelector = before.DeviceSelector
	if diff := cmp.Diff(before, now); diff != "" {
		t.Error(diff)
	}
	// What the API server does not accept is shown as it says it.
	got := command("adopt --yes --volume-group " + strings.Repeat("u", 65))
	clitest.Prints(t, got, session.ExitError, "spec.storage.deviceClasses[1].adopt[0].volumeGroupUUID: Too long")
}

func TestAPatchOfAnOutdatedLVMClusterIsAConflict(t *testing.T) {
	const namespace = "conflict"
	if err := server.Client.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	cluster := clitest.StorageCluster(namespace)
	create(t, cluster)
	create(t, clitest.PairedNode(namespace, "90Gi"))
	shown := dryRunPatch(t, "adopt", "--node", "worker-1", "--volume-group", "vg-uuid-1", "-n", namespace)
	apply := func() error {
		return server.Client.Patch(t.Context(), cluster.DeepCopy(), client.RawPatch(types.JSONPatchType, shown))
	}
	changed := &v1alpha1.LVMCluster{}
	if err := server.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), changed); err != nil {
		t.Fatal(err)
	}
	classes := changed.Spec.Storage.DeviceClasses
	changed.Spec.Storage.DeviceClasses = classes[1:] // vg1 has another index now
	if err := server.Client.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if err := apply(); err == nil {
		t.Error("an outdated change was written")
	}
	changed.Spec.Storage.DeviceClasses = classes // only the version is another one
	if err := server.Client.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if err := apply(); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
}

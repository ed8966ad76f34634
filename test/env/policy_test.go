//go:build env

package env

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// A compromised node agent cannot change other nodes.
func TestAnAgentChangesItsOwnNodeOnly(t *testing.T) {
	ctx := t.Context()
	agent := func(node string) client.Client {
		config, err := server.AsNodeAgent(node)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	own := agent("n1")
	other := agent("n2")
	unbound := agent("")
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "lv"},
		Spec: topolvmv1.LogicalVolumeSpec{Name: "lv", NodeName: "n1", DeviceClass: "a",
			Size: resource.MustParse("1Gi")}}
	imported := lv.DeepCopy()
	imported.Name = "imported"
	imported.Annotations = map[string]string{lvmv1alpha1.ImportAnnotation: "existing"}
	apart := lv.DeepCopy()
	apart.Name = "apart"
	apart.Annotations = map[string]string{lvmv1alpha1.SpreadAnnotation: "node:required:a/b"}
	apart.Labels = map[string]string{lvmv1alpha1.SpreadGroupHashLabel: "0123"}
	grouped := lv.DeepCopy()
	grouped.Name = "grouped"
	grouped.Annotations = map[string]string{lvmv1alpha1.GroupPendingAnnotation: "g",
		lvmv1alpha1.PendingDeletionAnnotation: "group snapshot", lvmv1alpha1.GroupRequestAnnotation: "{}"}
	grouped.Labels = map[string]string{lvmv1alpha1.GroupLabel: "g"}
	moved := lv.DeepCopy()
	moved.Name = "moved"
	moved.Annotations = map[string]string{lvmv1alpha1.MoveAnnotation: "m", lvmv1alpha1.FenceAnnotation: "m",
		lvmv1alpha1.CopyBaseAnnotation: "s1", lvmv1alpha1.AdoptAnnotation: "t"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"a": "1"},
		Labels: map[string]string{"zone": "a"}}}
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: Namespace}}
	group := &lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: Namespace}}
	recovery := newRecovery("n1")
	succeeded := newRecovery("n1")
	succeeded.Name = "succeeded"
	for _, object := range []client.Object{lv, imported, apart, grouped, moved, node, status, group, recovery,
		succeeded} {
		if err := server.Client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			object.SetFinalizers(nil)
			object.SetResourceVersion("")
			_ = server.Client.Update(context.Background(), object)
			_ = server.Client.Delete(context.Background(), object)
		})
	}
	succeeded.Status.Phase = lvmv1alpha1.RecoverySucceeded
	if err := server.Client.Status().Update(ctx, succeeded); err != nil {
		t.Fatal(err)
	}
	patch := func(object client.Object, body string, status bool) func(c client.Client) error {
		return func(c client.Client) error {
			target := object.DeepCopyObject().(client.Object)
			p := client.RawPatch("application/merge-patch+json", []byte(body))
			if status {
				return c.Status().Patch(ctx, target, p)
			}
			return c.Patch(ctx, target, p)
		}
	}
	allowed := map[string]func(client.Client) error{
		"finalizer of a LogicalVolume": patch(lv,
			`{"metadata":{"finalizers":["topolvm.io/logicalvolume"],"annotations":{"lvm.topolvm.io/condition":"x"}}}`,
			false),
		"I/O limits that are in force": patch(lv,
			`{"metadata":{"annotations":{"lvm.topolvm.io/io-limits-in-force":"readIOPS=1"}}}`, false),
		"state of a group snapshot": patch(grouped,
			`{"metadata":{"annotations":{"lvm.topolvm.io/group-state":"{}"}}}`, false),
		"progress of a move": patch(moved,
			`{"metadata":{"annotations":{"lvm.topolvm.io/fenced":"m","lvm.topolvm.io/copied":"{}"}}}`, false),
		"label of a LogicalVolume without one": patch(lv, `{"metadata":{"labels":{"app.kubernetes.io/created-by":"x"}}}`, false),
		"encryption of an imported LogicalVolume": patch(imported,
			`{"metadata":{"annotations":{"lvm.topolvm.io/encryption":"luks2"}}}`, false),
		"trim, condition and what is suspended": patch(lv, `{"metadata":{"annotations":{"lvm.topolvm.io/trim":"{}",`+
			`"lvm.topolvm.io/condition":"x","lvm.topolvm.io/suspended-devices":"a","lvm.topolvm.io/existing-volume":"v",`+
			`"lvm.topolvm.io/earlier-staged":"/x","lvm.topolvm.io/io-limits-error":"x"}}}`, false),
		"end of an adoption": patch(moved, `{"metadata":{"annotations":{"lvm.topolvm.io/adopt":null}}}`, false),
		"reason why a volume is not fenced": patch(moved,
			`{"metadata":{"annotations":{"lvm.topolvm.io/fence-error":"in use"}}}`, false),
		"spread of an imported LogicalVolume": patch(imported, `{"metadata":{"annotations":{"lvm.topolvm.io/spread":`+
			`"node:required:a/b"},"labels":{"lvm.topolvm.io/spread-group-hash":"0123"}}}`, false),
		"status of an imported LogicalVolume": patch(imported, `{"status":{"volumeID":"existing"}}`, true),
		"status of a LogicalVolume":           patch(lv, `{"status":{"volumeID":"`+string(lv.UID)+`"}}`, true),
		"node status":                         patch(status, `{"status":{"conditions":[]}}`, true),
		"status of a recovery":                patch(recovery, `{"status":{"phase":"NotApplicable"}}`, true),
		"capacity on the Node": patch(node,
			`{"metadata":{"annotations":{"capacity.topolvm.io/a":"1","capacity.topolvm.io/b":"2"}}}`, false),
		"capacity off the Node": patch(node, `{"metadata":{"annotations":{"capacity.topolvm.io/b":null}}}`, false),
	}
	refused := map[string]func(client.Client) error{
		"volume ID of another LogicalVolume": patch(lv, `{"status":{"volumeID":"somebody-elses"}}`, true),
		"volume to import":                   patch(lv, `{"metadata":{"annotations":{"lvm.topolvm.io/import":"another"}}}`, false),
		"PersistentVolume to move": patch(lv,
			`{"metadata":{"annotations":{"lvm.topolvm.io/moved-persistentvolume":"{}"}}}`, false),
		"suspension of a volume": patch(lv, `{"metadata":{"annotations":{"lvm.topolvm.io/suspended":""}}}`,
			false),
		"I/O limits of a volume": patch(lv,
			`{"metadata":{"annotations":{"lvm.topolvm.io/io-limits":"readIOPS=1"}}}`, false),
		"request of a group snapshot": patch(grouped,
			`{"metadata":{"annotations":{"lvm.topolvm.io/group-request":"{\"phase\":\"Keep\"}"}}}`, false),
		"completion of a group snapshot": patch(grouped,
			`{"metadata":{"annotations":{"lvm.topolvm.io/group-pending":null}}}`, false),
		"an agent without group snapshots is let in": patch(grouped,
			`{"metadata":{"annotations":{"topolvm.io/pendingdeletion":null}}}`, false),
		"source of a group snapshot": patch(grouped,
			`{"metadata":{"annotations":{"lvm.topolvm.io/group-source":"x"}}}`, false),
		"group of a LogicalVolume": patch(lv, `{"metadata":{"labels":{"lvm.topolvm.io/group-snapshot":"g"}}}`, false),
		"spread of a LogicalVolume": patch(lv,
			`{"metadata":{"annotations":{"lvm.topolvm.io/spread":"node:required:a/b"}}}`, false),
		"fence of a volume":       patch(moved, `{"metadata":{"annotations":{"lvm.topolvm.io/fence":null}}}`, false),
		"time of a fence":         patch(moved, `{"metadata":{"annotations":{"lvm.topolvm.io/fence-time":"x"}}}`, false),
		"label of a move":         patch(moved, `{"metadata":{"labels":{"lvm.topolvm.io/move":"x"}}}`, false),
		"clone of a fence":        patch(moved, `{"metadata":{"annotations":{"lvm.topolvm.io/fence-for":"x"}}}`, false),
		"source of a clone":       patch(lv, `{"metadata":{"annotations":{"lvm.topolvm.io/clone-volume":"x"}}}`, false),
		"another fence":           patch(lv, `{"metadata":{"annotations":{"lvm.topolvm.io/fence":"m"}}}`, false),
		"base of a round":         patch(moved, `{"metadata":{"annotations":{"lvm.topolvm.io/copy-base":"s2"}}}`, false),
		"volume of a target":      patch(moved, `{"metadata":{"annotations":{"lvm.topolvm.io/move-volume":"x"}}}`, false),
		"retirement of a volume":  patch(lv, `{"metadata":{"annotations":{"lvm.topolvm.io/retire":"x/m"}}}`, false),
		"adoption of a volume":    patch(lv, `{"metadata":{"annotations":{"lvm.topolvm.io/adopt":"t"}}}`, false),
		"another volume to adopt": patch(moved, `{"metadata":{"annotations":{"lvm.topolvm.io/adopt":"t2"}}}`, false),
		"move of an object":       patch(moved, `{"metadata":{"annotations":{"lvm.topolvm.io/move":null}}}`, false),
		"another spread": patch(apart,
			`{"metadata":{"annotations":{"lvm.topolvm.io/spread":"node:preferred:a/b"}}}`, false),
		"no spread": patch(apart, `{"metadata":{"annotations":{"lvm.topolvm.io/spread":null}}}`, false),
		"another spread group": patch(apart,
			`{"metadata":{"labels":{"lvm.topolvm.io/spread-group-hash":"4567"}}}`, false),
		"another volume than the one to import": patch(imported, `{"status":{"volumeID":"somebody-elses"}}`, true),
		"the annotation for the import is removed": patch(imported,
			`{"metadata":{"annotations":{"lvm.topolvm.io/import":null}}}`, false),
		"size of a LogicalVolume": patch(lv, `{"spec":{"size":"2Gi"}}`, false),
		"node of a LogicalVolume": patch(lv, `{"spec":{"nodeName":"n2"}}`, false),
		"finalizer of a volume group": patch(group,
			`{"metadata":{"finalizers":["`+lvmv1alpha1.NodeCleanupPrefix+`n1"]}}`, false),
		"a recovery that has succeeded runs again": patch(succeeded, `{"status":{"phase":"Running"}}`, true),
		"condition of the operator on a recovery": patch(recovery, `{"status":{"conditions":[{"type":"ObjectsCreated",`+
			`"status":"False","reason":"x","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, true),
		"approval of a recovery":   patch(recovery, `{"spec":{"approvedPlan":"a"}}`, false),
		"spec of a volume group":   patch(group, `{"spec":{"default":true}}`, false),
		"labels of a volume group": patch(group, `{"metadata":{"labels":{"a":"b"}}}`, false),
		"labels of devices":        patch(status, `{"spec":{"deviceLabels":[{"id":"wwn:0x1","labels":{"tier":"fast"}}]}}`, false),
		"labels of the Node": patch(node,
			`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`, false),
		"spec of the Node": patch(node, `{"spec":{"unschedulable":true}}`, false),
		"owner of the Node": patch(node, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace",`+
			`"name":"gone","uid":"u"}]}}`, false),
		"finalizer of the Node": patch(node, `{"metadata":{"finalizers":["example.com/x"]}}`, false),
		"owner of a LogicalVolume": patch(lv, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace",`+
			`"name":"gone","uid":"u"}]}}`, false),
		"finalizer of somebody else":          patch(lv, `{"metadata":{"finalizers":["example.com/x"]}}`, false),
		"claim of a LogicalVolume":            patch(lv, `{"metadata":{"annotations":{"lvm.topolvm.io/claim":"a/b"}}}`, false),
		"deletion by the operator":            patch(lv, `{"metadata":{"annotations":{"lvm.topolvm.io/copy-for":"nothing"}}}`, false),
		"permission to delete":                patch(lv, `{"metadata":{"annotations":{"lvm.topolvm.io/allow-deletion":"true"}}}`, false),
		"an annotation of a later version":    patch(lv, `{"metadata":{"annotations":{"lvm.topolvm.io/later":"x"}}}`, false),
		"encryption of a volume":              patch(lv, `{"metadata":{"annotations":{"lvm.topolvm.io/encryption":"luks2"}}}`, false),
		"a label of a LogicalVolume":          patch(lv, `{"metadata":{"labels":{"a":"b"}}}`, false),
		"another annotation of the Node":      patch(node, `{"metadata":{"annotations":{"a":"2"}}}`, false),
		"another annotation taken off a Node": patch(node, `{"metadata":{"annotations":{"a":null}}}`, false),
	}
	// An agent changes nothing of a volume group, because of a policy or because no role allows it.
	denied := func(err error) bool {
		return err != nil && (strings.Contains(err.Error(), "a node agent") ||
			apierrors.IsForbidden(err) && (strings.Contains(err.Error(), `cannot patch resource "lvmvolumegroups"`) ||
				strings.Contains(err.Error(), `cannot patch resource "lvmvolumegroupnodestatuses" `) ||
				strings.Contains(err.Error(), `cannot patch resource "lvmrecoveries"`)))
	}
	// The API server needs a moment to apply roles and policies.
	holds := func() bool {
		ready := allowed["node status"](own) == nil && allowed["status of a LogicalVolume"](own) == nil &&
			allowed["capacity off the Node"](own) == nil &&
			denied(allowed["node status"](other)) && denied(allowed["status of a LogicalVolume"](other)) &&
			denied(refused["spec of the Node"](own)) && denied(refused["spec of a volume group"](own))
		for _, undo := range []func(client.Client) error{patch(node, `{"spec":{"unschedulable":null}}`, false),
			patch(group, `{"spec":{"default":false}}`, false)} {
			if err := undo(server.Client); err != nil {
				t.Fatal(err)
			}
		}
		return ready
	}
	for deadline := time.Now().Add(Patience); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the policies do not hold")
		}
	}
	for _, what := range slices.Sorted(maps.Keys(allowed)) {
		for name, c := range map[string]client.Client{"another node": other, "no node": unbound} {
			if err := allowed[what](c); !denied(err) {
				t.Errorf("%s from %s: %v", what, name, err)
			}
		}
		if err := allowed[what](own); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, do := range refused {
		if err := do(own); !denied(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// What the administrator has changed can allow more to the agent, so this is last.
	for what, do := range refused {
		if err := do(server.Client); err != nil && !strings.Contains(err.Error(), "mmutable") {
			t.Errorf("%s by an administrator: %v", what, err)
		}
	}
}

func newRecovery(node string) *lvmv1alpha1.LVMRecovery {
	return &lvmv1alpha1.LVMRecovery{
		ObjectMeta: metav1.ObjectMeta{Name: "recovery", Namespace: Namespace},
		Spec: lvmv1alpha1.LVMRecoverySpec{NodeName: node, DeviceClassName: "a",
			Action: lvmv1alpha1.RecoveryRemoveLostDevices},
	}
}

// DeleteOrphans needs the names of volumes, which cannot be changed, and no other action has them.
func TestTheVolumesOfARecovery(t *testing.T) {
	ctx := t.Context()
	for name, test := range map[string]struct {
		action  lvmv1alpha1.RecoveryAction
		volumes []string
	}{
		"no volumes":       {lvmv1alpha1.RecoveryDeleteOrphans, nil},
		"the same twice":   {lvmv1alpha1.RecoveryDeleteOrphans, []string{"a", "a"}},
		"an empty name":    {lvmv1alpha1.RecoveryDeleteOrphans, []string{""}},
		"another action":   {lvmv1alpha1.RecoveryRemoveLostDevices, []string{"a"}},
		"too many volumes": {lvmv1alpha1.RecoveryDeleteOrphans, strings.Split(strings.Repeat("a,", 1001), ",")},
	} {
		recovery := newRecovery("n1")
		recovery.Spec.Action, recovery.Spec.Volumes = test.action, test.volumes
		if err := server.Client.Create(ctx, recovery); err == nil || !strings.Contains(err.Error(), "volumes") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	recovery := newRecovery("n1")
	recovery.Spec.Action, recovery.Spec.Volumes = lvmv1alpha1.RecoveryDeleteOrphans, []string{"a"}
	if err := server.Client.Create(ctx, recovery); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Client.Delete(context.Background(), recovery) })
	for name, volumes := range map[string][]string{"another volume": {"a", "b"}, "none": nil} {
		changed := recovery.DeepCopy()
		changed.Spec.Volumes = volumes
		if err := server.Client.Update(ctx, changed); err == nil || !strings.Contains(err.Error(), "volumes") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The approval of a plan is for one node, device class and action.
func TestARecoveryKeepsItsTarget(t *testing.T) {
	ctx := t.Context()
	recovery := newRecovery("n1")
	if err := server.Client.Create(ctx, recovery); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Client.Delete(context.Background(), recovery) })
	for name, edit := range map[string]func(*lvmv1alpha1.LVMRecoverySpec){
		"nodeName":        func(s *lvmv1alpha1.LVMRecoverySpec) { s.NodeName = "n2" },
		"deviceClassName": func(s *lvmv1alpha1.LVMRecoverySpec) { s.DeviceClassName = "b" },
		"action":          func(s *lvmv1alpha1.LVMRecoverySpec) { s.Action = "Other" },
	} {
		changed := recovery.DeepCopy()
		edit(&changed.Spec)
		err := server.Client.Update(ctx, changed)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	recovery.Spec.ApprovedPlan = "abc"
	if err := server.Client.Update(ctx, recovery); err != nil {
		t.Error(err)
	}
}

//go:build env

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/test/env"
)

// bind creates a role for people, and gives it to a user of this name.
func bind(t *testing.T, role *rbacv1.ClusterRole) {
	t.Helper()
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role.Name}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{user}}
	if err := server.Client.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	if err := server.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
}

func TestEachCommandRunsWithTheRoleThatTheDocumentationNames(t *testing.T) {
	const namespace = "roles"
	if err := server.Client.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	create(t, clitest.PairedNode(namespace, "90Gi"))
	create(t, clitest.Volume("roles-1", "worker-1", "vg1", "shop/roles"))
	for _, role := range userRoles(t) {
		bind(t, role)
	}
	file := kubeconfig(t, server.Config)
	as := func(user, args string) clitest.Result {
		return runReal(t, file, append(strings.Fields(args), "--as", user, "-n", namespace)...)
	}
	clitest.Prints(t, as("lvms-view", "init --yes"), session.ExitError, "the verb create on the resource lvmclusters")
	clitest.Prints(t, as("lvms-edit", "init --dry-run"), 0, "kind: LVMCluster")
	clitest.Prints(t, as("lvms-edit", "init --yes"), 0, "LVMCluster roles/my-lvmcluster was created.")
	clitest.Prints(t, as("lvms-edit", "init --yes"), session.ExitError, "LVMCluster roles/my-lvmcluster already exists")
	created := &v1alpha1.LVMCluster{}
	if err := server.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "my-lvmcluster"},
		created); err != nil || len(created.Spec.Storage.DeviceClasses) > 0 {
		t.Fatalf("got %+v, %v", created.Spec, err)
	}
	if err := server.Client.Delete(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	create(t, clitest.StorageCluster(namespace))
	for _, user := range []string{"lvms-view", "lvms-edit"} {
		for _, args := range []string{"devices", "classes", "orphans", "repair --node worker-1 --dry-run",
			"check --claim shop/roles --dry-run", "drain --node worker-1 --device /dev/sdb --dry-run"} {
			clitest.Prints(t, as(user, args), 0)
		}
		clitest.Prints(t, runReal(t, file, "volumes", "--as", user), 0, "shop/roles")
		if got := as(user, "status"); got.Code == session.ExitError {
			t.Errorf("%s: %+v", user, got)
		}
	}
	clitest.Prints(t, as("lvms-view", "repair --node worker-1 --yes"), session.ExitError,
		"you need the permission for the verb create on "+
			"the resource lvmrecoveries of the API group lvm.topolvm.io")
	clitest.Prints(t, as("lvms-view", "drain --node worker-1 --device /dev/sdb --yes"), session.ExitError,
		"you need the permission for the "+
			"verb patch on the resource lvmclusters of the API group lvm.topolvm.io")
	// Here, -n is the namespace of the claims.
	pv := clitest.PersistentVolumeOf("roles-earlier", wellknown.EarlierDriverName, "shop/earlier")
	create(t, pv)
	clitest.Prints(t, as("lvms-view", "migrate --all"), 0, "No volume to migrate")
	clitest.Prints(t, runReal(t, file, "migrate", "--all", "--dry-run", "--as", "lvms-view"), 0,
		"lvm.topolvm.io/migrate: \"true\"")
	for _, user := range []string{"lvms-view", "lvms-edit"} {
		clitest.Prints(t, runReal(t, file, "migrate", "shop/earlier", "--yes", "--as", user), session.ExitError,
			"you need the permission for the verb patch on the resource persistentvolumes")
	}
	clitest.Prints(t, runReal(t, file, "migrate", "shop/earlier", "--yes", "--wait=false", "--as", "lvms-migrate"), 0,
		"The migration of PersistentVolume roles-earlier was requested.")
	clitest.Prints(t, runReal(t, file, "migrate", "shop/earlier", "--yes", "--timeout", "2s", "--as", "lvms-migrate"), session.ExitTimeout,
		"the operator has not begun")
	suspendAsRoles(t, file)
	requestAsRoles(t)
	labelAsRoles(t, namespace, as)
	// Who approves devices does not change the configuration, and the other way round.
	const approval = "approve --node worker-2 --device /dev/sdc --yes"
	waiting := clitest.WaitingNode(namespace)
	waiting.Name = "worker-2"
	create(t, waiting)
	for _, user := range []string{"lvms-view", "lvms-edit"} {
		clitest.Prints(t, as(user, "approve"), 0, "AwaitingApproval")
		clitest.Prints(t, as(user, approval), session.ExitError, "you need the permission for the verb create on the resource "+
			"lvmdeviceapprovals of the API group lvm.topolvm.io")
	}
	clitest.Prints(t, as("lvms-approve", approval), 0, "The user lvms-approve approves", "was created.")
	clitest.Prints(t, as("lvms-approve", approval), 0, "already exists: lvms-approve approved the device")
	clitest.Prints(t, as("lvms-approve", "cordon --node worker-1 --device /dev/sdb --yes"), session.ExitError,
		"the verb patch on the resource lvmclusters")
	review := as("lvms-view", "discover --node worker-2")
	reviewFile := filepath.Join(t.TempDir(), "review.yaml")
	if err := os.WriteFile(reviewFile, []byte(strings.ReplaceAll(review.Out, "select: false", "select: true")),
		0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Prints(t, as("lvms-edit", "init "+reviewFile+" --class data --thin-pool pool --approve=false --yes"), 0,
		"before it is approved", "was changed.")
	clitest.Prints(t, as("lvms-edit", "init "+reviewFile+" --class data --yes"), session.ExitError, "already has the device class data")
	// It creates, approves and follows a recovery, and deletes one that does not help.
	clitest.Prints(t, as("lvms-edit", "trim --node worker-1 --yes --timeout 2s"), session.ExitTimeout)
	startAgent(t, namespace, planOf(clitest.Harmless))
	clitest.Prints(t, as("lvms-edit", "trim --node worker-1 --yes"), 0, "was approved.", "has ended")
	clitest.Prints(t, as("lvms-edit", "cordon --node worker-1 --device /dev/sdb --yes --timeout 2s"), session.ExitTimeout,
		"was changed.")
	clitest.Prints(t, as("lvms-edit", "uncordon --node worker-1 --device /dev/sdb --yes"), 0, "was changed.", "Done")
}

func TestARecoveryThatDoesNotHelpIsDeletedOnARealAPIServer(t *testing.T) {
	const namespace = "no-help"
	newNamespace(t, namespace)
	startAgent(t, namespace, v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryNotApplicable,
		Message: "nothing to do"})
	got := runReal(t, kubeconfig(t, server.Config), "repair", "--node", "worker-1", "--yes", "-n", namespace)
	clitest.Prints(t, got, session.ExitProblems, "nothing to do", "was deleted again")
	if found := recoveriesIn(t, namespace); len(found) > 0 {
		t.Errorf("got %+v", found)
	}
}

// suspendAsRoles suspends and resumes a volume as each of the roles for people. None of them may list Pods.
func suspendAsRoles(t *testing.T, file string) {
	t.Helper()
	lv := clitest.Volume("roles-suspend", "worker-1", "vg1", "shop/suspend")
	lv.Finalizers = nil
	create(t, lv)
	create(t, clitest.BoundTo("roles-suspend", "shop/suspend"))
	volumes := func(user, verb string, more ...string) clitest.Result {
		return runReal(t, file, append([]string{verb, "volume", "shop/suspend", "--as", user}, more...)...)
	}
	clitest.Prints(t, volumes("lvms-view", "suspend", "--dry-run"), 0, "You may not list Pods in the namespace shop",
		"lvm.topolvm.io/suspended: ")
	clitest.Prints(t, volumes("lvms-view", "suspend", "--yes"), session.ExitError, "you need the permission for the verb patch on the "+
		"resource logicalvolumes of the API group topolvm.io")
	suspended := func() bool {
		found := &topolvmv1.LogicalVolume{}
		if err := server.Client.Get(t.Context(), client.ObjectKeyFromObject(lv), found); err != nil {
			t.Fatal(err)
		}
		return strings.HasPrefix(found.Annotations[wellknown.SuspendedAnnotation], "by lvms-edit at ")
	}
	clitest.Prints(t, volumes("lvms-edit", "suspend", "--yes"), 0, "was suspended.")
	clitest.Prints(t, volumes("lvms-edit", "suspend", "--yes"), 0, "is suspended already, by lvms-edit at ")
	if !suspended() {
		t.Error("the volume is not suspended")
	}
	clitest.Prints(t, volumes("lvms-edit", "resume", "--yes"), 0, "was resumed.")
	clitest.Prints(t, volumes("lvms-edit", "resume", "--yes"), 0, "is not suspended.")
	if suspended() {
		t.Error("the volume is suspended")
	}
}

// requestAsRoles makes requests in the name of the operator as the user of lvms-edit, who may change LogicalVolumes.
func requestAsRoles(t *testing.T) {
	t.Helper()
	if err := server.InstallPolicies("openshift-lvm-storage"); err != nil {
		t.Fatal(err)
	}
	lv := clitest.Volume("roles-request", "worker-1", "vg1", "shop/request")
	lv.Finalizers = nil
	lv.Annotations[wellknown.FenceAnnotation] = "m"
	lv.Labels = map[string]string{wellknown.MoveLabel: "m"}
	create(t, lv)
	as := func(user string) client.Client {
		config := rest.CopyConfig(server.Config)
		config.Impersonate.UserName = user
		c, err := session.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	change := func(user, body string) error {
		return as(user).Patch(t.Context(), lv.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body)),
			client.DryRunAll)
	}
	annotation := func(key, value string) string {
		return `{"metadata":{"annotations":{"` + key + `":` + value + `}}}`
	}
	refused := map[string]string{
		annotation(wellknown.MovedVolumeAnnotation, `"{}"`):             "only the operator can set the annotation",
		annotation(wellknown.CopyForAnnotation, `"nothing"`):            "users can change only",
		annotation(wellknown.MoveAnnotation, `"nothing"`):               "users can change only",
		annotation(wellknown.ImportAnnotation, `"x"`):                   "users can change only",
		annotation(wellknown.ClaimAnnotation, `"a/b"`):                  "users can change only",
		annotation(wellknown.ClaimAnnotation, `null`):                   "users can change only",
		annotation(wellknown.FenceAnnotation, `null`):                   "users can change only",
		annotation("lvm.topolvm.io/later", `"x"`):                       "users can change only",
		`{"metadata":{"labels":{"lvm.topolvm.io/move":"x"}}}`:           "users can change only",
		`{"metadata":{"labels":{"lvm.topolvm.io/move":null}}}`:          "users can change only",
		`{"metadata":{"labels":{"lvm.topolvm.io/group-snapshot":"x"}}}`: "users can change only",
		`{"spec":{"nodeName":"worker-2"}}`:                              "users cannot change the spec",
		`{"spec":{"size":"100Gi"}}`:                                     "users cannot change the spec",
	}
	allowed := []string{annotation(wellknown.SuspendedAnnotation, `"x"`), annotation(wellknown.AllowDeletionAnnotation, `"true"`),
		annotation("example.com/note", `"x"`), `{"metadata":{"labels":{"team":"a"}}}`}
	// The API server needs a moment to enforce a new policy.
	for end := time.Now().Add(env.Patience); ; time.Sleep(100 * time.Millisecond) {
		if err := change("lvms-edit", annotation(wellknown.CopyForAnnotation, `"nothing"`)); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the policy does not hold")
		}
	}
	for body, says := range refused {
		if err := change("lvms-edit", body); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", body, err, says)
		}
		if err := change("", body); err != nil && !strings.Contains(err.Error(), "mmutable") {
			t.Errorf("%s by an administrator: %v", body, err)
		}
	}
	for _, body := range allowed {
		if err := change("lvms-edit", body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	// Who can create LogicalVolumes, but no PersistentVolumes, does not have the operator create one.
	bind(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "creator"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"topolvm.io"}, Resources: []string{"logicalvolumes"}, Verbs: []string{"create", "patch", "get"}}}})
	forged := clitest.Volume("roles-forged", "worker-1", "vg1", "shop/forged")
	forged.Annotations[wellknown.MovedVolumeAnnotation] = "{}"
	const says = "only the operator can set the annotation"
	for end := time.Now().Add(env.Patience); ; time.Sleep(100 * time.Millisecond) {
		err := as("creator").Create(t.Context(), forged.DeepCopy(), client.DryRunAll)
		if err != nil && strings.Contains(err.Error(), says) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("got %v, want %q", err, says)
		}
	}
	if err := change("creator", annotation(wellknown.CopyForAnnotation, `"nothing"`)); err != nil {
		t.Error(err)
	}
}

// labelAsRoles labels a device as each of the roles for people. as runs a command as a user.
func labelAsRoles(t *testing.T, namespace string, as func(user, args string) clitest.Result) {
	t.Helper()
	const label = "label worker-1 /dev/sdc tier=fast example.com/rack="
	clitest.Prints(t, as("lvms-view", label+" --dry-run"), 0, "id: wwn:0x3", "example.com/rack: \"\"")
	for _, user := range []string{"lvms-view", "lvms-approve"} {
		clitest.Prints(t, as(user, label+" --yes"), session.ExitError, "you need the permission for the verb patch on the resource "+
			"lvmvolumegroupnodestatuses of the API group lvm.topolvm.io")
	}
	read := func() *v1alpha1.LVMVolumeGroupNodeStatus {
		found := &v1alpha1.LVMVolumeGroupNodeStatus{}
		if err := server.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "worker-1"},
			found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := read()
	if len(before.Spec.DeviceLabels) > 0 {
		t.Fatalf("got %+v", before.Spec)
	}
	clitest.Prints(t, as("lvms-edit", label+" --yes"), 0, "The labels of the device /dev/sdc (wwn:0x3) of node worker-1 were")
	clitest.Prints(t, as("lvms-edit", label+" --yes"), 0, "already has these labels")
	want := []v1alpha1.DeviceLabels{{ID: "wwn:0x3",
		Labels: v1alpha1.DeviceLabelSet{"tier": "fast", "example.com/rack": ""}}}
	after := read()
	if diff := cmp.Diff(want, after.Spec.DeviceLabels) + cmp.Diff(before.Status, after.Status); diff != "" {
		t.Error(diff)
	}
	many := ""
	for _, key := range strings.Split("abcdefghijklmno", "") {
		many += " " + key + "=1"
	}
	clitest.Prints(t, as("lvms-edit", "label worker-1 wwn:0x3"+many+" --yes"), session.ExitError,
		"spec.deviceLabels[0].labels: Too many: 17", "LVMVolumeGroupNodeStatus "+namespace+"/worker-1")
	clitest.Prints(t, as("lvms-edit", "label worker-1 /dev/sdc tier=slow --overwrite --yes"), 0, "- tier=fast", "+ tier=slow")
	clitest.Prints(t, as("lvms-edit", "label worker-1 /dev/sdc tier- example.com/rack- --yes"), 0, "- tier=slow")
	if got := read(); len(got.Spec.DeviceLabels) > 0 {
		t.Errorf("got %+v", got.Spec)
	}
	// Only the node agent and the operator write the status.
	config := rest.CopyConfig(server.Config)
	config.Impersonate.UserName = "lvms-edit"
	editor, err := session.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"devices":[]}}`))
	if err := editor.Status().Patch(t.Context(), read(), patch); !apierrors.IsForbidden(err) {
		t.Errorf("the status was changed: %v", err)
	}
}

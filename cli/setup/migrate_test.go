package setup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

func earlierVolumes() []client.Object {
	return []client.Object{clitest.PersistentVolumeOf("pvc-2", wellknown.EarlierDriverName, "web/cache"),
		clitest.PersistentVolumeOf("pvc-1", wellknown.EarlierDriverName, "shop/data"),
		clitest.PersistentVolumeOf("pvc-3", wellknown.DriverName, "shop/new"),
		clitest.PersistentVolumeOf("pvc-4", "example.com", "shop/other"),
		clitest.PersistentVolumeOf("pvc-5", wellknown.EarlierDriverName, "")}
}

func TestClaimsToMigrate(t *testing.T) {
	for name, test := range map[string]struct {
		args      []string
		all       bool
		namespace string
		want      string
		says      string
	}{
		"all":             {all: true, want: ""},
		"qualified":       {args: []string{"shop/data", "web/cache", "shop/data"}, want: "shop/data web/cache"},
		"namespace":       {args: []string{"data", "shop/new"}, namespace: "shop", want: "shop/data shop/new"},
		"nothing":         {says: "give the claims whose volumes are migrated, or --all"},
		"both":            {args: []string{"shop/data"}, all: true, says: "or --all"},
		"no namespace":    {args: []string{"data"}, says: "give it with -n, or as NAMESPACE/data"},
		"two namespaces":  {args: []string{"shop/data"}, namespace: "web", says: "is not in the namespace web of -n"},
		"not a claim":     {args: []string{"a/b/c"}, says: `"a/b/c" is not a claim`},
		"empty name":      {args: []string{"shop/"}, says: "is not a claim"},
		"empty namespace": {args: []string{"/data"}, says: "is not a claim"},
	} {
		got, err := claimsOf(test.args, test.all, test.namespace)
		if strings.Join(got, " ") != test.want || (err != nil) != (test.says != "") ||
			err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestVolumesToMigrate(t *testing.T) {
	var pvs []corev1.PersistentVolume
	for _, object := range earlierVolumes() {
		pv, _ := object.(*corev1.PersistentVolume)
		pvs = append(pvs, *pv)
	}
	for name, test := range map[string]struct {
		claims    []string
		namespace string
		want      string
		note      string
		says      string
	}{
		"all":         {want: "pvc-1 pvc-2"},
		"a namespace": {namespace: "web", want: "pvc-2"},
		"none":        {namespace: "empty"},
		"a claim":     {claims: []string{"web/cache"}, want: "pvc-2"},
		"already migrated": {claims: []string{"shop/new", "shop/data"}, want: "pvc-1",
			note: "pvc-3 of the claim shop/new"},
		"another driver": {claims: []string{"shop/other"}, says: `has the driver "example.com": only volumes`},
		"unknown":        {claims: []string{"shop/x"}, says: "no PersistentVolume is for the claim shop/x"},
	} {
		got, notes, err := chooseMigrations(pvs, test.claims, test.namespace)
		var names []string
		for _, pv := range got {
			names = append(names, pv.Name)
		}
		expect.Equal(t, name+`: Join(names, " ")`, strings.Join(names, " "), test.want)
		expect.Equal(t, name+": err != nil", err != nil, test.says != "")
		if err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, %v, %v", name, names, notes, err)
		}
		expect.Contains(t, name+`: Join(notes, " ")`, strings.Join(notes, " "), test.note)
		if len(notes) > 0 && test.note == "" {
			t.Errorf("%s: got %v, %v, %v", name, names, notes, err)
		}
	}
}

func TestTheStateOfAMigration(t *testing.T) {
	for name, test := range map[string]struct {
		edit  func(*corev1.PersistentVolume)
		state session.RequestState
		says  string
	}{
		"requested": {func(*corev1.PersistentVolume) {}, session.RequestPending, "the operator has not begun"},
		"waiting": {func(pv *corev1.PersistentVolume) { pv.Annotations[wellknown.MigrationAnnotation] = "waiting: x" },
			session.RequestPending, "waiting: x"},
		"blocked": {func(pv *corev1.PersistentVolume) {
			pv.Annotations[wellknown.MigrationAnnotation] = view.MigrationBlockedPrefix + "a Pod"
		}, session.RequestBlocked, "blocked: a Pod"},
		"withdrawn": {func(pv *corev1.PersistentVolume) { pv.Annotations = nil }, session.RequestBlocked, "withdrawn"},
		"does not exist": {func(pv *corev1.PersistentVolume) { *pv = corev1.PersistentVolume{} }, session.RequestPending,
			"recreated"},
		"being deleted": {func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = ptr.To(metav1.Now()) },
			session.RequestPending, "recreated"},
		"migrated": {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = wellknown.DriverName }, session.RequestDone,
			"migrated"},
	} {
		pv := clitest.PersistentVolumeOf("pvc-1", wellknown.EarlierDriverName, "shop/data")
		pv.Annotations = map[string]string{wellknown.MigrateAnnotation: "true"}
		test.edit(pv)
		if state, text := migrationState(pv); state != test.state || !strings.Contains(text, test.says) {
			t.Errorf("%s: got %v, %q", name, state, text)
		}
	}
}

// requestedIn returns the names of the PersistentVolumes whose migration is requested.
func requestedIn(t *testing.T, c client.Client) string {
	t.Helper()
	all := &corev1.PersistentVolumeList{}
	if err := c.List(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range all.Items {
		if view.MigrationRequested(&all.Items[i]) {
			names = append(names, all.Items[i].Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// setPV changes a PersistentVolume like the operator.
func setPV(t *testing.T, c client.Client, name string, edit func(*corev1.PersistentVolume)) func() {
	return func() {
		pv := &corev1.PersistentVolume{}
		err := c.Get(context.Background(), client.ObjectKey{Name: name}, pv)
		edit(pv)
		if err = errors.Join(err, c.Update(context.Background(), pv)); err != nil {
			t.Error(err)
		}
	}
}

func TestMigrationsAreRequestedAfterAQuestion(t *testing.T) {
	c := clitest.FakeReader(nil, earlierVolumes()...)
	got := plugin.Run(t, c, "migrate", "--all", "--dry-run")
	expect.Equal(t, "code", got.Code, 0)
	expect.Equal(t, "requestedIn(t, c)", requestedIn(t, c), "")
	expect.Contains(t, "out", got.Out, "uid: uid-pvc-1")
	expect.Contains(t, "out", got.Out, "\n---\n# merge patch of PersistentVolume pvc-2\n")
	expect.Contains(t, "err", got.Err, "pvc-1 of the claim shop/data: 20Gi on node worker-1")
	if got := plugin.Run(t, c, "migrate", "--all"); got.Code != session.ExitError || requestedIn(t, c) != "" ||
		!strings.Contains(got.Err, "no terminal") {
		t.Errorf("no terminal: got %+v", got)
	}
	if got := plugin.RunWith(t, c, "n\n", nil, "migrate", "--all"); got.Code != session.ExitError || requestedIn(t, c) != "" ||
		!strings.Contains(got.Out, "Migrate 2 volumes?") {
		t.Errorf("the answer no: got %+v", got)
	}
	got = plugin.RunWith(t, c, "y\n", nil, "migrate", "-n", "shop", "data", "--wait=false")
	if got.Code != 0 || requestedIn(t, c) != "pvc-1" || !strings.Contains(got.Out, "pvc-1 was requested") {
		t.Errorf("got %+v, requested %s", got, requestedIn(t, c))
	}
	if got := plugin.Run(t, c, "migrate", "shop/new", "--yes"); got.Code != 0 ||
		!strings.Contains(got.Err, "has the driver topolvm.io already") || requestedIn(t, c) != "pvc-1" {
		t.Errorf("a volume of this driver: got %+v", got)
	}
	if got := plugin.Run(t, c, "migrate", "--all", "--yes", "--timeout", "0s"); got.Code != session.ExitError ||
		!strings.Contains(got.Err, "--timeout") {
		t.Errorf("got %+v", got)
	}
}

func TestAMigrationIsFollowed(t *testing.T) {
	c := clitest.FakeReader(nil, earlierVolumes()...)
	blocked := func(pv *corev1.PersistentVolume) {
		pv.Annotations[wellknown.MigrationAnnotation] = view.MigrationBlockedPrefix + "Pod shop/db uses claim shop/data"
	}
	done := func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = wellknown.DriverName }
	steps := []func(){setPV(t, c, "pvc-1", blocked), setPV(t, c, "pvc-2", done), func() {}}
	got := plugin.RunWith(t, c, "", steps, "migrate", "--all", "--yes")
	expect.Equal(t, "code", got.Code, session.ExitProblems)
	expect.Contains(t, "out", got.Out, "web/cache: migrated")
	expect.Contains(t, "out", got.Out, "shop/data: blocked: Pod shop/db uses claim shop/data")
	expect.Contains(t, "err", got.Err, "1 migration is blocked")
	expect.Contains(t, "err", got.Err, "kubectl annotate persistentvolume pvc-1 lvm.topolvm.io/migrate-")
	// The same command again: the message of the first attempt is not mistaken for a new one.
	steps = []func(){setPV(t, c, "pvc-1", done), func() {}}
	got = plugin.RunWith(t, c, "", steps, "migrate", "--all", "--yes")
	if got.Code != 0 || strings.Contains(got.Out, "blocked") || !strings.Contains(got.Out, "shop/data: migrated") {
		t.Errorf("again: got %+v", got)
	}
	if got := plugin.Run(t, c, "migrate", "--all", "--yes"); got.Code != 0 ||
		!strings.Contains(got.Err, "No volume to migrate") {
		t.Errorf("once more: got %+v", got)
	}
}

func TestAMigrationThatTheOperatorDoesNotBegin(t *testing.T) {
	c := clitest.FakeReader(nil, earlierVolumes()...)
	got := plugin.Run(t, c, "migrate", "shop/data", "--yes", "--timeout", "100ms")
	if got.Code != session.ExitTimeout || !strings.Contains(got.Out, "the operator has not begun") ||
		!strings.Contains(got.Err, "1 migration is not complete") {
		t.Errorf("got %+v", got)
	}
}

func TestAFailedReadOfPersistentVolumesIsAnError(t *testing.T) {
	c := clitest.FakeReader(func(client.ObjectList, client.ListOptions) error { return errors.New("timed out") })
	got := plugin.Run(t, c, "migrate", "--all", "--yes")
	if got.Code != session.ExitError || !strings.Contains(got.Err, "timed out") || strings.Contains(got.Err, "No volume") {
		t.Errorf("got %+v", got)
	}
}

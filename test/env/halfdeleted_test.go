//go:build env

package env

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/erase"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/logicalvolume"
)

// noRemoval fails the test if the agent removes a logical volume.
type noRemoval struct {
	logicalvolume.Volumes
	t *testing.T
}

func (v noRemoval) RemoveLV(_ context.Context, _, name string) error {
	v.t.Errorf("the agent removes %s", name)
	return nil
}

// section returns the commands in a section of a how-to page, which are its indented lines.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("the page has no section %q", heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	var commands []string
	for line := range strings.Lines(text) {
		if command, is := strings.CutPrefix(line, "    "); is {
			commands = append(commands, command)
		}
	}
	return strings.Join(commands, "")
}

// shell returns a function that runs commands like an administrator with the repository's config directory.
func shell(t *testing.T) func(commands string) string {
	t.Helper()
	folder := t.TempDir()
	repository, err := root()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(kubeconfig, server.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	Reads(t, filepath.Join(repository, "config"))
	if err := os.Symlink(filepath.Join(repository, "config"), filepath.Join(folder, "config")); err != nil {
		t.Fatal(err)
	}
	return func(commands string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "bash", "-eu", "-c", commands)
		command.Dir = folder
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig,
			"PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, commands, out)
		}
		return string(out)
	}
}

func createLogicalVolume(t *testing.T, name, handle string) {
	t.Helper()
	lv := &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{wellknown.LogicalVolumeFinalizer}},
		Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: "n1", DeviceClass: "vg1",
			Size: resource.MustParse("1Gi")},
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: handle},
		},
	}}
	for _, object := range []client.Object{lv, volume} {
		if err := server.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	lv.Status.VolumeID = handle
	volume.Status.Phase = corev1.VolumeBound
	for _, object := range []client.Object{lv, volume} {
		if err := server.Client.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx := context.Background()
		for _, object := range []client.Object{volume, lv} {
			_ = server.Client.Delete(ctx, object)
			_ = server.Client.Patch(ctx, object,
				client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		}
	})
}

// The commands of the page about half-deleted installations are run unchanged, on an installation whose CRDs were
// deleted while volumes are bound.
func TestAHalfDeletedInstallationIsRecovered(t *testing.T) {
	ctx := t.Context()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Fatal("jq is not installed, which the page needs: make packages-tests installs it")
	}
	cluster := &lvmv1alpha1.LVMCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "my-lvmcluster", Namespace: Namespace,
			Finalizers: []string{wellknown.LVMClusterFinalizer}},
		Spec: lvmv1alpha1.LVMClusterSpec{Storage: lvmv1alpha1.Storage{
			DeviceClasses: []lvmv1alpha1.DeviceClass{{Name: "vg1", FilesystemType: "xfs"}}}},
	}
	if err := server.Client.Create(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Client.Patch(context.Background(), cluster,
			client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		_ = server.Client.Delete(context.Background(), cluster)
	})
	volumes := map[string]string{"pvc-1": "uid-1", "pvc-2": "uid-2"}
	for name, handle := range volumes {
		createLogicalVolume(t, name, handle)
	}
	crds := []string{"logicalvolumes.topolvm.io", "lvmclusters.lvm.topolvm.io", "lvmvolumegroups.lvm.topolvm.io",
		"lvmvolumegroupnodestatuses.lvm.topolvm.io"}
	for _, name := range crds {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		crd.SetName(name)
		if err := server.Client.Delete(ctx, crd); err != nil {
			t.Fatal(err)
		}
	}
	terminating := func() bool {
		lv := &topolvmv1.LogicalVolume{}
		return server.Client.Get(ctx, client.ObjectKey{Name: "pvc-1"}, lv) == nil && !lv.DeletionTimestamp.IsZero()
	}
	for end := time.Now().Add(Patience); !terminating(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the LogicalVolumes are not being deleted")
		}
	}
	agent := logicalvolume.New(logicalvolume.Options{
		Client: server.Client, Live: server.Client, Node: "n1", Cluster: "c", Volumes: noRemoval{t: t},
		Eraser: erase.New(ctx), Copier: copies.New(ctx), Recorder: events.NewFakeRecorder(10),
	})
	for range 2 {
		if _, err := agent.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: "pvc-1"}}); err == nil {
			t.Error("the agent does not say that the volume is bound")
		}
	}

	text, err := os.ReadFile("../../docs/how-to/half-deleted.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	run := shell(t)
	seeWhat := section(t, page, "1. Check what is being deleted")
	if got := run(seeWhat); !strings.Contains(got, "CustomResourceDefinition logicalvolumes.topolvm.io") ||
		!strings.Contains(got, "pvc-2") {
		t.Fatalf("step 1 shows %s", got)
	}
	run(section(t, page, "2. Stop the operator and the agents"))
	if got := run(section(t, page, "3. Save the objects")); !strings.Contains(got, "pvc-1 uid-1") {
		t.Fatalf("step 3 shows %s", got)
	}
	run(section(t, page, "4. Remove the objects"))
	run("kubectl wait --for=delete --timeout=60s crd " + strings.Join(crds, " "))
	if got := run(section(t, page, "5. Create them again")); !strings.Contains(got, "all there") {
		t.Fatalf("step 5 shows %s", got)
	}
	start := section(t, page, "6. Start the operator")
	run(start[strings.Index(start, "jq "):]) // Before it is the installation, whose images are not available here.

	for name, handle := range volumes {
		lv := &topolvmv1.LogicalVolume{}
		if err := server.Client.Get(ctx, client.ObjectKey{Name: name}, lv); err != nil ||
			lv.Status.VolumeID != handle || !lv.DeletionTimestamp.IsZero() ||
			len(lv.Finalizers) != 1 {
			t.Errorf("LogicalVolume %s: %+v, %v", name, lv, err)
		}
	}
	if err := server.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil ||
		cluster.Spec.Storage.DeviceClasses[0].Name != "vg1" {
		t.Errorf("LVMCluster: %v", err)
	}
	for _, name := range crds {
		if got := run("kubectl get crd " + name + " -o jsonpath={.metadata.deletionTimestamp}"); got != "" {
			t.Errorf("CRD %s is being deleted", name)
		}
	}
}

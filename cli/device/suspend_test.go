package device

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

func TestSuspendAndResumeAVolume(t *testing.T) {
	c := clitest.Suspendable(t)
	const by = "by admin at 2026-03-02T08:15:30Z: before the backup"
	suspend := []string{"suspend", "volume", "-n", "shop", "data", "--reason", "before  the\nbackup"}
	review := clitest.WithUser(t, c, "admin")
	got := plugin.RunWith(t, review, "", nil, append(suspend, "--dry-run")...)
	clitest.Prints(t, got, 0, "These volumes are suspended, "+by, "shop/data: 20Gi on node worker-1, device class vg1; Pods: db-0\n",
		"Pods that run keep them", "kubectl lvms resume volume shop/data", "# merge patch of LogicalVolume pvc-1",
		"lvm.topolvm.io/suspended: 'by admin", "uid: uid-lv")
	if c.Writes != 0 || c.SuspensionOf("pvc-1") != "no" {
		t.Fatalf("the dry run writes: %d, %q", c.Writes, c.SuspensionOf("pvc-1"))
	}
	clitest.Prints(t, plugin.RunWith(t, review, "", nil, suspend...), session.ExitError, "there is no terminal to ask on")
	clitest.Prints(t, plugin.RunWith(t, review, "no\n", nil, suspend...), session.ExitError, "Suspend 1 volume? [y/N]", "the answer was not yes")
	clitest.Prints(t, plugin.RunWith(t, review, "yes\n", nil, suspend...), 0, "The volume of the claim shop/data was suspended.")
	if got := c.SuspensionOf("pvc-1"); got != by || c.Writes != 1 {
		t.Fatalf("got %q, %d writes", got, c.Writes)
	}
	clitest.Prints(t, plugin.RunWith(t, review, "", nil, append(suspend, "--yes")...), 0, "is suspended already, "+by)
	resume := []string{"resume", "volume", "shop/data", "shop/batch-tmp", "--yes"}
	clitest.Prints(t, plugin.RunWith(t, c, "", nil, resume...), 0, "These volumes are resumed", "shop/batch-tmp: 20Gi on node worker-1, "+
		"device class vg1; Pods: batch", "The volume of the claim shop/data was resumed.")
	if c.SuspensionOf("pvc-1") != "no" || c.SuspensionOf("pvc-2") != "no" || c.Writes != 3 {
		t.Errorf("got %q, %q, %d writes", c.SuspensionOf("pvc-1"), c.SuspensionOf("pvc-2"), c.Writes)
	}
	clitest.Prints(t, plugin.RunWith(t, c, "", nil, resume...), 0, "The volume of the claim shop/data is not suspended.")
	clitest.Prints(t, plugin.Run(t, c, "resume", "volume", "shop/other"), 0, "is not suspended", "kubectl lvms resume device worker-1 "+
		"/dev/sdb")
	if c.Writes != 3 {
		t.Error("the second call writes")
	}
}

func TestVolumesThatCannotBeSuspended(t *testing.T) {
	released := clitest.PersistentVolumeOf("pvc-7", wellknown.DriverName, "shop/released")
	released.Status.Phase = corev1.VolumeReleased
	other := clitest.BoundTo("pvc-8", "shop/nfs")
	other.Spec.CSI.Driver = "nfs.csi.k8s.io"
	c := clitest.NewCluster(t, released, other, clitest.BoundTo("pvc-9", "shop/lost"), clitest.BoundTo("pvc-1", "shop/data"),
		clitest.Volume("pvc-1", "worker-1", "vg1", "shop/data"))
	for args, want := range map[string]string{
		"shop/nosuch":      "no PersistentVolume is bound to the claim shop/nosuch",
		"shop/released":    "no PersistentVolume is bound to the claim shop/released",
		"shop/nfs":         `has the driver "nfs.csi.k8s.io"`,
		"shop/lost":        "no LogicalVolume has the volume ID id-pvc-9 of PersistentVolume pvc-9",
		"":                 "the claim is missing",
		"data":             "the namespace of the claim data is missing",
		"-n web shop/data": "is not in the namespace web of -n",
		"shop/data --reason " + strings.Repeat("x", 501): "--reason has 501 characters",
		"shop/data --dry-run=server":                     `--dry-run "server" is not supported`,
	} {
		got := plugin.Run(t, c, append([]string{"suspend", "volume", "--yes"}, strings.Fields(args)...)...)
		clitest.Prints(t, got, session.ExitError, want)
	}
	if c.Writes != 0 {
		t.Error("it writes")
	}
}

func TestSuspendWhenAReadFails(t *testing.T) {
	forbidden := func(resource string) error {
		return apierrors.NewForbidden(schema.ParseGroupResource(resource), "", errors.New("no"))
	}
	for name, test := range map[string]struct {
		err  error
		list client.ObjectList
		code int
		want string
	}{
		"PersistentVolumes": {forbidden(session.PersistentVolumesResource), &corev1.PersistentVolumeList{}, session.ExitError,
			"verb list on the resource persistentvolumes"},
		"LogicalVolumes":  {errors.New("timeout"), &topolvmv1.LogicalVolumeList{}, session.ExitError, "timeout"},
		"Pods, forbidden": {forbidden("pods"), &corev1.PodList{}, 0, "You may not list Pods in the namespace shop"},
		"Pods":            {errors.New("timeout"), &corev1.PodList{}, 0, "The Pods in the namespace shop are not listed"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := clitest.FakeReader(func(list client.ObjectList, _ client.ListOptions) error {
				if fmt.Sprintf("%T", list) == fmt.Sprintf("%T", test.list) {
					return test.err
				}
				return nil
			}, clitest.SuspendedVolume("pvc-1", "shop/data", "by admin"), clitest.BoundTo("pvc-1", "shop/data"))
			clitest.Prints(t, plugin.Run(t, reader, "resume", "volume", "shop/data", "--yes"), test.code, test.want)
		})
	}
}

func TestSuspendOperations(t *testing.T) {
	const path = "/spec/storage/deviceClasses/1/deviceRequests"
	recorded := func(action v1alpha1.DeviceAction, record string) v1alpha1.DeviceRequest {
		r := clitest.Request("pv-b", action)
		r.Suspend = true
		r.SuspendReason = record
		return r
	}
	with := func(action v1alpha1.DeviceAction) v1alpha1.DeviceRequest { return recorded(action, "by alice") }
	cordon := v1alpha1.DeviceActionCordon
	drain := v1alpha1.DeviceActionDrain
	add := func(r v1alpha1.DeviceRequest) session.Operation {
		return session.Operation{Op: "add", Path: path + "/-", Value: r}
	}
	drop := session.Operation{Op: "remove", Path: path + "/0"}
	for name, test := range map[string]struct {
		before  []v1alpha1.DeviceRequest
		suspend bool
		want    []session.Operation
	}{
		"the first request": {nil, true, []session.Operation{{Op: "add", Path: path, Value: []any{with(cordon)}}}},
		"suspended already": {[]v1alpha1.DeviceRequest{recorded(cordon, "by bob")}, true, nil},
		"cordoned":          {[]v1alpha1.DeviceRequest{clitest.Request("/dev/sdb", cordon)}, true, []session.Operation{drop, add(with(cordon))}},
		"a drain stays":     {[]v1alpha1.DeviceRequest{clitest.Request("pv-b", drain)}, true, []session.Operation{drop, add(with(drain))}},
		"nothing to resume": {nil, false, nil},
		"only cordoned":     {[]v1alpha1.DeviceRequest{clitest.Request("pv-b", cordon)}, false, nil},
		"resumed":           {[]v1alpha1.DeviceRequest{with(cordon)}, false, []session.Operation{{Op: "remove", Path: path}}},
		"resumed, a drain stays": {[]v1alpha1.DeviceRequest{with(drain)}, false,
			[]session.Operation{drop, add(clitest.Request("pv-b", drain))}},
	} {
		t.Run(name, func(t *testing.T) {
			class, err := findClass([]v1alpha1.LVMCluster{*clitest.StorageCluster("storage", test.before...)}, "vg1")
			if err != nil {
				t.Fatal(err)
			}
			device := memberOf(t, clitest.PairedNode("storage", "90Gi"), "/dev/sdb")
			got := suspendOperations(class, device, test.suspend, "by alice")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	// Another action does not resume the device, and the record stays.
	class, err := findClass([]v1alpha1.LVMCluster{*clitest.StorageCluster("storage", with(cordon))}, "vg1")
	if err != nil {
		t.Fatal(err)
	}
	got := requestOperations(class, memberOf(t, clitest.PairedNode("storage", "90Gi"), "/dev/sdb"), drain)
	if diff := cmp.Diff([]session.Operation{drop, add(with(drain))}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDevicesThatCannotBeSuspended(t *testing.T) {
	c := clitest.NewCluster(t, clitest.StorageCluster("storage"), clitest.BrokenNode("storage"))
	for args, want := range map[string]string{
		"worker-2 pv-d": "is missing, and LVM cannot suspend a missing device",
		"worker-2":      "give the node and the device",
		"worker-2 pv-d --reason " + strings.Repeat("x", 501): "--reason has 501 characters",
		"worker-2 pv-b extra":                                "give the node and the device",
		"worker-9 pv-b":                                      "worker-9",
		"worker-2 /dev/sdz":                                  "does not have the device /dev/sdz",
	} {
		clitest.Prints(t, plugin.Run(t, c, append([]string{"suspend", "device", "--yes"}, strings.Fields(args)...)...), session.ExitError, want)
	}
	if c.Writes != 0 {
		t.Error("it writes")
	}
}

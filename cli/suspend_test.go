package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// boundTo returns the PersistentVolume of the LogicalVolume with the same name, bound to a claim.
func boundTo(name, claim string) *corev1.PersistentVolume {
	pv := persistentVolumeOf(name, v1alpha1.DriverName, claim)
	pv.Status.Phase = corev1.VolumeBound
	return pv
}

// podWith returns a Pod that uses a claim.
func podWith(namespace, name, claim string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status: corev1.PodStatus{Phase: phase},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}}}
}

// suspendedVolume returns a volume that a person suspended.
func suspendedVolume(name, claim, text string) *topolvmv1.LogicalVolume {
	lv := volume(name, "worker-1", "vg1", claim)
	lv.UID = "uid-lv"
	lv.Annotations[v1alpha1.SuspendedAnnotation] = text
	return lv
}

// withUser returns a client of a user.
func withUser(t *testing.T, c *cluster, user string) client.Client {
	t.Helper()
	watched, ok := c.Client.(client.WithWatch)
	if !ok {
		t.Fatal("the fake client cannot be intercepted")
	}
	return interceptor.NewClient(watched, interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, object client.Object,
			options ...client.CreateOption) error {
			if review, is := object.(*authenticationv1.SelfSubjectReview); is {
				review.Status.UserInfo.Username = user
				return nil
			}
			return w.Create(ctx, object, options...)
		}})
}

// suspendable returns a fake API server with volumes on a node, their claims, Pods and devices.
func suspendable(t *testing.T) *cluster {
	shared := volume("pvc-1", "worker-1", "vg1", "shop/data")
	shared.UID = "uid-lv"
	onDevice := volume("pvc-3", "worker-1", "vg1", "shop/other")
	onDevice.Annotations[v1alpha1.SuspendedDevicesAnnotation] = "/dev/sdb"
	ephemeral := podWith("shop", "batch", "unrelated", corev1.PodRunning)
	ephemeral.Spec.Volumes[0] = corev1.Volume{Name: "tmp",
		VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}
	return newCluster(t, shared, boundTo("pvc-1", "shop/data"), podWith("shop", "db-0", "data", corev1.PodRunning),
		podWith("shop", "old", "data", corev1.PodSucceeded), podWith("web", "db-0", "data", corev1.PodRunning), ephemeral,
		suspendedVolume("pvc-2", "shop/batch-tmp", "by bob at noon: disk errors"), boundTo("pvc-2", "shop/batch-tmp"),
		onDevice, boundTo("pvc-3", "shop/other"), storageCluster("storage"), pairedNode("storage", "90Gi"))
}

// suspensionOf returns who suspended a volume, or "no".
func (c *cluster) suspensionOf(name string) string {
	c.t.Helper()
	lv := &topolvmv1.LogicalVolume{}
	if err := c.Client.Get(c.t.Context(), client.ObjectKey{Name: name}, lv); err != nil {
		c.t.Fatal(err)
	}
	text, suspended := lv.Annotations[v1alpha1.SuspendedAnnotation]
	if !suspended {
		return "no"
	}
	return text
}

func TestSuspendAndResumeAVolume(t *testing.T) {
	c := suspendable(t)
	const by = "by admin at 2026-03-02T08:15:30Z: before the backup"
	suspend := []string{"suspend", "volume", "-n", "shop", "data", "--reason", "before  the\nbackup"}
	review := withUser(t, c, "admin")
	got := plugin.runWith(t, review, "", nil, append(suspend, "--dry-run")...)
	prints(t, got, 0, "These volumes are suspended, "+by, "shop/data: 20Gi on node worker-1, device class vg1; Pods: db-0\n",
		"Pods that run keep them", "kubectl lvms resume volume shop/data", "# merge patch of LogicalVolume pvc-1",
		"lvm.topolvm.io/suspended: 'by admin", "uid: uid-lv")
	if c.writes != 0 || c.suspensionOf("pvc-1") != "no" {
		t.Fatalf("the dry run writes: %d, %q", c.writes, c.suspensionOf("pvc-1"))
	}
	prints(t, plugin.runWith(t, review, "", nil, suspend...), exitError, "there is no terminal to ask on")
	prints(t, plugin.runWith(t, review, "no\n", nil, suspend...), exitError, "Suspend 1 volume? [y/N]", "the answer was not yes")
	prints(t, plugin.runWith(t, review, "yes\n", nil, suspend...), 0, "The volume of the claim shop/data was suspended.")
	if got := c.suspensionOf("pvc-1"); got != by || c.writes != 1 {
		t.Fatalf("got %q, %d writes", got, c.writes)
	}
	prints(t, plugin.runWith(t, review, "", nil, append(suspend, "--yes")...), 0, "is suspended already, "+by)
	resume := []string{"resume", "volume", "shop/data", "shop/batch-tmp", "--yes"}
	prints(t, plugin.runWith(t, c, "", nil, resume...), 0, "These volumes are resumed", "shop/batch-tmp: 20Gi on node worker-1, "+
		"device class vg1; Pods: batch", "The volume of the claim shop/data was resumed.")
	if c.suspensionOf("pvc-1") != "no" || c.suspensionOf("pvc-2") != "no" || c.writes != 3 {
		t.Errorf("got %q, %q, %d writes", c.suspensionOf("pvc-1"), c.suspensionOf("pvc-2"), c.writes)
	}
	prints(t, plugin.runWith(t, c, "", nil, resume...), 0, "The volume of the claim shop/data is not suspended.")
	prints(t, plugin.run(t, c, "resume", "volume", "shop/other"), 0, "is not suspended", "kubectl lvms resume device worker-1 "+
		"/dev/sdb")
	if c.writes != 3 {
		t.Error("the second call writes")
	}
}

func TestVolumesThatCannotBeSuspended(t *testing.T) {
	released := persistentVolumeOf("pvc-7", v1alpha1.DriverName, "shop/released")
	released.Status.Phase = corev1.VolumeReleased
	other := boundTo("pvc-8", "shop/nfs")
	other.Spec.CSI.Driver = "nfs.csi.k8s.io"
	c := newCluster(t, released, other, boundTo("pvc-9", "shop/lost"), boundTo("pvc-1", "shop/data"),
		volume("pvc-1", "worker-1", "vg1", "shop/data"))
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
		got := plugin.run(t, c, append([]string{"suspend", "volume", "--yes"}, strings.Fields(args)...)...)
		prints(t, got, exitError, want)
	}
	if c.writes != 0 {
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
		"PersistentVolumes": {forbidden(persistentVolumesResource), &corev1.PersistentVolumeList{}, exitError,
			"verb list on the resource persistentvolumes"},
		"LogicalVolumes":  {errors.New("timeout"), &topolvmv1.LogicalVolumeList{}, exitError, "timeout"},
		"Pods, forbidden": {forbidden("pods"), &corev1.PodList{}, 0, "You may not list Pods in the namespace shop"},
		"Pods":            {errors.New("timeout"), &corev1.PodList{}, 0, "The Pods in the namespace shop are not listed"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fakeReader(func(list client.ObjectList, _ client.ListOptions) error {
				if fmt.Sprintf("%T", list) == fmt.Sprintf("%T", test.list) {
					return test.err
				}
				return nil
			}, suspendedVolume("pvc-1", "shop/data", "by admin"), boundTo("pvc-1", "shop/data"))
			prints(t, plugin.run(t, reader, "resume", "volume", "shop/data", "--yes"), test.code, test.want)
		})
	}
}

func TestSuspendOperations(t *testing.T) {
	const path = "/spec/storage/deviceClasses/1/deviceRequests"
	recorded := func(action v1alpha1.DeviceAction, record string) v1alpha1.DeviceRequest {
		r := request("pv-b", action)
		r.Suspend, r.SuspendReason = true, record
		return r
	}
	with := func(action v1alpha1.DeviceAction) v1alpha1.DeviceRequest { return recorded(action, "by alice") }
	cordon, drain := v1alpha1.DeviceActionCordon, v1alpha1.DeviceActionDrain
	add := func(r v1alpha1.DeviceRequest) operation { return operation{Op: "add", Path: path + "/-", Value: r} }
	drop := operation{Op: "remove", Path: path + "/0"}
	for name, test := range map[string]struct {
		before  []v1alpha1.DeviceRequest
		suspend bool
		want    []operation
	}{
		"the first request": {nil, true, []operation{{Op: "add", Path: path, Value: []any{with(cordon)}}}},
		"suspended already": {[]v1alpha1.DeviceRequest{recorded(cordon, "by bob")}, true, nil},
		"cordoned":          {[]v1alpha1.DeviceRequest{request("/dev/sdb", cordon)}, true, []operation{drop, add(with(cordon))}},
		"a drain stays":     {[]v1alpha1.DeviceRequest{request("pv-b", drain)}, true, []operation{drop, add(with(drain))}},
		"nothing to resume": {nil, false, nil},
		"only cordoned":     {[]v1alpha1.DeviceRequest{request("pv-b", cordon)}, false, nil},
		"resumed":           {[]v1alpha1.DeviceRequest{with(cordon)}, false, []operation{{Op: "remove", Path: path}}},
		"resumed, a drain stays": {[]v1alpha1.DeviceRequest{with(drain)}, false,
			[]operation{drop, add(request("pv-b", drain))}},
	} {
		t.Run(name, func(t *testing.T) {
			class, err := findClass([]v1alpha1.LVMCluster{*storageCluster("storage", test.before...)}, "vg1")
			if err != nil {
				t.Fatal(err)
			}
			device := memberOf(t, pairedNode("storage", "90Gi"), "/dev/sdb")
			got := suspendOperations(class, device, test.suspend, "by alice")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	// Another action does not resume the device, and the record stays.
	class, err := findClass([]v1alpha1.LVMCluster{*storageCluster("storage", with(cordon))}, "vg1")
	if err != nil {
		t.Fatal(err)
	}
	got := requestOperations(class, memberOf(t, pairedNode("storage", "90Gi"), "/dev/sdb"), drain)
	if diff := cmp.Diff([]operation{drop, add(with(drain))}, got); diff != "" {
		t.Error(diff)
	}
}

// setSuspended returns a step in which the node agent reports whether /dev/sdb is suspended.
func (c *cluster) setSuspended(suspended bool) func() {
	return func() {
		c.t.Helper()
		node := &v1alpha1.LVMVolumeGroupNodeStatus{}
		if err := c.Client.Get(c.t.Context(), client.ObjectKey{Namespace: "storage", Name: "worker-1"}, node); err != nil {
			c.t.Fatal(err)
		}
		node.Status.NodeStatus[0].PhysicalVolumes[0].Suspended = suspended
		node.Status.NodeStatus[0].PhysicalVolumes[0].Message = "suspended by admin at noon"
		if err := c.Update(c.t.Context(), node); err != nil {
			c.t.Fatal(err)
		}
	}
}

func TestSuspendAndResumeADevice(t *testing.T) {
	c := suspendable(t)
	admin := withUser(t, c, "admin")
	record := "by admin at " + now.UTC().Format(time.RFC3339) + ": disk errors"
	suspend := append(strings.Fields("suspend device worker-1 /dev/sdb --yes --reason"), "disk errors")
	prints(t, plugin.runWith(t, admin, "", nil, append(suspend, "--dry-run")...), 0, "+ deviceRequests: {node: worker-1, "+
		"device: pv-b, action: Cordon, suspend: true, suspendReason: \""+record+"\"}",
		"The volume group also has other devices",
		"may have data on the device: shop/batch-tmp (Pods: batch), shop/data (Pods: db-0), shop/other. ",
		"no new volume is created in it", "kubectl lvms resume device worker-1 pv-b")
	if c.writes != 0 {
		t.Fatal("the dry run writes")
	}
	prints(t, plugin.run(t, c, suspend...), exitError, "cannot read your user name, which is recorded")
	if c.requestsNow() != nil {
		t.Fatal("it is suspended")
	}
	c.writes = 0
	for range 2 {
		steps := []func(){func() {}, c.setSuspended(true)}
		prints(t, plugin.runWith(t, admin, "", steps, suspend...), 0, "Done: device /dev/sdb")
	}
	want := request("pv-b", v1alpha1.DeviceActionCordon)
	want.Suspend = true
	want.SuspendReason = record
	if diff := cmp.Diff([]v1alpha1.DeviceRequest{want}, c.requestsNow()); diff != "" || c.writes != 1 {
		t.Errorf("%d writes, %s", c.writes, diff)
	}
	prints(t, plugin.run(t, admin, "devices", "--no-headers"), 0, "SuspendedByRequest")
	prints(t, plugin.run(t, admin, "devices", "-o", "wide"), 0, "suspended by admin at noon")
	prints(t, plugin.run(t, admin, "volumes", "-n", "shop", "-o", "wide"), 0, "Suspended",
		"suspended by bob at noon: disk errors",
		"has data on the suspended device /dev/sdb")
	prints(t, plugin.run(t, admin, "status"), exitProblems, "Suspended: 2 volumes, 1 device\n")
	resume := strings.Fields("resume device worker-1 /dev/sdb --yes")
	prints(t, plugin.runWith(t, admin, "", []func(){func() {}, c.setSuspended(false)}, resume...), 0,
		"New Pods get the volumes",
		"Done: device /dev/sdb")
	prints(t, plugin.runWith(t, admin, "", nil, resume...), 0, "Nothing is changed.")
	if len(c.requestsNow()) != 0 || c.writes != 2 {
		t.Errorf("got %+v, %d writes", c.requestsNow(), c.writes)
	}
	prints(t, plugin.runWith(t, admin, "", nil, append(suspend, "--timeout", "2ns")...), exitTimeout, "The request stays")
}

func TestDevicesThatCannotBeSuspended(t *testing.T) {
	c := newCluster(t, storageCluster("storage"), brokenNode("storage"))
	for args, want := range map[string]string{
		"worker-2 pv-d": "is missing, and LVM cannot suspend a missing device",
		"worker-2":      "give the node and the device",
		"worker-2 pv-d --reason " + strings.Repeat("x", 501): "--reason has 501 characters",
		"worker-2 pv-b extra":                                "give the node and the device",
		"worker-9 pv-b":                                      "worker-9",
		"worker-2 /dev/sdz":                                  "does not have the device /dev/sdz",
	} {
		prints(t, plugin.run(t, c, append([]string{"suspend", "device", "--yes"}, strings.Fields(args)...)...), exitError, want)
	}
	if c.writes != 0 {
		t.Error("it writes")
	}
}

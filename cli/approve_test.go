package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

const fingerprint = "v1-0123456789abcdef0123456789abcdef"

// waitingNode is a node on which a blank disk waits, a disk with content has changed, and a disk has no fingerprint.
func waitingNode(namespace string) *v1alpha1.LVMVolumeGroupNodeStatus {
	node := healthyNode(namespace)
	waits := func(reason string) []v1alpha1.DeviceEligibility {
		return []v1alpha1.DeviceEligibility{{DeviceClass: "vg1", Reasons: []string{reason}}}
	}
	blank := &node.Status.Devices[2]
	blank.ByID, blank.Fingerprint, blank.Eligibility = []string{"wwn-0x3"}, fingerprint, waits(awaitingApproval)
	node.Status.Devices = append(node.Status.Devices,
		v1alpha1.DeviceStatus{Name: "/dev/sdd", State: v1alpha1.DeviceExcluded, Size: quantity("2Gi"), ID: "serial:d",
			Signatures:  []v1alpha1.DeviceSignature{{Type: "ext4", UUID: "u-1"}},
			Fingerprint: "v1-1123456789abcdef0123456789abcdef", Eligibility: waits(changedSinceReview)},
		v1alpha1.DeviceStatus{Name: "/dev/sde", State: v1alpha1.DeviceUnknown, Eligibility: waits(awaitingApproval)})
	return node
}

// asUser returns a client of a user. If fail returns an error for an object, its creation fails with it.
func asUser(user string, fail func(client.Object) error, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object,
			options ...client.CreateOption) error {
			if fail != nil {
				if err := fail(object); err != nil {
					return err
				}
			}
			if review, is := object.(*authenticationv1.SelfSubjectReview); is {
				review.Status.UserInfo.Username = user
				return nil
			}
			return c.Create(ctx, object, options...)
		},
	}).Build()
}

func approvalsIn(t *testing.T, c client.Client) []v1alpha1.LVMDeviceApproval {
	t.Helper()
	all := &v1alpha1.LVMDeviceApprovalList{}
	if err := c.List(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	return all.Items
}

func TestDevicesThatWaitAreListed(t *testing.T) {
	c := asUser("ann", nil, waitingNode("storage"))
	for name, flags := range map[string][]string{"table": nil, "wide": {"-o", "wide"}, "yaml": {"-o", "yaml"}} {
		got := plugin.run(t, c, append([]string{"approve"}, flags...)...)
		if got.code != 0 {
			t.Errorf("%s: got %+v", name, got)
		}
		golden(t, "approve."+name, got.out)
	}
	if got := plugin.run(t, c, "approve", "--class", "other"); got.code != 0 || !strings.Contains(got.err, "No device waits") {
		t.Errorf("got %+v", got)
	}
	if got := approvalsIn(t, c); len(got) > 0 {
		t.Errorf("a list creates %+v", got)
	}
}

func TestADeviceIsApprovedAfterAQuestion(t *testing.T) {
	c := asUser("ann", nil, waitingNode("storage"))
	args := []string{"approve", "--node", "worker-1", "--device", "/dev/disk/by-id/wwn-0x3"}
	got := plugin.runWith(t, c, "no\n", nil, args...)
	if got.code != exitError || !strings.Contains(got.out, "fingerprint: "+fingerprint) || len(approvalsIn(t, c)) > 0 {
		t.Errorf("the answer no: got %+v", got)
	}
	if got := plugin.run(t, c, args...); got.code != exitError || !strings.Contains(got.err, "no terminal") {
		t.Errorf("no terminal: got %+v", got)
	}
	if got := plugin.run(t, c, append(args, "--dry-run")...); got.code != 0 || len(approvalsIn(t, c)) > 0 ||
		!strings.Contains(got.out, "approvedBy: ann") || !strings.Contains(got.out, "kind: LVMDeviceApproval") {
		t.Errorf("a dry run: got %+v", got)
	}
	got = plugin.runWith(t, c, "yes\n", nil, args...)
	want := v1alpha1.LVMDeviceApprovalSpec{NodeName: "worker-1", DeviceClassName: "vg1",
		Device: "/dev/disk/by-id/wwn-0x3", Fingerprint: fingerprint, ApprovedBy: "ann"}
	approvals := approvalsIn(t, c)
	expect.Equal(t, "code", got.code, 0)
	if len(approvals) != 1 {
		t.Fatalf("got %+v, %+v", got, approvals)
	}
	expect.Equal(t, "approvals[0].Spec", approvals[0].Spec, want)
	expect.Equal(t, "approvals[0].Namespace", approvals[0].Namespace, "storage")
	expect.Equal(t, "approvals[0].Name", approvals[0].Name, "worker-1-vg1-0123456789ab")
	if got := plugin.run(t, c, append(args, "--yes")...); got.code != 0 || !strings.Contains(got.out, "already exists: ann") ||
		len(approvalsIn(t, c)) != 1 {
		t.Errorf("again: got %+v", got)
	}
}

func TestThePreviewOfAnApprovalNamesWhatIsDestroyed(t *testing.T) {
	c := asUser("ann", nil, waitingNode("storage"))
	got := plugin.run(t, c, "approve", "--node", "worker-1", "--device", "/dev/sdc", "--device", "serial:d", "--yes")
	for _, says := range []string{"The user ann approves", "content: blank", "content: ext4 u-1", "CHANGED",
		"DESTROYED"} {
		if !strings.Contains(got.out, says) {
			t.Errorf("%q is missing in %s", says, got.out)
		}
	}
	if got.code != 0 || len(approvalsIn(t, c)) != 2 {
		t.Errorf("got %+v", got)
	}
	got = plugin.run(t, asUser("ann", nil, waitingNode("storage")), "approve", "--node", "worker-1", "--device", "/dev/sdc",
		"--yes")
	if strings.Contains(got.out, "DESTROYED") {
		t.Errorf("a blank device: got %s", got.out)
	}
}

func TestWhatCannotBeApproved(t *testing.T) {
	unknown := func(object client.Object) error {
		if _, is := object.(*authenticationv1.SelfSubjectReview); is {
			return errors.New("timed out")
		}
		return nil
	}
	two := waitingNode("storage")
	device := &two.Status.Devices[2]
	device.Eligibility = append(device.Eligibility,
		v1alpha1.DeviceEligibility{DeviceClass: "vg2", Reasons: []string{awaitingApproval}})
	for name, test := range map[string]struct {
		client client.Client
		args   string
		says   string
	}{
		"no node":      {asUser("ann", nil, waitingNode("s")), "--device /dev/sdc", "--node is missing"},
		"another node": {asUser("ann", nil, waitingNode("s")), "--node x --device /dev/sdc", "node x has no"},
		"unknown device": {asUser("ann", nil, waitingNode("s")), "--node worker-1 --device /dev/sdz",
			"no device /dev/sdz"},
		"it does not wait": {asUser("ann", nil, waitingNode("s")), "--node worker-1 --device /dev/sdb",
			"does not wait"},
		"no fingerprint": {asUser("ann", nil, waitingNode("s")), "--node worker-1 --device /dev/sde",
			"no fingerprint"},
		"two device classes": {asUser("ann", nil, two), "--node worker-1 --device /dev/sdc", "several device classes"},
		"unknown user": {asUser("", nil, waitingNode("s")), "--node worker-1 --device /dev/sdc",
			"your user name"},
		"the read fails": {asUser("ann", unknown, waitingNode("s")), "--node worker-1 --device /dev/sdc",
			"timed out"},
	} {
		got := plugin.run(t, test.client, append([]string{"approve", "--yes"}, strings.Fields(test.args)...)...)
		if got.code != exitError || !strings.Contains(got.err, test.says) || len(approvalsIn(t, test.client)) > 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestAnApprovalOfTheSameNameForAnotherDevice(t *testing.T) {
	other := newApproval(&WaitingDevice{Node: "worker-1", DeviceClass: "vg1", DeviceStatus: v1alpha1.DeviceStatus{
		Name: "/dev/sdx", Fingerprint: fingerprint}}, "storage", "bob")
	other.Spec.Fingerprint = "v1-0123456789ab00000000000000000000"
	got := plugin.run(t, asUser("ann", nil, waitingNode("storage"), other), "approve", "--node", "worker-1", "--device",
		"/dev/sdc", "--yes")
	if got.code != exitError || !strings.Contains(got.err, "is for another device") {
		t.Errorf("got %+v", got)
	}
}

func TestNameOfAnApproval(t *testing.T) {
	w := WaitingDevice{Node: strings.Repeat("n", 149) + "." + strings.Repeat("m", 50),
		DeviceClass:  strings.Repeat("c", 63),
		DeviceStatus: v1alpha1.DeviceStatus{Name: "/dev/sdb", Fingerprint: fingerprint}}
	name := newApproval(&w, "s", "ann").Name
	if len(name) > 253 || strings.Contains(name, ".-") {
		t.Errorf("got %s", name)
	}
}

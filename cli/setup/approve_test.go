package setup

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
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// asUser returns a client of a user. If fail returns an error for an object, its creation fails with it.
func asUser(user string, fail func(client.Object) error, objects ...client.Object) client.Client {
	builder := fake.NewClientBuilder().WithScheme(session.Scheme).WithObjects(objects...)
	return builder.WithInterceptorFuncs(interceptor.Funcs{
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
	c := asUser("ann", nil, clitest.WaitingNode("storage"))
	for name, flags := range map[string][]string{"table": nil, "wide": {"-o", "wide"}, "yaml": {"-o", "yaml"}} {
		got := plugin.Run(t, c, append([]string{"approve"}, flags...)...)
		if got.Code != 0 {
			t.Errorf("%s: got %+v", name, got)
		}
		clitest.Golden(t, "approve."+name, got.Out)
	}
	if got := plugin.Run(t, c, "approve", "--class", "other"); got.Code != 0 || !strings.Contains(got.Err, "No device waits") {
		t.Errorf("got %+v", got)
	}
	if got := approvalsIn(t, c); len(got) > 0 {
		t.Errorf("a list creates %+v", got)
	}
}

func TestADeviceIsApprovedAfterAQuestion(t *testing.T) {
	c := asUser("ann", nil, clitest.WaitingNode("storage"))
	args := []string{"approve", "--node", "worker-1", "--device", "/dev/disk/by-id/wwn-0x3"}
	got := plugin.RunWith(t, c, "no\n", nil, args...)
	if got.Code != session.ExitError || !strings.Contains(got.Out, "fingerprint: "+clitest.Fingerprint) || len(approvalsIn(t, c)) > 0 {
		t.Errorf("the answer no: got %+v", got)
	}
	if got := plugin.Run(t, c, args...); got.Code != session.ExitError || !strings.Contains(got.Err, "no terminal") {
		t.Errorf("no terminal: got %+v", got)
	}
	if got := plugin.Run(t, c, append(args, "--dry-run")...); got.Code != 0 || len(approvalsIn(t, c)) > 0 ||
		!strings.Contains(got.Out, "approvedBy: ann") || !strings.Contains(got.Out, "kind: LVMDeviceApproval") {
		t.Errorf("a dry run: got %+v", got)
	}
	got = plugin.RunWith(t, c, "yes\n", nil, args...)
	want := v1alpha1.LVMDeviceApprovalSpec{NodeName: "worker-1", DeviceClassName: "vg1",
		Device: "/dev/disk/by-id/wwn-0x3", Fingerprint: clitest.Fingerprint, ApprovedBy: "ann"}
	approvals := approvalsIn(t, c)
	expect.Equal(t, "code", got.Code, 0)
	if len(approvals) != 1 {
		t.Fatalf("got %+v, %+v", got, approvals)
	}
	expect.Equal(t, "approvals[0].Spec", approvals[0].Spec, want)
	expect.Equal(t, "approvals[0].Namespace", approvals[0].Namespace, "storage")
	expect.Equal(t, "approvals[0].Name", approvals[0].Name, "worker-1-vg1-0123456789ab")
	if got := plugin.Run(t, c, append(args, "--yes")...); got.Code != 0 || !strings.Contains(got.Out, "already exists: ann") ||
		len(approvalsIn(t, c)) != 1 {
		t.Errorf("again: got %+v", got)
	}
}

func TestThePreviewOfAnApprovalNamesWhatIsDestroyed(t *testing.T) {
	c := asUser("ann", nil, clitest.WaitingNode("storage"))
	got := plugin.Run(t, c, "approve", "--node", "worker-1", "--device", "/dev/sdc", "--device", "serial:d", "--yes")
	for _, says := range []string{"The user ann approves", "content: blank", "content: ext4 u-1", "CHANGED",
		"DESTROYED"} {
		if !strings.Contains(got.Out, says) {
			t.Errorf("%q is missing in %s", says, got.Out)
		}
	}
	if got.Code != 0 || len(approvalsIn(t, c)) != 2 {
		t.Errorf("got %+v", got)
	}
	got = plugin.Run(t, asUser("ann", nil, clitest.WaitingNode("storage")), "approve", "--node", "worker-1", "--device", "/dev/sdc",
		"--yes")
	if strings.Contains(got.Out, "DESTROYED") {
		t.Errorf("a blank device: got %s", got.Out)
	}
}

func TestWhatCannotBeApproved(t *testing.T) {
	unknown := func(object client.Object) error {
		if _, is := object.(*authenticationv1.SelfSubjectReview); is {
			return errors.New("timed out")
		}
		return nil
	}
	two := clitest.WaitingNode("storage")
	device := &two.Status.Devices[2]
	device.Eligibility = append(device.Eligibility,
		v1alpha1.DeviceEligibility{DeviceClass: "vg2", Reasons: []string{objects.AwaitingApproval}})
	for name, test := range map[string]struct {
		client client.Client
		args   string
		says   string
	}{
		"no node":      {asUser("ann", nil, clitest.WaitingNode("s")), "--device /dev/sdc", "--node is missing"},
		"another node": {asUser("ann", nil, clitest.WaitingNode("s")), "--node x --device /dev/sdc", "node x has no"},
		"unknown device": {asUser("ann", nil, clitest.WaitingNode("s")), "--node worker-1 --device /dev/sdz",
			"no device /dev/sdz"},
		"it does not wait": {asUser("ann", nil, clitest.WaitingNode("s")), "--node worker-1 --device /dev/sdb",
			"does not wait"},
		"no fingerprint": {asUser("ann", nil, clitest.WaitingNode("s")), "--node worker-1 --device /dev/sde",
			"no fingerprint"},
		"two device classes": {asUser("ann", nil, two), "--node worker-1 --device /dev/sdc", "several device classes"},
		"unknown user": {asUser("", nil, clitest.WaitingNode("s")), "--node worker-1 --device /dev/sdc",
			"your user name"},
		"the read fails": {asUser("ann", unknown, clitest.WaitingNode("s")), "--node worker-1 --device /dev/sdc",
			"timed out"},
	} {
		got := plugin.Run(t, test.client, append([]string{"approve", "--yes"}, strings.Fields(test.args)...)...)
		if got.Code != session.ExitError || !strings.Contains(got.Err, test.says) ||
			len(approvalsIn(t, test.client)) > 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestAnApprovalOfTheSameNameForAnotherDevice(t *testing.T) {
	other := newApproval(&output.WaitingDevice{Node: "worker-1", DeviceClass: "vg1", DeviceStatus: v1alpha1.DeviceStatus{
		Name: "/dev/sdx", Fingerprint: clitest.Fingerprint}}, "storage", "bob")
	other.Spec.Fingerprint = "v1-0123456789ab00000000000000000000"
	got := plugin.Run(t, asUser("ann", nil, clitest.WaitingNode("storage"), other), "approve", "--node", "worker-1", "--device",
		"/dev/sdc", "--yes")
	if got.Code != session.ExitError || !strings.Contains(got.Err, "is for another device") {
		t.Errorf("got %+v", got)
	}
}

func TestNameOfAnApproval(t *testing.T) {
	w := output.WaitingDevice{Node: strings.Repeat("n", 149) + "." + strings.Repeat("m", 50),
		DeviceClass:  strings.Repeat("c", 63),
		DeviceStatus: v1alpha1.DeviceStatus{Name: "/dev/sdb", Fingerprint: clitest.Fingerprint}}
	name := newApproval(&w, "s", "ann").Name
	if len(name) > 253 || strings.Contains(name, ".-") {
		t.Errorf("got %s", name)
	}
}

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

func TestSuspendAndResumeADevice(t *testing.T) {
	c := clitest.Suspendable(t)
	admin := clitest.WithUser(t, c, "admin")
	record := "by admin at " + clitest.Now.UTC().Format(time.RFC3339) + ": disk errors"
	suspend := append(strings.Fields("suspend device worker-1 /dev/sdb --yes --reason"), "disk errors")
	clitest.Prints(t, plugin.RunWith(t, admin, "", nil, append(suspend, "--dry-run")...), 0, "+ deviceRequests: {node: worker-1, "+
		"device: pv-b, action: Cordon, suspend: true, suspendReason: \""+record+"\"}",
		"The volume group also has other devices",
		"may have data on the device: shop/batch-tmp (Pods: batch), shop/data (Pods: db-0), shop/other. ",
		"no new volume is created in it", "kubectl lvms resume device worker-1 pv-b")
	if c.Writes != 0 {
		t.Fatal("the dry run writes")
	}
	clitest.Prints(t, plugin.Run(t, c, suspend...), session.ExitError, "cannot read your user name, which is recorded")
	if c.RequestsNow() != nil {
		t.Fatal("it is suspended")
	}
	c.Writes = 0
	for range 2 {
		steps := []func(){func() {}, c.SetSuspended(true)}
		clitest.Prints(t, plugin.RunWith(t, admin, "", steps, suspend...), 0, "Done: device /dev/sdb")
	}
	want := clitest.Request("pv-b", v1alpha1.DeviceActionCordon)
	want.Suspend = true
	want.SuspendReason = record
	if diff := cmp.Diff([]v1alpha1.DeviceRequest{want}, c.RequestsNow()); diff != "" || c.Writes != 1 {
		t.Errorf("%d writes, %s", c.Writes, diff)
	}
	clitest.Prints(t, plugin.Run(t, admin, "devices", "--no-headers"), 0, "SuspendedByRequest")
	clitest.Prints(t, plugin.Run(t, admin, "devices", "-o", "wide"), 0, "suspended by admin at noon")
	clitest.Prints(t, plugin.Run(t, admin, "volumes", "-n", "shop", "-o", "wide"), 0, "Suspended",
		"suspended by bob at noon: disk errors",
		"has data on the suspended device /dev/sdb")
	clitest.Prints(t, plugin.Run(t, admin, "status"), session.ExitProblems, "Suspended: 2 volumes, 1 device\n")
	resume := strings.Fields("resume device worker-1 /dev/sdb --yes")
	clitest.Prints(t, plugin.RunWith(t, admin, "", []func(){func() {}, c.SetSuspended(false)}, resume...), 0,
		"New Pods get the volumes",
		"Done: device /dev/sdb")
	clitest.Prints(t, plugin.RunWith(t, admin, "", nil, resume...), 0, "Nothing is changed.")
	if len(c.RequestsNow()) != 0 || c.Writes != 2 {
		t.Errorf("got %+v, %d writes", c.RequestsNow(), c.Writes)
	}
	clitest.Prints(t, plugin.RunWith(t, admin, "", nil, append(suspend, "--timeout", "2ns")...), session.ExitTimeout, "The request stays")
}

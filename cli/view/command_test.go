package view

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

func TestOutputOfEachCommand(t *testing.T) {
	reader := clitest.FakeReader(nil, clitest.BrokenObjects("storage")...)
	codes := map[string]int{"status": session.ExitProblems}
	for _, command := range []string{"status", "devices", "classes", "volumes", "orphans"} {
		for name, flags := range map[string][]string{"table": nil, "wide": {"-o", "wide"}, "json": {"-o", "json"},
			"yaml": {"-o", "yaml"}, "no-headers": {"--no-headers"}} {
			t.Run(command+" "+name, func(t *testing.T) {
				got := plugin.Run(t, reader, append([]string{command}, flags...)...)
				if got.Code != codes[command] {
					t.Errorf("exit code %d: %s", got.Code, got.Err)
				}
				clitest.Golden(t, command+"."+name, got.Out)
			})
		}
	}
}

func TestHealthy(t *testing.T) {
	got := plugin.Run(t, clitest.FakeReader(nil, clitest.HealthyObjects("storage")...), "status")
	want := "Healthy\nLVMCluster storage/lvmcluster: Ready, 1/1 volume groups ready, 60Gi free of 100Gi\n"
	if got != (clitest.Result{Out: want}) {
		t.Errorf("got %+v", got)
	}
}

// TestTheOperatorDoesNotRun: the state of the LVMCluster is then what it reported earlier.
func TestTheOperatorDoesNotRun(t *testing.T) {
	standby := clitest.OperatorOf("storage", 1)
	standby.Name = "lvms-operator-standby"
	for name, test := range map[string]struct {
		operators []client.Object
		want      string
	}{
		"no ready Pod":   {[]client.Object{clitest.OperatorOf("storage", 0)}, "The operator has no Pod that is ready"},
		"a standby runs": {[]client.Object{clitest.OperatorOf("storage", 0), standby}, ""},
		"no Deployment":  {nil, "The Deployment of the operator does not exist"},
		"in another namespace": {[]client.Object{clitest.OperatorOf("other", 1)},
			"The Deployment of the operator does not exist"},
		"the operator is ready": {[]client.Object{clitest.OperatorOf("storage", 2)}, ""},
	} {
		got := plugin.Run(t, clitest.FakeReader(nil, append(test.operators, clitest.HealthyObjects("storage")[1:]...)...), "status", "-o",
			"wide")
		want := 0
		if test.want != "" {
			want = session.ExitProblems
		}
		if got.Code != want || !strings.Contains(got.Out, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

// TestWhetherTheOperatorRunsIsNotKnown: the state is not healthy then.
func TestWhetherTheOperatorRunsIsNotKnown(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"forbidden": {apierrors.NewForbidden(deployments, "lvms-operator", errors.New("no")),
			"error: cannot tell whether the operator runs: you need the permission for the verb get"},
		"no answer": {errors.New("timeout"),
			"error: cannot tell whether the operator runs: read the Deployment storage/lvms-operator: timeout"},
	} {
		reader := interceptor.NewClient(clitest.FakeReader(nil, clitest.HealthyObjects("storage")...).(client.WithWatch),
			interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object,
				...client.GetOption) error {
				return test.err
			}})
		if got := plugin.Run(t, reader, "status"); got.Code != 1 || !strings.Contains(got.Err, test.want) ||
			!strings.Contains(got.Out, "Unknown") {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestWarningsOfNodesAreOnStandardError(t *testing.T) {
	stale := clitest.HealthyNode("storage")
	stale.Status.LastObserved.Time = clitest.Now.AddDate(0, 0, -1)
	reader := clitest.FakeReader(nil, stale, clitest.BrokenNode("storage"))
	want := "warning: node worker-1: the state is not current: The node agent has not observed the node since " +
		"2026-03-01T08:15:30Z.\n"
	if got := plugin.Run(t, reader, "classes"); got.Err != want {
		t.Errorf("got %q", got.Err)
	}
	want += "note: node worker-2: 7 devices that cannot be used are not listed\n"
	if got := plugin.Run(t, reader, "devices"); got.Err != want {
		t.Errorf("got %q", got.Err)
	}
	if got := plugin.Run(t, reader, "devices", "-o", "json"); got.Err != "" || !strings.Contains(got.Out, `"current": false`) {
		t.Errorf("got %+v", got)
	}
}

func TestFilters(t *testing.T) {
	reader := clitest.FakeReader(nil, clitest.BrokenObjects("storage")...)
	const (
		one     = "shop/data worker-1 vg1 20Gi Ready"
		two     = "shop/data-2 worker-2 vg1 20Gi Ready"
		unknown = "<none> worker-2 <none> 20Gi Ready"
		failed  = "web/cache worker-1 vg1 20Gi Failed"
	)
	tests := map[string]struct {
		args []string
		want []string
	}{
		"devices in a state": {[]string{"devices", "--node", "worker-1", "--state", "Available"},
			[]string{"worker-1 /dev/sdc Available 1.5Gi disk <none> <none>"}},
		"a class of a node": {[]string{"classes", "--node", "worker-1", "--class", "vg1"},
			[]string{"vg1 worker-1 Ready 100Gi 10Gi 45% 3%"}},
		"the namespace of claims":    {[]string{"volumes", "-n", "web"}, []string{failed}},
		"a claim by its name":        {[]string{"volumes", "--claim", "data"}, []string{one}},
		"a claim with its namespace": {[]string{"volumes", "--claim", "shop/data-2"}, []string{two}},
		"volumes of a node":          {[]string{"volumes", "--node", "worker-2"}, []string{unknown, two}},
		"volumes of a class":         {[]string{"volumes", "--class", "vg1", "-n", "shop"}, []string{one, two}},
		"a device by its path": {[]string{"volumes", "--device", "/dev/sdb", "--node", "worker-1"},
			[]string{one, failed}},
		"a device by its ID on all nodes": {[]string{"volumes", "--device", "wwn:0x2"},
			[]string{unknown, one, two, failed}},
		"a device by a link": {[]string{"volumes", "--device", "/dev/disk/by-id/wwn-0x2", "--node", "worker-2"},
			[]string{unknown, two}},
		"a missing device by its UUID": {[]string{"volumes", "--device", "pv-d"}, []string{unknown, two}},
		"a device that is not used":    {[]string{"volumes", "--device", "/dev/sdc"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := plugin.Run(t, reader, append(test.args, "--no-headers")...)
			if got.Code != 0 || strings.Join(clitest.Lines(got.Out), "\n") != strings.Join(test.want, "\n") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestTheListSaysWhatTheAPIDoesNotKnow(t *testing.T) {
	reader := clitest.FakeReader(nil, clitest.BrokenObjects("storage")...)
	if got := plugin.Run(t, reader, "volumes", "--device", "pv-d"); got.Err != "note: "+sharedNote+"\n" {
		t.Errorf("got %q", got.Err)
	}
	got := plugin.Run(t, reader, "volumes", "--device", "/dev/sdc")
	want := "note: The node status says that no device class uses the device /dev/sdc, or a device that is built on " +
		"it.\nNo volumes found\n"
	if got.Err != want || got.Code != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestWrongArguments(t *testing.T) {
	reader := clitest.FakeReader(nil, clitest.BrokenObjects("storage")...)
	for want, args := range map[string]string{
		`error: --output "xml" is not supported: use one of wide, json, yaml`:       "status -o xml",
		`error: --state "Broken" is not a state of a device`:                        "devices --state Broken",
		"error: node worker-9 has no LVMVolumeGroupNodeStatus":                      "classes --node worker-9",
		"error: no node lists the device /dev/sdz":                                  "volumes --device /dev/sdz",
		"error: --claim shop/data is not in the namespace web of -n: give only one": "volumes -n web --claim shop/data",
	} {
		got := plugin.Run(t, reader, strings.Fields(args)...)
		if got.Code != session.ExitError || !strings.HasPrefix(got.Err, want) || got.Out != "" {
			t.Errorf("%s: got %+v", args, got)
		}
	}
}

func TestAFailedReadIsNeverHealthyOrEmpty(t *testing.T) {
	broken := errors.New("connection refused")
	for _, resource := range []string{session.ClustersResource, session.NodeStatusesResource,
		session.RecoveriesResource, session.VolumesResource} {
		reader := clitest.FakeReader(clitest.Failing(resource, broken), clitest.HealthyObjects("storage")...)
		got := plugin.Run(t, reader, "status")
		if got.Code != session.ExitError || !strings.HasPrefix(got.Out, "Unknown: 1 kind of object could not be read.") ||
			!strings.HasPrefix(got.Err, "error: cannot list "+resource) || !strings.Contains(got.Err, broken.Error()) {
			t.Errorf("%s: got %+v", resource, got)
		}
		got = plugin.Run(t, reader, "status", "-o", "json")
		if got.Code != session.ExitError || !strings.Contains(got.Out, `"healthy": false`) ||
			!strings.Contains(got.Out, `"complete": false`) || !strings.Contains(got.Out, `"resource": "`+resource) {
			t.Errorf("%s: got %+v", resource, got)
		}
	}
	for command, resource := range map[string]string{"devices": session.NodeStatusesResource, "classes": session.NodeStatusesResource,
		"volumes": session.VolumesResource, "orphans": session.NodeStatusesResource} {
		got := plugin.Run(t, clitest.FakeReader(clitest.Failing(resource, broken)), command)
		if got.Code != session.ExitError || got.Out != "" || !strings.Contains(got.Err, broken.Error()) {
			t.Errorf("%s: got %+v", command, got)
		}
	}
	got := plugin.Run(t, clitest.FakeReader(clitest.Failing(session.NodeStatusesResource, broken)), "volumes", "--device", "/dev/sdb")
	if got.Code != session.ExitError || got.Out != "" || !strings.Contains(got.Err, session.NodeStatusesResource) {
		t.Errorf("got %+v", got)
	}
}

func TestSomeProblemsAreShownIfAKindCannotBeRead(t *testing.T) {
	reader := clitest.FakeReader(clitest.Failing(session.VolumesResource, errors.New("timeout")), clitest.BrokenObjects("storage")...)
	got := plugin.Run(t, reader, "status")
	if got.Code != session.ExitError || !strings.Contains(got.Out, "DeviceMissing") {
		t.Errorf("got %+v", got)
	}
}

func forbidden(list client.ObjectList) error {
	return apierrors.NewForbidden(clitest.ResourceOf(list), "", errors.New("no role"))
}

func TestForbiddenNamesThePermission(t *testing.T) {
	reader := clitest.FakeReader(func(list client.ObjectList, _ client.ListOptions) error { return forbidden(list) })
	const wants = "you need the permission for the verb list on the resource "
	for command, want := range map[string]string{
		"status":             wants + "lvmrecoveries of the API group lvm.topolvm.io",
		"devices":            "in all namespaces or in the namespace openshift-lvm-storage: " + wants,
		"classes -n storage": "in the namespace storage: " + wants,
		"volumes":            wants + "logicalvolumes of the API group topolvm.io",
	} {
		got := plugin.Run(t, reader, strings.Fields(command)...)
		if got.Code != session.ExitError || !strings.Contains(got.Err, want) {
			t.Errorf("%s: got %+v", command, got)
		}
	}
}

func TestWithoutPermissionForAllNamespacesTheDefaultOneIsRead(t *testing.T) {
	reader := clitest.FakeReader(func(list client.ObjectList, o client.ListOptions) error {
		if o.Namespace == "" && clitest.ResourceOf(list).Resource != "logicalvolumes" {
			return forbidden(list)
		}
		return nil
	}, append(clitest.HealthyObjects(session.DefaultNamespace), clitest.BrokenNode("elsewhere"))...)
	got := plugin.Run(t, reader, "status")
	if got.Code != 0 || !strings.HasPrefix(got.Out, "Healthy\n") ||
		!strings.Contains(got.Err, "note: You may not list "+session.ClustersResource+" in all namespaces, so only those in "+
			"the namespace "+session.DefaultNamespace+" were read.") {
		t.Errorf("got %+v", got)
	}
}

func TestNotInstalled(t *testing.T) {
	absent := &apierrors.StatusError{ErrStatus: apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{},
		"", "", 0, false).ErrStatus}
	for _, command := range []string{"status", "devices", "classes", "volumes"} {
		got := plugin.Run(t, clitest.FakeReader(clitest.Failing("", absent)), command)
		if got.Code != session.ExitError || got.Out != "" || got.Err != "error: "+session.ErrNotInstalled.Error()+"\n" {
			t.Errorf("%s: got %+v", command, got)
		}
	}
	got := plugin.Run(t, clitest.FakeReader(clitest.Failing(session.RecoveriesResource, absent), clitest.HealthyObjects("storage")...), "status")
	if got.Code != session.ExitError || !strings.Contains(got.Err, "does not have "+session.RecoveriesResource) {
		t.Errorf("got %+v", got)
	}
}

func TestNoLVMCluster(t *testing.T) {
	got := plugin.Run(t, clitest.FakeReader(nil), "status", "--no-headers")
	if got.Code != session.ExitProblems || !strings.HasPrefix(got.Out, "NoLVMCluster") {
		t.Errorf("got %+v", got)
	}
}

func TestNamespaces(t *testing.T) {
	reader := clitest.FakeReader(nil, append(clitest.HealthyObjects("one"), clitest.OperatorOf("two", 1), clitest.BrokenCluster("two"),
		clitest.BrokenNode("two"))...)
	if got := plugin.Run(t, reader, "status", "-n", "one"); got.Code != 0 {
		t.Errorf("one: got %+v", got)
	}
	if got := plugin.Run(t, reader, "status", "-n", "two"); got.Code != session.ExitProblems || strings.Contains(got.Out, "one/") {
		t.Errorf("two: got %+v", got)
	}
	got := plugin.Run(t, reader, "status")
	if got.Code != session.ExitProblems || !strings.Contains(got.Out, "LVMCluster one/") ||
		!strings.Contains(got.Out, "LVMCluster two/") {
		t.Errorf("all: got %+v", got)
	}
	if got := plugin.Run(t, reader, "status", "-n", "three"); got.Code != session.ExitProblems {
		t.Errorf("three: got %+v", got)
	}
}

func TestCompletion(t *testing.T) {
	reader := clitest.FakeReader(nil, clitest.BrokenObjects("storage")...)
	for args, want := range map[string]string{
		"devices --node w":                  "worker-1 worker-2",
		"devices --state ":                  "Available InUse Excluded Missing Failing Unknown",
		"classes --class ":                  "vg1",
		"classes --output ":                 "wide json yaml",
		"volumes --device ":                 "/dev/sdb /dev/sdd",
		"volumes --node worker-1 --device ": "/dev/sdb",
		"volumes --claim shop":              "shop/data shop/data-2",
		"volumes -n web --claim ":           "web/cache",
	} {
		got := plugin.Run(t, reader, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		var values []string
		for _, line := range clitest.Lines(got.Out) {
			value, _, _ := strings.Cut(line, " ")
			values = append(values, value)
		}
		if joined := strings.Join(values, " "); joined != want+" :4" && joined != want+" :36" {
			t.Errorf("%s: got %q", args, joined)
		}
	}
}

func TestCompletionWithoutAServerHasATimeLimit(t *testing.T) {
	limited := false
	reader := onlyLists{list: func(ctx context.Context) error {
		_, limited = ctx.Deadline()
		return errors.New("unreachable")
	}}
	got := plugin.Run(t, reader, "__complete", "devices", "--node", "")
	if !limited || got.Code != 0 || strings.TrimSpace(got.Out) != ":4" {
		t.Errorf("limited %v, got %+v", limited, got)
	}
}

// onlyLists is a client that only lists.
type onlyLists struct {
	client.Client
	list func(context.Context) error
}

func (f onlyLists) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	return f.list(ctx)
}

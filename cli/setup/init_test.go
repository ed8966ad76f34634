package setup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// reviewObjects are an LVMCluster and two nodes with a blank disk at different paths.
func reviewObjects() []client.Object {
	first, second := clitest.WaitingNode("storage"), clitest.WaitingNode("storage")
	second.Name = "worker-2"
	second.Status.Devices[2].ByID = []string{"wwn-0x4"}
	second.Status.Devices[2].Fingerprint = "v1-22222222222222222222222222222222"
	for _, node := range []*v1alpha1.LVMVolumeGroupNodeStatus{first, second} {
		node.Status.Devices[2].Eligibility = nil
	}
	return []client.Object{clitest.StorageCluster("storage"), first, second}
}

// reviewed writes what discover prints to a file, with some devices selected.
func reviewed(t *testing.T, c client.Client, edit ...string) string {
	t.Helper()
	got := plugin.Run(t, c, "discover")
	if got.Code != 0 {
		t.Fatalf("got %+v", got)
	}
	file := filepath.Join(t.TempDir(), "review.yaml")
	text := strings.NewReplacer(edit...).Replace(got.Out)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDiscoverWritesAReview(t *testing.T) {
	c := asUser("ann", nil, reviewObjects()...)
	got := plugin.Run(t, c, "discover")
	if got.Code != 0 {
		t.Errorf("got %+v", got)
	}
	clitest.Golden(t, "discover.yaml", got.Out)
	if one := plugin.Run(t, c, "discover", "--node", "worker-1"); strings.Contains(one.Out, "worker-2") || one.Code != 0 {
		t.Errorf("one node: got %+v", one)
	}
	if none := plugin.Run(t, c, "discover", "--node", "worker-9"); none.Code != session.ExitError {
		t.Errorf("no such node: got %+v", none)
	}
}

func classNamed(t *testing.T, c client.Client, name string) *v1alpha1.DeviceClass {
	t.Helper()
	cluster := &v1alpha1.LVMCluster{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "storage", Name: "lvmcluster"}, cluster); err != nil {
		t.Fatal(err)
	}
	for i := range cluster.Spec.Storage.DeviceClasses {
		if class := &cluster.Spec.Storage.DeviceClasses[i]; class.Name == name {
			return class
		}
	}
	return nil
}

func TestInitCreatesTheDeviceClassAndTheApprovals(t *testing.T) {
	c := asUser("ann", nil, reviewObjects()...)
	file := reviewed(t, c, "select: false", "select: true")
	args := []string{"init", file, "--class", "data", "--thin-pool", "pool"}
	if got := plugin.RunWith(t, c, "no\n", nil, args...); got.Code != session.ExitError || classNamed(t, c, "data") != nil {
		t.Errorf("the answer no: got %+v", got)
	}
	dry := plugin.Run(t, c, append(args, "--dry-run")...)
	expect.Equal(t, "code", dry.Code, 0)
	if classNamed(t, c, "data") != nil {
		t.Errorf("a dry run: got %+v", dry)
	}
	if len(approvalsIn(t, c)) > 0 {
		t.Errorf("a dry run: got %+v", dry)
	}
	expect.Equal(t, `Count(dry.out, "kind: LVMDeviceApproval")`, strings.Count(dry.Out, "kind: LVMDeviceApproval"), 2)
	expect.Contains(t, "out", dry.Out, "approval: Required")
	got := plugin.RunWith(t, c, "yes\n", nil, args...)
	if got.Code != 0 {
		t.Fatalf("got %+v", got)
	}
	clitest.Golden(t, "init.yes", got.Out)
	class := classNamed(t, c, "data")
	if class == nil {
		t.Fatalf("got %+v", class)
	}
	expect.Equal(t, "Approval", class.Approval, v1alpha1.ApprovalRequired)
	expect.Equal(t, "ThinPoolConfig.Name", class.ThinPoolConfig.Name, "pool")
	if len(class.DeviceSelectors) != 2 {
		t.Fatalf("got %+v", class)
	}
	expect.Slice(t, "DeviceSelectors[1].Paths", class.DeviceSelectors[1].Paths,
		[]v1alpha1.DevicePath{"/dev/disk/by-id/wwn-0x4"})
	expect.Equal(t, "DeviceSelectors[1].NodeSelector.NodeSelectorTerms[0].MatchFields[0].Values[0]",
		class.DeviceSelectors[1].NodeSelector.NodeSelectorTerms[0].MatchFields[0].Values[0], "worker-2")
	approvals := approvalsIn(t, c)
	if len(approvals) != 2 || approvals[0].Spec.DeviceClassName != "data" || approvals[0].Spec.ApprovedBy != "ann" {
		t.Errorf("got %+v", approvals)
	}
	if got := plugin.Run(t, c, append(args, "--yes")...); got.Code != session.ExitError ||
		!strings.Contains(got.Err, "already has the device class data") {
		t.Errorf("again: got %+v", got)
	}
}

func TestInitWithoutApproval(t *testing.T) {
	c := asUser("ann", nil, reviewObjects()...)
	got := plugin.Run(t, c, "init", reviewed(t, c, "select: false", "select: true"), "--class", "data", "--approve=false",
		"--yes")
	if got.Code != 0 || !strings.Contains(got.Out, "before it is approved") || len(approvalsIn(t, c)) > 0 ||
		classNamed(t, c, "data") == nil {
		t.Errorf("got %+v", got)
	}
}

func TestInitRefuses(t *testing.T) {
	all := []string{"select: false", "select: true"}
	cluster := reviewObjects()[0]
	for name, test := range map[string]struct {
		edit    []string
		objects []client.Object
		says    string
	}{
		"nothing is selected": {nil, reviewObjects(), "no device is selected"},
		"another kind": {append(all, "DeviceReview", "Other"), reviewObjects(),
			"is not a file of kubectl lvms discover"},
		"an unknown field": {append(all, "content:", "contents:"), reviewObjects(),
			"is not a file of kubectl lvms discover"},
		"a changed device": {append(all, "v1-2222", "v1-3333"), reviewObjects(), "has changed since the review"},
		"a removed device": {append(all, "wwn-0x4", "wwn-0x9"), reviewObjects(), "no longer lists the device"},
		"a removed node":   {all, reviewObjects()[:2], "node worker-2 has no"},
		"no LVMCluster":    {all, reviewObjects()[1:], "there is no LVMCluster"},
		"two LVMClusters":  {all, append(reviewObjects(), clitest.StorageCluster("elsewhere")), "several LVMClusters"},
		"no nodes":         {all, []client.Object{cluster}, "node worker-1 has no"},
	} {
		file := reviewed(t, asUser("ann", nil, reviewObjects()...), test.edit...)
		c := asUser("ann", nil, test.objects...)
		got := plugin.Run(t, c, "init", file, "--class", "data", "--yes")
		if got.Code != session.ExitError || !strings.Contains(got.Err, test.says) || len(approvalsIn(t, c)) > 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	c := asUser("ann", nil, reviewObjects()...)
	if got := plugin.Run(t, c, "init", filepath.Join(t.TempDir(), "missing"), "--yes"); got.Code != session.ExitError {
		t.Errorf("no file: got %+v", got)
	}
}

func TestNodesWithTheSamePathsShareASelector(t *testing.T) {
	var review []output.ReviewedDevice
	for _, node := range strings.Fields("a b c d e f g h i j k l m n o p q") {
		review = append(review, output.ReviewedDevice{Node: node, Path: "/dev/disk/by-path/1"})
	}
	class, err := newReviewedClass(&initFlags{class: "data"}, review)
	if err != nil || len(class.DeviceSelectors) != 1 ||
		len(class.DeviceSelectors[0].NodeSelector.NodeSelectorTerms) != len(review) {
		t.Errorf("got %+v, %v", class, err)
	}
	if hasOptionalPaths(&class) {
		t.Error("a missing device would not be reported")
	}
}

// TestManyNodesShareSelectors has a path of its own on each node, as with links in /dev/disk/by-id.
func TestManyNodesShareSelectors(t *testing.T) {
	for name, test := range map[string]struct {
		nodes, devices, selectors int
		says                      string
		optional                  bool
	}{
		"as many as selectors":     {nodes: 16, devices: 2, selectors: 16},
		"one node too many":        {nodes: 17, devices: 2, selectors: 1, optional: true},
		"a hundred":                {nodes: 100, devices: 4, selectors: 4, optional: true},
		"as many as the API has":   {nodes: 2048, devices: 1, selectors: 16, optional: true},
		"more than the API has":    {nodes: 2049, devices: 1, says: "need 17 deviceSelectors with 128 paths each"},
		"paths that fit by halves": {nodes: 17, devices: 100, says: "split the file by nodes"},
		"too many on a node":       {nodes: 1, devices: 129, says: "node n0 has 129 selected devices"},
	} {
		var review []output.ReviewedDevice
		for node := range test.nodes {
			for device := range test.devices {
				review = append(review, output.ReviewedDevice{Node: fmt.Sprint("n", node),
					Path: fmt.Sprintf("/dev/disk/by-id/wwn-%04d-%03d", node, device)})
			}
		}
		class, err := newReviewedClass(&initFlags{class: "data"}, review)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v", name, err)
		}
		if err != nil {
			continue
		}
		nodes := 0
		paths := 0
		for _, s := range class.DeviceSelectors {
			nodes += len(s.NodeSelector.NodeSelectorTerms)
			paths += len(s.Paths) + len(s.OptionalPaths)
		}
		if len(class.DeviceSelectors) != test.selectors || nodes != test.nodes || paths != test.nodes*test.devices ||
			hasOptionalPaths(&class) != test.optional {
			t.Errorf("%s: got %d selectors for %d nodes with %d paths", name, len(class.DeviceSelectors), nodes, paths)
		}
	}
}

// TestThePreviewNamesOptionalPaths: a device that is missing is not reported then.
func TestThePreviewNamesOptionalPaths(t *testing.T) {
	class := v1alpha1.DeviceClass{Name: "data", DeviceSelectors: []v1alpha1.NodeDeviceSelector{{
		DeviceSelector: v1alpha1.DeviceSelector{OptionalPaths: []v1alpha1.DevicePath{"/dev/sdb"}}}}}
	if text := initText(clitest.StorageCluster("storage"), class, nil, "ann"); !strings.Contains(text,
		"Their paths are optionalPaths, because the API allows 16 deviceSelectors") {
		t.Errorf("got %s", text)
	}
}

func TestInitCreatesAnLVMCluster(t *testing.T) {
	c := asUser("ann", nil)
	present := func() []v1alpha1.LVMCluster {
		list := &v1alpha1.LVMClusterList{}
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	if got := plugin.RunWith(t, c, "no\n", nil, "init"); got.Code != session.ExitError || len(present()) > 0 {
		t.Errorf("the answer no: got %+v", got)
	}
	dry := plugin.Run(t, c, "init", "--dry-run", "-n", "storage")
	if dry.Code != 0 || len(present()) > 0 || !strings.Contains(dry.Out, "kind: LVMCluster\nmetadata:\n  name: "+
		"my-lvmcluster\n  namespace: storage\n") || !strings.Contains(dry.Err, "No device is changed.") {
		t.Errorf("a dry run: got %+v", dry)
	}
	got := plugin.RunWith(t, c, "yes\n", nil, "init")
	if got.Code != 0 || !strings.Contains(got.Out, "LVMCluster openshift-lvm-storage/my-lvmcluster was created.") {
		t.Errorf("got %+v", got)
	}
	if all := present(); len(all) != 1 || len(all[0].Spec.Storage.DeviceClasses) > 0 {
		t.Errorf("got %+v", all)
	}
	for _, again := range []string{"--yes", "--dry-run"} {
		if got := plugin.Run(t, c, "init", again); got.Code != session.ExitError ||
			!strings.Contains(got.Err, "openshift-lvm-storage/my-lvmcluster already exists") {
			t.Errorf("again with %s: got %+v", again, got)
		}
	}
}

func TestInitCreatesNoLVMCluster(t *testing.T) {
	resource := schema.GroupResource{Group: "lvm.topolvm.io", Resource: "lvmclusters"}
	for name, test := range map[string]struct {
		args []string
		err  error
		says string
	}{
		"a flag without effect": {args: []string{"--class", "data"}, says: "--class needs the file of a review"},
		"no namespace": {err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, session.DefaultNamespace),
			says: "give the namespace of the operator with -n"},
		"no permission": {err: apierrors.NewForbidden(resource, "my-lvmcluster", errors.New("no")),
			says: "you need the permission for the verb create on the resource lvmclusters"},
		"created meanwhile": {err: apierrors.NewAlreadyExists(resource, "my-lvmcluster"), says: "already exists"},
		"no answer":         {err: errors.New("connection lost"), says: "it is unknown whether the change was saved"},
	} {
		c := asUser("ann", func(client.Object) error { return test.err })
		got := plugin.Run(t, c, append([]string{"init", "--yes"}, test.args...)...)
		if got.Code != session.ExitError || !strings.Contains(got.Err, test.says) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	got := plugin.Run(t, clitest.FakeReader(func(client.ObjectList, client.ListOptions) error {
		return errors.New("no answer")
	}), "init", "--yes")
	if got.Code != session.ExitError || !strings.Contains(got.Err, "cannot list lvmclusters") {
		t.Errorf("a list that fails: got %+v", got)
	}
}

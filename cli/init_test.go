package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// reviewObjects are an LVMCluster and two nodes with a blank disk at different paths.
func reviewObjects() []client.Object {
	first, second := waitingNode("storage"), waitingNode("storage")
	second.Name = "worker-2"
	second.Status.Devices[2].ByID = []string{"wwn-0x4"}
	second.Status.Devices[2].Fingerprint = "v1-22222222222222222222222222222222"
	for _, node := range []*v1alpha1.LVMVolumeGroupNodeStatus{first, second} {
		node.Status.Devices[2].Eligibility = nil
	}
	return []client.Object{storageCluster("storage"), first, second}
}

// reviewed writes what discover prints to a file, with some devices selected.
func reviewed(t *testing.T, c client.Client, edit ...string) string {
	t.Helper()
	got := run(t, c, "discover")
	if got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	file := filepath.Join(t.TempDir(), "review.yaml")
	text := strings.NewReplacer(edit...).Replace(got.out)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDiscoverWritesAReview(t *testing.T) {
	c := asUser("ann", nil, reviewObjects()...)
	got := run(t, c, "discover")
	if got.code != 0 {
		t.Errorf("got %+v", got)
	}
	golden(t, "discover.yaml", got.out)
	if one := run(t, c, "discover", "--node", "worker-1"); strings.Contains(one.out, "worker-2") || one.code != 0 {
		t.Errorf("one node: got %+v", one)
	}
	if none := run(t, c, "discover", "--node", "worker-9"); none.code != exitError {
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
	if got := runWith(t, c, "no\n", nil, args...); got.code != exitError || classNamed(t, c, "data") != nil {
		t.Errorf("the answer no: got %+v", got)
	}
	dry := run(t, c, append(args, "--dry-run")...)
	if dry.code != 0 || classNamed(t, c, "data") != nil || len(approvalsIn(t, c)) > 0 ||
		strings.Count(dry.out, "kind: LVMDeviceApproval") != 2 || !strings.Contains(dry.out, "approval: Required") {
		t.Errorf("a dry run: got %+v", dry)
	}
	got := runWith(t, c, "yes\n", nil, args...)
	if got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	golden(t, "init.yes", got.out)
	class := classNamed(t, c, "data")
	if class == nil || class.Approval != v1alpha1.ApprovalRequired || class.ThinPoolConfig.Name != "pool" ||
		len(class.DeviceSelectors) != 2 ||
		!slices.Equal(class.DeviceSelectors[1].Paths, []v1alpha1.DevicePath{"/dev/disk/by-id/wwn-0x4"}) ||
		class.DeviceSelectors[1].NodeSelector.NodeSelectorTerms[0].MatchFields[0].Values[0] != "worker-2" {
		t.Errorf("got %+v", class)
	}
	approvals := approvalsIn(t, c)
	if len(approvals) != 2 || approvals[0].Spec.DeviceClassName != "data" || approvals[0].Spec.ApprovedBy != "ann" {
		t.Errorf("got %+v", approvals)
	}
	if got := run(t, c, append(args, "--yes")...); got.code != exitError ||
		!strings.Contains(got.err, "already has the device class data") {
		t.Errorf("again: got %+v", got)
	}
}

func TestInitWithoutApproval(t *testing.T) {
	c := asUser("ann", nil, reviewObjects()...)
	got := run(t, c, "init", reviewed(t, c, "select: false", "select: true"), "--class", "data", "--approve=false",
		"--yes")
	if got.code != 0 || !strings.Contains(got.out, "before it is approved") || len(approvalsIn(t, c)) > 0 ||
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
		"two LVMClusters":  {all, append(reviewObjects(), storageCluster("elsewhere")), "several LVMClusters"},
		"no nodes":         {all, []client.Object{cluster}, "node worker-1 has no"},
	} {
		file := reviewed(t, asUser("ann", nil, reviewObjects()...), test.edit...)
		c := asUser("ann", nil, test.objects...)
		got := run(t, c, "init", file, "--class", "data", "--yes")
		if got.code != exitError || !strings.Contains(got.err, test.says) || len(approvalsIn(t, c)) > 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	c := asUser("ann", nil, reviewObjects()...)
	if got := run(t, c, "init", filepath.Join(t.TempDir(), "missing"), "--yes"); got.code != exitError {
		t.Errorf("no file: got %+v", got)
	}
}

func TestNodesWithTheSamePathsShareASelector(t *testing.T) {
	var review []ReviewedDevice
	for _, node := range strings.Fields("a b c d e f g h i j k l m n o p q") {
		review = append(review, ReviewedDevice{Node: node, Path: "/dev/disk/by-path/1"})
	}
	class, err := newReviewedClass(&initFlags{class: "data"}, review)
	if err != nil || len(class.DeviceSelectors) != 1 ||
		len(class.DeviceSelectors[0].NodeSelector.NodeSelectorTerms) != len(review) {
		t.Errorf("got %+v, %v", class, err)
	}
	for i := range review {
		review[i].Path += review[i].Node
	}
	if _, err := newReviewedClass(&initFlags{class: "data"}, review); err == nil {
		t.Error("more selectors than the API allows")
	}
}

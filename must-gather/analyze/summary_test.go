package analyze

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/must-gather/archive"
)

// well is an archive of a healthy cluster.
func well() fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const own = "namespaces/openshift-lvm-storage/"
	return fstest.MapFS{
		"version":      file("lvm-operator/must-gather\n0.1.0\n"),
		"timings.json": file(`{"ended":"2026-03-01T12:00:00Z","steps":[{"name":"objects"}]}`),
		"errors.json":  file(`{"failures":[]}`),
		"cluster-scoped-resources/core/nodes/node1.yaml": file(`---
apiVersion: v1
kind: Node
metadata: {name: node1}
status: {nodeInfo: {kubeletVersion: v1.36.3, kernelVersion: "6.1"}, conditions: [{type: Ready, status: "True"}]}
`),
		own + "lvm.topolvm.io/lvmclusters/my-lvmcluster.yaml": file(
			`{metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}, status: {conditions: [{type: Ready, status: "True"}, {type: ResourcesAvailable, status: "True"}, {type: VolumeGroupsReady, status: "True"}]}}`),
		own + "lvm.topolvm.io/lvmvolumegroupnodestatuses/node1.yaml": file(`
metadata: {name: node1}
status:
  conditions: [{type: DevicesObserved, status: "True"}]
  devices: [{name: /dev/sdx, state: Excluded, reasons: [{code: Mounted}]}]
  nodeStatus: [{name: vg1, status: Ready, size: 10Gi, free: 1Gi, devices: [/dev/sdb], thinPool: {name: pool, size: 9Gi, metadataSize: 1Gi, dataPercent: 12, metadataPercent: 3}}]
`),
		own +
			"apps/deployments.yaml": file(
			`{items: [{metadata: {name: lvms-operator, namespace: openshift-lvm-storage}, status: {availableReplicas: 1}}]}`),
		"monitoring/alerts.json":   file(`{"status":"success","data":{"alerts":[]}}`),
		"nodes/node1/collect.json": file(`{"results":[]}`),
		"nodes/node1/dmesg.txt":    file("2026-03-01 all is well\n"),
	}
}

func summarized(t *testing.T, files fs.FS) *Summary {
	t.Helper()
	facts, err := Load(files, now)
	if err != nil {
		t.Fatal(err)
	}
	return Summarize(facts)
}

func TestAnArchiveOfAClusterThatIsWellIsHealthy(t *testing.T) {
	s := summarized(t, well())
	if s.Verdict != Healthy || len(s.Findings) != 0 {
		t.Fatalf("got %s, %v, %+v", s.Verdict, s.Unread, s.Findings)
	}
	text := s.Markdown()
	for _, want := range []string{"# LVM Storage: healthy", "No problems were found", "2026-03-01 12:00:00Z",
		"Kubernetes v1.36.3", "lvm-operator/must-gather 0.1.0",
		"| vg1 | node1 | Ready | 10Gi | 1Gi | 12 % | 3 % | 1 | 0 |", "| Mounted | 1 | node1:/dev/sdx |"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestCertificatesStandWithTheirEnd(t *testing.T) {
	f := secret(chain(t, now.Add(200*24*time.Hour)).leaf)
	f.Secrets = append(f.Secrets, secret([]byte("x")).Secrets...)
	if text := Summarize(&f).Markdown(); strings.Count(text, "| ns/s | 2026-09-17 12:00:00Z |") != 1 {
		t.Errorf("got\n%s", text)
	}
}

// The verdict is never healthy if something could not be read.
func TestWhatCouldNotBeReadIsNotHealthy(t *testing.T) {
	tests := map[string]func(fstest.MapFS){
		"a list failed": func(a fstest.MapFS) {
			a["errors.json"].Data = []byte(
				`{"failures":[{"what":"lvmclusters.lvm.topolvm.io of namespace a","error":"no"}]}`)
		},
		"a file is broken": func(a fstest.MapFS) {
			a["namespaces/openshift-lvm-storage/apps/deployments.yaml"].Data = []byte("{items: [")
		},
		"the time was over": func(a fstest.MapFS) {
			a["timings.json"].Data = []byte(`{"interrupted":"x","steps":[{"name":"objects","unfinished":true}]}`)
		},
		"there is no node":        func(a fstest.MapFS) { delete(a, "cluster-scoped-resources/core/nodes/node1.yaml") },
		"the errors are not read": func(a fstest.MapFS) { a["errors.json"].Data = []byte("x") },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			archive := well()
			change(archive)
			if s := summarized(t, archive); s.Verdict != Unknown || len(s.Unread) == 0 ||
				!strings.Contains(s.Markdown(), "Unknown, because it could not be read") {
				t.Errorf("got %s, %+v", s.Verdict, s.Findings)
			}
		})
	}
}

func TestAFolderThatIsNoArchiveIsAnError(t *testing.T) {
	if _, err := Load(fstest.MapFS{"a/b": &fstest.MapFile{}}, now); err == nil {
		t.Error("it was read")
	}
}

func TestTheTopNamesEachCauseAndIsShort(t *testing.T) {
	var f Facts
	f.Now = now
	for i := range 50 {
		name := fmt.Sprintf("node%02d", i)
		f.Nodes = append(f.Nodes, node(name, corev1.ConditionUnknown, ""))
		f.NodeStatuses = append(f.NodeStatuses,
			nodeStatus(name, v1alpha1.VGStatus{Name: "vg1", Status: v1alpha1.VGStatusReady}))
	}
	f.NodeStatuses[0].Status.NodeStatus[0].Conditions = []metav1.Condition{falseCondition("DevicesHealthy",
		v1alpha1.ReasonDeviceMissing, strings.Repeat("very long ", 200)+"; volumes at risk: shop/data")}
	f.Deployments = append(f.Deployments, operator("i", 0))
	f.Failures = archive.Failures{Failures: []archive.Failure{{What: "x", Error: "y"}}}
	s := Summarize(&f)
	lines := strings.Split(s.Markdown(), "\n")
	head := strings.Join(lines[:30], "\n")
	for _, want := range []string{"not healthy: 52 critical, 0 warnings", "node node00 has not been ready",
		"46 more of the rule node-not-ready", "DeviceMissing", "shop/data", "has no Pod that is ready"} {
		if !strings.Contains(head, want) {
			t.Errorf("%q is not in the first 30 lines:\n%s", want, head)
		}
	}
	if strings.Contains(head, "could not be read: x") {
		t.Error("what is for information stands at the top")
	}
	content, err := s.JSON()
	var back Summary
	if err != nil || json.Unmarshal(content, &back) != nil || len(back.Findings) != len(s.Findings) {
		t.Errorf("summary.json does not have all: %v", err)
	}
}

// FuzzLoad checks that any archive can be loaded, analyzed and printed.
func FuzzLoad(f *testing.F) {
	archive := well()
	for name, file := range archive {
		f.Add(name, file.Data)
	}
	for _, name := range []string{"cluster-scoped-resources/storage.k8s.io/storageclasses/a.yaml",
		"namespaces/a/core/persistentvolumeclaims.yaml", "namespaces/a/core/pods.yaml",
		"namespaces/a/core/secrets.yaml",
		"cluster-scoped-resources/admissionregistration.k8s.io/validatingwebhookconfigurations/a.yaml",
		"cluster-scoped-resources/topolvm.io/logicalvolumes/a.yaml"} {
		f.Add(name, []byte("{items: [{metadata: {name: a, labels: {app.kubernetes.io/name: vg-manager}}, status: "+
			"{containerStatuses: [{state: {waiting: {}}}]}}]}"))
	}
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		if !fs.ValidPath(name) || strings.HasPrefix(name, "namespaces/openshift-lvm-storage/lvm.topolvm.io") &&
			!strings.HasSuffix(name, ".yaml") {
			t.Skip()
		}
		broken := well()
		broken[name] = &fstest.MapFile{Data: content}
		facts, err := Load(broken, now)
		if err != nil {
			return
		}
		s := Summarize(facts)
		if _, err := s.JSON(); err != nil || !strings.HasPrefix(s.Markdown(), "# LVM Storage: ") {
			t.Errorf("%v\n%s", err, s.Markdown())
		}
	})
}

// A finding refers to the file of its runbook if the archive has it. Runbooks of other products' alerts are not in an
// archive, and older archives have none.
func TestAFindingLeadsToItsRunbookInTheArchive(t *testing.T) {
	files := well()
	files["monitoring/alerts.json"] = &fstest.MapFile{Data: []byte(`{"status":"success","data":{"alerts":[
  {"state":"firing","labels":{"alertname":"LVMSAgentDown","severity":"warning","node":"node1"}},
  {"state":"firing","labels":{"alertname":"KubePersistentVolumeFillingUp","severity":"warning"}}]}}`)}
	const older = "[LVMSAgentDown]\n"
	if text := summarized(t, files).Markdown(); !strings.Contains(text, older) ||
		!strings.Contains(text, "monitoring/runbooks of the product's sources") {
		t.Errorf("without runbooks: %s", text)
	}
	files["monitoring/runbooks/LVMSAgentDown.md"] = &fstest.MapFile{Data: []byte("# LVMSAgentDown\n")}
	s := summarized(t, files)
	text := s.Markdown()
	for _, want := range []string{
		"[LVMSAgentDown](monitoring/runbooks/LVMSAgentDown.md)\n", "[KubePersistentVolumeFillingUp]\n",
		"[monitoring/runbooks](monitoring/runbooks/README.md)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	content, err := s.JSON()
	if err != nil || strings.Count(string(content), `"runbookFile": "monitoring/runbooks/LVMSAgentDown.md"`) != 1 {
		t.Errorf("summary.json: %s, %v", content, err)
	}
}

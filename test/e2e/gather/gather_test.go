//go:build e2e

// Package gather breaks a cluster in several ways, and tells what must-gather makes of it:
// run as `oc adm must-gather` runs it.
package gather

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	// These tests accept the flags of the other end-to-end tests.
	_ "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: thin
      default: true
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: pool, sizePercent: 90, overprovisionRatio: 10}
    - name: loose
      nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node1]}]}]}
      deviceSelector: {paths: [LOOSE]}
`

// namespace is the namespace of the gathering.
const namespace = "openshift-must-gather-e2e"

// world is the cluster of the test.
type world struct {
	*suite.World
}

func TestMustGatherNamesEachCause(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	w := newWorld(ctx, t)
	w.storage(ctx)
	w.healthy(ctx)
	w.breakThings(ctx)

	folder := w.gather(ctx)
	content, err := os.ReadFile(filepath.Join(folder, "summary.md"))
	w.Must(err)
	lines := strings.Split(string(content), "\n")
	head := strings.Join(lines[:min(30, len(lines))], "\n")
	w.Logf("%s: the first lines of summary.md:\n%s", w.Since(), head)
	for cause, wants := range map[string][]string{
		"a disk was pulled":            {"device class loose on node node1: DeviceMissing", "default/loose"},
		"a pool is full":               {"data of thin pool thin/pool on node node1 is"},
		"an agent does not stay up":    {"container vg-manager of pod", "vgmanager.lock"},
		"a node is off":                {"node node2 has not been ready", "default/away"},
		"the certificate is not valid": {"webhook certificate", "was not issued by an authority in the caBundle"},
		"a claim cannot be scheduled": {
			"claim default/huge (100Gi, lvms-thin) is Pending: every node has less capacity than 100Gi"},
		"no operator runs": {"Deployment openshift-lvm-storage/lvms-operator: OperatorUnavailable"},
	} {
		for _, want := range wants {
			if !strings.Contains(head, want) {
				w.Errorf("%s: %q is not in the first 30 lines", cause, want)
			}
		}
	}
	w.whole(folder)
	w.sameOffline(ctx, folder)
}

func newWorld(ctx context.Context, t *testing.T) *world {
	t.Helper()
	w := &world{suite.NewWorld(ctx, t, lab.Options{Name: "e2e-gather", Nodes: 2,
		Disks: []lab.DiskSpec{{Size: lab.GiB}, {Kind: lab.SCSI, Size: lab.GiB}}})}
	w.Must(w.Install(ctx, w.Environment("LVMS_IMAGE")))
	// A standby operator would repair the faults.
	w.MustKubectl(ctx, "patch", "deployment", "lvms-operator", "-n", story.OperatorNamespace, "--type=json",
		"-p", `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--standbys=0"}]`)
	w.MustKubectl(ctx, "rollout", "status", "deployment", "lvms-operator", "-n", story.OperatorNamespace, "--timeout=120s")
	return w
}

// storage creates the classes, and volumes in them.
func (w *world) storage(ctx context.Context) {
	w.Helper()
	disks, err := w.node("node1").Disks(ctx)
	w.Must(err)
	w.Must(w.ApplyManifest(ctx, strings.Replace(classes, "LOOSE", disks[1].Device, 1)))
	w.Must(w.WaitReady(suite.Limited(ctx, 6*time.Minute), "my-lvmcluster"))
	for name, at := range map[string]struct {
		class, node string
		block       bool
	}{"thin": {"lvms-thin", "node1", true}, "loose": {"lvms-loose", "node1", false},
		"away": {"lvms-thin", "node2", false}} {
		v := story.Volume{Namespace: "default", Name: name, Class: at.class, Size: "2Gi", Block: at.block}
		if at.class == "lvms-loose" {
			v.Size = "300Mi"
		}
		w.Must(w.Claim(ctx, v))
		_, err := w.Kubectl(ctx, nil, "cordon", other(at.node))
		w.Must(err)
		w.Must(w.StartPod(ctx, v, name))
		_, err = w.Kubectl(ctx, nil, "uncordon", other(at.node))
		w.Must(err)
	}
	w.Logf("%s: volumes are in use", w.Since())
}

func other(node string) string {
	if node == "node1" {
		return "node2"
	}
	return "node1"
}

// healthy gathers from outside of the healthy cluster, through the agents of both nodes.
func (w *world) healthy(ctx context.Context) {
	w.Helper()
	folder := filepath.Join(w.TempDir(), "must-gather")
	command, err := w.Lab.Command(suite.Limited(ctx, 4*time.Minute), w.Environment("LVMS_GATHER"), "--dest-dir", folder)
	w.Must(err)
	out, err := command.CombinedOutput()
	if err != nil {
		w.Fatalf("gather: %v\n%s", err, out)
	}
	summary, err := os.ReadFile(filepath.Join(folder, "summary.md"))
	w.Must(err)
	if !strings.HasPrefix(string(summary), "# LVM Storage: healthy: 0 critical, 0 warnings") {
		w.Errorf("of a cluster that is well it says:\n%s", summary)
	}
	for _, node := range []string{"node1", "node2"} {
		content, err := os.ReadFile(filepath.Join(folder, "nodes", node, "lvm-fullreport.json"))
		if err != nil || !strings.Contains(string(content), `"thin"`) {
			w.Errorf("%s: %v, %.300s", node, err, content)
		}
	}
	pods, err := w.Kubectl(ctx, nil, "get", "events", "-A", "--field-selector=involvedObject.kind=Pod", "-o", "name")
	if err != nil || strings.Contains(pods, "lvms-collect") {
		w.Errorf("a Pod was made although both agents answer: %s, %v", pods, err)
	}
	w.Logf("%s: gathered from a cluster that is well", w.Since())
}

// breakThings causes one fault after another.
func (w *world) breakThings(ctx context.Context) {
	w.Helper()
	// A claim that exceeds the capacity of every node.
	huge := story.Volume{Namespace: "default", Name: "huge", Class: "lvms-thin", Size: "100Gi"}
	w.Must(w.Claim(ctx, huge))
	_, err := w.Kubectl(ctx, nil, "run", "huge", "--image="+w.Lab.Registry()+"/busybox:1", "--overrides",
		`{"spec":{"containers":[{"name":"huge","image":"`+w.Lab.Registry()+
			`/busybox:1","command":["/bin/sh"],"volumeMounts":[{"name":"d","mountPath":"/d"}]}],"volumes":[{"name":"d","persistentVolumeClaim":{"claimName":"huge"}}]}}`)
	w.Must(err)

	w.Must(w.node("node2").PowerCut(ctx))
	out, err := w.Shell(ctx, "default", "thin",
		"dd if=/dev/zero of=/dev/data bs=1M count=880 conv=notrunc,fsync 2>&1; true")
	w.Logf("%s: node2 is off, a pool is filled: %s, %v", w.Since(), strings.TrimSpace(out), err)
	w.Must(w.node("node1").RemoveDisk(ctx, "disk2"))
	w.Must(story.Wait(suite.Limited(ctx, 4*time.Minute), "node1 tells of pool and disk",
		func(ctx context.Context) (bool, string, error) {
			var status lvmv1alpha1.LVMVolumeGroupNodeStatus
			if err := w.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: "node1"},
				&status); err != nil {
				return false, "", err
			}
			text, err := json.Marshal(status.Status.NodeStatus)
			full := false
			missing := false
			for _, vg := range status.Status.NodeStatus {
				full = full || vg.ThinPool != nil && vg.ThinPool.DataPercent >= 95
				missing = missing || strings.Contains(string(text), lvmv1alpha1.ReasonDeviceMissing)
			}
			return full && missing, string(text), err
		}))
	w.Logf("%s: node1 tells of its pool and its disk", w.Since())

	// The agent can no longer acquire its lock.
	const lock = "/var/lock/vgmanager/vgmanager.lock"
	for _, command := range [][]string{{"rm", lock}, {"mkdir", lock}} {
		_, err := w.node("node1").Exec(ctx, command...)
		w.Must(err)
	}
	agent, err := w.Kubectl(ctx, nil, "get", "pods", "-n", story.OperatorNamespace, "-l",
		"app.kubernetes.io/name=vg-manager", "--field-selector=spec.nodeName=node1", "-o", "name")
	w.Must(err)
	_, err = w.Kubectl(ctx, nil, "delete", "-n", story.OperatorNamespace, strings.TrimSpace(agent))
	w.Must(err)

	w.waits(ctx, "node2 not ready", "get node node2 -o jsonpath={.status.conditions[?(@.type=='Ready')].status}",
		"Unknown")
	w.waits(ctx, "the agent in a crash loop",
		"get pods -n "+story.OperatorNamespace+" -l app.kubernetes.io/name=vg-manager "+
			"--field-selector=spec.nodeName=node1 -o "+
			"jsonpath={.items[*].status.containerStatuses[*].state.waiting.reason}", "CrashLoopBackOff")

	// The operator, which would repair the certificate, does not run.
	_, err = w.Kubectl(ctx, nil, "scale", "-n", story.OperatorNamespace, "deployment", "lvms-operator", "--replicas=0")
	w.Must(err)
	w.waits(ctx, "no operator", "get deployment lvms-operator -n "+story.OperatorNamespace+
		" -o jsonpath={.status.availableReplicas}", "")
	w.waits(ctx, "its process ended", "get pods -n "+story.OperatorNamespace+
		" -l app.kubernetes.io/name=lvms-operator --field-selector=spec.nodeName=node1 -o name", "")
	authority, err := w.Kubectl(ctx, nil, "get", "configmap", "kube-root-ca.crt", "-n", "default", "-o",
		`jsonpath={.data.ca\.crt}`)
	w.Must(err)
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle",
		"value": []byte(authority)}})
	w.Must(err)
	_, err = w.Kubectl(ctx, nil, "patch", "validatingwebhookconfiguration", "lvms-operator-webhook", "--type=json",
		"-p", string(patch))
	w.Must(err)
	w.Logf("%s: everything is broken", w.Since())
}

func (w *world) waits(ctx context.Context, what, command, want string) {
	w.Helper()
	w.Must(story.Wait(suite.Limited(ctx, 6*time.Minute), what, func(ctx context.Context) (bool, string, error) {
		out, err := w.Kubectl(ctx, nil, strings.Fields(command)...)
		return strings.TrimSpace(out) == want, out, err
	}))
}

// watch is the script that `oc adm must-gather` runs next to the program, to end it if the volume gets too full (oc,
// pkg/cli/admin/mustgather).
const watch = `while true; do
used=$(df -P /must-gather | awk 'NR==2 {print $5}' | sed 's/%//')
echo "[watch] ${used}"
if [ "$used" -gt 95 ]; then
  ps -o sess --no-headers | sort -u | while read sid; do [[ "$sid" -eq "$$" ]] && continue; pkill --signal SIGKILL --session "$sid"; done
  exit 1
fi
sleep 5
done`

// gather creates the objects that `oc adm must-gather` creates, and returns a directory with the archive.
func (w *world) gather(ctx context.Context) string {
	w.Helper()
	image, err := w.Lab.LoadImage(ctx, w.Environment("LVMS_GATHER_IMAGE"), w.Lab.Registry()+"/lvms-must-gather:dev")
	w.Must(err)
	labels := map[string]string{}
	for _, mode := range []string{"enforce", "audit", "warn"} {
		labels["pod-security.kubernetes.io/"+mode] = "privileged"
	}
	w.Must(w.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}}))
	w.Must(w.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "must-gather-e2e"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: namespace}}}))
	w.waits(ctx, "the ServiceAccount of the Pod",
		"get serviceaccount default -n "+namespace+" -o jsonpath={.metadata.name}", "default")
	w.Must(w.Create(ctx, pod(image)))
	begun := time.Now()
	w.Must(story.Wait(suite.Limited(ctx, 18*time.Minute), "the gathering ends",
		func(ctx context.Context) (bool, string, error) {
			var p corev1.Pod
			if err := w.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "must-gather"}, &p); err != nil {
				return false, "", err
			}
			for _, s := range p.Status.ContainerStatuses {
				if s.Name == "gather" && s.State.Terminated != nil {
					return true, "", nil
				}
			}
			text, err := json.Marshal(p.Status.ContainerStatuses)
			return false, string(text), err
		}))
	w.Logf("%s: gathered in %s", w.Since(), time.Since(begun).Round(time.Second))
	log, err := w.Kubectl(ctx, nil, "logs", "-n", namespace, "must-gather", "-c", "gather")
	w.Must(err)
	w.Logf("its log:\n%s", log)
	if !strings.Contains(log, "[watch] ") || !strings.Contains(log, "Caches written to disk") {
		w.Error("the watch did not run, or the end was not reached")
	}
	return w.copied(ctx)
}

// pod returns the Pod of `oc adm must-gather`: a container that gathers in a session of its own, one to copy from, and
// a volume for both.
func pod(image string) *corev1.Pod {
	zero := int64(0)
	mounts := []corev1.VolumeMount{{Name: "must-gather-output", MountPath: "/must-gather"}}
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	script := "command -v setsid ps pkill >/dev/null || exit 7\n" + watch +
		" & setsid -w bash <<-MUSTGATHER_EOF\n/usr/bin/gather\nMUSTGATHER_EOF\nsync && echo 'Caches written to disk'"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "must-gather",
			Labels: map[string]string{"app": "must-gather"}},
		Spec: corev1.PodSpec{
			NodeName: "node1", PriorityClassName: "system-cluster-critical", RestartPolicy: corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &zero,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Volumes: []corev1.Volume{{Name: "must-gather-output",
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{
				{Name: "gather", Image: image, Command: []string{"/bin/bash", "-c", script}, VolumeMounts: mounts,
					Env: []corev1.EnvVar{field("NODE_NAME", "spec.nodeName"), field("POD_NAME", "metadata.name"),
						{Name: "MUST_GATHER_SINCE", Value: "1h0m0s"}}},
				{Name: "copy", Image: image, Command: []string{"/bin/bash", "-c",
					"trap : TERM INT; sleep infinity & wait"}, VolumeMounts: mounts},
			},
		},
	}
}

// copied copies the archive from the other container. It uses tar, like `oc rsync` if rsync is not available on both
// sides.
func (w *world) copied(ctx context.Context) string {
	w.Helper()
	if _, err := w.Kubectl(ctx, nil, "exec", "-n", namespace, "must-gather", "-c", "copy", "--", "rsync",
		"--version"); err != nil {
		w.Error(err)
	}
	out, err := w.Kubectl(ctx, nil, "exec", "-n", namespace, "must-gather", "-c", "copy", "--", "tar", "-C",
		"/must-gather", "-cf", "-", ".")
	w.Must(err)
	folder := w.TempDir()
	for reader := tar.NewReader(strings.NewReader(out)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return folder
		}
		w.Must(err)
		at := filepath.Join(folder, filepath.Clean("/"+header.Name))
		if header.Typeflag == tar.TypeDir {
			w.Must(os.MkdirAll(at, 0o755))
			continue
		}
		content, err := io.ReadAll(reader)
		w.Must(err)
		w.Must(os.WriteFile(at, content, 0o644))
	}
}

// whole checks that the archive is complete: it has everything that could be read from both nodes.
func (w *world) whole(folder string) {
	w.Helper()
	for name, want := range map[string]string{
		"version": "lvm-operator/must-gather\n", "timings.json": `"objects"`, "errors.json": "node node2",
		"summary.json":                    `"not healthy"`,
		"nodes/node1/lvm-fullreport.json": `"thin"`, "nodes/node1/lsblk.json": "ubdb",
		"nodes/node1/dmsetup-status.txt":                                                 "thin-pool",
		"cluster-scoped-resources/core/nodes/node2.yaml":                                 "kind: Node",
		"namespaces/openshift-lvm-storage/lvm.topolvm.io/lvmclusters/my-lvmcluster.yaml": "deviceClasses",
		"namespaces/openshift-lvm-storage/oc_output/lvmcluster.yaml":                     "my-lvmcluster",
		"monitoring/runbooks/LVMSDeviceMissing.md":                                       "## Mitigation",
		"docs/how-to/support.md":                                                         "must-gather",
		"summary.md":                                                                     "[LVMSDeviceMissing](monitoring/runbooks/LVMSDeviceMissing.md)",
		"namespaces/default/core/persistentvolumeclaims.yaml":                            "huge",
		"namespaces/openshift-lvm-storage/core/secrets.yaml":                             "tls.key: \"\"",
		"namespaces/openshift-lvm-storage/apps/daemonsets.yaml":                          "vg-manager",
		"cluster-scoped-resources/admissionregistration.k8s.io/validatingwebhookconfigurations/lvms-operator-webhook.yaml": "caBundle",
	} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !strings.Contains(string(content), want) {
			w.Errorf("%s: %v: has no %q: %.600s", name, err, want, content)
		}
	}
	if failures, err := os.ReadFile(filepath.Join(folder, "errors.json")); w.Failed() {
		w.Logf("errors.json: %s, %v", failures, err)
	}
	logs, err := filepath.Glob(filepath.Join(folder,
		"namespaces/openshift-lvm-storage/pods/vg-manager-*/vg-manager/vg-manager/logs/previous.log"))
	if err != nil || len(logs) == 0 {
		w.Errorf("the log of the agent before it ended: %v, %v", logs, err)
	}
	pods, err := w.Kubectl(context.Background(), nil, "get", "pods", "-A", "-l",
		"app.kubernetes.io/name=lvms-collect", "-o", "name")
	if err != nil || strings.TrimSpace(pods) != "" {
		w.Errorf("Pods were left behind: %s, %v", pods, err)
	}
}

// sameOffline analyzes the archive again, and the cluster from outside.
func (w *world) sameOffline(ctx context.Context, folder string) {
	w.Helper()
	there, err := os.ReadFile(filepath.Join(folder, "summary.md"))
	w.Must(err)
	var out bytes.Buffer
	command := exec.CommandContext(ctx, w.Environment("LVMS_GATHER"), "analyze", filepath.Dir(folder))
	command.Stdout = &out
	err = command.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		w.Errorf("gather analyze: %v, want exit code 2", err)
	}
	if out.String() != string(there) {
		w.Errorf("offline it says:\n%s", out.String())
	}
	live, err := w.Lab.Command(ctx, w.Environment("LVMS_GATHER"), "check")
	w.Must(err)
	out.Reset()
	live.Stdout = &out
	if err := live.Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 ||
		!strings.Contains(out.String(), "node node2 has not been ready") {
		w.Errorf("gather check: %v\n%s", err, out.String())
	}
}

func (w *world) node(name string) *lab.Node {
	w.Helper()
	n, err := w.Lab.Node(name)
	w.Must(err)
	return n
}

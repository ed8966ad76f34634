package operand

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/cluster/clusterid"
	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	"github.com/lvm-storage/lvm-operator/internal/cluster/platform"
)

// Only the events of a DaemonSet report Pods that Pod Security refuses: the message says where to look.
func TestARolloutThatHangsSaysWhereToLook(t *testing.T) {
	for name, tt := range map[string]struct {
		status  appsv1.DaemonSetStatus
		refused string
		want    string
	}{
		"done": {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 2,
			UpdatedNumberScheduled: 2, NumberReady: 2}, "", ""},
		"not seen": {appsv1.DaemonSetStatus{ObservedGeneration: 1}, "", "has changed"},
		"none made": {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 2}, "",
			"0 of 2 Pods are updated; if this does not change, run kubectl -n ns describe daemonset " +
				"vg-manager"},
		"refused": {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 2,
			CurrentNumberScheduled: 1, UpdatedNumberScheduled: 1}, "no room", "1 of 2 Pods are created: no room"},
		"not running": {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 2,
			UpdatedNumberScheduled: 2, NumberReady: 1}, "", "1 of 2 Pods are ready"},
	} {
		t.Run(name, func(t *testing.T) {
			err := rollout(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "vg-manager",
				Generation: 2}, Status: tt.status}, tt.refused)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// The message says what to do and what the API server answered. Both answers are recorded ones.
func TestARefusedPodIsExplained(t *testing.T) {
	for name, tt := range map[string]struct {
		message string
		want    []string
		not     string
	}{
		"Pod Security": {
			`Error creating: pods "vg-manager-72dgp" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)`,
			[]string{"namespace ns ",
				"kubectl label --overwrite namespace ns pod-security.kubernetes.io/enforce=privileged",
				`violates PodSecurity "baseline:latest": host namespaces (hostPID=true)`},
			"72dgp",
		},
		"a quota": {
			`Error creating: pods "vg-manager-x4b2c" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2`,
			[]string{
				"the API server rejects the others: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2"},
			"kubectl label",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := explainRefusal("ns", tt.message)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q does not say %q", got, want)
				}
			}
			if strings.Contains(got, tt.not) {
				t.Errorf("%q has %q", got, tt.not)
			}
		})
	}
}

// Agents read the health of disks only if it is configured.
func TestTheAgentIsToldHowOftenToAskDisks(t *testing.T) {
	for interval, want := range map[time.Duration]string{0: "", time.Hour: "--smart-interval=1h0m0s"} {
		got := ""
		for _, argument := range newArguments(Options{SmartInterval: interval}) {
			if strings.HasPrefix(argument, "--smart") {
				got = argument
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", interval, got, want)
		}
	}
}

// The kubelet passes paths of its own directory to the agent, so they are the same in the agent's container.
func TestTheAgentHasTheLayoutOfTheNodes(t *testing.T) {
	for name, test := range map[string]struct {
		kubeletDir, hostPath string
		env                  map[string]string
	}{
		"the defaults": {kubeletDir: "/var/lib/kubelet", hostPath: hostpaths.DefaultHostPath},
		"k0s": {kubeletDir: "/var/lib/k0s/kubelet",
			env: map[string]string{"KUBELET_ROOT_DIR": "/var/lib/k0s/kubelet"}},
		"NixOS": {kubeletDir: "/var/lib/kubelet", hostPath: "/run/current-system/sw/bin",
			env: map[string]string{"HOST_PATH": "/run/current-system/sw/bin"}},
	} {
		t.Run(name, func(t *testing.T) {
			layout, err := hostpaths.Parse(test.kubeletDir, test.hostPath, func(string) string { return "" })
			if err != nil {
				t.Fatal(err)
			}
			spec := newPodSpec(observe.State{}.Placement(fixture.Cluster(fixture.Thin("vg1"))), Options{Layout: layout})
			sources := map[string]string{}
			for _, volume := range spec.Volumes {
				if volume.HostPath != nil {
					sources[*volume.Name] = *volume.HostPath.Path
				}
			}
			mounts := map[string]string{}
			for _, mount := range spec.Containers[0].VolumeMounts {
				if source, ofHost := sources[*mount.Name]; ofHost {
					mounts[source] = *mount.MountPath
				}
			}
			want := map[string]string{"/dev": "/dev", "/sys": "/sys", "/run/udev": "/run/udev",
				"/etc/lvm": "/etc/lvm", "/run/lock/lvm": "/run/lock/lvm", "/run/lvm": "/run/lvm",
				"/etc/topolvm": "/etc/topolvm", "/var/lock/vgmanager": "/var/lock/vgmanager",
				test.kubeletDir + "/plugins_registry":          "/registration",
				test.kubeletDir + "/plugins/topolvm.io/node":   "/run/topolvm",
				test.kubeletDir + "/plugins/kubernetes.io/csi": test.kubeletDir + "/plugins/kubernetes.io/csi",
				test.kubeletDir + "/pods":                      test.kubeletDir + "/pods"}
			if diff := cmp.Diff(want, mounts); diff != "" {
				t.Error(diff)
			}
			for _, name := range []string{"KUBELET_ROOT_DIR", "HOST_PATH"} {
				got := ""
				for _, variable := range spec.Containers[0].Env {
					if *variable.Name == name {
						got = *variable.Value
					}
				}
				if got != test.env[name] {
					t.Errorf("%s: got %q, want %q", name, got, test.env[name])
				}
			}
		})
	}
}

func TestPodsOfNodesThatAreDownDoNotHoldTheDeletion(t *testing.T) {
	pod := func(name, node string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	}
	if err := podsLeft([]corev1.Pod{pod("p", "down")}, []string{"up"}); err != nil {
		t.Error(err)
	}
	if err := podsLeft([]corev1.Pod{pod("p", "up")}, []string{"up"}); err == nil ||
		err.Error() != "waiting: 1 Pod: p on node up still running" {
		t.Error(err)
	}
}

func TestTheAgentHasTheDeclaredIdentityOfTheCluster(t *testing.T) {
	for _, id := range []string{"", "site-7"} {
		spec := newPodSpec(observe.State{}.Placement(fixture.Cluster(fixture.Thin("vg1"))), Options{ClusterID: id})
		got := ""
		for _, variable := range spec.Containers[0].Env {
			if *variable.Name == clusterid.Variable {
				got = *variable.Value
			}
		}
		if got != id {
			t.Errorf("got %q, want %q", got, id)
		}
	}
}

// MicroShift writes lvmd.yaml to its own directory on the node. LVM of the node reads and writes files there that the
// agent names, so the path is the same in the container.
func TestTheAgentReadsTheDeviceClassesOfMicroShift(t *testing.T) {
	for kind, want := range map[platform.Kind]string{platform.MicroShift: "/var/lib/microshift/lvms",
		platform.OpenShift: "/etc/topolvm", platform.Kubernetes: "/etc/topolvm"} {
		spec := newPodSpec(observe.State{}.Placement(fixture.Cluster()),
			Options{Platform: platform.Platform{Kind: kind}})
		var got []string
		for _, volume := range spec.Volumes {
			if *volume.Name == "lvmd-config" {
				got = append(got, *volume.HostPath.Path)
			}
		}
		container := spec.Containers[0]
		for _, mount := range container.VolumeMounts {
			if *mount.Name == "lvmd-config" {
				got = append(got, *mount.MountPath)
			}
		}
		environment := func(name string) string {
			for _, variable := range container.Env {
				if *variable.Name == name && variable.Value != nil {
					return *variable.Value
				}
			}
			return ""
		}
		layout, err := hostpaths.FromEnvironment(environment)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, layout.StateDir())
		if diff := cmp.Diff([]string{want, want, want}, got); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
}

package hostpaths

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLayouts(t *testing.T) {
	for name, test := range map[string]struct {
		kubeletDir, hostPath string
		environment          map[string]string
		wantDir              string
		wantPath             []string
		variables            []Variable
	}{
		"nothing is set": {wantDir: "/var/lib/kubelet", wantPath: []string{"/usr/sbin", "/usr/bin", "/sbin", "/bin"}},
		"the defaults are set": {kubeletDir: DefaultKubeletDir, hostPath: DefaultHostPath,
			wantDir: "/var/lib/kubelet", wantPath: []string{"/usr/sbin", "/usr/bin", "/sbin", "/bin"}},
		"flags": {kubeletDir: "/var/lib/k0s/kubelet", hostPath: "/run/current-system/sw/bin",
			wantDir: "/var/lib/k0s/kubelet", wantPath: []string{"/run/current-system/sw/bin"},
			variables: []Variable{{"KUBELET_ROOT_DIR", "/var/lib/k0s/kubelet"},
				{"HOST_PATH", "/run/current-system/sw/bin"}}},
		"variables override flags": {kubeletDir: "/a", hostPath: "/b",
			environment: map[string]string{"KUBELET_ROOT_DIR": "/var/snap/microk8s/common/var/lib/kubelet",
				"HOST_PATH": "/opt/lvm/sbin:/usr/bin"},
			wantDir:  "/var/snap/microk8s/common/var/lib/kubelet",
			wantPath: []string{"/opt/lvm/sbin", "/usr/bin"},
			variables: []Variable{{"KUBELET_ROOT_DIR", "/var/snap/microk8s/common/var/lib/kubelet"},
				{"HOST_PATH", "/opt/lvm/sbin:/usr/bin"}}},
		"one variable": {environment: map[string]string{"HOST_PATH": "/x"}, wantDir: "/var/lib/kubelet",
			wantPath: []string{"/x"}, variables: []Variable{{"HOST_PATH", "/x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Parse(test.kubeletDir, test.hostPath, func(name string) string { return test.environment[name] })
			if err != nil {
				t.Fatal(err)
			}
			want := []string{test.wantDir, test.wantDir + "/plugins_registry", test.wantDir + "/plugins/topolvm.io",
				test.wantDir + "/plugins/topolvm.io/node", test.wantDir + "/plugins/kubernetes.io/csi",
				test.wantDir + "/pods"}
			got := []string{l.KubeletDir(), l.RegistryDir(), l.DriverDir(), l.NodeSocketDir(), l.CSIPluginsDir(),
				l.PodsDir()}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.wantPath, l.HostPath()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.variables, l.Environment()); diff != "" {
				t.Error(diff)
			}
			// The agent reads what the operator passes to it.
			passed := map[string]string{}
			for _, v := range l.Environment() {
				passed[v.Name] = v.Value
			}
			again, err := FromEnvironment(func(name string) string { return passed[name] })
			if err != nil || again.KubeletDir() != l.KubeletDir() || !cmp.Equal(again.HostPath(), l.HostPath()) {
				t.Errorf("the agent has %+v, %v", again, err)
			}
		})
	}
}

func TestInvalidLayoutsAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ kubeletDir, hostPath, want string }{
		"a relative kubelet directory": {"var/lib/kubelet", "", `"var/lib/kubelet" (--kubelet-root-dir, ` +
			`KUBELET_ROOT_DIR): must be an absolute path`},
		"the root directory":     {"/", "", "must not be the root directory"},
		"a slash at the end":     {"/var/lib/kubelet/", "", `must be "/var/lib/kubelet"`},
		"a parent":               {"/var/../kubelet", "", `must be "/kubelet"`},
		"a colon":                {"/var/lib:/kubelet", "", "colon"},
		"a relative program":     {"", "/usr/sbin:bin", `directory "bin" in "/usr/sbin:bin" (--host-path, HOST_PATH)`},
		"the working directory":  {"", "/usr/sbin::/usr/bin", "must be an absolute path"},
		"a colon at the end":     {"", "/usr/sbin:", "must be an absolute path"},
		"a list with a line end": {"", "/usr/sbin\n", "line break"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(test.kubeletDir, test.hostPath, func(string) string { return "" })
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

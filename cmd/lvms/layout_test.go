package main

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
)

func TestTheOperatorTakesTheLayoutOfNodesFromFlagsOrTheEnvironment(t *testing.T) {
	for name, test := range map[string]struct {
		flags, environment []string // pairs
		want               []hostpaths.Variable
	}{
		"the defaults": {},
		"flags": {flags: []string{"kubelet-root-dir", "/a", "host-path", "/b:/c"},
			want: []hostpaths.Variable{{Name: "KUBELET_ROOT_DIR", Value: "/a"}, {Name: "HOST_PATH", Value: "/b:/c"}}},
		"the environment overrides them": {flags: []string{"kubelet-root-dir", "/a", "host-path", "/b:/c"},
			environment: []string{"KUBELET_ROOT_DIR", "/d", "HOST_PATH", "/e"},
			want: []hostpaths.Variable{{Name: "KUBELET_ROOT_DIR", Value: "/d"},
				{Name: "HOST_PATH", Value: "/e"}}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := 0; i < len(test.environment); i += 2 {
				t.Setenv(test.environment[i], test.environment[i+1])
			}
			var o operatorOptions
			flags := o.command().Flags()
			for i := 0; i < len(test.flags); i += 2 {
				if err := flags.Set(test.flags[i], test.flags[i+1]); err != nil {
					t.Fatal(err)
				}
			}
			if err := o.complete(); err != nil {
				t.Fatal(err)
			}
			got := o.layout.Environment()
			if len(got) != len(test.want) || len(got) == 2 && (got[0] != test.want[0] || got[1] != test.want[1]) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestTheOperatorDoesNotStartWithAnInvalidLayout(t *testing.T) {
	t.Setenv("HOST_PATH", "bin")
	o := operatorOptions{kubeletDir: hostpaths.DefaultKubeletDir, hostPath: hostpaths.DefaultHostPath}
	if err := o.complete(); err == nil || !strings.Contains(err.Error(), "HOST_PATH") {
		t.Errorf("got %v", err)
	}
}

func TestTheOperatorTakesTheIdentityOfTheClusterFromAFlagOrTheEnvironment(t *testing.T) {
	for name, test := range map[string]struct{ flag, variable, want, says string }{
		"none":                   {},
		"the flag":               {flag: "site-7", want: "site-7"},
		"the environment":        {flag: "site-7", variable: "site-8", want: "site-8"},
		"one that is not a name": {variable: "site 8", says: "CLUSTER_ID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CLUSTER_ID", test.variable)
			var o operatorOptions
			if err := o.command().Flags().Set("cluster-id", test.flag); err != nil {
				t.Fatal(err)
			}
			err := o.complete()
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Fatal(err)
			}
			if o.clusterID != test.want {
				t.Errorf("got %q, want %q", o.clusterID, test.want)
			}
		})
	}
}

func TestTheKubeletFindsTheSocketInItsOwnDirectory(t *testing.T) {
	for directory, want := range map[string]string{
		"":                     "/var/lib/kubelet/plugins/" + wellknown.DriverName + "/node/csi-topolvm.sock",
		"/var/lib/k0s/kubelet": "/var/lib/k0s/kubelet/plugins/" + wellknown.DriverName + "/node/csi-topolvm.sock",
	} {
		layout, err := hostpaths.Parse(directory, "", func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		if got := csiEndpoint(layout); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
)

const (
	first  = "0c4b6b6e-2f0a-4a55-9d5c-7f6a3c1d2e3f"
	second = "1c4b6b6e-2f0a-4a55-9d5c-7f6a3c1d2e3f"
	third  = "2c4b6b6e-2f0a-4a55-9d5c-7f6a3c1d2e3f"
	device = "253:7"
)

// tree is a directory in the form of a cgroup file system.
type tree struct {
	*testing.T
	root string
}

// newTree returns a tree with the files of cgroups, by their paths.
func newTree(t *testing.T, controllers string, cgroups ...string) tree {
	tr := tree{t, t.TempDir()}
	if controllers != "" {
		tr.file(controllersFile, controllers)
	}
	for _, c := range cgroups {
		tr.file(filepath.Join(c, limitsFile), "")
	}
	return tr
}

func (t tree) file(path, content string) {
	t.Helper()
	path = filepath.Join(t.root, path)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

func (t tree) limits(cgroup string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(t.root, cgroup, limitsFile))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

// systemd and cgroupfs have the cgroups of Pods of each QoS class.
var (
	systemd = []string{"kubepods.slice", "kubepods.slice/kubepods-pod" + under(first) + ".slice",
		"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under(second) + ".slice",
		"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + under(third) + ".slice",
		"system.slice/kubelet.service"}
	cgroupfs = []string{"kubepods", "kubepods/pod" + first, "kubepods/burstable/pod" + second,
		"kubepods/besteffort/pod" + third, "kubepods/besteffort/pod" + third + "/container"}
	// below has the cgroups below a slice of the kubelet.
	below = []string{"kubelet.slice/kubelet-kubepods.slice",
		"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + under(first) + ".slice",
		"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" +
			under(second) + ".slice",
		"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" +
			under(third) + ".slice"}
)

func under(uid string) string { return strings.ReplaceAll(uid, "-", "_") }

func TestThePodsOfEachCgroupDriverAreLimited(t *testing.T) {
	limits := iolimits.Limits{ReadIOPS: 100, WriteBytes: 1 << 20}
	const want = "253:7 rbps=max wbps=1048576 riops=100 wiops=max"
	for name, cgroups := range map[string][]string{"systemd": systemd, "cgroupfs": cgroupfs, "below": below} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, "cpuset cpu io memory pids\n", cgroups...)
			pods := New(tr.root)
			if err := pods.Supported(); err != nil {
				t.Error(err)
			}
			for range 2 {
				missing, err := pods.Limit([]string{first, second, third, "none"}, device, limits)
				if err != nil || !slices.Equal(missing, []string{"none"}) {
					t.Errorf("got %v, %v", missing, err)
				}
				for _, pod := range cgroups[1:4] {
					if got := tr.limits(pod); got != want {
						t.Errorf("%s has %q, want %q", pod, got, want)
					}
				}
			}
			if got := tr.limits(cgroups[0]); got != "" {
				t.Errorf("all Pods are limited: %q", got)
			}
			if _, err := pods.Limit([]string{first}, device, iolimits.Limits{}); err != nil {
				t.Error(err)
			}
			if got := tr.limits(cgroups[1]); got != "253:7 rbps=max wbps=max riops=max wiops=max" {
				t.Errorf("the limits remain: %q", got)
			}
		})
	}
}

func TestWhyANodeCannotLimitIO(t *testing.T) {
	for name, test := range map[string]struct {
		controllers string
		cgroups     []string
		says        string
	}{
		"cgroup v1":         {"", systemd, "does not use cgroup v2"},
		"no io controller":  {"cpu memory", systemd, "no io controller, only cpu memory"},
		"another name":      {"cpuio", systemd, "no io controller"},
		"no kubepods":       {"io", []string{"system.slice"}, "no cgroup kubepods"},
		"not for the Pods":  {"io", []string{"kubepods/pod" + first}, "no file io.max"},
		"everything exists": {"io", systemd, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := New(newTree(t, test.controllers, test.cgroups...).root).Supported()
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}

// TestAReadThatFails checks that a failed read is neither "not supported" nor "no limits".
func TestAReadThatFails(t *testing.T) {
	tr := newTree(t, "io", systemd...)
	tr.file("kubepods.slice/kubepods-pod"+under(first)+".slice/io.max", "253:7 rbps=much wbps=max\n")
	pods := New(tr.root)
	for range 2 {
		_, err := pods.Limit([]string{first}, device, iolimits.Limits{ReadIOPS: 1})
		if err == nil || !strings.Contains(err.Error(), `"rbps=much" is not a limit`) ||
			!strings.Contains(err.Error(), first) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := pods.Limit([]string{first}, device, iolimits.Limits{}); err == nil {
		t.Error("limits that cannot be read are not removed")
	}
	if err := os.RemoveAll(filepath.Join(tr.root, controllersFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(tr.root, controllersFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := pods.Supported(); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("got %v", err)
	}
	_, err := New("/nonexistent").Limit([]string{first}, device, iolimits.Limits{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestAFailureRestoresTheOtherPods checks that either all Pods get the limits, or none.
func TestAFailureRestoresTheOtherPods(t *testing.T) {
	tr := newTree(t, "io", cgroupfs...)
	pods := New(tr.root)
	if _, err := pods.Limit([]string{first, second}, device, iolimits.Limits{WriteIOPS: 5}); err != nil {
		t.Fatal(err)
	}
	const before = "253:7 rbps=max wbps=max riops=max wiops=5"
	if err := os.Remove(filepath.Join(tr.root, "kubepods/besteffort/pod"+third, limitsFile)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := pods.Limit([]string{first, second, third}, device, iolimits.Limits{WriteIOPS: 9}); err == nil {
			t.Error("a Pod without io.max was limited")
		}
		for _, pod := range cgroupfs[1:3] {
			if got := tr.limits(pod); got != before {
				t.Errorf("%s has %q, want %q", pod, got, before)
			}
		}
	}
	// Without limits, the controller is not needed.
	if _, err := pods.Limit([]string{third}, device, iolimits.Limits{}); err != nil {
		t.Error(err)
	}
}

func TestLimitsOfADevice(t *testing.T) {
	const content = "8:0 rbps=1 wbps=2 riops=3 wiops=4\n253:70 rbps=5 wbps=max riops=max wiops=max\n" +
		"253:7 rbps=max wbps=6 riops=max wiops=max\n"
	for device, want := range map[string]iolimits.Limits{
		"8:0":   {ReadBytes: 1, WriteBytes: 2, ReadIOPS: 3, WriteIOPS: 4},
		"253:7": {WriteBytes: 6}, "253:70": {ReadBytes: 5}, "253:700": {},
	} {
		if got, err := parse(content, device); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", device, got, err)
		}
	}
	for _, limits := range []iolimits.Limits{{}, {ReadIOPS: 1, WriteIOPS: 2, ReadBytes: 3, WriteBytes: 4}} {
		if got, err := parse(format(device, limits), device); err != nil || got != limits {
			t.Errorf("got %+v, %v, want %+v", got, err, limits)
		}
	}
}

func TestNamesOfCgroups(t *testing.T) {
	for name, want := range map[string]string{
		"kubepods": "", "kubepods.slice": "", "kubepods-burstable.slice": "", "burstable": "", "pod" + first: first,
		"kubepods-besteffort-pod" + under(first) + ".slice": first, "mypod" + first: "",
	} {
		if got := podOf(name); got != want {
			t.Errorf("%s is Pod %q, want %q", name, got, want)
		}
	}
}

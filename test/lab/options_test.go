package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOptionsComplete(t *testing.T) {
	t.Setenv("LVMS_CACHE", "/cache")
	for name, c := range map[string]struct {
		options Options
		// want is a part of the error; none when empty
		want string
	}{
		"zero value": {Options{}, ""},
		"two of everything": {Options{Name: "a-1", Nodes: 2,
			Disks: []DiskSpec{{Size: GiB}, {Size: GiB, Kind: SCSI}}}, ""},
		"name":              {Options{Name: "Lab_1"}, "name"},
		"long name":         {Options{Name: strings.Repeat("a", 33)}, "name"},
		"too many nodes":    {Options{Nodes: 10}, "10 nodes"},
		"negative nodes":    {Options{Nodes: -1}, "nodes"},
		"memory":            {Options{MemoryMB: 100}, "memory"},
		"relative state":    {Options{State: "x"}, ""},
		"comma in state":    {Options{State: "/a,b"}, "path"},
		"space in state":    {Options{State: "/a b"}, "path"},
		"a shared disk":     {Options{Nodes: 2, Disks: []DiskSpec{{Kind: Shared, Size: GiB}}}, ""},
		"disk kind":         {Options{Disks: []DiskSpec{{Kind: "tape", Size: GiB}}}, "tape"},
		"disk size":         {Options{Disks: []DiskSpec{{Size: 1}}}, "multiple of 1 MiB"},
		"disk without size": {Options{Disks: []DiskSpec{{}}}, "multiple of 1 MiB"},
		"disk name":         {Options{Disks: []DiskSpec{{Name: "../x", Size: GiB}}}, "name"},
		"same disk name":    {Options{Disks: []DiskSpec{{Name: "disk2", Size: GiB}, {Size: GiB}}}, "two disks"},
		"too many disks":    {Options{Disks: make16Disks()}, "16 plain disks"},
		"flavor":            {Options{Flavor: "sectors4k"}, ""},
		"unknown flavor":    {Options{Flavor: "rhel4"}, `flavor "rhel4" does not exist: the flavors are debian12, `},
		"flavor's disk": {Options{Flavor: "devicesfile-root",
			Disks: []DiskSpec{{Name: "host", Size: GiB}}}, "two disks"},
		"room for its disk":   {Options{Flavor: "devicesfile-root", Disks: make16Disks()[:15]}, "16 plain disks"},
		"bare OpenShift":      {Options{Bare: true, OpenShift: true}, "bare"},
		"bare service CA":     {Options{Bare: true, ServiceCA: true}, "service CA"},
		"bare Prometheus":     {Options{Bare: true, PrometheusOperator: true}, "Prometheus Operator"},
		"bare extenders":      {Options{Bare: true, Extenders: "[]"}, "extenders"},
		"bare policies":       {Options{Bare: true, NetworkPolicies: true}, "network policies"},
		"restart period":      {Options{MaxRestartPeriod: 10 * time.Second}, ""},
		"kubelet's directory": {Options{KubeletDir: "/var/lib/k0s/kubelet"}, ""},
		"no clean path":       {Options{KubeletDir: "/var/lib/../kubelet"}, "the kubelet's directory"},
		"another directory":   {Options{KubeletDir: "/opt/kubelet"}, "the kubelet's directory"},
		"half a second":       {Options{MaxRestartPeriod: 500 * time.Millisecond}, "a restart period of 500ms"},
		"a day":               {Options{MaxRestartPeriod: 24 * time.Hour}, "a restart period of 24h"},
		"bare OLM v1":         {Options{Bare: true, OLMv1: true}, "OLM's"},
		"all components": {Options{OLMv1: true, ServiceCA: true, PrometheusOperator: true,
			NetworkPolicies: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := c.options.complete()
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("error %v, want %q in it", err, c.want)
			case c.want == "" && (o.Name == "" || o.Nodes == 0 || o.MemoryMB == 0 || o.Progress == nil ||
				!filepath.IsAbs(o.State)):
				t.Fatalf("not complete: %+v", o)
			}
		})
	}
}

func make16Disks() []DiskSpec {
	disks := make([]DiskSpec, 16)
	for i := range disks {
		disks[i].Size = GiB
	}
	return disks
}

func TestDefaultState(t *testing.T) {
	t.Setenv("LVMS_CACHE", "/cache")
	o, err := Options{Name: "x"}.complete()
	if err != nil || o.State != "/cache/labs/x" {
		t.Errorf("got %s, %v", o.State, err)
	}
}

func TestRootIsFoundFromBelow(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "test", "lab", "options_test.go")); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	if root, err := Root(); err == nil {
		t.Errorf("found %s from outside of the repository", root)
	}
}

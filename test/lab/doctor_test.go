package lab

import (
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/expect"
)

func good() machine {
	return machine{root: true, tun: true, has: func(string) bool { return true }, diskFree: 100 * GiB,
		memory: 24 * GiB, stateDir: "/s"}
}

func TestDiagnose(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*machine)
		options Options
		want    string
	}{
		"all is well":           {func(*machine) {}, Options{Nodes: 2}, ""},
		"no root":               {func(m *machine) { m.root = false }, Options{Nodes: 1}, "not root"},
		"no tun":                {func(m *machine) { m.tun = false }, Options{Nodes: 1}, "/dev/net/tun"},
		"no disk":               {func(m *machine) { m.diskFree = GiB }, Options{Nodes: 1}, "1024 MiB free in /s"},
		"no memory":             {func(m *machine) { m.memory = 2 * GiB }, Options{Nodes: 2}, "2048 MiB of memory"},
		"memory for a bare one": {func(m *machine) { m.memory = GiB }, Options{Nodes: 1, Bare: true}, ""},
		"no kernel": {missing("/usr/bin/linux.uml"), Options{Nodes: 1, Bare: true},
			"no /usr/bin/linux.uml"},
		"no crun":                 {missing("/usr/bin/crun"), Options{Nodes: 1}, "no /usr/bin/crun"},
		"no crun for a bare node": {missing("/usr/bin/crun"), Options{Nodes: 1, Bare: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := good()
			c.change(&m)
			problems := diagnose(m, c.options)
			if (c.want == "") != (len(problems) == 0) || len(problems) > 1 {
				t.Fatalf("got %v, want %q", problems, c.want)
			}
			for _, p := range problems {
				expect.Contains(t, "the problem", p.Text, c.want)
			}
		})
	}
}

func missing(paths ...string) func(*machine) {
	return func(m *machine) { m.has = func(path string) bool { return !slices.Contains(paths, path) } }
}

func TestReportNamesEveryPackageOnce(t *testing.T) {
	m := good()
	m.has = func(string) bool { return false }
	problems := diagnose(m, Options{Nodes: 1})
	if len(problems) != len(requirements) {
		t.Fatalf("%d problems for %d requirements", len(problems), len(requirements))
	}
	text := Report(problems)
	for _, r := range requirements {
		if strings.Count(text, " "+r.pkg) == 0 || !strings.Contains(text, r.path) {
			t.Errorf("%s of %s is not in the report:\n%s", r.path, r.pkg, text)
		}
	}
	packages := Packages(problems)
	slices.Sort(packages)
	if len(slices.Compact(packages)) != len(packages) {
		t.Errorf("a package is there twice: %v", packages)
	}
}

func TestMemoryAvailable(t *testing.T) {
	const meminfo = "MemTotal:       24684184 kB\nMemFree:        22000000 kB\nMemAvailable:   23000000 kB\n"
	if got := memoryAvailable(meminfo); got != 23000000<<10 {
		t.Errorf("got %d", got)
	}
	if got := memoryAvailable("MemTotal: 1 kB\n"); got != 0 {
		t.Errorf("got %d for none", got)
	}
}

func TestLackingNamesThePackageOfEachFile(t *testing.T) {
	has := func(path string) bool { return path != "/usr/bin/chromium" }
	if got := Packages(lacking(has, testRequirements...)); !slices.Equal(got, []string{"chromium"}) {
		t.Errorf("without chromium: %v", got)
	}
	if got := lacking(func(string) bool { return true }, testRequirements...); len(got) != 0 {
		t.Errorf("with everything: %v", got)
	}
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
)

func bundleOf(version string) bundle {
	v := semver.MustParse(version)
	return bundle{name: packageName + ".v" + version, version: v,
		skipRange: fmt.Sprintf(">=%d.%d.0 <%s", v.Major, max(v.Minor, 1)-1, version)}
}

// graph formats channels as NAME: VERSION<REPLACED ...
func graph(channels []channel) string {
	var lines []string
	short := strings.NewReplacer(packageName+".v", "")
	for _, c := range channels {
		line := c.Name + ":"
		for _, e := range c.Entries {
			line += " " + short.Replace(e.Name)
			if e.Replaces != "" {
				line += "<" + short.Replace(e.Replaces)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestChannels(t *testing.T) {
	for name, tt := range map[string]struct{ versions, want string }{
		"one release": {"0.1.0", "stable-0.1: 0.1.0\ncandidate: 0.1.0"},
		"a patch":     {"0.1.1 0.1.0", "stable-0.1: 0.1.0 0.1.1<0.1.0\ncandidate: 0.1.0 0.1.1<0.1.0"},
		"three releases": {"0.1.0 0.2.0 0.1.1",
			"stable-0.1: 0.1.0 0.1.1<0.1.0\nstable-0.2: 0.2.0\ncandidate: 0.1.0 0.1.1<0.1.0 0.2.0<0.1.1"},
		"nothing but a try": {"0.1.0-rc.1", "candidate: 0.1.0-rc.1"},
		"a try of the next": {"0.1.0 0.2.0-rc.1 0.2.0-rc.2",
			"stable-0.1: 0.1.0\ncandidate: 0.1.0 0.2.0-rc.1<0.1.0 0.2.0-rc.2<0.2.0-rc.1"},
		"ten is after nine": {"0.9.0 0.10.0", "stable-0.9: 0.9.0\nstable-0.10: 0.10.0\ncandidate: 0.9.0 0.10.0<0.9.0"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []bundle
			for _, version := range strings.Fields(tt.versions) {
				all = append(all, bundleOf(version))
			}
			given := slices.Clone(all)
			for range 2 {
				channels, err := channelsOf(all)
				if got := graph(channels); err != nil || got != tt.want {
					t.Errorf("got %v\n%s\nwant\n%s", err, got, tt.want)
				}
			}
			if !slices.EqualFunc(all, given, func(a, b bundle) bool { return a.name == b.name }) {
				t.Error("what was given has another order")
			}
		})
	}
	if _, err := channelsOf([]bundle{bundleOf("0.1.0"), bundleOf("0.1.0")}); err == nil {
		t.Error("two bundles of one version are let pass")
	}
}

// reaches returns the upgrades that OLM allows: from a version to one in a channel that replaces it or has it in its
// skipRange.
func reaches(c channel, from string) []string {
	installed := semver.MustParse(from)
	var next []string
	for _, e := range c.Entries {
		inRange := e.SkipRange != "" && semver.MustParseRange(e.SkipRange)(installed)
		if e.Replaces == packageName+".v"+from || inRange {
			next = append(next, strings.TrimPrefix(e.Name, packageName+".v"))
		}
	}
	return next
}

// Each version upgrades to the head of its own channel and of the next one in one step, and never skips a minor
// version.
func TestEveryUpgradePath(t *testing.T) {
	var all []bundle
	for _, version := range []string{"0.1.0", "0.1.1", "0.2.0", "0.3.0"} {
		all = append(all, bundleOf(version))
	}
	channels, err := channelsOf(all)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]channel{}
	for _, c := range channels {
		byName[c.Name] = c
	}
	for path, want := range map[string]string{
		"0.1.0 stable-0.1": "0.1.1", "0.1.1 stable-0.1": "",
		"0.1.0 stable-0.2": "0.2.0", "0.1.1 stable-0.2": "0.2.0", "0.2.0 stable-0.3": "0.3.0",
		"0.1.0 stable-0.3": "", "0.1.1 stable-0.3": "",
		"0.1.0 candidate": "0.1.1 0.2.0", "0.2.0 candidate": "0.3.0",
	} {
		from, name, _ := strings.Cut(path, " ")
		if got := strings.Join(reaches(byName[name], from), " "); got != want {
			t.Errorf("from %s in %s: %q, want %q", from, name, got, want)
		}
	}
}

func TestThePackageHasTheNewestStableChannelAsItsDefault(t *testing.T) {
	csv, err := readCSV("../../../bundle")
	if err != nil {
		t.Fatal(err)
	}
	for versions, want := range map[string]string{"0.9.0 0.10.0": "stable-0.10", "0.1.0-rc.1": candidate} {
		var all []bundle
		for _, version := range strings.Fields(versions) {
			all = append(all, bundleOf(version))
		}
		channels, err := channelsOf(all)
		if err != nil {
			t.Fatal(err)
		}
		if p := packageOf(channels, csv); p.DefaultChannel != want || p.Icon.MediaType != "image/svg+xml" ||
			p.Description == "" {
			t.Errorf("%s: got %+v", versions, p)
		}
	}
}

// The catalog of the repository can be read, and files that are not bundles of this package are refused.
func TestReadBundles(t *testing.T) {
	all, err := readBundles("../../../catalog/lvms-operator/bundles")
	if err != nil || len(all) == 0 || all[0].skipRange == "" {
		t.Errorf("got %+v, %v", all, err)
	}
	for name, text := range map[string]string{
		"no YAML": "{", "another schema": "schema: olm.channel\npackage: lvms-operator\n",
		"another package": "schema: olm.bundle\npackage: other\n",
		"no version":      "schema: olm.bundle\npackage: lvms-operator\n",
		"no number": "schema: olm.bundle\npackage: lvms-operator\nproperties: [{type: olm.package, value: " +
			"{version: one}}]\n",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if all, err := readBundles(dir); err == nil || !strings.Contains(err.Error(), "a.yaml") {
			t.Errorf("%s: got %v, %v", name, all, err)
		}
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	for want, o := range map[string]options{
		"-image is required": {bundle: "../../../bundle", out: t.TempDir()},
		"make bundle":        {bundle: t.TempDir(), image: "x", out: t.TempDir()},
		"opm render":         {bundle: "../../../bundle", image: "x", out: t.TempDir(), opm: "/no/such/opm"},
		"exit status 1":      {bundle: "../../../bundle", image: "x", out: t.TempDir(), opm: "/bin/false"},
	} {
		if err := run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

package lab

import (
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/hack/debian"
)

func TestFlavorsHaveNamesAndReasons(t *testing.T) {
	seen := map[string]bool{}
	for i, f := range Flavors() {
		if seen[f.Name] || !validName.MatchString(f.Name) || f.Description == "" {
			t.Errorf("flavor %q, %q", f.Name, f.Description)
		}
		if (i == 0) != (f.Name == DefaultFlavor) {
			t.Errorf("%s is flavor %d, and the default is %s", f.Name, i, DefaultFlavor)
		}
		for _, e := range f.Excluded {
			if e.Test == "" || e.Reason == "" {
				t.Errorf("%s excludes %q without a reason", f.Name, e.Test)
			}
		}
		seen[f.Name] = true
	}
}

func TestFindFlavor(t *testing.T) {
	for name, want := range map[string]string{"": DefaultFlavor, "lvm31": "lvm31", "other": ""} {
		f, err := FindFlavor(name)
		if f.Name != want || f.node.Name != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", name, f.Name, err)
		}
	}
}

func TestDisksWithoutAKindAreOfTheFlavorsKind(t *testing.T) {
	t.Setenv("LVMS_CACHE", "/cache")
	for flavor, want := range map[string]Kind{"": Plain, "sectors4k": SCSI} {
		o := Options{Flavor: flavor, Disks: []DiskSpec{{Size: GiB}, {Kind: Plain, Size: GiB}}}
		for range 2 { // complete files do not change
			completed, err := o.complete()
			if err != nil || len(completed.Disks) != 2 || completed.Disks[0].Kind != want ||
				completed.Disks[1].Kind != Plain {
				t.Fatalf("%q: got %+v, %v", flavor, completed.Disks, err)
			}
			o = completed
		}
	}
}

func TestDataDisksLeaveOutThoseOfTheFlavor(t *testing.T) {
	f := Flavor{disks: []DiskSpec{{Name: "host"}}}
	got := f.dataDisks([]Disk{{Name: "host", Device: "/dev/ubdb"}, {Name: "disk1", Device: "/dev/sda"}})
	if !slices.Equal(got, []string{"/dev/sda"}) {
		t.Errorf("got %v", got)
	}
}

func TestExcludedTestsAreSkippedByName(t *testing.T) {
	f := Flavor{Excluded: []Exclusion{{"TestA", "a"}, {"TestB/part one", "b"}}}
	const skip = "^TestA$|^TestB$/^part one$"
	tests := map[string]struct{ args, want []string }{
		"a test binary": {[]string{"-test.run", "X"}, []string{"-test.run", "X", "-test.skip", skip}},
		"behind env": {[]string{"A=b", "/x.test", "-test.v"},
			[]string{"A=b", "/x.test", "-test.v", "-test.skip", skip}},
		"with a skip of it own": {[]string{"-test.skip", "Y", "-test.v"},
			[]string{"-test.v", "-test.skip", "Y|" + skip}},
		"another program": {[]string{"-c", "true"}, []string{"-c", "true"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := f.testArgs(test.args); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if got := (Flavor{}).testArgs([]string{"-test.v"}); !slices.Equal(got, []string{"-test.v"}) {
		t.Errorf("nothing is excluded: got %q", got)
	}
}

func TestOutermostFolders(t *testing.T) {
	got := outermost([]string{"/a/c", "/a-b", "/a", "/b/c/d", "/b/c", "/a"})
	if want := []string{"/a", "/a-b", "/b/c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestANodesOwnSystemFoldersAreNotShared(t *testing.T) {
	for dir, want := range map[string]bool{"/": true, "/usr": true, "/usr/bin": true, "/bin": true, "/usrlocal": false,
		"/srv/x": false, "/tmp/x": false} {
		if isSystem(dir) != want {
			t.Errorf("%s: got %v", dir, !want)
		}
	}
}

func TestRootHasWhatNodesNeedAndNotWhatTheMachineNeeds(t *testing.T) {
	got := debian12("multipath-tools").roots()
	for _, want := range []string{"lvm2", "crun", "multipath-tools", "udev", "user-mode-linux"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %v", want, got)
		}
	}
	for _, not := range []string{"gcc", "prometheus"} {
		if slices.Contains(got, not) {
			t.Errorf("%s is in %v", not, got)
		}
	}
}

func TestRootsKeyFollowsThePackages(t *testing.T) {
	a := rootKey([]debian.Deb{{SHA256: "1"}, {SHA256: "2"}})
	b := rootKey([]debian.Deb{{SHA256: "1"}, {SHA256: "3"}})
	if a == b || len(a) != 16 || strings.ContainsAny(a, "/.") {
		t.Errorf("got %s and %s", a, b)
	}
}

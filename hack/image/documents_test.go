package main

import (
	"encoding/json"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

var testDigest = v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("ab", 32)}

// 32 zero bytes in the format of go.sum.
const zeroSum = "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

func testComponents() (options, components) {
	o := options{arch: "arm64", version: "1.2.3", release: "1", title: "lvms-operator", created: time.Unix(0, 0).UTC()}
	c := components{distribution: "debian-12", packages: []debianPackage{
		{"libstdc++6", "12.2.0-14+deb12u1", "arm64", "gcc-12", "12.2.0-14+deb12u1", "aa"},
		{"libdevmapper1.02.1", "2:1.02.185-2", "arm64", "lvm2", "2.03.16-2", "bb"},
	}}
	c.readModules(&debug.BuildInfo{GoVersion: "go1.26.8 X:nodwarf5",
		Main: debug.Module{Path: "example.com/lvms", Version: "(devel)"}, Deps: []*debug.Module{
			{Path: "github.com/Masterminds/semver/v3", Version: "v3.5.0", Sum: zeroSum},
			{Path: "example.com/replaced", Version: "v1.0.0", Sum: "h1:old",
				Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.1", Sum: zeroSum}},
			{Path: "example.com/folder", Version: "v1.0.0", Replace: &debug.Module{Path: "../folder"}},
			{Path: "github.com/docker/cli", Version: "v29.7.2+incompatible", Sum: zeroSum},
		}}, o.version)
	c.console = &console{program: programOf(&debug.BuildInfo{Main: debug.Module{Path: "example.com/lvms"},
		Deps: []*debug.Module{
			{Path: "github.com/Masterminds/semver/v3", Version: "v3.5.0", Sum: zeroSum},
			{Path: "example.com/files", Version: "v0.1.0", Sum: zeroSum},
		}}, o.version), npm: []npmPackage{{"@patternfly/react-core", "6.4.3", "MIT", "sha512-AAAA"},
		{"yaml", "2.9.1", "ISC", "sha512-AAAA"}}}
	c.console.main.subpath = "console-plugin"
	return o, c
}

var wantPurls = []string{
	"pkg:oci/lvms-operator@sha256:" + strings.Repeat("ab", 32) + "?arch=arm64",
	"pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=arm64&distro=debian-12",
	"pkg:deb/debian/libdevmapper1.02.1@2:1.02.185-2?arch=arm64&distro=debian-12",
	"pkg:golang/example.com/lvms@v1.2.3",
	"pkg:golang/stdlib@1.26.8",
	"pkg:golang/example.com/folder",
	"pkg:golang/example.com/fork@v1.0.1",
	"pkg:golang/github.com/masterminds/semver/v3@v3.5.0",
	"pkg:golang/github.com/docker/cli@v29.7.2%2Bincompatible",
	"pkg:golang/example.com/lvms@v1.2.3#console-plugin",
	"pkg:golang/example.com/files@v0.1.0",
	"pkg:npm/%40patternfly/react-core@6.4.3",
	"pkg:npm/yaml@2.9.1",
}

func TestEscape(t *testing.T) {
	tests := map[string]string{
		"libc6":             "libc6",
		"libstdc++6":        "libstdc%2B%2B6",
		"1:2.36-9+deb12u14": "1:2.36-9%2Bdeb12u14",
		"252.39-1~deb12u2":  "252.39-1~deb12u2",
		"a/b@c?d=e&f%":      "a%2Fb%40c%3Fd%3De%26f%25",
		"ä b":               "%C3%A4%20b",
		"":                  "",
	}
	for in, want := range tests {
		if got := escape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestSBOMListsAllThatIsInTheImage(t *testing.T) {
	o, c := testComponents()
	d := newSBOM(o, testDigest, c)
	var purls []string
	valid := regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`)
	ids := map[string]bool{d.ID: true}
	for _, p := range d.Packages {
		purls = append(purls, p.References[0].Locator)
		if ids[p.ID] || !valid.MatchString(p.ID) {
			t.Errorf("identifier %q is not valid, or there twice", p.ID)
		}
		ids[p.ID] = true
	}
	if !slices.Equal(purls, wantPurls) {
		t.Errorf("purls\n%s\nwant\n%s", strings.Join(purls, "\n"), strings.Join(wantPurls, "\n"))
	}
	for _, r := range d.Relationships {
		if !ids[r.Element] || !ids[r.Related] {
			t.Errorf("relationship %+v names what is not there", r)
		}
	}
	if first := d.Relationships[0]; first.Element != "SPDXRef-DOCUMENT" || first.Type != "DESCRIBES" ||
		first.Related != d.Packages[0].ID {
		t.Errorf("the document describes %+v", first)
	}
	// The plugin's server depends on a module that is already listed, and on Go's standard library.
	of := func(name string) spdxPackage {
		return d.Packages[slices.IndexFunc(d.Packages, func(p spdxPackage) bool { return p.Name == name })]
	}
	var needs []string
	for _, r := range d.Relationships {
		if r.Element == of("example.com/lvms/console-plugin").ID {
			needs = append(needs, r.Type+" "+r.Related)
		}
	}
	want := []string{"DEPENDS_ON " + of("stdlib").ID, "DEPENDS_ON " + of("example.com/files").ID,
		"DEPENDS_ON " + of("github.com/Masterminds/semver/v3").ID,
		"CONTAINS " + of("@patternfly/react-core").ID, "CONTAINS " + of("yaml").ID}
	if !slices.Equal(needs, want) || of("yaml").LicenseDeclared != "ISC" {
		t.Errorf("the plugin's server needs %q, want %q; license of yaml %q", needs, want, of("yaml").LicenseDeclared)
	}
	if !strings.HasSuffix(d.Namespace, testDigest.Hex) || d.CreationInfo.Created != "1970-01-01T00:00:00Z" {
		t.Errorf("namespace %q, created %q", d.Namespace, d.CreationInfo.Created)
	}
}

func TestSBOMHasTheFieldsThatSPDXRequires(t *testing.T) {
	o, c := testComponents()
	content, err := json.Marshal(newSBOM(o, testDigest, c))
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace",
		"creationInfo"} {
		if document[field] == nil {
			t.Errorf("no %s", field)
		}
	}
	for _, p := range document["packages"].([]any) {
		for _, field := range []string{"SPDXID", "name", "downloadLocation", "filesAnalyzed"} {
			if p.(map[string]any)[field] == nil {
				t.Errorf("no %s in %v", field, p)
			}
		}
	}
}

func TestProvenanceNamesSubjectParametersAndDependencies(t *testing.T) {
	o, c := testComponents()
	o.revision = "0123456789abcdef0123456789abcdef01234567"
	s, err := newProvenance(o, testDigest, c)
	if err != nil {
		t.Fatal(err)
	}
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" ||
		s.Subject[0].Digest["sha256"] != testDigest.Hex {
		t.Errorf("statement %+v", s)
	}
	definition := s.Predicate.Definition
	if definition.BuildType == "" || s.Predicate.Run.Builder.ID == "" || definition.External["version"] != "1.2.3" ||
		definition.External["arch"] != "arm64" {
		t.Errorf("definition %+v", definition)
	}
	uris := map[string]resource{}
	for _, r := range definition.Dependencies {
		uris[r.URI] = r
	}
	if got := uris["pkg:npm/yaml@2.9.1"].Digest["sha512"]; got != "000000" {
		t.Errorf("sum of an npm package %q", got)
	}
	// All except the image and the main module, which is identified by its commit, and its programs.
	for _, purl := range slices.Concat(wantPurls[1:3], wantPurls[4:9], wantPurls[10:]) {
		if _, found := uris[purl]; !found {
			t.Errorf("no %s", purl)
		}
	}
	if got := uris["git+"+project].Digest["gitCommit"]; got != o.revision {
		t.Errorf("commit %q", got)
	}
	if got := uris[wantPurls[1]].Digest["sha256"]; got != "aa" {
		t.Errorf("sum of a package %q", got)
	}
	module := uris["pkg:golang/example.com/fork@v1.0.1"]
	if module.Digest["dirHash"] != strings.Repeat("00", 32) || module.Annotations["goSum"] != zeroSum {
		t.Errorf("sum of a module %+v", module)
	}
}

func TestUnknownCommitIsNotClaimed(t *testing.T) {
	o, c := testComponents()
	dependencies, err := resolvedDependencies(o, c)
	if err != nil || strings.HasPrefix(dependencies[0].URI, "git+") {
		t.Errorf("%+v, %v", dependencies[0], err)
	}
}

func TestSumThatIsNotUnderstoodIsAnError(t *testing.T) {
	for _, sum := range []string{"h2:AAAA", "h1:?"} {
		o, c := testComponents()
		c.modules[0].sum = sum
		if _, err := newProvenance(o, testDigest, c); err == nil || !strings.Contains(err.Error(), c.modules[0].path) {
			t.Errorf("%s: error %v", sum, err)
		}
	}
}

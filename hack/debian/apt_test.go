package debian

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAptReadsForTheImagesArchitectureAndInItsOwnFolder(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64", "ppc64el", "s390x"} {
		t.Run(arch, func(t *testing.T) {
			config := apt{Archive: Archive{Folder: "/cache/x", Arch: arch, Release: Bookworm}}.config()
			for _, want := range []string{
				`APT::Architecture "` + arch + `";`,
				`APT::Architectures { "` + arch + `"; };`,
				`Dir::State::status "/cache/x/state/status";`,
				`Dir::Cache::archives "/cache/x/archives";`,
				`#clear APT::Update::Post-Invoke;`,
				`APT::Update::Error-Mode "any";`,
			} {
				if !slices.Contains(strings.Split(config, "\n"), want) {
					t.Errorf("no %s in\n%s", want, config)
				}
			}
			for line := range strings.Lines(config) {
				if strings.HasPrefix(line, "Dir::") && !strings.Contains(line, `"/cache/x/`) {
					t.Errorf("outside of its folder: %s", line)
				}
			}
		})
	}
}

func TestFolderThatAptCannotNameIsRefused(t *testing.T) {
	if err := (apt{Archive: Archive{Folder: t.TempDir() + `/a"b`}}).prepare(); err == nil {
		t.Error("no error")
	}
}

func TestParseURIs(t *testing.T) {
	tests := map[string]struct {
		out  string
		want []Deb
		bad  bool
	}{
		"nothing": {},
		"a package": {
			out: "'http://mirror.example/debian/pool/main/z/zlib/zlib1g_1.2.13.dfsg-1_arm64.deb' " +
				"zlib1g_1%3a1.2.13.dfsg-1_arm64.deb 82744 SHA256:52b8\n",
			want: []Deb{{"/a/zlib1g_1%3a1.2.13.dfsg-1_arm64.deb", "52b8"}},
		},
		"words around it": {out: "Reading package lists...\n'http://x/y.deb' y.deb 1 SHA256:ab\n",
			want: []Deb{{"/a/y.deb", "ab"}}},
		"a weaker sum":         {out: "'http://x/y.deb' y.deb 1 MD5Sum:ab\n", bad: true},
		"no sum":               {out: "'http://x/y.deb' y.deb 1\n", bad: true},
		"a name with a folder": {out: "'http://x/y.deb' ../y.deb 1 SHA256:ab\n", bad: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseURIs(test.out, "/a")
			if !slices.Equal(got, test.want) || (err != nil) != test.bad {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func TestSourcesOfAnotherReleaseAreTheMachinesMirrors(t *testing.T) {
	const targets = `http://mirror.example/debian/ bookworm main
http://mirror.example/debian/ bookworm-updates main
http://mirror.example/security/ bookworm-security main
http://other.example/apt cloud-bookworm main
http://other.example/node nodistro main
`
	const want = `deb [signed-by=` + keyring + `] http://mirror.example/debian/ trixie main
deb [signed-by=` + keyring + `] http://mirror.example/debian/ trixie-updates main
deb [signed-by=` + keyring + `] http://mirror.example/security/ trixie-security main
`
	if got := sourcesOf(targets, "trixie"); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestAnotherReleaseIsReadFromSourcesOfItsOwn(t *testing.T) {
	if config := (apt{Archive: Archive{Folder: "/c", Release: Bookworm}}).config(); strings.Contains(
		config, "sourcelist") {
		t.Errorf("the machine's own release has its own sources:\n%s", config)
	}
	config := apt{Archive: Archive{Folder: "/c", Release: "trixie"}}.config()
	for _, want := range []string{`Dir::Etc::sourcelist "/c/sources.list";`, `Dir::Etc::sourceparts "-";`} {
		if !strings.Contains(config, want) {
			t.Errorf("no %s in\n%s", want, config)
		}
	}
}

func TestMachineWithoutDebiansSourcesIsAnError(t *testing.T) {
	run := func(context.Context, time.Duration, string, ...string) ([]byte, error) {
		return []byte("http://other.example/node nodistro main\n"), nil
	}
	a := apt{Archive: Archive{Run: run, Folder: t.TempDir(), Release: "trixie"}}
	if err := a.writeSources(t.Context()); err == nil || !strings.Contains(err.Error(), "bookworm") {
		t.Errorf("got %v", err)
	}
}

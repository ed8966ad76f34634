package main

import (
	"slices"
	"strings"
	"testing"
)

func TestAptReadsForTheImagesArchitectureAndInItsOwnFolder(t *testing.T) {
	for name, debian := range map[string]string{"amd64": "amd64", "arm64": "arm64", "ppc64le": "ppc64el", "s390x": "s390x"} {
		t.Run(name, func(t *testing.T) {
			config := apt{folder: "/cache/x", arch: architectures[name]}.config()
			for _, want := range []string{
				`APT::Architecture "` + debian + `";`,
				`APT::Architectures { "` + debian + `"; };`,
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
	if err := (apt{folder: t.TempDir() + `/a"b`}).prepare(); err == nil {
		t.Error("no error")
	}
}

func TestParseURIs(t *testing.T) {
	tests := map[string]struct {
		out  string
		want []deb
		bad  bool
	}{
		"nothing": {},
		"a package": {
			out:  "'http://mirror.example/debian/pool/main/z/zlib/zlib1g_1.2.13.dfsg-1_arm64.deb' zlib1g_1%3a1.2.13.dfsg-1_arm64.deb 82744 SHA256:52b8\n",
			want: []deb{{"/a/zlib1g_1%3a1.2.13.dfsg-1_arm64.deb", "52b8"}},
		},
		"words around it":      {out: "Reading package lists...\n'http://x/y.deb' y.deb 1 SHA256:ab\n", want: []deb{{"/a/y.deb", "ab"}}},
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

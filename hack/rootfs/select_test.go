package main

import (
	"archive/tar"
	"debug/elf"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
)

func link(target string) file { return file{mode: fs.ModeSymlink, link: target} }

func TestResolve(t *testing.T) {
	files := tree{
		"usr/bin/mount":                       {},
		"usr/bin/a":                           link("mount"),
		"usr/bin/b":                           link("/bin/a"),
		"usr/bin/up":                          link("../lib/x/lib.so"),
		"usr/lib/x/lib.so":                    {},
		"usr/lib/y":                           link("x"),
		"usr/bin/loop":                        link("loop"),
		"usr/bin/nowhere":                     link("absent"),
		"usr/share/doc/libgcc-s1":             link("gcc-12-base"),
		"usr/share/doc/gcc-12-base/copyright": {},
	}
	tests := map[string]string{
		"/usr/bin/mount":                    "usr/bin/mount",
		"/bin/mount":                        "usr/bin/mount",
		"/bin/b":                            "usr/bin/mount",
		"/bin/up":                           "usr/lib/x/lib.so",
		"/lib/y/lib.so":                     "usr/lib/x/lib.so",
		"usr/share/doc/libgcc-s1/copyright": "usr/share/doc/gcc-12-base/copyright",
		"/bin/loop":                         "",
		"/bin/nowhere":                      "",
		"/absent":                           "",
		"/":                                 "",
	}
	for name, want := range tests {
		got, err := files.resolve(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestArchiveKeepsInsideWhatNamesOutside(t *testing.T) {
	files := tree{}
	if err := files.addArchive(tarOf(map[string][]byte{"../../etc/passwd": []byte("x"), "/lib/a": []byte("y")}),
		"p"); err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, []string{"etc/passwd", "usr/lib/a"}) {
		t.Errorf("files %v", names)
	}
}

func TestHardLinkIsTheSameFile(t *testing.T) {
	files := tree{"usr/bin/a": {deb: "p", content: []byte("x")}}
	err := files.add(&tar.Header{Name: "./bin/b", Typeflag: tar.TypeLink, Linkname: "./bin/a"}, nil, "p")
	if err != nil || string(files["usr/bin/b"].content) != "x" {
		t.Errorf("%v, %v", files, err)
	}
	if err := files.add(&tar.Header{Name: "./bin/c", Typeflag: tar.TypeLink, Linkname: "./absent"}, nil,
		"p"); err == nil {
		t.Error("a link to nothing is no error")
	}
}

// readNames reads the libraries that a file needs from its text, in place of a real program.
func readNames(content []byte) (dynamic, error) {
	d := dynamic{machine: elf.EM_X86_64, needed: strings.Fields(string(content))}
	if string(content) == "script" {
		return d, errors.New("bad magic number")
	}
	if string(content) == "foreign" {
		d.machine = elf.EM_AARCH64
	}
	return d, nil
}

func TestLibraries(t *testing.T) {
	const lib = "usr/lib/x86_64-linux-gnu/"
	tests := map[string]struct {
		files tree
		want  []string
		err   []string
	}{
		"none": {tree{"usr/bin/p": {}}, []string{"usr/bin/p"}, nil},
		"of a library": {tree{"usr/bin/p": {content: []byte("a")}, lib + "a": {content: []byte("b")},
			lib + "b": {}}, []string{"usr/bin/p", lib + "a", lib + "b"}, nil},
		"that need each other": {tree{"usr/bin/p": {content: []byte("a")}, lib + "a": {content: []byte("b")},
			lib + "b": {content: []byte("a")}}, []string{"usr/bin/p", lib + "a", lib + "b"}, nil},
		"behind a link": {tree{"usr/bin/p": {content: []byte("a.so.1")}, lib + "a.so.1": link("a.so.1.2"),
			lib + "a.so.1.2": {}}, []string{"usr/bin/p", lib + "a.so.1", lib + "a.so.1.2"}, nil},
		"in the other folder": {tree{"usr/bin/p": {content: []byte("a")}, "usr/lib/a": {}},
			[]string{"usr/bin/p", "usr/lib/a"}, nil},
		"missing": {tree{"usr/bin/p": {content: []byte("a"), deb: "/c/pkg_1_amd64.deb"}}, nil,
			[]string{"/usr/bin/p", "pkg_1_amd64.deb", "library a", "roots"}},
		"link to nothing": {tree{"usr/bin/p": {content: []byte("a")}, lib + "a": link("b")}, nil,
			[]string{lib + "b"}},
		"two missing": {tree{"usr/bin/p": {content: []byte("a b")}}, nil, []string{"library a", "library b"}},
		"program is a script": {tree{"usr/bin/p": {content: []byte("script")}}, nil,
			[]string{"/usr/bin/p", "bad magic"}},
		"of another machine": {tree{"usr/bin/p": {content: []byte("foreign")}}, nil,
			[]string{"/usr/bin/p", "EM_AARCH64", "EM_X86_64"}},
		"no program": {tree{}, nil, []string{"program p", "roots"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &selection{from: test.files, arch: architectures["amd64"], read: readNames, image: tree{}}
			err := s.addProgram("p")
			if test.err == nil {
				if got := slices.Sorted(maps.Keys(s.image)); err != nil || !slices.Equal(got, test.want) {
					t.Errorf("%v, %v, want %v", got, err, test.want)
				}
				return
			}
			for _, want := range test.err {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v has no %q", err, want)
				}
			}
		})
	}
}

func TestAllMissingProgramsAreNamedAtOnce(t *testing.T) {
	_, err := selectFiles(tree{}, contents["operator"], architectures["amd64"], nil, readNames)
	for _, name := range append([]string{"mke2fs.conf"}, contents["operator"].programs...) {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("no word of %s: %v", name, err)
		}
	}
}

func TestPackageWithoutCopyrightIsNamed(t *testing.T) {
	s := &selection{from: tree{}, image: tree{"usr/bin/p": {deb: "/c/pkg_1_amd64.deb"}}}
	if err := s.addCopyrights(); err == nil || !strings.Contains(err.Error(), "package pkg") {
		t.Errorf("error %v", err)
	}
}

func TestReadELF(t *testing.T) {
	for _, machine := range []elf.Machine{elf.EM_X86_64, elf.EM_S390} {
		d, err := readELF(tinyELF(machine, "/lib64/ld.so.1", "liba.so.1", "libc.so.6"))
		if err != nil || d.machine != machine || d.interpreter != "/lib64/ld.so.1" ||
			!slices.Equal(d.needed, []string{"liba.so.1", "libc.so.6"}) {
			t.Errorf("%s: %+v, %v", machine, d, err)
		}
	}
	if _, err := readELF([]byte("#!/bin/sh\n")); err == nil {
		t.Error("a script is no error")
	}
}

func TestLinksLeadToProgramsOfTheImage(t *testing.T) {
	for name, c := range contents {
		for link, target := range c.links {
			if !slices.Contains(c.programs, target) {
				t.Errorf("%s: %s leads to %s, which is none of its programs", name, link, target)
			}
		}
	}
}

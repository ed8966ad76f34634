package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// topLinks are links into /usr.
var topLinks = []string{"bin", "sbin", "lib", "lib64"}

// folders are the directories of every image.
var folders = []string{"usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "tmp", "proc", "sys", "dev"}

// release are the files that identify the distribution, which image scanners read first. They are in the package
// base-files.
var release = []string{"etc/os-release", "usr/lib/os-release", "etc/debian_version"}

// licensesFolder is the directory that OpenShift's rules for images require for licenses.
const licensesFolder = "licenses"

// selection collects the files of the image.
type selection struct {
	from  tree
	want  content
	arch  architecture
	read  func(content []byte) (dynamic, error)
	image tree
}

func selectFiles(from tree, want content, arch architecture, license []byte,
	read func([]byte) (dynamic, error)) (tree, error) {
	s := &selection{from: from, want: want, arch: arch, read: read, image: ownFiles(license)}
	var errs []error
	for _, name := range want.programs {
		errs = append(errs, s.addProgram(name))
	}
	for _, name := range slices.Concat(release, want.configuration) {
		errs = append(errs, s.addConfiguration(name))
	}
	for name, target := range want.links {
		s.image[name] = file{mode: fs.ModeSymlink, link: target}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s.image, s.addCopyrights()
}

// ownFiles returns the files that are not from a package.
func ownFiles(license []byte) tree {
	files := tree{
		"etc/passwd": textFile(
			"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"),
		"etc/group": textFile("root:x:0:\nnonroot:x:65532:\n"),
		"etc/mtab":  {mode: fs.ModeSymlink, link: "/proc/mounts"},
		// Without the node's configuration, mount(8) and LVM take SELinux for disabled: mount(8) omits the context of a
		// volume (libselinux, is_selinux_enabled). The agent is in the process namespace of the node.
		"etc/selinux":      {mode: fs.ModeSymlink, link: "/proc/1/root/etc/selinux"},
		"licenses/LICENSE": textFile(string(license)),
	}
	for _, name := range topLinks {
		files[name] = file{mode: fs.ModeSymlink, link: "usr/" + name}
	}
	return files
}

func (s *selection) addProgram(name string) error {
	for _, folder := range []string{"usr/sbin", "usr/bin"} {
		at := path.Join(folder, name)
		if _, found := s.from[at]; found {
			return s.addWithLink(at)
		}
	}
	return fmt.Errorf("the program %s is in none of the packages %s or what they depend on: add its package to roots "+
		"in hack/rootfs/main.go",
		name, strings.Join(s.want.roots, ", "))
}

// addWithLink adds the file to which a path resolves. If the file has another name, it also adds the link, as on
// Debian.
func (s *selection) addWithLink(at string) error {
	real, err := s.from.resolve(at)
	if err != nil {
		return err
	}
	if real != at {
		target, err := filepath.Rel(path.Dir(at), real)
		if err != nil {
			return err
		}
		s.image[at] = file{deb: s.from[at].deb, mode: fs.ModeSymlink, link: target}
	}
	return s.addBinary(real)
}

// addBinary adds a program or library with everything that it needs.
func (s *selection) addBinary(at string) error {
	if _, done := s.image[at]; done {
		return nil
	}
	f := s.from[at]
	s.image[at] = f
	d, err := s.read(f.content)
	if err != nil {
		return fmt.Errorf("/%s: %w", at, err)
	}
	if d.machine != s.arch.machine {
		return fmt.Errorf("/%s is for %s, and not for %s", at, d.machine, s.arch.machine)
	}
	errs := []error{s.addInterpreter(at, d.interpreter)}
	for _, name := range d.needed {
		errs = append(errs, s.addLibrary(at, name))
	}
	return errors.Join(errs...)
}

func (s *selection) addLibrary(by, name string) error {
	for _, folder := range []string{path.Join("usr/lib", s.arch.triplet), "usr/lib"} {
		at := path.Join(folder, name)
		if _, found := s.from[at]; found {
			return s.addWithLink(at)
		}
	}
	return fmt.Errorf("/%s (%s) needs the library %s, which no package has that it depends on: add its package to "+
		"roots in hack/rootfs/main.go",
		by, filepath.Base(s.from[by].deb), name)
}

// addInterpreter adds the dynamic linker, whose path is the same in every program of an architecture.
func (s *selection) addInterpreter(by, name string) error {
	if name == "" {
		return nil
	}
	real, err := s.from.resolve(name)
	if err != nil {
		return fmt.Errorf("/%s (%s): its dynamic linker: %w", by, filepath.Base(s.from[by].deb), err)
	}
	if at := merged(name); at != real {
		s.image[at] = file{deb: s.from[at].deb, mode: fs.ModeSymlink, link: "/" + real}
	}
	return s.addBinary(real)
}

func (s *selection) addConfiguration(at string) error {
	f, found := s.from[at]
	if !found {
		return fmt.Errorf("/%s is in no package: add its package to roots in hack/rootfs/main.go", at)
	}
	s.image[at] = f
	return nil
}

// addCopyrights adds the copyright file of each package with a file in the image, and a link to it from Debian's path.
// Debian's directory may be a link to that of another package of the same source.
func (s *selection) addCopyrights() error {
	var debs []string
	for _, f := range s.image {
		if f.deb != "" && !slices.Contains(debs, f.deb) {
			debs = append(debs, f.deb)
		}
	}
	for _, deb := range debs {
		name := packageOf(deb)
		at, err := s.from.resolve(path.Join("usr/share/doc", name, "copyright"))
		if err != nil {
			return fmt.Errorf("the copyright of package %s: %w", name, err)
		}
		f := s.from[at]
		f.mode = 0o644
		f.deb = deb
		copyright := path.Join(licensesFolder, name, "copyright")
		s.image[copyright] = f
		s.image[path.Join("usr/share/doc", name, "copyright")] = file{
			deb: deb, mode: fs.ModeSymlink, link: "../../../../" + copyright,
		}
	}
	return nil
}

// packageOf returns the first part of NAME_VERSION_ARCH.deb.
func packageOf(deb string) string {
	name, _, _ := strings.Cut(filepath.Base(deb), "_")
	return name
}

package main

import (
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// components are the parts of an image.
type components struct {
	distribution string // of the packages: debian-12
	packages     []debianPackage
	goVersion    string // without "go"
	program
	console *console // nil if the image has none
}

// program is a Go program.
type program struct {
	main    goModule
	modules []goModule // without the main one
}

// console is the server of the console's plugin, with the npm packages in the plugin.
type console struct {
	program
	npm []npmPackage
}

// npmPackage is an entry of the list that hack/console writes.
type npmPackage struct {
	Name, Version, License string
	Integrity              string // sha512-..., as in package-lock.json
}

// debianPackage is an entry of the list that hack/rootfs writes.
type debianPackage struct {
	Name, Version, Architecture, Source, SourceVersion, SHA256 string
}

type goModule struct {
	path, version string
	sum           string // h1:..., as in go.sum; the main module has none
	subpath       string // of a program that is not the first one of the module
}

func readComponents(o options) (components, error) {
	var c components
	if (o.rootfs == "") != (o.packages == "") {
		return c,
			errors.New(
				"-rootfs and -packages go together: without the packages the list of components would not be complete")
	}
	if err := c.readPackages(o.packages); err != nil {
		return c, fmt.Errorf("packages in the image: %w", err)
	}
	if err := checkMachine(o.binary, o.arch); err != nil {
		return c, err
	}
	info, err := buildinfo.ReadFile(o.binary)
	if err != nil {
		return c, fmt.Errorf("modules of Go in %s: %w", o.binary, err)
	}
	c.readModules(info, o.version)
	return c, c.readConsole(o)
}

// readConsole reads the parts of the plugin's server, if the image has one.
func (c *components) readConsole(o options) error {
	if (o.console == "") != (o.parts == "") {
		return errors.New(
			"-console and -parts go together: without the parts the list of components would not be complete")
	}
	if o.console == "" {
		return nil
	}
	if err := checkMachine(o.console, o.arch); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(o.console)
	if err != nil {
		return fmt.Errorf("modules of Go in %s: %w", o.console, err)
	}
	found := &console{program: programOf(info, o.version)}
	found.main.subpath = strings.TrimPrefix(strings.TrimPrefix(info.Path, info.Main.Path), "/")
	path := filepath.Join(o.parts, partsFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("npm packages in the plugin: %w", err)
	}
	if err := json.Unmarshal(content, &found.npm); err != nil {
		return fmt.Errorf("npm packages in the plugin: %s: %w", path, err)
	}
	if len(found.npm) == 0 {
		return fmt.Errorf("npm packages in the plugin: %s names none: write it again with hack/console", path)
	}
	for _, p := range found.npm {
		texts, err := os.ReadDir(filepath.Join(o.parts, licensesFolder, filepath.FromSlash(p.Name)))
		if err != nil {
			return fmt.Errorf("license of npm package %s in the plugin: %w", p.Name, err)
		}
		if len(texts) == 0 {
			return fmt.Errorf("license of npm package %s in the plugin: %s has none: write it again with hack/console",
				p.Name, o.parts)
		}
	}
	c.console = found
	return nil
}

// Names in the directory that hack/console writes.
const (
	partsFile      = "parts.json"
	licensesFolder = "licenses"
)

func (c *components) readPackages(path string) error {
	if path == "" {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var list struct {
		Distribution string
		Packages     []debianPackage
	}
	if err := json.Unmarshal(content, &list); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(list.Packages) == 0 {
		return fmt.Errorf("%s names none: write it again with hack/rootfs", path)
	}
	c.distribution = list.Distribution
	c.packages = list.Packages
	return nil
}

func (c *components) readModules(info *debug.BuildInfo, version string) {
	c.goVersion, _, _ = strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	c.program = programOf(info, version)
}

func programOf(info *debug.BuildInfo, version string) program {
	// Go does not record the version of a module that is built in a working tree.
	p := program{main: goModule{path: info.Main.Path, version: "v" + version}}
	for _, m := range info.Deps {
		p.modules = append(p.modules, builtFrom(m))
	}
	slices.SortFunc(p.modules, func(a, b goModule) int {
		return strings.Compare(a.path+"@"+a.version,
			b.path+"@"+b.version)
	})
	return p
}

// builtFrom returns the compiled module. If it was replaced by a local directory, builtFrom keeps its name without a
// version, because the name of the directory means nothing on other machines.
func builtFrom(m *debug.Module) goModule {
	switch {
	case m.Replace == nil:
		return goModule{path: m.Path, version: m.Version, sum: m.Sum}
	case strings.HasPrefix(m.Replace.Path, ".") || filepath.IsAbs(m.Replace.Path):
		return goModule{path: m.Path}
	}
	return goModule{path: m.Replace.Path, version: m.Replace.Version, sum: m.Replace.Sum}
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "ppc64le": elf.EM_PPC64,
	"s390x": elf.EM_S390}

// checkMachine refuses a program for another architecture, which would otherwise fail only on a node.
func checkMachine(path, arch string) error {
	want, known := machines[arch]
	if !known {
		return fmt.Errorf("-arch %q is not one that the image is built for", arch)
	}
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("program %s: %w", path, err)
	}
	defer f.Close()
	if f.Machine != want {
		return fmt.Errorf("program %s is for %s, and the image for %s: build it with GOARCH=%s", path,
			f.Machine, arch, arch)
	}
	return nil
}

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// fakeDebian simulates apt-get and dpkg-deb for a few packages.
type fakeDebian struct {
	debs  map[string][]byte // content by file name
	calls []string
	// fail has the errors of commands whose arguments contain the key.
	fail map[string]error
	// corrupt downloads files that differ from the list.
	corrupt bool
}

func newFakeDebian(arch architecture) *fakeDebian {
	programNames := func(names ...string) map[string][]byte {
		files := map[string][]byte{}
		for _, name := range names {
			files["./sbin/"+name] = tinyELF(arch.machine, "/lib64/ld.so.2", "libc.so.6")
		}
		return files
	}
	rest := slices.DeleteFunc(slices.Clone(contents["operator"].programs),
		func(name string) bool { return name == "mkfs.ext4" || name == "fsck.ext4" })
	root := programNames(rest...)
	root["./etc/mke2fs.conf"] = []byte("[defaults]\n")
	root["./sbin/mkfs.ext4"], root["./sbin/fsck.ext4"] = []byte("-> mke2fs"), []byte("-> e2fsck")
	root["./usr/share/doc/e2fsprogs/copyright"] = []byte("GPL-2\n")
	libraries := "./lib/" + arch.triplet
	base := map[string][]byte{
		"./etc/debian_version":                   []byte("12.4\n"),
		"./etc/os-release":                       []byte("-> ../usr/lib/os-release"),
		"./usr/lib/os-release":                   []byte("ID=debian\nVERSION_ID=\"12\"\n"),
		"./usr/share/doc/base-files/copyright":   []byte("GPL\n"),
		"./usr/share/common-licenses/Apache-2.0": []byte("Apache\n"),
	}
	return &fakeDebian{debs: map[string][]byte{
		"base-files_12.4_" + arch.debian + ".deb":       tarOf(base),
		"e2fsprogs_1.47.0-2+b2_" + arch.debian + ".deb": tarOf(root),
		"libc6_2%3a2.36_" + arch.debian + ".deb": tarOf(map[string][]byte{
			libraries + "/ld-2.36.so":               tinyELF(arch.machine, ""),
			libraries + "/libc.so.6":                []byte("-> libc-2.36.so"),
			libraries + "/libc-2.36.so":             tinyELF(arch.machine, ""),
			"./lib64/ld.so.2":                       []byte("-> /lib/" + arch.triplet + "/ld-2.36.so"),
			"./usr/share/doc/libc6":                 []byte("-> libc-common"),
			"./usr/share/doc/libc-common/copyright": []byte("LGPL\n"),
		}),
		"unused_1_all.deb": tarOf(map[string][]byte{"./usr/bin/unused": []byte("#!/bin/sh\n")}),
	}}
}

func (d *fakeDebian) run(_ context.Context, limit time.Duration, name string, args ...string) ([]byte, error) {
	call := name + " " + strings.Join(args, " ")
	d.calls = append(d.calls, call)
	if limit <= 0 {
		return nil, errors.New("no time limit: " + call)
	}
	for part, err := range d.fail {
		if strings.Contains(call, part) {
			return nil, err
		}
	}
	switch {
	case strings.Contains(call, "--print-uris"):
		return d.uris(), nil
	case strings.Contains(call, "--download-only"):
		return nil, d.download(filepath.Join(filepath.Dir(args[1]), "archives"))
	case strings.Contains(call, "--show"):
		pkg, _, _ := strings.Cut(filepath.Base(args[len(args)-1]), "_")
		return []byte(pkg + "\n1.0+b1\nall\n" + pkg + "-source\n1.0\n"), nil
	case strings.Contains(call, "--field"):
		return controlOf(filepath.Base(args[1])), nil
	case strings.Contains(call, "--fsys-tarfile"):
		return os.ReadFile(args[1])
	}
	return nil, nil
}

// controlOf returns the control file of a package, which dpkg-deb --field prints. Libraries can be installed for
// several architectures.
func controlOf(deb string) []byte {
	name, _, _ := strings.Cut(deb, "_")
	arch := strings.TrimSuffix(deb[strings.LastIndex(deb, "_")+1:], ".deb")
	text := fmt.Sprintf(
		"Package: %s\nSource: %[1]s-source (1.0)\nVersion: 1.0+b1\nArchitecture: %s\nMaintainer: M <m@example.com>\n",
		name, arch)
	if strings.HasPrefix(name, "lib") {
		text += "Multi-Arch: same\n"
	}
	return []byte(text + "Description: what it is\n More of it.\n")
}

func (d *fakeDebian) uris() []byte {
	var b bytes.Buffer
	for name, content := range d.debs {
		fmt.Fprintf(&b, "'http://debian/%s' %s %d SHA256:%x\n", name, name, len(content), sha256.Sum256(content))
	}
	return b.Bytes()
}

func (d *fakeDebian) download(folder string) error {
	for name, content := range d.debs {
		if d.corrupt {
			content = append(slices.Clone(content), 0)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (d *fakeDebian) count(part string) int {
	n := 0
	for _, call := range d.calls {
		if strings.Contains(call, part) {
			n++
		}
	}
	return n
}

// tarOf creates an archive. Content "-> x" is a link.
func tarOf(files map[string][]byte) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o4755, Size: int64(len(content))}
		if target, link := strings.CutPrefix(string(content), "-> "); link {
			header.Typeflag = tar.TypeSymlink
			header.Linkname = target
			header.Size = 0
			content = nil
		}
		if err := errors.Join(w.WriteHeader(header), second(w.Write(content))); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func second(_ int, err error) error { return err }

// tinyELF returns a program without code that has an interpreter and libraries like a linked one.
func tinyELF(machine elf.Machine, interpreter string, needed ...string) []byte {
	var order binary.ByteOrder = binary.LittleEndian
	data := elf.ELFDATA2LSB
	if machine == elf.EM_S390 {
		order = binary.BigEndian
		data = elf.ELFDATA2MSB
	}
	const (
		headers = 64
		segment = 56
		section = 64
	)
	names := []byte{0}
	dynamics := []elf.Dyn64{}
	for _, name := range needed {
		dynamics = append(dynamics, elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: uint64(len(names))})
		names = append(append(names, name...), 0)
	}
	dynamics = append(dynamics, elf.Dyn64{})
	interp := append([]byte(interpreter), 0)
	interpAt := uint64(headers + segment)
	namesAt := interpAt + uint64(len(interp))
	dynamicsAt := namesAt + uint64(len(names))
	dynamicsSize := uint64(16 * len(dynamics))

	header := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(machine), Version: 1, Phoff: headers,
		Shoff:  dynamicsAt + dynamicsSize,
		Ehsize: headers, Phentsize: segment, Phnum: 1, Shentsize: section, Shnum: 3, Shstrndx: 1}
	copy(header.Ident[:], []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(data), 1})
	program := elf.Prog64{Type: uint32(elf.PT_INTERP), Off: interpAt, Filesz: uint64(len(interp))}
	if interpreter == "" {
		program = elf.Prog64{}
	}
	var b bytes.Buffer
	for _, part := range []any{header, program, interp, names, dynamics,
		elf.Section64{},
		elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: namesAt, Size: uint64(len(names))},
		elf.Section64{Type: uint32(elf.SHT_DYNAMIC), Off: dynamicsAt, Size: dynamicsSize, Link: 1, Entsize: 16},
	} {
		if err := binary.Write(&b, order, part); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

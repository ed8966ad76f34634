package uml

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// Installed returns the kernel of this machine, from its package user-mode-linux.
func Installed() spec.Kernel { return spec.Kernel{Program: Program, Modules: modulesPath} }

// modulesPath is the folder of the modules in the package user-mode-linux.
const modulesPath = "/usr/lib/uml/modules"

// Paths in the root of a Debian system.
const (
	librariesPath = "usr/lib/x86_64-linux-gnu"
	loaderPath    = librariesPath + "/ld-linux-x86-64.so.2"
)

// FromRoot lets the kernel of a root that is newer than this machine run here, with the root's own C library. It writes
// a copy of the kernel to the given path. The dynamic loader of the copy is that of the root.
func FromRoot(root, path string) (spec.Kernel, error) {
	content, err := os.ReadFile(filepath.Join(root, Program))
	if err != nil {
		return spec.Kernel{}, err
	}
	content, err = withInterpreter(content, filepath.Join(root, loaderPath))
	if err != nil {
		return spec.Kernel{}, fmt.Errorf("%s: %w", filepath.Join(root, Program), err)
	}
	kernel := spec.Kernel{Program: path, Modules: filepath.Join(root, modulesPath),
		Env: []string{"LD_LIBRARY_PATH=" + filepath.Join(root, librariesPath)}}
	return kernel, os.WriteFile(path, content, 0o755)
}

// Offsets in the headers of a 64-bit ELF file (elf(5)).
const (
	elfPhoff    = 0x20
	elfPhnum    = 0x38
	phdrSize    = 56
	phdrOffset  = 8
	phdrFilesz  = 32
	phdrMemsz   = 40
	elfMinBytes = 64
)

var errNoInterpreter = errors.New("not a dynamically linked 64-bit program")

// withInterpreter returns a copy of a program with another dynamic loader. The loader's path is at the end of the file,
// where the kernel reads it; it is not loaded into memory.
func withInterpreter(program []byte, loader string) ([]byte, error) {
	if len(program) < elfMinBytes || string(program[:4]) != elf.ELFMAG ||
		program[elf.EI_CLASS] != byte(elf.ELFCLASS64) {
		return nil, errNoInterpreter
	}
	name := append([]byte(loader), 0)
	out := append(append([]byte(nil), program...), name...)
	table := binary.LittleEndian.Uint64(out[elfPhoff:])
	for i := range uint64(binary.LittleEndian.Uint16(out[elfPhnum:])) {
		at := table + i*phdrSize
		if at+phdrSize > uint64(len(program)) {
			return nil, errNoInterpreter
		}
		header := out[at : at+phdrSize]
		if elf.ProgType(binary.LittleEndian.Uint32(header)) != elf.PT_INTERP {
			continue
		}
		binary.LittleEndian.PutUint64(header[phdrOffset:], uint64(len(program)))
		binary.LittleEndian.PutUint64(header[phdrFilesz:], uint64(len(name)))
		binary.LittleEndian.PutUint64(header[phdrMemsz:], uint64(len(name)))
		return out, nil
	}
	return nil, errNoInterpreter
}

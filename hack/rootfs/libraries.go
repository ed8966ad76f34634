package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"strings"
)

// dynamic has the dependencies of a program or library.
type dynamic struct {
	machine     elf.Machine
	interpreter string
	needed      []string
}

func readELF(content []byte) (dynamic, error) {
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return dynamic{}, fmt.Errorf("not a program or library: %w", err)
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		return dynamic{}, fmt.Errorf("what it needs: %w", err)
	}
	d := dynamic{machine: f.Machine, needed: needed}
	for _, segment := range f.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		name, err := io.ReadAll(segment.Open())
		if err != nil {
			return dynamic{}, fmt.Errorf("its interpreter: %w", err)
		}
		d.interpreter = strings.TrimRight(string(name), "\x00")
	}
	return d, nil
}

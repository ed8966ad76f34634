package uml

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"testing"
)

func TestInterpreterIsReplaced(t *testing.T) {
	const loader = "/a/much/longer/path/than/the/one/that/was/there/ld-linux-x86-64.so.2"
	program, err := os.ReadFile("/usr/bin/env")
	if err != nil {
		t.Fatal(err)
	}
	changed, err := withInterpreter(program, loader)
	if err != nil {
		t.Fatal(err)
	}
	if got := interpreterOf(t, changed); got != loader+"\x00" {
		t.Errorf("got %q", got)
	}
	if interpreterOf(t, program) == loader+"\x00" {
		t.Error("the original was changed")
	}
}

func interpreterOf(t *testing.T, program []byte) string {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name, err := io.ReadAll(p.Open())
			if err != nil {
				t.Fatal(err)
			}
			return string(name)
		}
	}
	return ""
}

func TestWhatIsNoDynamicProgramIsRefused(t *testing.T) {
	static := make([]byte, 64)
	copy(static, elf.ELFMAG)
	static[elf.EI_CLASS] = byte(elf.ELFCLASS64)
	beyond := bytes.Clone(static)
	beyond[elfPhnum] = 1
	beyond[elfPhoff+1] = 0xff
	for name, content := range map[string][]byte{"empty": nil, "text": []byte("#!/bin/sh\n" + string(make([]byte, 64))),
		"no headers": static, "headers beyond its end": beyond} {
		if _, err := withInterpreter(content, "/ld"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

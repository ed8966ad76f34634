package main

import (
	"os"
	"path/filepath"
	"testing"
)

const source = `// Package a has a comment.
package a

// +marker is for a program.
//go:generate true

// b says "why".
const b = "the disk is gone"

var c = []string{"one word", "first line here\nsecond line", ` + "`raw text of\nthree lines\nhere`" + `}
`

func TestExtract(t *testing.T) {
	const comments = "Package a has a comment.\n\n\n\n\n\nb says \"why\".\n"
	const messages = "the disk is gone\n\nfirst line here raw text of\nsecond line three lines\nhere\n"
	for name, want := range map[string]string{"a.go": comments + messages, "a_test.go": comments} {
		if got, err := extract(name, []byte(source)); got != want || err != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if _, err := extract("a.go", []byte("no Go")); err == nil {
		t.Error("a file that is no Go was read")
	}
}

func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.go", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := run("out", []string{"a.go"}); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join("out", "a.go.txt")); err != nil || len(text) == 0 {
		t.Errorf("got %q, %v", text, err)
	}
	for name, files := range map[string][]string{"no file": nil, "a file that is not there": {"b.go"}} {
		if err := run("out", files); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
	if err := run("", []string{"a.go"}); err == nil {
		t.Error("no folder is no error")
	}
}

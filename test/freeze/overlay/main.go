// Overlay writes the files with which `go build -overlay` builds the program lvms for the test of frozen processes: a
// package sync that calls a function before it releases a lock, and an import of test/freeze.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const hook = `package sync

import "sync/atomic"

// Fate is what becomes of a lock that is to be released.
type Fate int

const (
	// Unlocks is the normal behavior.
	Unlocks Fate = iota
	// NeverUnlocks blocks the goroutine before it releases the lock.
	NeverUnlocks
	// UnlocksAndWaits blocks the goroutine after it has released the lock.
	UnlocksAndWaits
)

// BeforeUnlock is called before a Mutex or RWMutex is released, if it is set.
var BeforeUnlock atomic.Pointer[func() Fate]

func fate() Fate {
	if f := BeforeUnlock.Load(); f != nil {
		return (*f)()
	}
	return Unlocks
}
`

const program = `package main

import _ "github.com/lvm-storage/lvm-operator/test/freeze"
`

// methods are the beginnings of methods of package sync that release a lock, and their bodies, by file.
var methods = map[string][][2]string{
	"mutex.go": {{"func (m *Mutex) Unlock() {\n", "m.mu.Unlock()"}},
	"rwmutex.go": {
		{"func (rw *RWMutex) RUnlock() {\n", "rw.rUnlock()"},
		{"func (rw *RWMutex) Unlock() {\n", "rw.unlock()"},
	},
	"pool.go": nil,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: overlay DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(dir string) error {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(goroot)), "src", "sync")
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	replace := map[string]string{}
	add := func(path, content string) error {
		file := filepath.Join(dir, filepath.Base(path))
		replace[path] = file
		return os.WriteFile(file, []byte(content), 0o600)
	}
	err = errors.Join(os.MkdirAll(dir, 0o755), add(filepath.Join(source, "hook.go"), hook),
		add(filepath.Join(here, "cmd", "lvms", "freeze.go"), program))
	for name := range methods {
		path := filepath.Join(source, name)
		content, readErr := os.ReadFile(path)
		changed, changeErr := change(name, string(content))
		err = errors.Join(err, readErr, changeErr, add(path, changed))
	}
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), config, 0o600)
}

// poolUnlock is in a function that has pinned its processor, where the caller must not block or allocate.
const poolUnlock = "allPoolsMu.Unlock()"

// change renames each method that releases a lock, and adds one that asks for its fate first.
func change(name, content string) (string, error) {
	content = strings.ReplaceAll(content, poolUnlock, "allPoolsMu.mu.Unlock()")
	for _, m := range methods[name] {
		if strings.Count(content, m[0]) != 1 {
			return "", fmt.Errorf("%s of this version of Go does not have %q once", name, m[0])
		}
		receiver := strings.Fields(strings.TrimPrefix(m[0], "func ("))[0]
		original := strings.TrimSuffix(strings.TrimPrefix(m[1], receiver+"."), "()")
		body := m[1]
		if strings.Contains(m[1], ".mu.") {
			// The method has one line.
			content = strings.Replace(content, m[0]+"\t"+body+"\n}", m[0]+wrapped(body)+"}", 1)
			continue
		}
		begin := m[0][:strings.LastIndex(m[0], " ")]
		begin = begin[:strings.LastIndex(begin, " ")+1] + original + "() {\n"
		content = strings.Replace(content, m[0], m[0]+wrapped(body)+"}\n\n"+begin, 1)
	}
	return content, nil
}

func wrapped(body string) string {
	return "\tswitch fate() {\n\tcase NeverUnlocks:\n\t\tselect {}\n\tcase UnlocksAndWaits:\n\t\t" + body +
		"\n\t\tselect {}\n\t}\n\t" + body + "\n"
}

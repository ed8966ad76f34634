// Package xstate lets User Mode Linux before 6.13 run on processors with a large XSAVE area, which are those with AMX
// (Intel Sapphire Rapids and later). The kernel of such a machine rejects the floating-point state that User Mode Linux
// writes, because it is shorter than the machine's. preload/xstate.c has the details. The package measures the
// machine's area and compiles a library that is preloaded into User Mode Linux.
package xstate

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

//go:embed preload/xstate.c
var source []byte

const (
	// Compiler compiles the library.
	Compiler = "/usr/bin/gcc"
	// AlwaysEnv, set to any value, has the library used on every machine, so that it can be tested on every machine.
	AlwaysEnv = "LVMS_LAB_XSTATE_ALWAYS"

	// umlBytes is the size of the buffer of User Mode Linux: x87 to PKRU (arch/x86/um/os-Linux/registers.c).
	umlBytes = 2696
	// noteXState is NT_X86_XSTATE of elf.h.
	noteXState = 0x202
)

// Preload returns the path of the library to preload into User Mode Linux on this machine. It compiles the library into
// the folder if it does not exist yet. The path is empty if the machine's area is no larger than that of User Mode
// Linux.
func Preload(ctx context.Context, folder string) (string, error) {
	needed, err := Needed()
	if err != nil || !needed {
		return "", err
	}
	sum := sha256.Sum256(source)
	library := filepath.Join(folder, "xstate-"+hex.EncodeToString(sum[:8])+".so")
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	return library, compile(ctx, library)
}

// Needed reports whether User Mode Linux needs the library on this machine.
func Needed() (bool, error) {
	if os.Getenv(AlwaysEnv) != "" {
		return true, nil
	}
	size, err := AreaSize()
	return size > umlBytes, err
}

// compile writes the library to a temporary name first, because another process may compile it at the same time.
func compile(ctx context.Context, library string) error {
	if err := os.MkdirAll(filepath.Dir(library), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(library), "xstate.build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "xstate.c")
	out := filepath.Join(dir, "xstate.so")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, Compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", out, file)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the XSAVE library for User Mode Linux with %s: %w\n%s", Compiler, err, output)
	}
	return os.Rename(out, library)
}

// AreaSize returns the size in bytes of the XSAVE area that this machine's kernel reads and writes for a traced
// process.
func AreaSize() (int, error) {
	type result struct {
		size int
		err  error
	}
	results := make(chan result, 1)
	// A tracer is a thread. The goroutine never unlocks this thread, so they end together.
	go func() {
		runtime.LockOSThread()
		size, err := traceChild()
		results <- result{size, err}
	}()
	r := <-results
	if r.err != nil {
		return 0, fmt.Errorf("measure the XSAVE area of this machine: %w", r.err)
	}
	return r.size, nil
}

// traceChild starts a process that stops at its first instruction, reads its registers, and kills it.
func traceChild() (size int, err error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		killed := cmd.Process.Kill()
		_ = cmd.Wait() // reports that it was killed
		err = errors.Join(err, killed)
	}()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, 0, nil); err != nil {
		return 0, err
	}
	if !status.Stopped() {
		return 0, fmt.Errorf("the traced process did not stop: status %#x", status)
	}
	area := make([]byte, 1<<16)
	vector := unix.Iovec{Base: &area[0], Len: uint64(len(area))}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(cmd.Process.Pid), noteXState,
		uintptr(unsafe.Pointer(&vector)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(vector.Len), nil
}

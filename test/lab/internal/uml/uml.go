// Package uml starts User Mode Linux kernels and talks to their management consoles.
package uml

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Program is the path of the kernel, from Debian's package user-mode-linux.
const Program = "/usr/bin/linux.uml"

// Machine is the configuration of a kernel.
type Machine struct {
	Name     string
	Dir      string // of the management sockets, relative to the working directory: their paths may be 107 bytes long
	MemoryMB int
	Tap      string
	Disks    map[string]string // letter to file; "a" is the root disk
	Shared   map[string]bool   // letters of disks that other machines also have open, so that they are not locked
	Init     string
	Env      []string // for the first process
}

// Args returns the kernel's command line. The console goes to standard output. Without "con=null" it would wait for
// terminals.
func (m Machine) Args() []string {
	args := []string{
		fmt.Sprintf("mem=%dM", m.MemoryMB),
		"rootfstype=hostfs", "rootflags=/", "ro", "init=" + m.Init, "quiet",
		"con=null", "con0=fd:0,fd:1", "ssl=null",
		// Without it, processes of the node are controlled by ptrace, which takes twice as long. Kernels before 6.16
		// do not know it.
		"seccomp=auto",
		"vec0:transport=tap,ifname=" + m.Tap + ",depth=128",
		"umid=" + m.Name, "uml_dir=" + m.Dir,
	}
	for letter := 'a'; letter <= 'p'; letter++ {
		if file, ok := m.Disks[string(letter)]; ok {
			args = append(args, DiskArg(string(letter), m.Shared[string(letter)], file))
		}
	}
	return append(args, m.Env...)
}

// DiskArg returns the argument for a disk, also for the management console ("config").
func DiskArg(letter string, shared bool, file string) string {
	if shared {
		letter += "c"
	}
	return fmt.Sprintf("ubd%s=%s", letter, file)
}

// hidden lists the folders that a node has its own versions of, so that it does not see those of the machine.
var hidden = []string{"/run/", "/var/run/", "/dev/", "/proc/", "/sys/"}

// CheckPath returns an error if a path cannot be on a kernel's command line, or if a node does not see it.
func CheckPath(path string) error {
	if !filepath.IsAbs(path) || strings.ContainsAny(path, " ,:=\"'\n\t") {
		return fmt.Errorf("path %q: has to be absolute and without spaces, quotes, commas, colons and equal signs",
			path)
	}
	for _, dir := range hidden {
		if strings.HasPrefix(filepath.Clean(path)+"/", dir) {
			return fmt.Errorf("path %q: a node does not see the machine's %s", path, dir)
		}
	}
	return nil
}

// ErrBusy means that a disk cannot be removed because it is in use.
var ErrBusy = errors.New("disk is in use")

const (
	mconsoleMagic   = 0xcafebabe
	mconsoleVersion = 2
	mconsoleData    = 512
	mconsoleLimit   = 2 * time.Minute
)

// Console sends a command ("config ubdc=FILE", "remove ubdc") to a running kernel, whose management socket is
// DIR/NAME/mconsole.
func Console(dir, name, command string) (string, error) {
	// The answer goes to an abstract address: it needs no file and disappears with the socket.
	local := &net.UnixAddr{Net: "unixgram",
		Name: fmt.Sprintf("@lab-mconsole-%d-%d", os.Getpid(), time.Now().UnixNano())}
	conn, err := net.ListenUnixgram("unixgram", local)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(mconsoleLimit)); err != nil {
		return "", err
	}
	if len(command) >= mconsoleData {
		return "", fmt.Errorf("command of %d bytes is too long for a management console", len(command))
	}
	var request bytes.Buffer
	for _, v := range []uint32{mconsoleMagic, mconsoleVersion, uint32(len(command))} {
		_ = binary.Write(&request, binary.NativeEndian, v)
	}
	request.WriteString(command)
	request.Write(make([]byte, mconsoleData-len(command)))
	remote := &net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir, name, "mconsole")}
	if _, err := conn.WriteToUnix(request.Bytes(), remote); err != nil {
		return "", fmt.Errorf("management console of %s: %w", name, err)
	}
	return readAnswer(conn, name, command)
}

func readAnswer(conn *net.UnixConn, name, command string) (string, error) {
	var text strings.Builder
	for {
		answer := make([]byte, 12+mconsoleData)
		n, err := conn.Read(answer)
		if err != nil || n < 12 {
			return "", fmt.Errorf("management console of %s: no answer to %q: %w", name, command, err)
		}
		failed := binary.NativeEndian.Uint32(answer[0:]) != 0
		more := binary.NativeEndian.Uint32(answer[4:]) != 0
		length := min(int(binary.NativeEndian.Uint32(answer[8:])), n-12)
		text.Write(bytes.TrimRight(answer[12:12+length], "\x00"))
		if more {
			continue
		}
		out := strings.TrimSpace(text.String())
		switch {
		case failed && strings.HasPrefix(command, "remove") && strings.Contains(out, "currently open"):
			return "", ErrBusy
		case failed:
			return "", fmt.Errorf("management console of %s: %q: %s", name, command, out)
		}
		return out, nil
	}
}

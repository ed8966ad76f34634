package guest

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/wire"
)

// drainLimit limits how long the agent reads output of a command's remaining children after the command ends.
const drainLimit = time.Second

// exec runs a command in its own session. The command ends with the connection.
func (m *machine) exec(conn net.Conn, w *wire.Writer, req wire.Request) wire.Exit {
	if len(req.Args) == 0 {
		return wire.Exit{Error: "no command"}
	}
	cmd := exec.Command(req.Args[0], req.Args[1:]...)
	cmd.Env = append(os.Environ(), req.Env...)
	cmd.Dir = req.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/root"
	}
	streams, err := openStreams(cmd, w, req)
	if err != nil {
		return wire.Exit{Error: err.Error()}
	}
	defer streams.close()
	child, err := m.reaper.Start(cmd)
	streams.closeTheirs()
	if err != nil {
		return wire.Exit{Code: exitCodeOfStart(err), Error: err.Error()}
	}
	var copying sync.WaitGroup
	for _, o := range streams.outputs {
		copying.Go(func() { _, _ = io.Copy(o.to, o.from) })
	}
	go func() { // ends when the client closes the connection, at the latest after the exit
		streams.feed(conn)
		if child.Running() {
			_ = unix.Kill(-child.PID, unix.SIGKILL)
		}
	}()
	<-child.Done()
	for _, o := range streams.outputs {
		_ = o.from.SetReadDeadline(time.Now().Add(drainLimit))
	}
	copying.Wait()
	return wire.Exit{Code: child.ExitCode()}
}

// exitCodeOfStart returns the exit code of a shell for a command that cannot be started.
func exitCodeOfStart(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}

type output struct {
	from *os.File
	to   io.Writer
}

type streams struct {
	stdin   *os.File
	tty     bool
	outputs []output
	theirs  []*os.File
}

func openStreams(cmd *exec.Cmd, w *wire.Writer, req wire.Request) (*streams, error) {
	if req.TTY {
		return openTerminal(cmd, w, req.Size)
	}
	var files [6]*os.File
	for i := 0; i < 6; i += 2 {
		r, wr, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		files[i] = r
		files[i+1] = wr
	}
	cmd.Stdin = files[0]
	cmd.Stdout = files[3]
	cmd.Stderr = files[5]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return &streams{
		stdin:   files[1],
		outputs: []output{{files[2], w.Stream(wire.KindStdout)}, {files[4], w.Stream(wire.KindStderr)}},
		theirs:  []*os.File{files[0], files[3], files[5]},
	}, nil
}

func openTerminal(cmd *exec.Cmd, w *wire.Writer, size wire.Winsize) (*streams, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	master := os.NewFile(uintptr(fd), "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	resize(fd, size)
	cmd.Stdin = slave
	cmd.Stdout = slave
	cmd.Stderr = slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return &streams{
		stdin:   master,
		tty:     true,
		outputs: []output{{master, w.Stream(wire.KindStdout)}},
		theirs:  []*os.File{slave},
	}, nil
}

func resize(fd int, size wire.Winsize) {
	_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
}

// feed passes the client's frames to the command until the client disconnects.
func (s *streams) feed(conn net.Conn) {
	for {
		kind, payload, err := wire.Read(conn)
		if err != nil {
			return
		}
		switch kind {
		case wire.KindStdin:
			_, _ = s.stdin.Write(payload) // a command may stop reading its input
		case wire.KindStdinEOF:
			if !s.tty {
				_ = s.stdin.Close()
			}
		case wire.KindResize:
			var size wire.Winsize
			if s.tty && json.Unmarshal(payload, &size) == nil {
				if raw, err := s.stdin.SyscallConn(); err == nil {
					_ = raw.Control(func(fd uintptr) { resize(int(fd), size) })
				}
			}
		}
	}
}

func (s *streams) closeTheirs() {
	for _, f := range s.theirs {
		_ = f.Close()
	}
}

func (s *streams) close() {
	_ = s.stdin.Close()
	for _, o := range s.outputs {
		_ = o.from.Close()
	}
}

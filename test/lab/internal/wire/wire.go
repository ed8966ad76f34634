// Package wire is the protocol between a node's agent and its clients over one TLS connection: a request, then frames
// with the standard streams of a command, then its end.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Kinds of frames.
const (
	KindRequest  = 'r'
	KindStdin    = 'i'
	KindStdinEOF = 'c'
	KindStdout   = 'o'
	KindStderr   = 'e'
	KindResize   = 'w'
	KindExit     = 'x'
)

// Operations of the agent.
const (
	OpExec     = "exec"
	OpPowerOff = "poweroff"
	OpBootID   = "boot-id"
	OpUbdAdd   = "ubd-add"
	OpSettle   = "settle"
	OpSCSIAdd  = "scsi-add"
	OpSCSIList = "scsi-list"
	OpSCSIPull = "scsi-remove"
	OpSCSIGrow = "scsi-grow"
	OpSCSIFail = "scsi-fail"
	OpSCSIHeal = "scsi-heal"
	OpSCSIOut  = "scsi-out"
	OpSCSIBack = "scsi-back"
)

// Request requests the one operation of a connection.
type Request struct {
	Op   string   `json:"op"`
	Args []string `json:"args,omitempty"`
	// Env is added to the agent's own environment.
	Env []string `json:"env,omitempty"`
	Dir string   `json:"dir,omitempty"`
	// TTY requests a terminal; standard error is then part of standard output.
	TTY  bool     `json:"tty,omitempty"`
	Size Winsize  `json:"size,omitzero"`
	Disk DiskArgs `json:"disk,omitzero"`
}

// DiskArgs are the arguments of the operations on disks.
type DiskArgs struct {
	Name   string `json:"name,omitempty"`
	Device string `json:"device,omitempty"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	Size   int64  `json:"size,omitempty"`
}

// Winsize is the size of a terminal.
type Winsize struct {
	Rows, Cols uint16
}

// Exit ends a connection. Error is set if the operation could not run at all.
type Exit struct {
	Code  int    `json:"code"`
	Error string `json:"error,omitempty"`
}

// maxFrame limits the memory that a peer can make this process allocate, in bytes.
const maxFrame = 1 << 20

// Writer writes frames. Several goroutines can use it at the same time.
type Writer struct {
	mu sync.Mutex
	w  io.Writer
}

// NewWriter returns a Writer that writes frames to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write sends one frame.
func (w *Writer) Write(kind byte, payload []byte) error {
	frame := make([]byte, 5, 5+len(payload))
	frame[0] = kind
	binary.BigEndian.PutUint32(frame[1:], uint32(len(payload)))
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.w.Write(append(frame, payload...))
	return err
}

// WriteJSON sends one frame with v as its payload.
func (w *Writer) WriteJSON(kind byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.Write(kind, data)
}

// Stream returns an io.Writer that sends each write as a frame of one kind.
func (w *Writer) Stream(kind byte) io.Writer { return stream{w, kind} }

type stream struct {
	w    *Writer
	kind byte
}

func (s stream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxFrame)
		if err := s.w.Write(s.kind, rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// Read reads one frame.
func Read(r io.Reader) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes", n)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	return head[0], payload, err
}

// ErrLost means that the connection ended before the command: the node was restarted, lost power, or hangs.
var ErrLost = errors.New("lost the connection to the node's agent")

// Call sends a request over conn and copies the standard streams until the operation ends. stdin may be nil. Closing
// conn ends the command on the node.
func Call(conn io.ReadWriter, req Request, stdin io.Reader, stdout, stderr io.Writer) (Exit, error) {
	w := NewWriter(conn)
	if err := w.WriteJSON(KindRequest, req); err != nil {
		return Exit{}, fmt.Errorf("%w: %w", ErrLost, err)
	}
	go func() { // ends with the input, or at the first write to the closed connection
		if stdin != nil {
			_, _ = io.Copy(w.Stream(KindStdin), stdin)
		}
		_ = w.Write(KindStdinEOF, nil)
	}()
	for {
		kind, payload, err := Read(conn)
		if err != nil {
			return Exit{}, fmt.Errorf("%w: %w", ErrLost, err)
		}
		switch kind {
		case KindStdout:
			_, err = stdout.Write(payload)
		case KindStderr:
			_, err = stderr.Write(payload)
		case KindExit:
			var exit Exit
			err = json.Unmarshal(payload, &exit)
			return exit, err
		}
		if err != nil {
			return Exit{}, err
		}
	}
}

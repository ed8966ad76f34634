package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// echo is an agent that sends the command's input to its output and its name to its error output, and exits with code
// 7.
func echo(t *testing.T, conn net.Conn) {
	t.Helper()
	w := NewWriter(conn)
	for {
		kind, payload, err := Read(conn)
		if err != nil {
			return
		}
		switch kind {
		case KindRequest:
			var req Request
			if err := json.Unmarshal(payload, &req); err != nil {
				t.Error(err)
			}
			_ = w.Write(KindStderr, []byte(req.Args[0]))
		case KindStdin:
			_ = w.Write(KindStdout, payload)
		case KindStdinEOF:
			_ = w.WriteJSON(KindExit, Exit{Code: 7})
		}
	}
}

func TestCall(t *testing.T) {
	for name, input := range map[string]io.Reader{
		"no input": nil, "some": strings.NewReader("hello"),
		"more than a frame": bytes.NewReader(make([]byte, 3*maxFrame+1)),
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			defer func() { _ = client.Close() }()
			go echo(t, server)
			var want []byte
			if input != nil {
				want, _ = io.ReadAll(input)
				input = bytes.NewReader(want)
			}
			var stdout, stderr bytes.Buffer
			exit, err := Call(client, Request{Op: OpExec, Args: []string{"cmd"}}, input, &stdout, &stderr)
			if err != nil || exit.Code != 7 {
				t.Fatalf("got %v, %v", exit, err)
			}
			if !bytes.Equal(stdout.Bytes(), want) || stderr.String() != "cmd" {
				t.Errorf("got %d bytes and %q", stdout.Len(), stderr.String())
			}
		})
	}
}

func TestCallSaysThatTheConnectionWasLost(t *testing.T) {
	client, server := net.Pipe()
	go func() {
		_, _, _ = Read(server)
		_ = server.Close()
	}()
	if _, err := Call(client, Request{Op: OpExec}, nil, io.Discard, io.Discard); !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
}

func TestReadRefusesHugeFrames(t *testing.T) {
	if _, _, err := Read(bytes.NewReader([]byte{KindStdout, 0xff, 0xff, 0xff, 0xff})); err == nil {
		t.Error("took a frame of 4 GiB")
	}
}

package uml

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestArgs(t *testing.T) {
	m := Machine{
		Name: "node1", Dir: "run/", MemoryMB: 512, Tap: "tap1", Init: "/lab",
		Disks: map[string]string{"c": "/d/c", "a": "/d/root", "b": "/d/b", "d": "/d/d"}, Env: []string{"K=V"},
		Shared: map[string]bool{"d": true},
	}
	line := strings.Join(m.Args(), " ")
	for _, want := range []string{"mem=512M", "init=/lab", "ifname=tap1,", "umid=node1 uml_dir=run/",
		"ubda=/d/root ubdb=/d/b ubdc=/d/c ubddc=/d/d K=V"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
}

func TestCheckPath(t *testing.T) {
	for path, ok := range map[string]bool{"/a/b-c_d.e": true, "a": false, "/a b": false, "/a,b": false, "/a:b": false,
		"/a=b": false, "/a\nb": false, "/run/x": false, "/dev/shm": false, "/running": true, "/a/../proc/1": false} {
		if err := CheckPath(path); (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// fakeConsole answers every command with the given packets.
func fakeConsole(t *testing.T, answers ...[]byte) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "uml") // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Mkdir(filepath.Join(dir, "n"), 0o700); err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUnixgram("unixgram",
		&net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir, "n", "mconsole")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 1024)
		for {
			n, from, err := conn.ReadFromUnix(buf)
			if err != nil {
				return
			}
			if n != 12+mconsoleData || binary.NativeEndian.Uint32(buf) != mconsoleMagic {
				t.Errorf("request of %d bytes: %x", n, buf[:12])
			}
			for _, a := range answers {
				_, _ = conn.WriteToUnix(a, from)
			}
		}
	}()
	return dir
}

func packet(failed, more bool, text string) []byte {
	var head [12]byte
	if failed {
		binary.NativeEndian.PutUint32(head[0:], 1)
	}
	if more {
		binary.NativeEndian.PutUint32(head[4:], 1)
	}
	binary.NativeEndian.PutUint32(head[8:], uint32(len(text)))
	return append(head[:], text...)
}

func TestConsole(t *testing.T) {
	for name, c := range map[string]struct {
		answers [][]byte
		command string
		want    string
		err     error
		fails   bool
	}{
		"ok": {[][]byte{packet(false, false, "OK 6.1\n\x00")}, "version", "OK 6.1", nil, false},
		"in two pieces": {[][]byte{packet(false, true, "OK "), packet(false, false, "6.1")}, "version",
			"OK 6.1", nil, false},
		"in use":   {[][]byte{packet(true, false, "Device is currently open")}, "remove ubdb", "", ErrBusy, true},
		"refused":  {[][]byte{packet(true, false, "Unknown command")}, "frobnicate", "", nil, true},
		"too long": {nil, strings.Repeat("x", mconsoleData), "", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Console(fakeConsole(t, c.answers...), "n", c.command)
			if got != c.want || (err != nil) != c.fails || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if _, err := Console(t.TempDir(), "nobody", "version"); err == nil {
		t.Error("no console is no error")
	}
}

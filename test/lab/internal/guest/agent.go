package guest

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/pki"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/wire"
)

// serveAgent answers requests of clients with a certificate of the lab's authority.
func (m *machine) serveAgent() error {
	config, err := pki.TLS(m.Dir, "agent")
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", net.JoinHostPort(m.Node.IP(), spec.AgentPort), config)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				m.say("agent: %v", err)
				time.Sleep(time.Second)
				continue
			}
			go m.serve(conn)
		}
	}()
	return nil
}

func (m *machine) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	kind, payload, err := wire.Read(conn)
	if err != nil || kind != wire.KindRequest {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	var req wire.Request
	if err := json.Unmarshal(payload, &req); err != nil {
		return
	}
	w := wire.NewWriter(conn)
	var exit wire.Exit
	if req.Op == wire.OpExec {
		exit = m.exec(conn, w, req)
	} else if text, err := m.do(req); err != nil {
		exit.Error = err.Error()
	} else {
		_ = w.Write(wire.KindStdout, []byte(text))
	}
	_ = w.WriteJSON(wire.KindExit, exit)
}

// do runs an operation other than exec and returns its output.
func (m *machine) do(req wire.Request) (string, error) {
	d := req.Disk
	switch req.Op {
	case wire.OpBootID:
		id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		return strings.TrimSpace(string(id)), err
	case wire.OpPowerOff:
		go m.powerOff()
		return "", nil
	case wire.OpUbdAdd:
		return "", writeUbdIdentity(d.Device, d.Serial, d.WWN)
	case wire.OpSettle:
		dev := "/sys/class/block/" + d.Device
		return "", errors.Join(waitFor(udevLimit, d.Device, func() bool { return exists(dev) }), settle(dev))
	case wire.OpSCSIAdd:
		return m.disks.add(d)
	case wire.OpSCSIList:
		return m.disks.devices()
	case wire.OpSCSIPull:
		return "", m.disks.remove(d.Name)
	case wire.OpSCSIGrow:
		return "", m.disks.grow(d.Name, d.Size)
	case wire.OpSCSIFail:
		return "", m.disks.setState(d.Name, "offline")
	case wire.OpSCSIOut:
		return "", m.disks.pull(d.Name)
	case wire.OpSCSIBack:
		return "", m.disks.put(d.Name)
	case wire.OpSCSIHeal:
		return "", m.disks.setState(d.Name, "running")
	}
	return "", fmt.Errorf("no operation %q", req.Op)
}

package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// lvmLocal returns the node's own LVM configuration, with the setting of the flavor for the devices file. It makes LVM
// accept the disks of User Mode Linux, whose type LVM does not know.
func lvmLocal(flavor spec.Flavor) string {
	text := "devices {\n\ttypes = [ \"ubd\", 16 ]\n"
	if flavor.DevicesFile != "" {
		text += "\tuse_devicesfile = 1\n"
	}
	return text + "}\n"
}

// udevRules give plain and shared disks a serial number and stable links, from a file that the agent writes before the
// disk appears.
const udevRules = `SUBSYSTEM=="block", KERNEL=="ubd[b-p]", IMPORT{file}="/run/lab/ubd/%k"
SUBSYSTEM=="block", KERNEL=="ubd[b-p]", ENV{ID_SERIAL}=="?*", SYMLINK+="disk/by-id/lab-$env{ID_SERIAL}"
SUBSYSTEM=="block", KERNEL=="ubd[b-p]", ENV{ID_WWN}=="?*", SYMLINK+="disk/by-id/wwn-$env{ID_WWN}"
`

func (m *machine) writeFiles() error {
	sum := sha256.Sum256([]byte(m.Lab + "/" + m.Node.Name))
	if err := unix.Sethostname([]byte(m.Node.Name)); err != nil {
		return err
	}
	files := map[string]string{
		"/etc/hostname":   m.Node.Name + "\n",
		"/etc/machine-id": hex.EncodeToString(sum[:16]) + "\n",
		"/etc/hosts": fmt.Sprintf("127.0.0.1 localhost\n%s %s\n%s %s\n", spec.HostIP,
			spec.RegistryHost, m.Node.IP(), m.Node.Name),
		"/etc/resolv.conf":                     "nameserver " + spec.HostIP + "\n",
		"/etc/lvm/lvmlocal.conf":               lvmLocal(m.Flavor),
		"/etc/udev/rules.d/59-lab-disks.rules": udevRules,
		"/etc/profile.d/lab.sh": "export " + spec.PathEnv(m.Path) + "\nPS1='" +
			m.Node.Name + ":\\w# '\n",
	}
	for path, text := range files {
		if err := writeFile(path, text); err != nil {
			return err
		}
	}
	for _, d := range m.Node.Disks {
		if d.IsFile() {
			if err := writeUbdIdentity("ubd"+d.Letter, d.Serial, d.WWN()); err != nil {
				return err
			}
		}
	}
	// The kernel of each flavor has the tables of the legacy iptables, not all have those of nftables.
	for _, tool := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			if err := symlink("xtables-legacy-multi", "/usr/sbin/"+tool+suffix); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeUbdIdentity(device, serial, wwn string) error {
	return writeFile("/run/lab/ubd/"+device, ubdIdentity(serial, wwn))
}

// ubdIdentity returns the properties of a disk in udev, as 60-persistent-storage.rules sets them for other disks.
func ubdIdentity(serial, wwn string) string {
	text := "ID_SERIAL=" + serial + "\nID_SERIAL_SHORT=" + serial + "\n"
	if wwn == "" {
		return text
	}
	return text + "ID_WWN=" + wwn + "\nID_WWN_WITH_EXTENSION=" + wwn + "\n"
}

// writeFile replaces a file. It replaces a symbolic link and does not follow it. It does not write if the content is
// equal.
func writeFile(path, text string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		if old, err := os.ReadFile(path); err == nil && string(old) == text {
			return nil
		}
	}
	if err := mkdirs(filepath.Dir(path)); err != nil {
		return err
	}
	if strings.HasPrefix(path, "/sys/") || strings.HasPrefix(path, "/proc/") {
		return os.WriteFile(path, []byte(text), 0o644)
	}
	_ = os.Remove(path)
	return os.WriteFile(path, []byte(text), 0o644)
}

func symlink(target, path string) error {
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	_ = os.Remove(path)
	return os.Symlink(target, path)
}

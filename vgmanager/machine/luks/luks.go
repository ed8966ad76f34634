// Package luks creates and opens the LUKS2 containers of encrypted volumes with cryptsetup of the agent's image. The
// kernel of the node encrypts (dm-crypt). A key reaches cryptsetup by a pipe, never by its command line or a file.
package luks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

const (
	// MinimumKey and MaximumKey are the sizes of a key in bytes.
	MinimumKey = 32
	MaximumKey = host.MaxInput
	// HeaderSize is the size of a new header in bytes: the default of cryptsetup. The data has that much less.
	HeaderSize = 16 << 20
	// iterations is the cost of PBKDF2 with SHA-256 for each attempt to open a container: OWASP's recommendation of
	// 2023 for passwords. It needs no memory, in contrast to Argon2, whose default of 1 GiB exceeds the limit of the
	// agent's memory, and it is approved by FIPS 140 (SP 800-132).
	iterations = "600000"
	// timeout limits a command. Each one derives the key at most twice, which takes less than a second for each key.
	timeout = 2 * time.Minute
)

// exitNoPermission is the exit status of cryptsetup(8) if no key slot has the key.
const exitNoPermission = 2

const (
	cryptsetup = "/usr/sbin/cryptsetup"
	dmsetup    = "/usr/sbin/dmsetup"
)

// ErrWrongKey means: no key slot of a container has the key.
var ErrWrongKey = errors.New("no key slot has this key")

// Programs runs cryptsetup. *host.Local implements it.
type Programs interface {
	RunWithInput(ctx context.Context, inputs [][]byte, accepted func(code int) bool, name string,
		args ...string) ([]byte, int, error)
}

// Mapped reads mapped devices from the kernel. *devicemapper.Reader implements it.
type Mapped interface {
	// Named returns devicemapper.ErrNotFound if no mapped device has the name.
	Named(ctx context.Context, name string) (devicemapper.Device, error)
}

// Mapping is the device with the decrypted data of an open container.
type Mapping struct {
	// Path is its path below /dev/mapper; "" if the container is not open.
	Path string
	// Number and Below are the numbers of this device and of the encrypted one, as MAJOR:MINOR.
	Number, Below string
	// Incomplete: the mapped device has no table, because cryptsetup was killed while it opened the container. The
	// container is not open. Open and Close remove such a device.
	Incomplete bool
}

// Containers are the LUKS2 containers of a node. It is safe for concurrent use with different containers.
type Containers struct {
	programs Programs
	mapped   Mapped
	sysfs    string
}

// New returns the containers of this node. The process needs its /dev and /sys.
func New(programs Programs, mapped Mapped) *Containers {
	return &Containers{programs: programs, mapped: mapped, sysfs: "/sys"}
}

// Mapping returns the mapped device of an open container by its name. It has no path if the container is not open. It
// starts no process.
func (c *Containers) Mapping(ctx context.Context, name string) (Mapping, error) {
	d, err := c.mapped.Named(ctx, name)
	if errors.Is(err, devicemapper.ErrNotFound) {
		return Mapping{}, nil
	}
	if err != nil {
		return Mapping{}, err
	}
	if !strings.HasPrefix(d.UUID, "CRYPT-LUKS2-") {
		return Mapping{}, fmt.Errorf("mapped device %s (UUID %q) is not an open LUKS2 container", name, d.UUID)
	}
	below, err := c.below(d.Number)
	if err == nil && below == "" {
		return Mapping{Incomplete: true}, nil
	}
	if err != nil {
		return Mapping{}, fmt.Errorf("find the device below mapped device %s: %w", name, err)
	}
	return Mapping{Path: "/dev/mapper/" + name, Number: d.Number, Below: below}, nil
}

// below returns the number of the only device on which a mapped device is built (sysfs), or "" for one without a table.
// sysfs does not have a device that has never had one.
func (c *Containers) below(number string) (string, error) {
	folder := filepath.Join(c.sysfs, "dev/block", number, "slaves")
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if len(entries) != 1 {
		return "", fmt.Errorf("%s lists %d devices, want 1", folder, len(entries))
	}
	text, err := os.ReadFile(filepath.Join(folder, entries[0].Name(), "dev"))
	return strings.TrimSpace(string(text)), err
}

// Slots returns the number of used key slots of a container. It is 0 if Format ended before the container had a key:
// such a container never had data.
func (c *Containers) Slots(ctx context.Context, device string) (int, error) {
	out, _, err := c.run(ctx, nil, "luksDump", "--dump-json-metadata", device)
	if err != nil {
		return 0, err
	}
	slots, err := parseSlots(out)
	if err != nil {
		return 0, fmt.Errorf("header of %s: %w", device, err)
	}
	return slots, nil
}

// Format writes a new header with a random volume key, which the key protects. What the device had is lost. It does not
// overwrite the data. The caller checks that the device has none.
func (c *Containers) Format(ctx context.Context, device string, key []byte) error {
	_, _, err := c.run(ctx, [][]byte{key}, "luksFormat", "--batch-mode", "--type", "luks2",
		"--cipher", "aes-xts-plain64", "--key-size", "512", "--hash", "sha256",
		"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", iterations, "--key-file", "-", device)
	return err
}

// Open opens a container as /dev/mapper/NAME. The volume key is in the table of the mapped device and not in a keyring,
// so that Resize does not need the key. discards passes discards on. It returns ErrWrongKey for a wrong key.
func (c *Containers) Open(ctx context.Context, device, name string, key []byte, discards bool) error {
	if _, err := c.removeIncomplete(ctx, name); err != nil {
		return err
	}
	args := []string{"open", "--type", "luks2", "--disable-keyring", "--key-file", "-"}
	if discards {
		args = append(args, "--allow-discards")
	}
	return c.withKey(ctx, [][]byte{key}, append(args, device, name)...)
}

// Fits reports whether a key slot has the key. It does not open the container.
func (c *Containers) Fits(ctx context.Context, device string, key []byte) (bool, error) {
	err := c.withKey(ctx, [][]byte{key}, "open", "--type", "luks2", "--test-passphrase", "--key-file", "-", device)
	if errors.Is(err, ErrWrongKey) {
		return false, nil
	}
	return err == nil, err
}

// AddKey adds a key to a container, which present opens. If the process ends meanwhile, present still opens it.
func (c *Containers) AddKey(ctx context.Context, device string, present, added []byte) error {
	return c.withKey(ctx, [][]byte{present, added}, "luksAddKey", "--batch-mode", "--hash", "sha256",
		"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", iterations, "--key-file", "-", device, host.SecondInput)
}

// RemoveKey removes the key slot of a key. It returns ErrWrongKey if there is none. The caller checks that another key
// opens the container: with --batch-mode, cryptsetup also removes the last one.
func (c *Containers) RemoveKey(ctx context.Context, device string, key []byte) error {
	return c.withKey(ctx, [][]byte{key}, "luksRemoveKey", "--batch-mode", "--key-file", "-", device)
}

// Resize resizes an open container to the size of its device.
func (c *Containers) Resize(ctx context.Context, name string) error {
	_, _, err := c.run(ctx, nil, "resize", "--disable-keyring", name)
	return err
}

// Close closes a container. It succeeds if the container is not open, and fails if its device is in use.
func (c *Containers) Close(ctx context.Context, name string) error {
	if removed, err := c.removeIncomplete(ctx, name); removed || err != nil {
		return err
	}
	_, _, err := c.run(ctx, nil, "close", name)
	if err == nil {
		return nil
	}
	// The exit status is the same if device-mapper is not available.
	if found, failed := c.Mapping(ctx, name); failed == nil && found == (Mapping{}) {
		return nil
	}
	return err
}

// removeIncomplete removes a mapped device without a table, and returns whether there was one.
func (c *Containers) removeIncomplete(ctx context.Context, name string) (bool, error) {
	found, err := c.Mapping(ctx, name)
	if err != nil || !found.Incomplete {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	none := func(int) bool { return false }
	_, _, err = c.programs.RunWithInput(ctx, nil, none, dmsetup, "remove", "--retry", name)
	return err == nil, err
}

// withKey runs cryptsetup with keys, and returns ErrWrongKey if no key slot has the first one.
func (c *Containers) withKey(ctx context.Context, keys [][]byte, args ...string) error {
	_, code, err := c.run(ctx, keys, args...)
	if err == nil && code == exitNoPermission {
		return ErrWrongKey
	}
	return err
}

// run runs cryptsetup to its end, because a header that is half written cannot be opened. Its locks in /run are not
// needed: the node service has a lock for each volume.
func (c *Containers) run(ctx context.Context, keys [][]byte, args ...string) ([]byte, int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	accepted := func(code int) bool { return len(keys) > 0 && args[0] != "luksFormat" && code == exitNoPermission }
	return c.programs.RunWithInput(ctx, keys, accepted, cryptsetup, append(args, "--disable-locks")...)
}

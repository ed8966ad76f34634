package stack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

const (
	// usersTimeout is the time limit of a search for the users of a device.
	usersTimeout = 10 * time.Second
	// maxFiles is the maximum number of open files that a search looks at.
	maxFiles = 200_000
	// maxUsers is the maximum number of users that Describe names.
	maxUsers = 5
)

// User is something that keeps a device open.
type User struct {
	// What describes it: a device that is built on it, a mount, or a process. Free is what ends the use: a command for
	// the node, or what to delete.
	What, Free string
}

// Search finds the users of devices. At most one search runs at a time.
type Search struct {
	reader *Reader
	calls  *bounded.Calls
}

// NewSearch returns a Search with a reader of the node. The process must be in the node's PID namespace.
func NewSearch(r *Reader) *Search { return &Search{reader: r, calls: bounded.New(usersTimeout, 1)} }

// Describe returns what keeps a device open and how to end that, as the end of a sentence: "it is used by …". It never
// fails: if the search finds nothing or does not end within 10 s, the text says so. number is MAJOR:MINOR.
func (s *Search) Describe(ctx context.Context, number string) string {
	type answer struct {
		users []User
		err   error
	}
	got, err := bounded.Do(ctx, s.calls, "users", func(context.Context) answer {
		users, err := s.reader.Users(number)
		return answer{users, err}
	})
	if err = errors.Join(err, got.err); err != nil {
		return fmt.Sprintf("what uses it could not be found: %v", err)
	}
	if len(got.users) == 0 {
		return "what uses it was not found: no device is built on it, and no process has it mounted or open"
	}
	var what, free []string
	for _, u := range got.users[:min(len(got.users), maxUsers)] {
		what = append(what, u.What)
		if u.Free != "" && !slices.Contains(free, u.Free) {
			free = append(free, u.Free)
		}
	}
	text := "it is used by " + strings.Join(what, ", ")
	if more := len(got.users) - maxUsers; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(free) > 0 {
		text += "; if nothing needs it, " + strings.Join(free, ", then ")
	}
	return text
}

// Detained returns the devices for which the kubelet has detached its loop device, but cannot release it, because
// something keeps it open: by the number of the device, what that is and how to end it. The Pod of such a volume does
// not end.
func (s *Search) Detained(ctx context.Context) (map[string]string, error) {
	blocks, err := s.reader.Read()
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(blocks)), (*Block).isDetained) {
		return nil, nil
	}
	// Only this read opens the loop devices of the kubelet.
	if blocks, err = s.reader.read(true); err != nil {
		return nil, err
	}
	detained := map[string]string{}
	for number, b := range blocks {
		if !b.isDetained() || len(b.below) == 0 {
			continue
		}
		detained[blocks.volumeOf(b.below[0])] = fmt.Sprintf(
			"its Pod cannot end, because the kubelet cannot release %s: %s", b.Path(),
			s.Describe(ctx, number))
	}
	return detained, nil
}

// volumeOf returns the logical volume of a device: the device itself, or what an encrypted device is built on.
func (b Blocks) volumeOf(number string) string {
	if block := b[number]; block != nil && strings.HasPrefix(block.UUID, "CRYPT-") && len(block.below) == 1 {
		return block.below[0]
	}
	return number
}

func (b *Block) isDetained() bool { return b.Detached && b.isOfKubelet() }

// Users returns what keeps a device open: the devices that are built on it, the topmost first, and the mounts and open
// files of processes, also those of the devices that are built on it.
func (r *Reader) Users(number string) ([]User, error) {
	blocks, err := r.read(true)
	if err != nil {
		return nil, err
	}
	var users []User
	devices := map[string]string{number: ""}
	for _, above := range blocks.Above(number) {
		devices[above.Number] = " on " + above.Path()
		users = append(users, above.user())
	}
	processes, err := r.processes(devices)
	// Mounts and processes come first: what they use cannot be closed before.
	return append(processes, users...), err
}

// user describes a device that is built on another one.
func (b *Block) user() User {
	path := b.Path()
	switch {
	case b.File != "" && b.isOfKubelet():
		return User{What: "loop device " + path + " of the kubelet", Free: "run on the node: losetup --detach " + path}
	case b.File != "":
		return User{What: "loop device " + path, Free: "run on the node: losetup --detach " + path}
	case b.IsVolume():
		return User{
			What: "logical volume " + path + " of a volume group in the volume, which the node activated",
			Free: "run on the node: dmsetup remove " + b.Mapping,
		}
	case strings.HasPrefix(b.UUID, "CRYPT-"):
		return User{What: "encrypted device " + path, Free: "run on the node: cryptsetup close " + b.Mapping}
	case b.Mapping != "":
		return User{What: "mapped device " + path, Free: "run on the node: dmsetup remove " + b.Mapping}
	case strings.HasPrefix(b.Name, "md"):
		return User{What: "RAID array " + path + ", which the node assembled",
			Free: "run on the node: mdadm --stop " + path}
	case strings.HasPrefix(b.Name, "bcache"):
		return User{What: "cache device " + path,
			Free: "run on the node: echo 1 > /sys/block/" + b.Name + "/bcache/stop"}
	}
	return User{What: "device " + path}
}

// processes returns the mounts and open files of all processes that use devices, by number. The values are added to the
// descriptions. A process that ends meanwhile, and one that this process may not examine, has none.
func (r *Reader) processes(devices map[string]string) ([]User, error) {
	entries, err := os.ReadDir(r.Proc)
	if err != nil {
		return nil, fmt.Errorf("list the processes of the node: %w", err)
	}
	var users []User
	spaces := map[string]bool{} // mount namespaces
	files := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		p := process{folder: filepath.Join(r.Proc, e.Name()), pid: e.Name(), proc: r.Proc}
		var found []string
		if space, err := os.Readlink(filepath.Join(p.folder, "ns/mnt")); err == nil && !spaces[space] {
			spaces[space] = true
			found = p.mounts(devices)
		}
		if files < maxFiles {
			found = append(found, p.files(devices, &files)...)
		}
		if len(found) == 0 {
			continue
		}
		if user := p.user(found); !slices.Contains(users, user) {
			users = append(users, user)
		}
	}
	return users, nil
}

// process is a process of the node.
type process struct{ folder, pid, proc string }

// mounts returns where devices are mounted in the mount namespace of the process (proc_pid_mountinfo(5)).
func (p process) mounts(devices map[string]string) []string {
	data, err := os.ReadFile(filepath.Join(p.folder, "mountinfo"))
	if err != nil {
		return nil
	}
	var found []string
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if on, used := devices[fields[2]]; used {
			found = append(found, "mounted"+on+" at "+fields[4])
		}
	}
	return found
}

// files returns what the process has open: the devices, and files on them. n counts the files.
func (p process) files(devices map[string]string, n *int) []string {
	folder := filepath.Join(p.folder, "fd")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range entries {
		*n++
		var info unix.Statx_t
		// A file system on the network is not asked.
		err := unix.Statx(unix.AT_FDCWD, filepath.Join(folder, e.Name()), unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE,
			&info)
		if err != nil {
			continue
		}
		number, how := fmt.Sprintf("%d:%d", info.Dev_major, info.Dev_minor), "with an open file"
		if info.Mode&unix.S_IFMT == unix.S_IFBLK {
			number, how = fmt.Sprintf("%d:%d", info.Rdev_major, info.Rdev_minor), "open"
		}
		if on, used := devices[number]; used && !slices.Contains(found, how+on) {
			found = append(found, how+on)
		}
	}
	return found
}

// podInCgroup finds the UID of the Pod in the cgroup of a process (pkg/kubelet/cm in Kubernetes). With systemd, its
// hyphens are underscores.
var podInCgroup = regexp.MustCompile(`pod([0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})`)

// user describes the process: the Pod, or its name and ID.
func (p process) user(found []string) User {
	how := strings.Join(found, ", ")
	if pod := p.pod(); pod != "" {
		return User{What: fmt.Sprintf("Pod %s (%s)", pod, how), Free: "delete the Pod " + pod}
	}
	name, err := line(filepath.Join(p.folder, "comm"))
	if err != nil {
		name = "a process"
	}
	u := User{What: fmt.Sprintf("%s with the PID %s (%s)", name, p.pid, how), Free: "stop process " + p.pid}
	if _, at, mounted := strings.Cut(found[0], " at "); mounted {
		u.Free = fmt.Sprintf("run on the node: nsenter --target %s --mount umount %s", p.pid, at)
	}
	return u
}

// pod returns the namespace and name of the Pod that a process belongs to, or "". The kubelet has them in the names of
// directories of logs (pkg/kubelet/kuberuntime in Kubernetes: NAMESPACE_NAME_UID).
func (p process) pod() string {
	group, err := os.ReadFile(filepath.Join(p.folder, "cgroup"))
	match := podInCgroup.FindSubmatch(group)
	if err != nil || match == nil {
		return ""
	}
	uid := strings.ReplaceAll(string(match[1]), "_", "-")
	logs, err := os.ReadDir(filepath.Join(p.proc, "1/root/var/log/pods"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "with the UID " + uid
	}
	for _, e := range logs {
		if name, ok := strings.CutSuffix(e.Name(), "_"+uid); ok {
			return strings.Replace(name, "_", "/", 1)
		}
	}
	return "with the UID " + uid
}

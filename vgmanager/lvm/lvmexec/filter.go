package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// executor runs commands of LVM with a list of the devices that they may read.
type executor struct {
	runner host.Runner
	// configStamp returns a text that changes with LVM's configuration.
	configStamp func() string

	mu sync.Mutex
	// silent returns the devices that do not respond, and list those that LVM may read. excluded are those that did not
	// respond before the last report. known has its physical volumes by "MAJOR:MINOR".
	silent   Silent
	list     func() (lvm.Devices, error)
	excluded map[string][]string
	known    map[string]bool
	// own are the node's filters, read when configStamp returned ownStamp.
	own      filters
	ownStamp string
}

// Silent returns the devices of the node that do not respond, by "MAJOR:MINOR". The values are all paths of a device.
type Silent func(ctx context.Context) map[string][]string

// SkipSilent makes LVM exclude devices that do not respond. One such device would block every report of the node in a
// process that cannot be killed and holds LVM's global lock. LVM calls silent before each report. The commands after a
// report exclude the same devices. SkipSilent never excludes a physical volume of the last report, because its volume
// group would appear to miss it. It has an effect only with UseDevices.
func (l *LVM) SkipSilent(silent Silent) {
	l.executor.mu.Lock()
	defer l.executor.mu.Unlock()
	l.executor.silent = silent
}

// UseDevices makes every command of LVM read no devices but those that are readable. LVM calls list before each
// command. A device that appears afterwards is not read, because a user of a volume may have written what is on it.
func (l *LVM) UseDevices(list func() (lvm.Devices, error)) {
	l.executor.mu.Lock()
	defer l.executor.mu.Unlock()
	l.executor.list = list
}

// execute runs a command of LVM that reads or changes something, with a list of the devices that it may read. All
// commands that do not get their devices as options run with it.
func (x *executor) execute(ctx context.Context, args ...string) ([]byte, error) {
	config, err := x.config(ctx)
	if err != nil {
		return nil, err
	}
	return x.runner.Run(ctx, program, configured(args, config)...)
}

// configured adds a configuration to the arguments of a command. LVM accepts --config once.
func configured(args []string, config string) []string {
	if config == "" || len(args) == 0 {
		return args
	}
	if at := slices.Index(args, "--config"); at >= 0 && at+1 < len(args) {
		args = slices.Clone(args)
		args[at+1] += " " + config
		return args
	}
	return slices.Concat(args[:1], []string{"--config", config}, args[1:])
}

// maxFilter is the maximum length of the filter in bytes. The kernel's limit of an argument is 128 KiB
// (MAX_ARG_STRLEN).
const maxFilter = 120 << 10

// config returns the configuration that lists the devices which a command may read, or "" if LVM has no such list. LVM
// does not search for physical volumes on logical volumes, whatever lvm.conf says.
//
// The list replaces devices/filter or devices/global_filter, whichever the node does not use: LVM reads a device if
// both accept it. If the node uses both, the devices that must not be read are added to its filter. LVM ignores both
// filters if the node has a devices file, which is such a list itself.
func (x *executor) config(ctx context.Context) (string, error) {
	x.mu.Lock()
	list := x.list
	silent := maps.Clone(x.excluded)
	x.mu.Unlock()
	if list == nil {
		return "", nil
	}
	devices, err := list()
	if err != nil {
		return "", fmt.Errorf("find the devices that are built on logical volumes: %w", err)
	}
	own, err := x.ownFilters(ctx)
	if err != nil {
		return "", err
	}
	var setting string
	switch {
	case own.filter == acceptAll:
		setting = "filter=" + acceptOnly(devices.Readable, silent)
	case own.global == acceptAll:
		setting = "global_filter=" + acceptOnly(devices.Readable, silent)
	default:
		setting = "filter=" + rejectAlso(devices.Guests, silent, own.filter)
	}
	if len(setting) > maxFilter {
		return "", fmt.Errorf("the list of the node's %d devices for LVM's commands is too long: %w: detach disks "+
			"that the node does not need", len(devices.Readable)+len(devices.Guests), lvm.ErrInvalid)
	}
	return "devices{scan_lvs=0 " + setting + "}", nil
}

// acceptAll is LVM's default of devices/filter and devices/global_filter, without its brackets.
const acceptAll = `"a|.*|"`

// acceptOnly returns a filter that accepts devices, but for silent ones. LVM accepts a device if a pattern accepts one
// of its paths (lib/filters/filter-regex.c).
func acceptOnly(devices, silent map[string][]string) string {
	var patterns []string
	for _, number := range slices.Sorted(maps.Keys(devices)) {
		if _, is := silent[number]; is {
			continue
		}
		for _, path := range devices[number] {
			patterns = append(patterns, fmt.Sprintf(`"a|^%s$|"`, literal(path)))
		}
	}
	return "[" + strings.Join(append(patterns, `"r|.*|"`), ",") + "]"
}

// rejectAlso returns a filter that rejects devices in addition to the node's own filter, which can accept each of their
// paths.
func rejectAlso(guests, silent map[string][]string, own string) string {
	devices := map[string][]string{}
	maps.Copy(devices, guests)
	maps.Copy(devices, silent)
	var patterns []string
	for _, number := range slices.Sorted(maps.Keys(devices)) {
		for _, path := range append(slices.Clone(devices[number]), "/dev/block/"+number) {
			patterns = append(patterns, fmt.Sprintf(`"r|^%s$|"`, literal(path)))
		}
	}
	return "[" + strings.Join(append(patterns, own), ",") + "]"
}

// findSilent finds the devices that do not respond.
func (x *executor) findSilent() {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	x.mu.Lock()
	ask := x.silent
	x.mu.Unlock()
	if ask == nil {
		return
	}
	silent := ask(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.excluded = maps.Clone(silent)
	maps.DeleteFunc(x.excluded, func(number string, _ []string) bool { return x.known[number] })
}

// filters are the values of devices/filter and devices/global_filter, without their brackets.
type filters struct{ filter, global string }

// readFilters are the arguments of the command that prints the filters.
var readFilters = []string{"lvmconfig", "--typeconfig", "full", "devices/filter", "devices/global_filter"}

// ownFilters returns the filters of the node's lvm.conf, because the --config option replaces them. The command opens
// no device, and runs again after a file of LVM's configuration has changed.
func (x *executor) ownFilters(ctx context.Context) (filters, error) {
	const object = "read the filters of the node's lvm.conf"
	stamp := x.configStamp()
	x.mu.Lock()
	own := x.own
	known := stamp != "" && x.ownStamp == stamp
	x.mu.Unlock()
	if known {
		return own, nil
	}
	out, err := x.runner.Run(ctx, program, readFilters...)
	if err != nil {
		return filters{}, output.Classify(object, err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, assigned := strings.Cut(strings.TrimSpace(line), "=")
		if !assigned {
			continue // advice (decodeJSON)
		}
		values[name] = strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
	}
	own = filters{values["filter"], values["global_filter"]}
	if own.filter == "" || own.global == "" || len(values) != 2 {
		return filters{}, fmt.Errorf("%s: lvmconfig printed %q", object, out)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.own = own
	x.ownStamp = stamp
	return own, nil
}

// configFiles are the files of LVM's configuration on the node (lvm.conf(5)).
var configFiles = []string{"/proc/1/root/etc/lvm/lvm.conf", "/proc/1/root/etc/lvm/lvmlocal.conf"}

// stampOf returns a text that changes when one of the files changes, or "" if that cannot be determined.
func stampOf(files []string) string {
	var stamp strings.Builder
	for _, file := range files {
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			stamp.WriteString("none;")
		case err != nil:
			return ""
		default:
			fmt.Fprintf(&stamp, "%d %d;", info.ModTime().UnixNano(), info.Size())
		}
	}
	return stamp.String()
}

// literal returns a pattern for a path. It replaces each character that can have a meaning in LVM's regular
// expressions or configuration with ".".
func literal(path string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/-_:", r) {
			return r
		}
		return '.'
	}, path)
}

// appeared returns a physical volume of a report that is on a device that is built on a logical volume, or "". The
// device appeared after the command had got its filter, which the node's own filters or its devices file replace.
func (x *executor) appeared(report *lvm.Report) (string, error) {
	x.mu.Lock()
	list := x.list
	x.mu.Unlock()
	if list == nil {
		return "", nil
	}
	devices, err := list()
	if err != nil {
		return "", fmt.Errorf("find the devices that are built on logical volumes: %w", err)
	}
	for _, pv := range report.PVs() {
		if _, guest := devices.Guests[fmt.Sprintf("%d:%d", pv.Major, pv.Minor)]; guest && !pv.Missing {
			return pv.Name, nil
		}
	}
	return "", nil
}

// remember records the physical volumes of a report.
func (x *executor) remember(report *lvm.Report) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.known = map[string]bool{}
	for _, pv := range report.PVs() {
		if pv.Major != 0 {
			x.known[fmt.Sprintf("%d:%d", pv.Major, pv.Minor)] = true
		}
	}
}

package lvm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// Silent returns the devices of the node that do not respond, by "MAJOR:MINOR". The values are all paths of a device.
type Silent func(ctx context.Context) map[string][]string

// SkipSilent makes LVM exclude devices that do not respond. One such device would block every report of the node in a
// process that cannot be killed and holds LVM's global lock. LVM calls silent before each report. The commands after a
// report exclude the same devices. SkipSilent never excludes a physical volume of the last report, because its volume
// group would appear to miss it.
func (l *LVM) SkipSilent(silent Silent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = silent
}

// Guests returns the devices that are built on logical volumes, by "MAJOR:MINOR", each with all its paths.
type Guests func() (map[string][]string, error)

// ExcludeGuests makes every command of LVM exclude devices that are built on logical volumes. Their content belongs to
// whoever uses a volume, who can write anything to it, such as a volume group with the name or the UUID of another one.
// LVM calls guests before each command. A report that shows a physical volume on such a device nevertheless, because
// the device appeared meanwhile, is read again.
func (l *LVM) ExcludeGuests(guests Guests) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guests = guests
}

// execute runs a command of LVM that reads or changes something, without the devices that do not respond and those
// that are built on logical volumes. All commands that do not get their devices as options run with it.
func (l *LVM) execute(ctx context.Context, args ...string) ([]byte, error) {
	config, err := l.config(ctx)
	if err != nil {
		return nil, err
	}
	return l.runner.Run(ctx, program, configured(args, config)...)
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

// config returns the configuration that excludes devices, or "". LVM does not search for physical volumes on logical
// volumes, whatever lvm.conf says.
func (l *LVM) config(ctx context.Context) (string, error) {
	l.mu.Lock()
	guests := l.guests
	excluded := maps.Clone(l.excluded)
	l.mu.Unlock()
	if guests == nil && len(excluded) == 0 {
		return "", nil
	}
	var settings []string
	if guests != nil {
		found, err := guests()
		if err != nil {
			return "", fmt.Errorf("find the devices that are built on logical volumes: %w", err)
		}
		settings = append(settings, "scan_lvs=0")
		if excluded == nil {
			excluded = map[string][]string{}
		}
		maps.Copy(excluded, found)
	}
	if len(excluded) > 0 {
		own, err := l.ownFilter(ctx)
		if err != nil {
			return "", err
		}
		filter := filterOf(excluded, own)
		if len(filter) > maxFilter {
			return "", fmt.Errorf("%d devices of the node cannot be excluded from LVM's commands: %w: stop some of "+
				"the Pods with volumes in block mode", len(excluded), ErrInvalid)
		}
		settings = append(settings, filter)
	}
	return "devices{" + strings.Join(settings, " ") + "}", nil
}

// acceptAll is LVM's default of devices/filter, without its brackets.
const acceptAll = `"a|.*|"`

// filterOf returns the value of devices/filter that excludes devices in addition to the node's own filter. LVM accepts
// a device if a pattern accepts one of its paths, and rejects it if a pattern rejects one of the others
// (lib/filters/filter-regex.c). So if the own filter accepts everything, it can be left out, and one path of each
// device
// is enough, which no new link to the device changes.
func filterOf(devices map[string][]string, own string) string {
	var patterns []string
	for _, number := range slices.Sorted(maps.Keys(devices)) {
		paths := devices[number]
		if own != acceptAll {
			paths = append(slices.Clone(paths), "/dev/block/"+number)
		}
		for _, path := range paths {
			if own == acceptAll && strings.HasPrefix(path, "/dev/disk/") {
				continue
			}
			patterns = append(patterns, fmt.Sprintf(`"r|^%s$|"`, literal(path)))
		}
	}
	if own != acceptAll {
		patterns = append(patterns, own)
	}
	return "filter=[" + strings.Join(patterns, ",") + "]"
}

// findSilent finds the devices that do not respond.
func (l *LVM) findSilent() {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	l.mu.Lock()
	ask := l.silent
	l.mu.Unlock()
	if ask == nil {
		return
	}
	silent := ask(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.excluded = maps.Clone(silent)
	maps.DeleteFunc(l.excluded, func(number string, _ []string) bool { return l.known[number] })
}

// ownFilter returns devices/filter of the node's lvm.conf, because the --config option replaces it. The command opens
// no device, and runs again after a file of LVM's configuration has changed. global_filter stays in effect.
func (l *LVM) ownFilter(ctx context.Context) (string, error) {
	const object = "read the filter of the node's lvm.conf"
	stamp := l.configStamp()
	l.mu.Lock()
	own, known := l.own, stamp != "" && l.ownStamp == stamp
	l.mu.Unlock()
	if known {
		return own, nil
	}
	out, err := l.runner.Run(ctx, program, "lvmconfig", "--typeconfig", "full", "devices/filter")
	if err != nil {
		return "", classify(object, err)
	}
	value, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "filter=")
	if !ok || strings.ContainsAny(value, "\n") || value == "" {
		return "", fmt.Errorf("%s: lvmconfig printed %q", object, out)
	}
	own = strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own, l.ownStamp = own, stamp
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
// device appeared after the command had got its filter.
func (l *LVM) appeared(report *Report) (string, error) {
	l.mu.Lock()
	guests := l.guests
	l.mu.Unlock()
	if guests == nil {
		return "", nil
	}
	found, err := guests()
	if err != nil {
		return "", fmt.Errorf("find the devices that are built on logical volumes: %w", err)
	}
	for _, pv := range report.PVs() {
		if _, guest := found[fmt.Sprintf("%d:%d", pv.Major, pv.Minor)]; guest && !pv.Missing {
			return pv.Name, nil
		}
	}
	return "", nil
}

// remember records the physical volumes of a report. The caller holds mu.
func (l *LVM) remember(report *Report) {
	l.known = map[string]bool{}
	l.devices = map[string][]string{}
	for _, pv := range report.PVs() {
		if pv.Major != 0 {
			l.known[fmt.Sprintf("%d:%d", pv.Major, pv.Minor)] = true
		}
	}
	for i := range report.VGs {
		vg := &report.VGs[i]
		for _, pv := range vg.PVs {
			if !pv.Missing && pv.Major != 0 {
				l.devices[vg.Name] = append(l.devices[vg.Name], pv.Name)
			}
		}
	}
}

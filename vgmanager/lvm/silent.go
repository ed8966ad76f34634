package lvm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Silent returns the devices of the node that do not respond, by "MAJOR:MINOR". The values are all paths of a device.
type Silent func(ctx context.Context) map[string][]string

// SkipSilent makes LVM exclude devices that do not respond. One such device would block every report of the node in a
// process that cannot be killed and holds LVM's global lock. LVM calls silent before each report. The changes after a
// report exclude the same devices. SkipSilent never excludes a physical volume of the last report, because its volume
// group would appear to miss it.
func (l *LVM) SkipSilent(silent Silent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = silent
}

// updateFilter updates the filter that excludes the devices that do not respond.
func (l *LVM) updateFilter() error {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	l.mu.Lock()
	ask := l.silent
	known := l.known
	l.mu.Unlock()
	if ask == nil {
		return nil
	}
	devices := ask(ctx)
	var patterns []string
	for _, number := range slices.Sorted(maps.Keys(devices)) {
		if known[number] {
			continue
		}
		for _, path := range append(slices.Clone(devices[number]), "/dev/block/"+number) {
			patterns = append(patterns, fmt.Sprintf(`"r|^%s$|"`, literal(path)))
		}
	}
	filter := ""
	if len(patterns) > 0 {
		own, err := l.ownFilter(ctx)
		if err != nil {
			return err
		}
		filter = "devices{filter=[" + strings.Join(append(patterns, own), ",") + "]}"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.filter = filter
	return nil
}

// ownFilter returns devices/filter of the node's lvm.conf, because the --config option replaces it. The command opens
// no device. global_filter stays in effect.
func (l *LVM) ownFilter(ctx context.Context) (string, error) {
	const object = "read the filter of the node's lvm.conf"
	out, err := l.runner.Run(ctx, program, "lvmconfig", "--typeconfig", "full", "devices/filter")
	if err != nil {
		return "", classify(object, err)
	}
	value, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "filter=")
	if !ok || strings.ContainsAny(value, "\n") || value == "" {
		return "", fmt.Errorf("%s: lvmconfig printed %q", object, out)
	}
	return strings.TrimSuffix(strings.TrimPrefix(value, "["), "]"), nil
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

// filtered returns the arguments of a change with the filter of the last report added.
func (l *LVM) filtered(args []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.filter == "" || len(args) == 0 {
		return args
	}
	// LVM accepts --config once.
	if at := slices.Index(args, "--config"); at >= 0 && at+1 < len(args) {
		args = slices.Clone(args)
		args[at+1] += " " + l.filter
		return args
	}
	return slices.Concat(args[:1], []string{"--config", l.filter}, args[1:])
}

func (l *LVM) currentFilter() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.filter
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

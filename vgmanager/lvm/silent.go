package lvm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Silent returns the devices of the node that do not answer, by "MAJOR:MINOR", each with all of its paths.
type Silent func(ctx context.Context) map[string][]string

// SkipSilent has LVM leave out devices that do not answer: one of them would hold up every report of the node, and what
// it hangs in cannot be killed and keeps LVM's global lock. Silent is asked before each report; the changes after it
// leave out the same devices. A physical volume of the last report is never left out: its volume group would look as if
// it had lost it.
func (l *LVM) SkipSilent(silent Silent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = silent
}

// updateFilter asks which devices do not answer, and keeps the filter that leaves them out.
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

// ownFilter returns what the node's lvm.conf has in devices/filter, which an option replaces. The command opens no
// device. global_filter stays in force beside it.
func (l *LVM) ownFilter(ctx context.Context) (string, error) {
	const object = "filter of the node's lvm.conf"
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

// literal returns a pattern for a path. What may mean something to LVM's regular expressions or in a configuration
// matches any character instead.
func literal(path string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/-_:", r) {
			return r
		}
		return '.'
	}, path)
}

// filtered returns the arguments of a change with the filter of the last report.
func (l *LVM) filtered(args []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.filter == "" || len(args) == 0 {
		return args
	}
	return slices.Concat(args[:1], []string{"--config", l.filter}, args[1:])
}

func (l *LVM) currentFilter() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.filter
}

// remember notes the physical volumes of a report. The caller holds mu.
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

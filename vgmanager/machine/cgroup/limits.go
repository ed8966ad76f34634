package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
)

// unlimited is the value of io.max for no limit.
const unlimited = "max"

// change is a limit that was written, with the limits before.
type change struct {
	directory string
	before    iolimits.Limits
}

// Limit limits the I/O of Pods to a device, which is "MAJOR:MINOR". It returns the UIDs of Pods that have no cgroup. If
// it fails for a Pod, it restores the earlier limits of the others.
func (p *Pods) Limit(uids []string, device string, limits iolimits.Limits) (missing []string, err error) {
	if len(uids) == 0 {
		return nil, nil
	}
	found, err := p.find(uids)
	if err != nil {
		return nil, err
	}
	var changes []change
	for _, uid := range uids {
		directory, there := found[uid]
		if !there {
			missing = append(missing, uid)
			continue
		}
		before, err := ensure(directory, device, limits)
		if ended(directory) {
			missing = append(missing, uid)
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("limit the I/O of Pod %s to device %s: %w", uid, device, err),
				restore(changes, device))
		}
		changes = append(changes, change{directory, before})
	}
	return missing, nil
}

// ended reports whether a Pod has ended, and its cgroup with it.
func ended(directory string) bool {
	_, err := os.Stat(directory)
	return errors.Is(err, fs.ErrNotExist)
}

// restore writes the earlier limits.
func restore(changes []change, device string) error {
	var errs []error
	for _, c := range slices.Backward(changes) {
		if _, err := ensure(c.directory, device, c.before); err != nil && !ended(c.directory) {
			errs = append(errs, fmt.Errorf("restore the earlier limits of device %s in %s: %w", device, c.directory,
				err))
		}
	}
	return errors.Join(errs...)
}

// ensure sets the limits of a cgroup for a device, unless it has them. It returns those that it had. After a failure,
// it has those again.
func ensure(directory, device string, limits iolimits.Limits) (before iolimits.Limits, err error) {
	path := filepath.Join(directory, limitsFile)
	before, err = read(path, device)
	if limits == (iolimits.Limits{}) && errors.Is(err, fs.ErrNotExist) {
		return before, nil // Without the controller, there are no limits.
	}
	if err != nil || before == limits {
		return before, err
	}
	if err := write(path, device, limits); err != nil {
		return before, err
	}
	after, err := read(path, device)
	if err == nil && after != limits {
		err = fmt.Errorf("%s has %s after %s was written", path, after, limits)
	}
	if err != nil {
		return before, errors.Join(err, write(path, device, before))
	}
	return before, nil
}

func write(path, device string, limits iolimits.Limits) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(format(device, limits))
	return errors.Join(err, f.Close())
}

// field is a limit in io.max.
type field struct {
	name  string
	value *int64
}

// fields are the limits of io.max in the order of the kernel.
func fields(limits *iolimits.Limits) []field {
	return []field{{"rbps", &limits.ReadBytes}, {"wbps", &limits.WriteBytes}, {"riops", &limits.ReadIOPS},
		{"wiops", &limits.WriteIOPS}}
}

// format returns the line of io.max for a device.
func format(device string, limits iolimits.Limits) string {
	line := []string{device}
	for _, f := range fields(&limits) {
		text := unlimited
		if *f.value != 0 {
			text = strconv.FormatInt(*f.value, 10)
		}
		line = append(line, f.name+"="+text)
	}
	return strings.Join(line, " ") + "\n"
}

// read returns the limits of a cgroup for a device. The file has no line for a device without limits.
func read(path, device string) (iolimits.Limits, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return iolimits.Limits{}, err
	}
	limits, err := parse(string(content), device)
	if err != nil {
		return limits, fmt.Errorf("%s: %w", path, err)
	}
	return limits, nil
}

// parse returns the limits of a device in the content of io.max.
func parse(content, device string) (iolimits.Limits, error) {
	for line := range strings.Lines(content) {
		words := strings.Fields(line)
		if len(words) > 0 && words[0] == device {
			return parseLimits(words[1:])
		}
	}
	return iolimits.Limits{}, nil
}

func parseLimits(words []string) (limits iolimits.Limits, err error) {
	for _, word := range words {
		name, text, _ := strings.Cut(word, "=")
		for _, f := range fields(&limits) {
			if f.name != name || text == unlimited {
				continue
			}
			if *f.value, err = strconv.ParseInt(text, 10, 64); err != nil {
				return limits, fmt.Errorf("%q is not a limit", word)
			}
		}
	}
	return limits, nil
}

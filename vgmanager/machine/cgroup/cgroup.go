// Package cgroup limits the I/O of Pods to block devices, with the io controller of cgroup v2 (Documentation/
// admin-guide/cgroup-v2.rst of the kernel, "IO Interface Files"). It finds the cgroups that the kubelet creates for
// Pods, and writes only their file io.max. It enables no controller: the kubelet and systemd do.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// HostRoot is the cgroup file system of the node, by the process with ID 1 of the node. Some container runtimes give
// a container only its own part of it.
const HostRoot = "/proc/1/root/sys/fs/cgroup"

const (
	// maxDepth is how many levels below the root the cgroup of a Pod can be. The kubelet has three: kubepods, the QoS
	// class and the Pod; some distributions put them below another slice.
	maxDepth = 4
	// maxDirectories limits how many directories a search reads.
	maxDirectories = 4096
)

// Files of a cgroup.
const (
	controllersFile = "cgroup.controllers"
	limitsFile      = "io.max"
)

// Pods finds the cgroups of Pods and limits their I/O.
type Pods struct{ root string }

// New returns the Pods of the cgroup file system that is mounted at root.
func New(root string) *Pods { return &Pods{root: root} }

// Supported returns why this node cannot limit the I/O of Pods, or nil if it can.
func (p *Pods) Supported() error {
	controllers, err := os.ReadFile(filepath.Join(p.root, controllersFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it does not use cgroup v2, which limits of I/O need: boot it with the kernel parameter " +
			"systemd.unified_cgroup_hierarchy=1")
	case err != nil:
		return fmt.Errorf("the controllers of its cgroups cannot be read: %w", err)
	case !slices.Contains(strings.Fields(string(controllers)), "io"):
		return fmt.Errorf("its cgroups have no io controller, only %s: use a kernel with CONFIG_BLK_CGROUP and "+
			"without the parameter cgroup_disable=io", strings.Join(strings.Fields(string(controllers)), " "))
	}
	top, err := p.kubepods()
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(top, limitsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cgroup %s has no file %s: use a kernel with CONFIG_BLK_DEV_THROTTLING, and enable the io "+
			"controller for the Pods (for systemd, IOAccounting=yes)", top, limitsFile)
	}
	if err != nil {
		return fmt.Errorf("the I/O limits of its Pods cannot be read: %w", err)
	}
	return nil
}

// kubepods returns the cgroup that has those of all Pods.
func (p *Pods) kubepods() (string, error) {
	found := ""
	err := p.walk(func(path, name string) bool {
		if found == "" && isKubepods(name) {
			found = path
		}
		return found == ""
	})
	if err == nil && found == "" {
		err = fmt.Errorf("no cgroup kubepods is below %s: the kubelet creates it, unless it has "+
			"--cgroups-per-qos=false", p.root)
	}
	return found, err
}

// isKubepods reports whether a directory has the cgroups of all Pods: kubepods, kubepods.slice, or another slice that
// ends with it.
func isKubepods(name string) bool {
	base := strings.TrimSuffix(name, ".slice")
	return base == "kubepods" || strings.HasSuffix(base, "-kubepods")
}

// podOf returns the UID in the name of the cgroup of a Pod, or "" for another cgroup. The kubelet names it pod<UID>
// with the driver cgroupfs, and kubepods-burstable-pod<UID>.slice with the driver systemd, with underscores in the UID.
func podOf(name string) string {
	base := strings.TrimSuffix(name, ".slice")
	at := strings.LastIndex(base, "pod")
	if at < 0 || at > 0 && base[at-1] != '-' {
		return ""
	}
	return strings.ReplaceAll(base[at+len("pod"):], "_", "-")
}

// find returns the cgroups of Pods, by their UIDs. A Pod without a cgroup is not in the result.
func (p *Pods) find(uids []string) (map[string]string, error) {
	found := map[string]string{}
	err := p.walk(func(path, name string) bool {
		uid := podOf(name)
		if slices.Contains(uids, uid) {
			found[uid] = path
		}
		return uid == "" && len(found) < len(uids)
	})
	return found, err
}

// walk calls visit with the path and name of each cgroup that may have Pods below it, the upper ones first. It reads
// the directory if visit returns true. A cgroup that is deleted meanwhile is left out.
func (p *Pods) walk(visit func(path, name string) bool) error {
	level := []string{p.root}
	read := 0
	for range maxDepth {
		var next []string
		for _, directory := range level {
			if read++; read > maxDirectories {
				return fmt.Errorf("more than %d cgroups are below %s", maxDirectories, p.root)
			}
			entries, err := os.ReadDir(directory)
			if errors.Is(err, fs.ErrNotExist) && directory != p.root {
				continue
			}
			if err != nil {
				return fmt.Errorf("the cgroups of its Pods cannot be read: %w", err)
			}
			for _, e := range entries {
				path := filepath.Join(directory, e.Name())
				if e.IsDir() && !isLeaf(e.Name()) && visit(path, e.Name()) {
					next = append(next, path)
				}
			}
		}
		level = next
	}
	return nil
}

// isLeaf reports whether a cgroup is a unit of systemd that has no Pods below it.
func isLeaf(name string) bool {
	return slices.Contains([]string{".scope", ".service", ".mount", ".socket", ".swap"}, filepath.Ext(name))
}

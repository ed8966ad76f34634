package guest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// bareModules are the modules that LVM and its tests use. The kernel loads the rest of device-mapper when a table needs
// it.
var bareModules = []string{"dm-mod", "dm-thin-pool", "dm-snapshot", "loop", "configfs"}

// kubeModules are the modules that Pods and kube-proxy use.
var kubeModules = []string{
	"bridge", "br_netfilter", "veth",
	"xt_conntrack", "xt_comment", "xt_addrtype", "xt_MASQUERADE", "xt_mark", "xt_multiport", "xt_statistic",
	"xt_nat", "xt_tcpudp",
	"ipt_REJECT", "iptable_nat", "iptable_filter", "iptable_mangle", "ip6table_nat", "ip6table_filter",
	"ip6table_mangle", "nf_nat",
}

// bootModules puts the kernel's modules where modprobe finds them, and loads those that are always needed.
func (m *machine) bootModules() error {
	release, err := kernelRelease()
	if err != nil {
		return err
	}
	if err := mkdirs("/lib/modules"); err != nil {
		return err
	}
	if err := symlink(filepath.Join(m.Modules, release), "/lib/modules/"+release); err != nil {
		return err
	}
	names := bareModules
	if !m.Bare {
		names = append(names[:len(names):len(names)], kubeModules...)
	}
	return m.loadModules(names...)
}

// loadModules loads modules and their dependencies, by system calls. A module that does not exist is assumed to be
// built in.
func (m *machine) loadModules(names ...string) error { return loadModules(m.Modules, names...) }

func loadModules(modules string, names ...string) error {
	release, err := kernelRelease()
	if err != nil {
		return err
	}
	dir := filepath.Join(modules, release)
	deps, err := moduleDeps(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return err
	}
	for _, name := range names {
		files := deps[moduleName(name)]
		for i := len(files) - 1; i >= 0; i-- {
			if err := insmod(filepath.Join(dir, files[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

func insmod(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func kernelRelease() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// moduleDeps reads modules.dep. Each module maps to its own file and its dependencies, to be loaded from last to first.
func moduleDeps(path string) (map[string][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	deps := map[string][]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		file, needs, ok := strings.Cut(lines.Text(), ":")
		if ok {
			deps[moduleName(strings.TrimSuffix(filepath.Base(file), ".ko"))] = append([]string{file},
				strings.Fields(needs)...)
		}
	}
	return deps, lines.Err()
}

func moduleName(s string) string { return strings.ReplaceAll(s, "-", "_") }

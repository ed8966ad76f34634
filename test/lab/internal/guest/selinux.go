package guest

import (
	_ "embed"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// seLinuxPolicy is the policy without its categories: processes of the node may do everything, and containers may only
// change what has their type and categories. OpenShift's policy separates containers from the node and from each other
// in the same way.
//
//go:embed selinux.conf
var seLinuxPolicy string

const (
	seLinuxFS     = "/sys/fs/selinux"
	seLinuxConfig = "/etc/selinux/config"
	seLinuxRoot   = "/etc/selinux/lab"
	// categories is how many containerd uses (selinux_category_range).
	categories = 1024
)

// seLinuxFiles are what libselinux reads: the kubelet and containerd take the types of containers from lxc_contexts,
// and LVM the contexts of its devices from file_contexts.
var seLinuxFiles = map[string]string{
	seLinuxConfig: "SELINUX=enforcing\nSELINUXTYPE=lab\n",
	seLinuxRoot + "/contexts/lxc_contexts": `process = "system_u:system_r:container_t:s0"
content = "system_u:object_r:container_file_t:s0"
file = "system_u:object_r:container_file_t:s0"
ro_file = "system_u:object_r:container_file_t:s0"
`,
	seLinuxRoot + "/contexts/files/file_contexts": "/.*  system_u:object_r:host_t:s0\n",
}

// enforceSELinux compiles the policy, loads it and enforces it. All processes of the node have the context of the
// kernel then.
func (m *machine) enforceSELinux() error {
	if !m.Flavor.SELinux {
		return nil
	}
	for path, text := range seLinuxFiles {
		if err := writeFile(path, text); err != nil {
			return err
		}
	}
	source, compiled := "/run/selinux.conf", "/run/selinux.policy"
	if err := writeFile(source, completePolicy()); err != nil {
		return err
	}
	if err := m.run("/usr/bin/checkpolicy", "-M", "-U", "allow", "-o", compiled, source); err != nil {
		return err
	}
	policy, err := os.ReadFile(compiled)
	if err != nil {
		return err
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NOEXEC)
	if err := mountAll([]mount{{"selinuxfs", seLinuxFS, "selinuxfs", flags, ""}}); err != nil {
		return err
	}
	// The kernel takes the policy from one write.
	if err := os.WriteFile(seLinuxFS+"/load", policy, 0o600); err != nil {
		return err
	}
	return os.WriteFile(seLinuxFS+"/enforce", []byte("1"), 0o600)
}

// completePolicy inserts the categories.
func completePolicy() string {
	var list strings.Builder
	for i := range categories {
		fmt.Fprintf(&list, "category c%d;\n", i)
	}
	return strings.NewReplacer("@categories@\n", list.String(), "@last@", fmt.Sprint("c", categories-1)).
		Replace(seLinuxPolicy)
}

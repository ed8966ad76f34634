// Command ocirun makes crun work with a newer containerd: Debian's crun refuses a container whose specification has an
// unknown version, although containerd uses no unknown features. ocirun sets the version to one that crun knows, and
// executes crun.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
)

const (
	crun    = "/usr/bin/crun"
	version = `"ociVersion":"1.0.2"`
)

var versionField = regexp.MustCompile(`"ociVersion"\s*:\s*"[^"]*"`)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ocirun:", err)
		os.Exit(1)
	}
}

func run() error {
	if i := slices.Index(os.Args, "--bundle"); i > 0 && i+1 < len(os.Args) && slices.Contains(os.Args, "create") {
		if err := setVersion(filepath.Join(os.Args[i+1], "config.json")); err != nil {
			return err
		}
	}
	return syscall.Exec(crun, append([]string{crun}, os.Args[1:]...), os.Environ())
}

func setVersion(path string) error {
	config, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, versionField.ReplaceAll(config, []byte(version)), 0o600)
}

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// daemons are the services, by package, that Debian starts when a package is installed of which only the programs are
// wanted. Prometheus would listen on all addresses of the machine, and let anybody read.
var daemons = map[string]string{"prometheus": "prometheus.service"}

// Mask keeps systemd from starting services of packages that are about to be installed: a link to /dev/null in its
// folder, as `systemctl mask` makes it, on a machine that runs systemd or not. What stands there already is left as it
// is. It returns the services that it masked.
func Mask(folder string, packages []string) ([]string, error) {
	var masked []string
	for _, name := range packages {
		service := daemons[name]
		if service == "" {
			continue
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return masked, err
		}
		switch err := os.Symlink("/dev/null", filepath.Join(folder, service)); {
		case err == nil:
			masked = append(masked, service)
		case !errors.Is(err, fs.ErrExist):
			return masked, fmt.Errorf("mask %s: %w", service, err)
		}
	}
	return masked, nil
}

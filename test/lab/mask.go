package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// daemons are the services, by package, that Debian starts after the installation of packages of which only the
// programs are necessary. Prometheus would listen on all addresses of the machine without authentication.
var daemons = map[string]string{"prometheus": "prometheus.service"}

// Mask prevents systemd from starting services of packages that will be installed: it creates a link to /dev/null in
// systemd's directory, like `systemctl mask`, whether or not systemd runs. It does not replace existing files. It
// returns the services that it masked.
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

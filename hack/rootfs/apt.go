package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// deb is a package's file in the cache.
type deb struct {
	path, sha256 string
}

const (
	updateLimit   = 5 * time.Minute
	resolveLimit  = time.Minute
	downloadLimit = 10 * time.Minute
)

// preferences let in nothing but Debian 12 with its updates and security updates, whatever else the machine's sources have.
const preferences = `Package: *
Pin: release o=Debian, n=bookworm*
Pin-Priority: 990

Package: *
Pin: release *
Pin-Priority: -1
`

// apt is an apt of its own: the machine gives the sources and the keys, and is not changed.
type apt struct {
	run    command
	folder string
	arch   architecture
	roots  []string
}

// config is read after the machine's own configuration.
//
// The machine's hooks are cleared: those of container images empty the machine's cache of packages. The status file is
// empty, so that what the machine has installed does not count as there. An index that cannot be read is an error: by
// default apt would go on with an older one.
func (a apt) config() string {
	return fmt.Sprintf(`#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Architectures;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
APT::Architecture "%[1]s";
APT::Architectures { "%[1]s"; };
APT::Default-Release "";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Update::Error-Mode "any";
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
Dir::State "%[2]s/state";
Dir::State::lists "%[2]s/state/lists";
Dir::State::status "%[2]s/state/status";
Dir::Cache "%[2]s/cache";
Dir::Cache::archives "%[2]s/archives";
Dir::Etc::preferences "%[2]s/preferences";
Dir::Etc::preferencesparts "%[2]s/preferences.d";
Dir::Log "%[2]s/log";
`, a.arch.debian, a.folder)
}

func (a apt) configFile() string { return filepath.Join(a.folder, "apt.conf") }

// listsFile says that the package lists are complete.
func (a apt) listsFile() string { return filepath.Join(a.folder, "lists.complete") }

// fetch returns the packages of the roots with all that they depend on. What the cache has is not read again.
func fetch(ctx context.Context, run command, folder string, arch architecture, roots []string, update bool) ([]deb, error) {
	a := apt{run: run, folder: folder, arch: arch, roots: roots}
	if err := a.prepare(); err != nil {
		return nil, err
	}
	if err := a.update(ctx, update); err != nil {
		return nil, err
	}
	debs, err := a.resolve(ctx)
	if err != nil {
		return nil, err
	}
	return debs, a.download(ctx, debs)
}

func (a apt) prepare() error {
	if strings.ContainsAny(a.folder, "\"\n") {
		return fmt.Errorf("-cache %s: apt's configuration cannot hold such a name", a.folder)
	}
	for _, name := range []string{"state/lists/partial", "cache", "archives/partial", "none/partial", "preferences.d", "log"} {
		if err := os.MkdirAll(filepath.Join(a.folder, name), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(a.configFile(), []byte(a.config()), 0o644),
		os.WriteFile(filepath.Join(a.folder, "preferences"), []byte(preferences), 0o644),
		os.WriteFile(filepath.Join(a.folder, "state/status"), nil, 0o644))
}

func (a apt) update(ctx context.Context, force bool) error {
	_, err := os.Stat(a.listsFile())
	if err == nil && !force {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// If the lists cannot be read now, the next run is to try again, and not to go on with half of them.
	if err := os.RemoveAll(a.listsFile()); err != nil {
		return err
	}
	if _, err := a.get(ctx, updateLimit, "update"); err != nil {
		return fmt.Errorf("read the package lists (the mirrors in /etc/apt must be reachable and whole; try again later where one is being synchronised): %w", err)
	}
	return os.WriteFile(a.listsFile(), nil, 0o644)
}

// resolve asks with an empty folder of packages: apt does not list what it has already.
func (a apt) resolve(ctx context.Context) ([]deb, error) {
	out, err := a.get(ctx, resolveLimit, append([]string{"-o", "Dir::Cache::archives=" + filepath.Join(a.folder, "none"), "--print-uris", "install"}, a.roots...)...)
	if err != nil {
		return nil, fmt.Errorf("what %s depend on (Debian 12, bookworm, must be among the sources in /etc/apt; -update, in make DEBIAN_UPDATE=true, reads its lists anew): %w",
			strings.Join(a.roots, ", "), err)
	}
	debs, err := parseURIs(string(out), filepath.Join(a.folder, "archives"))
	if err == nil && len(debs) == 0 {
		err = fmt.Errorf("apt-get names no package for %s", strings.Join(a.roots, ", "))
	}
	return debs, err
}

// download lets apt fetch what the cache lacks, and checks all of it: apt takes a file in its cache for good by its size.
func (a apt) download(ctx context.Context, debs []deb) error {
	complete := true
	for _, d := range debs {
		if checkDeb(d) == nil {
			continue
		}
		complete = false
		if err := os.RemoveAll(d.path); err != nil {
			return err
		}
	}
	if complete {
		return nil
	}
	if _, err := a.get(ctx, downloadLimit, append([]string{"--download-only", "install"}, a.roots...)...); err != nil {
		return fmt.Errorf("download (the lists in the cache may be too old: -update, in make DEBIAN_UPDATE=true, reads them anew): %w", err)
	}
	for _, d := range debs {
		if err := checkDeb(d); err != nil {
			return fmt.Errorf("after the download: %w", err)
		}
	}
	return nil
}

func (a apt) get(ctx context.Context, limit time.Duration, args ...string) ([]byte, error) {
	return a.run(ctx, limit, "apt-get", append([]string{"-c", a.configFile(), "-qq", "--yes"}, args...)...)
}

// parseURIs reads lines of: 'http://...' NAME_VERSION_ARCH.deb SIZE SHA256:HASH
func parseURIs(out, archives string) ([]deb, error) {
	var debs []deb
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "'") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 4 || fields[1] != filepath.Base(fields[1]) || !strings.HasPrefix(fields[3], "SHA256:") {
			return nil, fmt.Errorf("apt-get --print-uris: not understood: %q", strings.TrimSpace(line))
		}
		debs = append(debs, deb{path: filepath.Join(archives, fields[1]), sha256: strings.TrimPrefix(fields[3], "SHA256:")})
	}
	return debs, nil
}

func checkDeb(d deb) error {
	content, err := os.ReadFile(d.path)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != d.sha256 {
		return fmt.Errorf("%s has not the SHA-256 that Debian's list gives, %s: remove the file", d.path, d.sha256)
	}
	return nil
}

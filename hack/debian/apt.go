// Package debian reads packages from Debian's archive for any release and architecture, regardless of the machine's.
// The machine's sources determine the mirror. It installs nothing and needs no root.
package debian

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

// Deb is the file of a package in the cache.
type Deb struct {
	Path, SHA256 string
}

// Bookworm is Debian 12, the release of the machine on which this runs.
const Bookworm = "bookworm"

// Archive configures the release to read packages from, and the cache.
type Archive struct {
	// Run runs apt-get.
	Run Command
	// Folder caches the package lists and the packages.
	Folder string
	// Arch is Debian's name of the architecture, for example amd64.
	Arch string
	// Release is the code name of the release, for example bookworm. The machine's sources must be for Debian 12;
	// another release is read from the same mirrors.
	Release string
}

const (
	updateLimit   = 5 * time.Minute
	resolveLimit  = time.Minute
	downloadLimit = 10 * time.Minute
)

// preferences allow only one release with its updates and security updates, whatever else is in the machine's sources.
const preferences = `Package: *
Pin: release o=Debian, n=%s*
Pin-Priority: 990

Package: *
Pin: release *
Pin-Priority: -1
`

// apt runs apt with a configuration of its own. It uses the sources and keys of the machine, but does not change the
// machine.
type apt struct {
	Archive
	roots []string
}

// config returns the configuration that is read after the machine's own.
//
// It clears the machine's hooks, which in container images empty the package cache. It sets an empty status file, so
// that installed packages do not count. It makes an unreadable index an error: by default apt would use an older one.
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
`, a.Arch, a.Folder) + a.sourcesConfig()
}

// sourcesConfig replaces the machine's sources if the release differs from the machine's.
func (a apt) sourcesConfig() string {
	if a.Release == Bookworm {
		return ""
	}
	return fmt.Sprintf("Dir::Etc::sourcelist %q;\nDir::Etc::sourceparts \"-\";\n", a.sourcesFile())
}

func (a apt) sourcesFile() string { return filepath.Join(a.Folder, "sources.list") }

// keyring has the keys of all releases of Debian (package debian-archive-keyring).
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// writeSources writes sources for the release, with the mirrors from which the machine reads Debian 12.
func (a apt) writeSources(ctx context.Context) error {
	if a.Release == Bookworm {
		return nil
	}
	out, err := a.Run(ctx, resolveLimit, "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
		"Identifier: Packages")
	if err != nil {
		return fmt.Errorf("the machine's package sources: %w", err)
	}
	text := sourcesOf(string(out), a.Release)
	if text == "" {
		return errors.New("no source in /etc/apt has Debian 12 (bookworm): its mirror is needed")
	}
	return os.WriteFile(a.sourcesFile(), []byte(text), 0o644)
}

// sourcesOf converts lines with a mirror, a suite of Debian 12, and a component to sources of a release.
func sourcesOf(targets, release string) string {
	var list strings.Builder
	for line := range strings.Lines(targets) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[1] != Bookworm && !strings.HasPrefix(fields[1], Bookworm+"-") {
			continue
		}
		suite := release + strings.TrimPrefix(fields[1], Bookworm)
		fmt.Fprintf(&list, "deb [signed-by=%s] %s %s %s\n", keyring, fields[0], suite, fields[2])
	}
	return list.String()
}

func (a apt) configFile() string { return filepath.Join(a.Folder, "apt.conf") }

// listsFile returns the file that marks the package lists as complete.
func (a apt) listsFile() string { return filepath.Join(a.Folder, "lists.complete") }

// Fetch returns the packages of the roots with all their dependencies. It uses the cache, unless update requests new
// package lists.
func (archive Archive) Fetch(ctx context.Context, roots []string, update bool) ([]Deb, error) {
	a := apt{Archive: archive, roots: roots}
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
	if strings.ContainsAny(a.Folder, "\"\n") {
		return fmt.Errorf("folder %s: apt's configuration cannot hold such a name", a.Folder)
	}
	for _, name := range []string{"state/lists/partial", "cache", "archives/partial", "none/partial",
		"preferences.d", "log"} {
		if err := os.MkdirAll(filepath.Join(a.Folder, name), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(a.configFile(), []byte(a.config()), 0o644),
		os.WriteFile(filepath.Join(a.Folder, "preferences"), fmt.Appendf(nil, preferences, a.Release), 0o644),
		os.WriteFile(filepath.Join(a.Folder, "state/status"), nil, 0o644))
}

func (a apt) update(ctx context.Context, force bool) error {
	_, err := os.Stat(a.listsFile())
	if err == nil && !force {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// If the lists cannot be read, the next run must retry and not use partial lists.
	if err := os.RemoveAll(a.listsFile()); err != nil {
		return err
	}
	if err := a.writeSources(ctx); err != nil {
		return err
	}
	if _, err := a.get(ctx, updateLimit, "update"); err != nil {
		return fmt.Errorf("read the package lists (the mirrors in /etc/apt must be reachable and whole; try again "+
			"later where one is being synchronized): %w", err)
	}
	return os.WriteFile(a.listsFile(), nil, 0o644)
}

// resolve uses an empty directory of packages, because apt does not list packages that it already has.
func (a apt) resolve(ctx context.Context) ([]Deb, error) {
	out, err := a.get(ctx, resolveLimit, append([]string{"-o",
		"Dir::Cache::archives=" + filepath.Join(a.Folder, "none"), "--print-uris", "install"}, a.roots...)...)
	if err != nil {
		return nil, fmt.Errorf("what %s depend on (Debian 12, bookworm, must be among the sources in /etc/apt; "+
			"-update, in make DEBIAN_UPDATE=true, reads its lists again): %w",
			strings.Join(a.roots, ", "), err)
	}
	debs, err := parseURIs(string(out), filepath.Join(a.Folder, "archives"))
	if err == nil && len(debs) == 0 {
		err = fmt.Errorf("apt-get names no package for %s", strings.Join(a.roots, ", "))
	}
	return debs, err
}

// download fetches the packages that are not in the cache, and verifies all of them: apt checks only the size of a
// cached file.
func (a apt) download(ctx context.Context, debs []Deb) error {
	complete := true
	for _, d := range debs {
		if checkDeb(d) == nil {
			continue
		}
		complete = false
		if err := os.RemoveAll(d.Path); err != nil {
			return err
		}
	}
	if complete {
		return nil
	}
	if _, err := a.get(ctx, downloadLimit, append([]string{"--download-only", "install"}, a.roots...)...); err != nil {
		return fmt.Errorf("download (the package lists in the cache may be too old: "+
			"update them with -update, in make DEBIAN_UPDATE=true): %w", err)
	}
	for _, d := range debs {
		if err := checkDeb(d); err != nil {
			return fmt.Errorf("after the download: %w", err)
		}
	}
	return nil
}

func (a apt) get(ctx context.Context, limit time.Duration, args ...string) ([]byte, error) {
	return a.Run(ctx, limit, "apt-get", append([]string{"-c", a.configFile(), "-qq", "--yes"}, args...)...)
}

// parseURIs parses lines of: 'http://...' NAME_VERSION_ARCH.deb SIZE SHA256:HASH
func parseURIs(out, archives string) ([]Deb, error) {
	var debs []Deb
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "'") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 4 || fields[1] != filepath.Base(fields[1]) || !strings.HasPrefix(fields[3], "SHA256:") {
			return nil, fmt.Errorf("apt-get --print-uris: not understood: %q", strings.TrimSpace(line))
		}
		debs = append(debs, Deb{Path: filepath.Join(archives, fields[1]),
			SHA256: strings.TrimPrefix(fields[3], "SHA256:")})
	}
	return debs, nil
}

func checkDeb(d Deb) error {
	content, err := os.ReadFile(d.Path)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != d.SHA256 {
		return fmt.Errorf("%s has not the SHA-256 that Debian's list gives, %s: remove the file", d.Path, d.SHA256)
	}
	return nil
}

// Package lvmsource runs LVM of the host or, if the host has none, LVM of the agent's image. The image also has dmsetup
// and the thin-provisioning tools, so that all of them are from the same distribution.
package lvmsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

const (
	lvm      = "/usr/sbin/lvm"
	modprobe = "/usr/sbin/modprobe"
	// checkTimeout is the time limit of `lvm version` and of modprobe.
	checkTimeout = 30 * time.Second
)

// programs are the programs that are the host's or the image's. All others are the host's.
var programs = []string{"lvm", "dmsetup", "thin_check", "thin_dump"}

// modules are the kernel modules that LVM of a host loads when it needs them, with those of caches that were attached
// to volumes on the node. LVM of the image cannot: modprobe and the modules are the host's.
var modules = []string{"dm-mod", "dm-thin-pool", "dm-snapshot", "dm-mirror", "dm-raid", "dm-cache", "dm-writecache"}

// imageConfig is the configuration that LVM of the image requires. The image has neither dmeventd nor lvmpolld: daemons
// would end with the container. The host's udev has no rules of LVM that update its hints, and a device that could not
// be read when they were written would stay missing after it returned (lib/label/hints.c).
const imageConfig = `activation/monitoring=0 devices/hints="none" global/use_lvmpolld=0`

// Source is whose LVM is used.
type Source struct {
	// Image is true if the host has no LVM, so that LVM of the image is used.
	Image bool
	// Version is what LVM reports as its version, for example "2.03.16(2) (2022-05-18)".
	Version string
}

// Runner runs programs of LVM from their source, and all other programs on the host. It implements host.Streamer and is
// safe for concurrent use.
type Runner struct {
	node, image host.Streamer
	log         logr.Logger
	// readOnly: the programs only read, so kernel modules are not loaded for them.
	readOnly bool

	mu     sync.Mutex
	source *Source
}

// New returns a Runner. node runs programs of the host, and image those of the agent's image.
func New(node, image host.Streamer, log logr.Logger) *Runner {
	return &Runner{node: node, image: image, log: log}
}

// NewReadOnly returns a Runner for programs that only read: it changes nothing on the node, and logs nothing.
func NewReadOnly(node, image host.Streamer) *Runner {
	return &Runner{node: node, image: image, log: logr.Discard(), readOnly: true}
}

// Source returns whose LVM is used. The first call decides it, for the lifetime of the Runner: LVM that is installed on
// the host later is used after a restart. The host has no LVM only if the program was looked for and does not exist. If
// that cannot be determined, or if LVM does not run, Source returns an error, and the next call checks again.
func (r *Runner) Source(ctx context.Context) (Source, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.source != nil {
		return *r.source, nil
	}
	source, err := r.choose(ctx)
	if err != nil {
		return Source{}, err
	}
	r.source = &source
	return source, nil
}

func (r *Runner) choose(ctx context.Context) (Source, error) {
	version, err := versionOf(ctx, r.node)
	if err == nil {
		r.log.Info("LVM of the host is used", "version", version)
		return Source{Version: version}, nil
	}
	if !errors.Is(err, host.ErrNoProgram) {
		return Source{}, fmt.Errorf("check whether the host has LVM: %w", err)
	}
	absent := err
	if version, err = versionOf(ctx, r.image); err != nil {
		return Source{}, fmt.Errorf("the host has no LVM, and LVM of the image does not run: %w",
			errors.Join(err, absent))
	}
	r.log.Info("the host has no LVM: LVM of the image is used", "version", version, "cause", absent.Error())
	if !r.readOnly {
		r.loadModules(ctx)
	}
	return Source{Image: true, Version: version}, nil
}

// loadModules loads the kernel modules of LVM. A module that is not available is not an error here: LVM reports it when
// a volume needs it.
func (r *Runner) loadModules(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if _, err := r.node.Run(ctx, modprobe, append([]string{"--all", "--quiet"}, modules...)...); err != nil {
		r.log.Info("not all kernel modules of LVM were loaded", "cause", err.Error())
	}
}

func versionOf(ctx context.Context, runner host.Runner) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	out, err := runner.Run(ctx, lvm, "version")
	if err != nil {
		return "", err
	}
	return decodeVersion(string(out)), nil
}

// decodeVersion returns the version in the output of `lvm version`, or "" if it has none.
func decodeVersion(out string) string {
	for line := range strings.Lines(out) {
		if version, found := strings.CutPrefix(strings.TrimSpace(line), "LVM version:"); found {
			return strings.TrimSpace(version)
		}
	}
	return ""
}

// Run implements host.Runner. A program of LVM does not run before its source is known.
func (r *Runner) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	runner, args, err := r.of(ctx, name, args)
	if err != nil {
		return nil, err
	}
	return runner.Run(ctx, name, args...)
}

// Stream implements host.Streamer.
func (r *Runner) Stream(ctx context.Context, out io.Writer, name string, args ...string) error {
	runner, args, err := r.of(ctx, name, args)
	if err != nil {
		return err
	}
	return runner.Stream(ctx, out, name, args...)
}

// of returns the Runner of a program, and its arguments there.
func (r *Runner) of(ctx context.Context, name string, args []string) (host.Streamer, []string, error) {
	if !slices.Contains(programs, path.Base(name)) {
		return r.node, args, nil
	}
	source, err := r.Source(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !source.Image {
		return r.node, args, nil
	}
	if path.Base(name) == path.Base(lvm) {
		args = configured(args)
	}
	return r.image, args, nil
}

// configured adds imageConfig to the arguments of LVM, which accepts --config once.
func configured(args []string) []string {
	args = slices.Clone(args)
	if at := slices.Index(args, "--config"); at >= 0 && at+1 < len(args) {
		args[at+1] += " " + imageConfig
		return args
	}
	return append(args, "--config", imageConfig)
}

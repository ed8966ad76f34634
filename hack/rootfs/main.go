// Command rootfs writes the files of the first layer of an image: of the operator's, the programs that the node agent's
// CSI service runs inside its container; of must-gather's, those that `oc adm must-gather` runs there; with the shared
// libraries that they need, from Debian's packages, and dpkg's database of these packages for programs that scan
// images. The packages are those of the image's architecture, whatever the machine's is; nothing is installed and no
// root is needed. `make image` and the Containerfile both run it, so that both images hold the same files. apt-get
// resolves and downloads. mmdebstrap, which does that too and unpacks, is no replacement: an image has single programs
// with the libraries that they load, not whole packages, from a cache that works without a network.
package main

import (
	"context"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/lvm-storage/lvm-operator/hack/debian"
)

// content is what an image has besides our own program.
type content struct {
	// roots are the packages that hold the programs. Their dependencies hold the libraries.
	roots []string
	// programs are all that is run.
	programs []string
	// links are further names of programs, which Debian makes when it installs them.
	links map[string]string
	// configuration files that programs read.
	configuration []string
	// folders are there although no package's file lies in them: what the container mounts over, and what programs
	// expect.
	folders []string
}

// contents are those of our images, by name.
var contents = map[string]content{
	"operator": {
		roots: []string{"base-files", "e2fsprogs", "mount", "smartmontools", "util-linux", "xfsprogs"},
		programs: []string{
			// LVM runs in the host's namespaces.
			"nsenter",
			// A volume is published.
			"mount", "umount", "fsck", "e2fsck", "fsck.ext4",
			// A volume gets its file system.
			"blkid", "wipefs", "mke2fs", "mkfs.ext4", "mkfs.xfs",
			// A volume grows. resize2fs asks for e2fsck where a file system is not clean.
			"findmnt", "blockdev", "resize2fs", "dumpe2fs", "xfs_growfs", "xfs_io",
			// Disks are asked for their health, where that is wanted.
			"smartctl",
		},
		configuration: []string{"etc/mke2fs.conf"},
		folders:       []string{"run/topolvm", "registration", "var/lib/kubelet", "var/lock"},
	},
	"must-gather": {
		roots: []string{"base-files", "bash", "coreutils", "gzip", "grep", "mawk", "procps", "rsync", "sed",
			"smartmontools", "tar", "util-linux"},
		programs: []string{
			// oc adm must-gather watches the volume and ends what fills it, and copies the files.
			"bash", "df", "du", "mawk", "pkill", "ps", "rsync", "sed", "setsid", "sleep", "sort", "sync", "tar",
			// Who looks around in the container.
			"cat", "cp", "date", "env", "gzip", "grep", "head", "id", "ls", "mkdir", "rm", "tail",
			// A node without an agent is read from a Pod of this image.
			"nsenter", "smartctl",
		},
		links:   map[string]string{"usr/bin/awk": "mawk", "usr/bin/sh": "bash"},
		folders: []string{"must-gather"},
	},
}

// architecture is one that the image is built for.
type architecture struct {
	debian  string // Debian's name for it
	triplet string // the folder of its libraries
	machine elf.Machine
}

// The keys are Go's names, which are those of the image's platform too.
var architectures = map[string]architecture{
	"amd64":   {"amd64", "x86_64-linux-gnu", elf.EM_X86_64},
	"arm64":   {"arm64", "aarch64-linux-gnu", elf.EM_AARCH64},
	"ppc64le": {"ppc64el", "powerpc64le-linux-gnu", elf.EM_PPC64},
	"s390x":   {"s390x", "s390x-linux-gnu", elf.EM_S390},
}

type options struct {
	image, arch, out, packages, cache, license string
	update                                     bool
}

func main() {
	var o options
	flag.StringVar(&o.arch, "arch", "", "architecture of the image: "+
		strings.Join(slices.Sorted(maps.Keys(architectures)), ", "))
	flag.StringVar(&o.image, "image", "operator",
		"which image: "+strings.Join(slices.Sorted(maps.Keys(contents)), ", "))
	flag.StringVar(&o.out, "out", "", "folder to write; one that was written before is replaced")
	flag.StringVar(&o.packages, "packages", "",
		"file that lists the packages which files came from; empty for the folder's name with .packages.json")
	flag.StringVar(&o.cache, "cache", "", "folder for Debian's package lists and packages")
	flag.StringVar(&o.license, "license", "LICENSE", "the project's license")
	flag.BoolVar(&o.update, "update", false, "read Debian's package lists again, also where the cache has them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := build(ctx, o, debian.RunCommand); err != nil {
		fmt.Fprintln(os.Stderr, "rootfs:", err)
		os.Exit(1)
	}
}

// build fetches, selects and writes.
func build(ctx context.Context, o options, run debian.Command) error {
	arch, err := o.complete()
	if err != nil {
		return err
	}
	wanted := contents[o.image]
	license, err := os.ReadFile(o.license)
	if err != nil {
		return fmt.Errorf("the project's license: %w", err)
	}
	if err := mayReplace(o); err != nil {
		return err
	}
	archive := debian.Archive{Run: run, Folder: filepath.Join(o.cache, arch.debian), Arch: arch.debian,
		Release: debian.Bookworm}
	debs, err := archive.Fetch(ctx, wanted.roots, o.update)
	if err != nil {
		return fmt.Errorf("packages of Debian for %s: %w", o.arch, err)
	}
	files, err := unpack(ctx, run, debs)
	if err != nil {
		return fmt.Errorf("packages of Debian for %s: %w", o.arch, err)
	}
	image, err := selectFiles(files, wanted, arch, license, readELF)
	if err != nil {
		return fmt.Errorf("files for %s: %w", o.arch, err)
	}
	used := usedDebs(image, debs)
	list, err := describe(ctx, run, arch, used)
	if err == nil {
		err = addDatabase(ctx, run, image, used)
	}
	if err != nil {
		return fmt.Errorf("packages of Debian for %s: %w", o.arch, err)
	}
	return write(o, image, list)
}

// complete checks the options, and fills in what follows from others.
func (o *options) complete() (architecture, error) {
	arch, known := architectures[o.arch]
	if !known {
		return arch, fmt.Errorf("-arch %q: the image is built for %s", o.arch,
			strings.Join(slices.Sorted(maps.Keys(architectures)), ", "))
	}
	if _, known := contents[o.image]; !known {
		return arch, fmt.Errorf("-image %q: there are %s", o.image,
			strings.Join(slices.Sorted(maps.Keys(contents)), ", "))
	}
	if o.out == "" || o.cache == "" {
		return arch, errors.New("-out and -cache name the folders to write to")
	}
	// apt takes relative paths from its own root.
	var errs [2]error
	o.cache, errs[0] = filepath.Abs(o.cache)
	o.out, errs[1] = filepath.Abs(o.out)
	if o.packages == "" {
		o.packages = o.out + ".packages.json"
	}
	return arch, errors.Join(errs[:]...)
}

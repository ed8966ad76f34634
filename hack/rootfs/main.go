// Command rootfs writes the files of the first layer of an image. For the operator these are the programs that the CSI
// service of the node agent runs in its container. For must-gather these are the programs that `oc adm must-gather`
// runs. It adds the shared libraries that they need, from Debian's packages, and dpkg's database of these packages for
// scanners. The packages are for the image's architecture, regardless of the machine's. It installs nothing and needs
// no root. `make image` and the Containerfile both run it, so that both images have the same files. apt-get resolves
// dependencies and downloads packages. mmdebstrap, which also does this and unpacks, cannot replace it: an image has
// single programs with the libraries that they load, not whole packages, from a cache that works without a network.
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

// content is the content of an image except our own program.
type content struct {
	// roots are the packages with the programs. Their dependencies have the libraries.
	roots []string
	// programs are all programs that are run.
	programs []string
	// links are additional names of programs, which Debian creates during installation.
	links map[string]string
	// configuration lists the configuration files that programs read.
	configuration []string
	// folders are directories without files of a package: mount points of the container, and directories that programs
	// expect.
	folders []string
}

// contents are the contents of our images, by name.
var contents = map[string]content{
	"operator": {
		roots: []string{"base-files", "cryptsetup-bin", "dash", "dmsetup", "e2fsprogs", "lvm2", "mount",
			"smartmontools", "thin-provisioning-tools", "util-linux", "xfsprogs"},
		programs: []string{
			// LVM runs in the host's namespaces.
			"nsenter",
			// For hosts without LVM. LVM starts thin_check and thin_repair, and a shell for thin_restore
			// (ThinPoolRestore in vgmanager/lvm).
			"lvm", "dmsetup", "thin_check", "thin_dump", "thin_repair", "thin_restore", "dash",
			// Programs to publish a volume.
			"mount", "umount", "fsck", "e2fsck", "fsck.ext4",
			// Programs to create a file system.
			"blkid", "wipefs", "mke2fs", "mkfs.ext4", "mkfs.xfs",
			// Programs to grow a volume. resize2fs requires e2fsck if a file system is not clean.
			"findmnt", "blockdev", "resize2fs", "dumpe2fs", "xfs_growfs", "xfs_io",
			// Opens encrypted volumes.
			"cryptsetup",
			// Repairs a file system on request (LVMRecovery). That of ext4 is e2fsck.
			"xfs_repair",
			// Reads the health of disks, if configured.
			"smartctl",
		},
		links:         map[string]string{"usr/bin/sh": "dash"},
		configuration: []string{"etc/mke2fs.conf"},
		folders: []string{"etc/lvm", "registration", "run/lock/lvm", "run/lvm", "run/topolvm", "run/udev",
			"var/lib/kubelet", "var/lock"},
	},
	"must-gather": {
		roots: []string{"base-files", "bash", "coreutils", "gzip", "grep", "mawk", "procps", "rsync", "sed",
			"smartmontools", "tar", "util-linux"},
		programs: []string{
			// oc adm must-gather monitors the volume, ends processes that fill it, and copies the files.
			"bash", "df", "du", "mawk", "pkill", "ps", "rsync", "sed", "setsid", "sleep", "sort", "sync", "tar",
			// For users who inspect the container.
			"cat", "cp", "date", "env", "gzip", "grep", "head", "id", "ls", "mkdir", "rm", "tail",
			// A Pod of this image reads nodes without an agent.
			"nsenter", "smartctl",
		},
		links:   map[string]string{"usr/bin/awk": "mawk", "usr/bin/sh": "bash"},
		folders: []string{"must-gather"},
	},
}

// architecture is an architecture of the image.
type architecture struct {
	debian  string // Debian's name for it
	triplet string // the folder of its libraries
	machine elf.Machine
}

// The keys are Go's names, which are also those of the image's platform.
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
		"image to build: "+strings.Join(slices.Sorted(maps.Keys(contents)), ", "))
	flag.StringVar(&o.out, "out", "", "directory to write; existing content is replaced")
	flag.StringVar(&o.packages, "packages", "",
		"file for the list of packages whose files are included; defaults to the name of the directory with "+
			".packages.json")
	flag.StringVar(&o.cache, "cache", "", "cache directory for Debian's package lists and packages")
	flag.StringVar(&o.license, "license", "LICENSE", "license file of the project")
	flag.BoolVar(&o.update, "update", false, "download Debian's package lists again even if they are cached")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := build(ctx, o, debian.RunCommand); err != nil {
		fmt.Fprintln(os.Stderr, "rootfs:", err)
		os.Exit(1)
	}
}

// build downloads the packages, selects the files and writes them.
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

// complete checks the options and sets those that depend on others.
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
	// apt resolves relative paths from its own root.
	var errs [2]error
	o.cache, errs[0] = filepath.Abs(o.cache)
	o.out, errs[1] = filepath.Abs(o.out)
	if o.packages == "" {
		o.packages = o.out + ".packages.json"
	}
	return arch, errors.Join(errs[:]...)
}

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// buildFolder runs the program for an architecture and returns the directory.
func buildFolder(t *testing.T, arch string) string {
	t.Helper()
	o := newOptions(t, arch)
	if err := build(t.Context(), o, newFakeDebian(architectures[arch]).run); err != nil {
		t.Fatal(err)
	}
	return o.out
}

// Scanners read the distribution from os-release and the packages from dpkg's database.
func TestFolderHasWhatScannersRead(t *testing.T) {
	root := buildFolder(t, "arm64")
	const hash = "19f2b4b3e5ff8bb57f2c0ed8b9c1e6d3"
	for path, want := range map[string]string{
		"etc/os-release":                         "-> ../usr/lib/os-release",
		"usr/lib/os-release":                     "ID=debian\nVERSION_ID=\"12\"\n",
		"etc/debian_version":                     "12.4\n",
		"var/lib/dpkg/info/format":               "1\n",
		"usr/share/doc/libc6/copyright":          "-> ../../../../licenses/libc6/copyright",
		"var/lib/dpkg/info/base-files.list":      "/etc/debian_version\n/etc/os-release\n/usr/lib/os-release\n/usr/share/doc/base-files/copyright\n",
		"var/lib/dpkg/info/libc6:arm64.md5sums":  "",
		"var/lib/dpkg/info/e2fsprogs.md5sums":    "",
		"var/lib/dpkg/info/base-files.md5sums":   "",
		"var/lib/dpkg/info/unused.list":          "absent",
		"var/lib/dpkg/info/libc6.list":           "absent",
		"var/lib/dpkg/info/e2fsprogs:arm64.list": "absent",
	} {
		switch want {
		case "absent":
			if _, err := os.Lstat(filepath.Join(root, path)); err == nil {
				t.Errorf("%s exists", path)
			}
		case "":
			if got := readAny(t, filepath.Join(root, path)); len(got) < len(hash) || strings.Contains(got, "  /") {
				t.Errorf("%s: %q", path, got)
			}
		default:
			if got := readAny(t, filepath.Join(root, path)); got != want {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
	}
	status := readAny(t, filepath.Join(root, "var/lib/dpkg/status"))
	if want := "Package: libc6\nStatus: install ok installed\nSource: libc6-source (1.0)\nVersion: 1.0+b1\n"; !strings.Contains(status, "\n\n"+want) {
		t.Errorf("status has no %q: %q", want, status)
	}
}

// A list has only the files of the package that are in the image.
func TestListsNameTheFilesOfTheImage(t *testing.T) {
	root := buildFolder(t, "amd64")
	listed := map[string]bool{}
	lists, err := filepath.Glob(filepath.Join(root, "var/lib/dpkg/info/*.list"))
	if err != nil || len(lists) != 3 {
		t.Fatalf("lists %q, %v, want those of base-files, e2fsprogs and libc6", lists, err)
	}
	for _, list := range lists {
		for line := range strings.Lines(readAny(t, list)) {
			name := strings.TrimSuffix(line, "\n")
			listed[name] = true
			if _, err := os.Lstat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: %v", filepath.Base(list), err)
			}
		}
	}
	for _, want := range []string{"/usr/sbin/mkfs.ext4", "/usr/sbin/mke2fs", "/usr/lib64/ld.so.2", "/etc/mke2fs.conf"} {
		if !listed[want] {
			t.Errorf("no list has %s", want)
		}
	}
	for _, ours := range []string{"/licenses/LICENSE", "/etc/passwd", "/licenses/libc6/copyright"} {
		if listed[ours] {
			t.Errorf("%s is in a package's list", ours)
		}
	}
}

// dpkg itself reads the database and finds every listed file. Debian has dpkg; on other systems hack/rootfs does not
// run.
func TestDpkgReadsTheDatabase(t *testing.T) {
	if _, err := exec.LookPath("dpkg-query"); errors.Is(err, exec.ErrNotFound) {
		t.Fatal("dpkg-query is not installed: the test reads the image's database with it, and every Debian has it")
	}
	for arch, a := range architectures {
		root := buildFolder(t, arch)
		database := "--admindir=" + filepath.Join(root, "var/lib/dpkg")
		out, err := exec.Command("dpkg-query", database, "-W", "-f",
			"${Package} ${Version} ${db:Status-Abbrev}\n").CombinedOutput()
		want := []string{"base-files 1.0+b1 ii ", "e2fsprogs 1.0+b1 ii ", "libc6 1.0+b1 ii "}
		if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: dpkg-query lists %q, %v, want %q", arch, got, err, want)
		}
		verify := exec.Command("dpkg", "--root="+root, "--verify")
		if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: dpkg --verify: %v\n%s", arch, err, out)
		}
		out, err = exec.Command("dpkg-query", database, "-L", "libc6:"+a.debian).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "/libc.so.6\n") {
			t.Errorf("%s: dpkg-query -L: %v\n%s", arch, err, out)
		}
	}
}

func TestAPackageThatCannotBeDescribedIsNamed(t *testing.T) {
	for name, output := range map[string]string{"empty": "", "of another package": "Package: other\nVersion: 1\n"} {
		o := newOptions(t, "amd64")
		debian := newFakeDebian(architectures["amd64"])
		run := func(ctx context.Context, limit time.Duration, name string, args ...string) ([]byte, error) {
			if args[0] == "--field" {
				return []byte(output), nil
			}
			return debian.run(ctx, limit, name, args...)
		}
		if err := build(t.Context(), o, run); err == nil || !strings.Contains(err.Error(), "base-files_12.4") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func newOptions(t *testing.T, arch string) options {
	t.Helper()
	dir := t.TempDir()
	license := filepath.Join(dir, "LICENSE")
	if err := os.WriteFile(license, []byte("Apache\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return options{image: "operator", arch: arch, out: filepath.Join(dir, "rootfs"), cache: filepath.Join(dir, "cache"),
		license: license}
}

func TestFolderHasProgramsLibrariesAndLicences(t *testing.T) {
	for name, arch := range architectures {
		t.Run(name, func(t *testing.T) {
			o := newOptions(t, name)
			if err := build(t.Context(), o, newFakeDebian(arch).run); err != nil {
				t.Fatal(err)
			}
			libraries := "usr/lib/" + arch.triplet
			for path, want := range map[string]string{
				"bin":                          "-> usr/bin",
				"etc/mtab":                     "-> /proc/mounts",
				"etc/selinux":                  "-> /proc/1/root/etc/selinux",
				"usr/sbin/mkfs.ext4":           "-> mke2fs",
				"usr/lib64/ld.so.2":            "-> /" + libraries + "/ld-2.36.so",
				libraries + "/libc.so.6":       "-> libc-2.36.so",
				"licenses/LICENSE":             "Apache\n",
				"licenses/e2fsprogs/copyright": "GPL-2\n",
				"licenses/libc6/copyright":     "LGPL\n",
				"etc/mke2fs.conf":              "[defaults]\n",
			} {
				if got := readAny(t, filepath.Join(o.out, path)); got != want {
					t.Errorf("%s: %q, want %q", path, got, want)
				}
			}
			checkNoSetuid(t, o.out)
			for _, absent := range []string{"usr/bin/unused", "licenses/unused"} {
				if _, err := os.Lstat(filepath.Join(o.out, absent)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v", absent, err)
				}
			}
		})
	}
}

func readAny(t *testing.T, path string) string {
	t.Helper()
	if target, err := os.Readlink(path); err == nil {
		return "-> " + target
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(content)
}

// checkNoSetuid checks that there are no setuid or setgid programs.
func checkNoSetuid(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPackageListNamesWhatFilesCameFrom(t *testing.T) {
	o := newOptions(t, "ppc64le")
	if err := build(t.Context(), o, newFakeDebian(architectures["ppc64le"]).run); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(o.out + ".packages.json")
	if err != nil {
		t.Fatal(err)
	}
	var list packageList
	if err := json.Unmarshal(content, &list); err != nil {
		t.Fatal(err)
	}
	if list.Distribution != "debian-12" || list.Architecture != "ppc64el" || len(list.Packages) != 3 {
		t.Fatalf("list %+v", list)
	}
	if p := list.Packages[1]; p.Name != "e2fsprogs" || p.Version != "1.0+b1" || p.Source != "e2fsprogs-source" ||
		len(p.SHA256) != 64 {
		t.Errorf("package %+v", p)
	}
}

func TestSecondRunReadsNothingAgainAndWritesTheSame(t *testing.T) {
	o := newOptions(t, "amd64")
	debian := newFakeDebian(architectures["amd64"])
	var lists [2][]string
	for i := range lists {
		if err := build(t.Context(), o, debian.run); err != nil {
			t.Fatal(err)
		}
		lists[i] = listFolder(t, o.out)
		// Files of an earlier run are removed.
		if err := os.WriteFile(filepath.Join(o.out, "stale"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(lists[0], lists[1]) {
		t.Errorf("first %v\nthen %v", lists[0], lists[1])
	}
	if updates, downloads := debian.count(" update"), debian.count("--download-only"); updates != 1 || downloads != 1 {
		t.Errorf("%d updates and %d downloads, want one each", updates, downloads)
	}
	o.update = true
	if err := build(t.Context(), o, debian.run); err != nil || debian.count(" update") != 2 ||
		debian.count("--download-only") != 1 {
		t.Errorf("with -update: %v, calls %v", err, debian.calls)
	}
}

func listFolder(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestDamagedPackageInTheCacheIsReadAgain(t *testing.T) {
	o := newOptions(t, "amd64")
	debian := newFakeDebian(architectures["amd64"])
	if err := build(t.Context(), o, debian.run); err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob(filepath.Join(o.cache, "amd64/archives/libc6*"))
	if err != nil || len(archives) != 1 {
		t.Fatal(archives, err)
	}
	if err := os.WriteFile(archives[0], []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := build(t.Context(), o, debian.run); err != nil || debian.count("--download-only") != 2 {
		t.Errorf("%v, calls %v", err, debian.calls)
	}
}

func TestErrorsSayWhatAndWhatToDo(t *testing.T) {
	failed := errors.New("apt-get: exit status 100")
	tests := map[string]struct {
		change func(*options, *fakeDebian)
		want   []string
	}{
		"architecture unknown": {func(o *options, _ *fakeDebian) { o.arch = "riscv64" },
			[]string{"riscv64", "amd64, arm64, ppc64le, s390x"}},
		"image unknown": {func(o *options, _ *fakeDebian) { o.image = "plugin" },
			[]string{"plugin", "must-gather, operator"}},
		"no folder": {func(o *options, _ *fakeDebian) { o.out = "" }, []string{"-out"}},
		"no license": {func(o *options, _ *fakeDebian) { o.license += "-absent" },
			[]string{"license", "LICENSE-absent"}},
		"lists cannot be read": {func(_ *options, d *fakeDebian) { d.fail = map[string]error{" update": failed} },
			[]string{"arm64", "package lists", "exit status 100", "/etc/apt"}},
		"packages unknown": {func(_ *options, d *fakeDebian) { d.fail = map[string]error{"--print-uris": failed} },
			[]string{"xfsprogs", "exit status 100", "bookworm"}},
		"no package": {func(_ *options, d *fakeDebian) { d.debs = nil }, []string{"names no package"}},
		"download fails": {func(_ *options,
			d *fakeDebian) {
			d.fail = map[string]error{"--download-only": failed}
		}, []string{"download", "-update"}},
		"download is not right": {func(_ *options, d *fakeDebian) { d.corrupt = true }, []string{".deb", "SHA-256"}},
		"unpack fails": {func(_ *options,
			d *fakeDebian) {
			d.fail = map[string]error{"--fsys-tarfile": failed}
		}, []string{"unpack", ".deb"}},
		"describe fails": {func(_ *options, d *fakeDebian) { d.fail = map[string]error{"--show": failed} },
			[]string{"describe base-files"}},
		"control file unread": {func(_ *options, d *fakeDebian) { d.fail = map[string]error{"--field": failed} },
			[]string{"control file of base-files"}},
		"folder is another's": {func(o *options, _ *fakeDebian) {
			o.out = filepath.Dir(o.license)
		}, []string{"name another folder"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := newOptions(t, "arm64")
			debian := newFakeDebian(architectures["arm64"])
			test.change(&o, debian)
			err := build(t.Context(), o, debian.run)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not have %q", err, want)
				}
			}
			if _, err := os.Stat(o.out + ".packages.json"); err == nil {
				t.Error("a list was written")
			}
		})
	}
}

// A failed update leaves nothing that the next run would consider complete.
func TestUpdateThatFailedIsTriedAgain(t *testing.T) {
	o := newOptions(t, "amd64")
	debian := newFakeDebian(architectures["amd64"])
	if err := build(t.Context(), o, debian.run); err != nil {
		t.Fatal(err)
	}
	o.update, debian.fail = true, map[string]error{" update": errors.New("hash sum mismatch")}
	if err := build(t.Context(), o, debian.run); err == nil {
		t.Fatal("no error")
	}
	o.update = false
	debian.fail = nil
	if err := build(t.Context(), o, debian.run); err != nil || debian.count(" update") != 3 {
		t.Errorf("%v, calls %v", err, debian.calls)
	}
}

package main

import (
	"context"
	"crypto/md5"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/hack/debian"
)

// Paths of dpkg's database, in which image scanners find the packages. deb(5) and dpkg-query(1) describe the format.
const (
	statusFile = "var/lib/dpkg/status"
	infoFolder = "var/lib/dpkg/info"
)

// addDatabase adds dpkg's database of the packages: the control file of each package, and the list of its files that
// are in the image.
func addDatabase(ctx context.Context, run debian.Command, image tree, debs []debian.Deb) error {
	var status strings.Builder
	info := tree{}
	for _, d := range debs {
		control, err := readControl(ctx, run, d)
		if err != nil {
			return err
		}
		status.WriteString(control.installed() + "\n")
		control.addLists(info, image, d)
	}
	maps.Copy(image, info)
	image[statusFile] = textFile(status.String())
	// With format 1, the names of packages that can be installed for several architectures include the architecture.
	image[path.Join(infoFolder, "format")] = textFile("1\n")
	return nil
}

// control is the control file of a package.
type control struct{ name, arch, multiArch, text string }

func readControl(ctx context.Context, run debian.Command, d debian.Deb) (control, error) {
	out, err := run(ctx, describeLimit, "dpkg-deb", "--field", d.Path)
	if err != nil {
		return control{}, fmt.Errorf("control file of %s: %w", filepath.Base(d.Path), err)
	}
	c := control{text: strings.TrimSpace(string(out)) + "\n"}
	for line := range strings.Lines(c.text) {
		field, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); field {
		case "Package":
			c.name = value
		case "Architecture":
			c.arch = value
		case "Multi-Arch":
			c.multiArch = value
		}
	}
	if c.name != packageOf(d.Path) || c.arch == "" {
		return c,
			fmt.Errorf("control file of %s: it is of package %q for architecture %q: remove the file, and build again",
				filepath.Base(d.Path), c.name, c.arch)
	}
	return c, nil
}

// installed returns the paragraph for the status file.
func (c control) installed() string {
	first := "Package: " + c.name + "\n"
	return first + "Status: install ok installed\n" + strings.Replace(c.text, first, "", 1)
}

// infoName returns the package's name in file names below infoFolder.
func (c control) infoName() string {
	if c.multiArch == "same" {
		return c.name + ":" + c.arch
	}
	return c.name
}

// addLists adds the names of the package's files in the image, and their MD5 sums, to info.
func (c control) addLists(info, image tree, d debian.Deb) {
	var list, sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(image)) {
		f := image[name]
		if f.deb != d.Path || strings.HasPrefix(name, licensesFolder+"/") {
			continue
		}
		fmt.Fprintf(&list, "/%s\n", name)
		if f.mode&fs.ModeSymlink == 0 {
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.content), name)
		}
	}
	base := path.Join(infoFolder, c.infoName())
	info[base+".list"] = textFile(list.String())
	info[base+".md5sums"] = textFile(sums.String())
}

// textFile returns a file that is not from a package.
func textFile(content string) file { return file{mode: 0o644, content: []byte(content)} }

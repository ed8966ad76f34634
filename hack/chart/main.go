// Program chart writes the Helm chart of the operator from config/ and monitoring/, and the page that documents its
// values. A release of the chart consists of the objects that `make deploy` applies, except the namespace.
//
// It reads only files of the repository, and nothing from a cluster or a registry.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// options describe the release.
type options struct {
	repository, out, reference string
	version, image             string
	maintainer, mail, url      string
}

func main() {
	var o options
	flag.StringVar(&o.repository, "repository", ".", "directory of the repository")
	flag.StringVar(&o.out, "out", "charts/lvms-operator", "directory for the chart; existing content is replaced")
	flag.StringVar(&o.reference, "reference", "docs/reference/helm.md", "file for the documentation of the values")
	flag.StringVar(&o.version, "version", "", "version of the release, X.Y.Z")
	flag.StringVar(&o.image, "image", "", "image of the operator and the node agent; use a digest for a release")
	flag.StringVar(&o.maintainer, "maintainer", "LVM Storage", "name of the maintainer")
	flag.StringVar(&o.mail, "mail", "lvm-storage@users.noreply.github.com", "email address of the maintainer")
	flag.StringVar(&o.url, "url", "https://github.com/lvm-storage/lvm-operator", "URL of the project")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if !semantic.MatchString(o.version) {
		return fmt.Errorf("-version %q is not a version X.Y.Z", o.version)
	}
	defaults, err := parseImage(o.image, o.version)
	if err != nil {
		return err
	}
	s, err := read(o.repository)
	if err != nil {
		return err
	}
	values, err := valuesOf(s, defaults)
	if err != nil {
		return err
	}
	files, err := filesOf(o, s, values)
	if err != nil {
		return err
	}
	page, err := referencePage(values)
	if err != nil {
		return err
	}
	return errors.Join(write(o.out, files), writeFile(o.reference, page))
}

// filesOf returns the content of the files of the chart by their paths.
func filesOf(o options, s *source, values []value) (map[string]string, error) {
	files, err := templates(s)
	if err != nil {
		return nil, err
	}
	for name, render := range map[string]func([]value) (string, error){
		"values.yaml": valuesFile, "values.schema.json": schemaFile,
	} {
		if files[name], err = render(values); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if files["Chart.yaml"], err = chartFile(o); err != nil {
		return nil, err
	}
	return files, addStatic(files)
}

// write replaces the chart.
func write(folder string, files map[string]string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for name, content := range files {
		if err := writeFile(filepath.Join(folder, name), content); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path, content string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644))
}

// semantic matches the versions of releases and release candidates.
var semantic = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// image is the default of the value with this name. Without a tag and a digest, the tag is the version of the chart.
type image struct{ repository, tag, digest string }

// parseImage splits the name of an image.
func parseImage(name, version string) (image, error) {
	if repository, digest, found := strings.Cut(name, "@"); found {
		return image{repository: repository, digest: digest}, nil
	}
	at := strings.LastIndex(name, ":")
	if at <= strings.LastIndex(name, "/") {
		return image{}, fmt.Errorf("-image %q has neither a tag nor a digest", name)
	}
	i := image{repository: name[:at], tag: name[at+1:]}
	if i.tag == "v"+version {
		i.tag = ""
	}
	return i, nil
}

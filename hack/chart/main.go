// Program chart completes the Helm chart of the operator, whose templates and values are in charts/lvms-operator. It
// sets the version and the image of a release, and adds what controller-gen writes into config/: the CRDs, the RBAC and
// the webhook. From the chart, it renders the other manifests in config/, and the page that documents the values.
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

// folder is the directory of the chart in the repository.
const folder = "charts/lvms-operator"

// options describe the release.
type options struct {
	repository, out, config, reference string
	version, image                     string
}

func main() {
	var o options
	flag.StringVar(&o.repository, "repository", ".", "directory of the repository")
	flag.StringVar(&o.out, "out", folder, "directory for the chart; existing content is replaced")
	flag.StringVar(&o.config, "config", "config", "directory for the manifests")
	flag.StringVar(&o.reference, "reference", "docs/reference/helm.md", "file for the documentation of the values")
	flag.StringVar(&o.version, "version", "", "version of the release, X.Y.Z")
	flag.StringVar(&o.image, "image", "", "image of the operator and the node agent; use a digest for a release")
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
	released, err := parseImage(o.image, o.version)
	if err != nil {
		return err
	}
	files, err := read(o.repository)
	if err != nil {
		return err
	}
	if err := files.release(o.version, released); err != nil {
		return err
	}
	values, err := valuesOf(files[valuesFile])
	if err != nil {
		return fmt.Errorf("%s: %w", valuesFile, err)
	}
	if files[schemaFile], err = described(files[schemaFile], values); err != nil {
		return fmt.Errorf("%s: %w", schemaFile, err)
	}
	manifests, err := files.manifests()
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(o.out), write(o.out, files), write(o.config, manifests),
		writeFile(o.reference, referencePage(values)))
}

func write(folder string, files map[string]string) error {
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

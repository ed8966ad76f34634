// Program bundle writes the OLM bundle of the operator from config/: the CSV, its other objects, and the metadata of
// the bundle.
//
// It reads only files of the repository, and nothing from a cluster or a registry.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"
)

// options describe the release.
type options struct {
	repository, out       string
	version, image        string
	mustGather            string
	skipRange, created    string
	fipsModule            string
	channels, defaultOf   string
	maintainer, mail, url string
}

// Values of GOFIPS140 with which the programs in the image were built.
const (
	moduleOff       = "off"
	moduleCertified = "certified"
)

func main() {
	var o options
	flag.StringVar(&o.repository, "repository", ".", "directory of the repository")
	flag.StringVar(&o.out, "out", "bundle", "directory for the bundle; existing content is replaced")
	flag.StringVar(&o.version, "version", "", "version of the release, X.Y.Z")
	flag.StringVar(&o.image, "image", "", "image of the operator and the node agent; use a digest for a release")
	flag.StringVar(&o.mustGather, "must-gather-image", "",
		"image of must-gather; use a digest for a release; empty for none")
	flag.StringVar(&o.skipRange, "skip-range", "",
		"range of versions that this one can replace directly; defaults to all earlier ones of this and the "+
			"previous minor version")
	flag.StringVar(&o.fipsModule, "fips-module", moduleOff,
		"version of the Go Cryptographic Module in the image: certified, as in the images of make images, or off")
	flag.StringVar(&o.created, "created", "", "time of the release, RFC 3339; empty for none")
	flag.StringVar(&o.channels, "channels", "", "comma-separated channels; defaults to stable-X.Y and candidate")
	flag.StringVar(&o.maintainer, "maintainer", "LVM Storage", "name of the maintainer")
	flag.StringVar(&o.mail, "mail", "lvm-storage@users.noreply.github.com", "email address of the maintainer")
	flag.StringVar(&o.url, "url", "https://github.com/lvm-storage/lvm-operator", "URL of the project")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	version, err := semver.Parse(o.version)
	if err != nil {
		return fmt.Errorf("-version %q: %w", o.version, err)
	}
	if o.image == "" {
		return errors.New("-image is required: specify the image of the operator")
	}
	if o.fipsModule != moduleOff && o.fipsModule != moduleCertified {
		return fmt.Errorf("-fips-module %q: must be %s or %s", o.fipsModule, moduleCertified, moduleOff)
	}
	stable := fmt.Sprintf("stable-%d.%d", version.Major, version.Minor)
	if o.channels == "" {
		o.channels = stable + ",candidate"
	}
	o.defaultOf = strings.Split(o.channels, ",")[0]
	if o.skipRange == "" {
		o.skipRange = fmt.Sprintf(">=%d.%d.0 <%s", version.Major, max(version.Minor, 1)-1, version)
	}
	source, err := read(o.repository)
	if err != nil {
		return err
	}
	csv, err := newCSV(o, version, source)
	if err != nil {
		return err
	}
	return write(o, csv, source)
}

// write replaces the bundle.
func write(o options, csv any, s *source) error {
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	files := map[string]any{
		"manifests/lvms-operator.clusterserviceversion.yaml": csv,
		"metadata/annotations.yaml":                          map[string]any{"annotations": annotations(o)},
		"tests/scorecard/config.yaml":                        scorecard(),
	}
	for _, object := range slices.Concat(s.crds, s.services()) {
		files[fmt.Sprintf("manifests/%s_%s.yaml", object.GetName(), strings.ToLower(object.GetKind()))] = object.Object
	}
	for name, content := range files {
		data, err := yaml.Marshal(content)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		path := filepath.Join(o.out, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// annotations returns the annotations of the bundle, which are also the labels of its image.
func annotations(o options) map[string]string {
	const bundle = "operators.operatorframework.io.bundle."
	return map[string]string{
		bundle + "mediatype.v1":                            "registry+v1",
		bundle + "manifests.v1":                            "manifests/",
		bundle + "metadata.v1":                             "metadata/",
		bundle + "package.v1":                              packageName,
		bundle + "channels.v1":                             o.channels,
		bundle + "channel.default.v1":                      o.defaultOf,
		"operators.operatorframework.io.test.mediatype.v1": "scorecard+v1",
		"operators.operatorframework.io.test.config.v1":    "tests/scorecard/",
		"com.redhat.openshift.versions":                    "v4.17",
	}
}

// scorecard returns the list of tests that operator-sdk runs on a bundle.
func scorecard() map[string]any {
	test := func(suite, name string) map[string]any {
		return map[string]any{
			"entrypoint": []string{"scorecard-test", name},
			"image":      "quay.io/operator-framework/scorecard-test:v1.41.1",
			"labels":     map[string]string{"suite": suite, "test": name + "-test"},
			"storage":    map[string]any{"spec": map[string]any{"mountPath": map[string]any{}}},
		}
	}
	tests := []any{test("basic", "basic-check-spec")}
	for _, name := range []string{"olm-bundle-validation", "olm-crds-have-validation", "olm-crds-have-resources",
		"olm-spec-descriptors", "olm-status-descriptors"} {
		tests = append(tests, test("olm", name))
	}
	return map[string]any{
		"apiVersion": "scorecard.operatorframework.io/v1alpha3", "kind": "Configuration",
		"metadata": map[string]string{"name": "config"},
		"stages":   []any{map[string]any{"parallel": true, "tests": tests}},
		"storage":  map[string]any{"spec": map[string]any{"mountPath": map[string]any{}}},
	}
}

// Program catalog writes the file-based catalog of the operator
// (https://olm.operatorframework.io/docs/reference/file-based-catalogs/). It adds a bundle to the existing ones, and
// builds the channels from all versions. opm renders and validates; no registry is accessed.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"sigs.k8s.io/yaml"
)

// opmLimit is the timeout of one call of opm, which reads a few files.
const opmLimit = 2 * time.Minute

type options struct {
	opm, bundle, image, out string
}

func main() {
	var o options
	flag.StringVar(&o.opm, "opm", "opm", "path of the opm program")
	flag.StringVar(&o.bundle, "bundle", "bundle",
		"folder with the bundle to add; one of its version that is there is replaced")
	flag.StringVar(&o.image, "image", "", "image of the bundle; use a digest for a release")
	flag.StringVar(&o.out, "out", "catalog", "directory of the catalog")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "catalog:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.image == "" {
		return errors.New("-image is required: specify the image of the bundle")
	}
	csv, err := readCSV(o.bundle)
	if err != nil {
		return err
	}
	rendered, err := opm(ctx, o.opm, "render", o.bundle, "--alpha-image-ref-template", o.image, "--migrate-level",
		"bundle-object-to-csv-metadata", "--output", "yaml")
	if err != nil {
		return err
	}
	folder := filepath.Join(o.out, packageName)
	bundles := filepath.Join(folder, "bundles")
	if err := os.MkdirAll(bundles, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(bundles, csv.Name+".yaml"), rendered, 0o644); err != nil {
		return err
	}
	all, err := readBundles(bundles)
	if err != nil {
		return err
	}
	channels, err := channelsOf(all)
	if err != nil {
		return err
	}
	if err := writeYAML(filepath.Join(folder, "package.yaml"), packageOf(channels, csv)); err != nil {
		return err
	}
	if err := writeYAML(filepath.Join(folder, "channels.yaml"), channels...); err != nil {
		return err
	}
	_, err = opm(ctx, o.opm, "validate", o.out)
	return err
}

func opm(ctx context.Context, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, opmLimit)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("opm %s: %w\n%s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// readCSV reads the ClusterServiceVersion of a bundle.
func readCSV(bundle string) (*v1alpha1.ClusterServiceVersion, error) {
	found, err := filepath.Glob(filepath.Join(bundle, "manifests", "*.clusterserviceversion.yaml"))
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%s/manifests has %d files *.clusterserviceversion.yaml, wanted one: run make bundle",
			bundle, len(found))
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		return nil, err
	}
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := yaml.UnmarshalStrict(data, csv); err != nil {
		return nil, fmt.Errorf("%s: %w", found[0], err)
	}
	return csv, nil
}

// readBundles reads the bundles of a catalog, which are in the format of opm.
func readBundles(folder string) ([]bundle, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []bundle
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		b, err := parseBundle(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, b)
	}
	return all, nil
}

func writeYAML[T any](path string, documents ...T) error {
	var text bytes.Buffer
	for _, document := range documents {
		data, err := yaml.Marshal(document)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		text.WriteString("---\n")
		text.Write(data)
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// Command image writes an OCI image archive without a container engine: a layer with the files of a directory, one with
// the program, and one with the server of the console's plugin. It also writes an SBOM (SPDX) and the SLSA provenance.
// The build is reproducible: files are sorted and have no time, and no name of the machine.
//
// With -index it writes one archive from those of several architectures.
//
// Syft and bom cannot write the SBOM: the npm packages that the plugin was built from, and the digests of Debian's
// packages, are not in the image. crane cannot write the index: it appends only images of a registry to one.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// maxSize is the size limit of the image without -files, in bytes, so that large additions are noticed.
const maxSize = 60_000_000

// defaultUser is the user and group of an image.
const defaultUser = "65532:65532"

type options struct {
	image, rootfs, packages, binary, console, parts, out, arch, version, release, title, revision string
	// files and user are for images of tests.
	files, user string
	created     time.Time
}

func main() {
	var o options
	flag.StringVar(&o.image, "image", operatorImage,
		"image to build: "+strings.Join(slices.Sorted(maps.Keys(products)), ", "))
	flag.StringVar(&o.rootfs, "rootfs", "", "directory with the files of the first layer")
	flag.StringVar(&o.packages, "packages", "", "list of the Debian packages in -rootfs, written by hack/rootfs")
	flag.StringVar(&o.binary, "binary", "", "program for the entry point")
	flag.StringVar(&o.console, "console", "",
		"server program of the console plugin, for /console-plugin; empty for none")
	flag.StringVar(&o.parts, "parts", "",
		"directory with the list of the npm packages in -console and their licenses, written by hack/console")
	flag.StringVar(&o.files, "files", "", "directory with more files for an image that only a test uses: the list of "+
		"components does not have them, and the image may be larger than others")
	flag.StringVar(&o.user, "user", "", "user and group of the image; defaults to "+defaultUser)
	flag.StringVar(&o.out, "out", "", "archive to write (OCI image layout in a tar file)")
	flag.StringVar(&o.arch, "arch", "amd64", "architecture of the files")
	flag.StringVar(&o.version, "version", "", "version label")
	flag.StringVar(&o.release, "release", "1", "release label: the number of the build of this version")
	flag.StringVar(&o.title, "title", "", "title label; defaults to lvms- and the name of the image")
	flag.StringVar(&o.revision, "revision", "",
		"commit that the program was built from; empty if it is unknown or if there are uncommitted changes")
	index := flag.Bool("index", false,
		"write -out as an index of the archives in the arguments, one for each architecture")
	flag.Parse()
	if err := runCommandLine(o, *index, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func runCommandLine(o options, index bool, archives []string) error {
	if index {
		return runIndex(o.out, archives)
	}
	var err error
	if o.created, err = creationTime(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	return run(o)
}

// creationTime returns the time in the image. It is not the current time, because that would make builds differ.
func creationTime(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%q: give it as seconds since 1970: %w", epoch, err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func run(o options) error {
	if _, known := products[o.image]; !known {
		return fmt.Errorf("-image %q: there are %s", o.image, strings.Join(slices.Sorted(maps.Keys(products)), ", "))
	}
	if o.title == "" {
		o.title = "lvms-" + o.image
	}
	if o.binary == "" || !strings.HasSuffix(o.out, ".tar") {
		return errors.New("-binary and -out are needed, and the archive's name must end with .tar")
	}
	parts, err := readComponents(o)
	if err != nil {
		return err
	}
	image, err := build(o)
	if err != nil {
		return err
	}
	sizes, err := checkSize(o, image)
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	if err := writeDocuments(o, digest, parts); err != nil {
		return err
	}
	if err := writeArchive(o.out, appendImage(image)); err != nil {
		return fmt.Errorf("write %s: %w", o.out, err)
	}
	fmt.Printf("%s %s, %s\n", o.out, digest, sizes)
	return nil
}

// writeDocuments writes the SBOM and the provenance of the image.
func writeDocuments(o options, digest v1.Hash, parts components) error {
	base := strings.TrimSuffix(o.out, ".tar")
	if err := writeJSON(base+".spdx.json", newSBOM(o, digest, parts)); err != nil {
		return err
	}
	statement, err := newProvenance(o, digest, parts)
	if err != nil {
		return err
	}
	return writeJSON(base+".provenance.json", statement)
}

// checkSize describes the compressed size with its parts. It returns an error if the image is too large.
func checkSize(o options, image v1.Image) (string, error) {
	layers, err := image.Layers()
	if err != nil {
		return "", err
	}
	var sum int64
	var parts []string
	names := layerNames(o)
	for i, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			return "", err
		}
		sum += size
		parts = append(parts, fmt.Sprintf("%s %.1f MB", names[i], float64(size)/1e6))
	}
	text := fmt.Sprintf("%.1f MB compressed (%s)", float64(sum)/1e6, strings.Join(parts, ", "))
	if sum > maxSize && o.files == "" {
		return "",
			fmt.Errorf("%s for %s: %s is more than %d MB: find out what grew, or raise maxSize in hack/image/main.go",
				o.title, o.arch, text, maxSize/1_000_000)
	}
	return text, nil
}

// layerNames returns what the layers of buildLayers contain.
func layerNames(o options) []string {
	var names []string
	if o.rootfs != "" {
		names = append(names, "file system")
	}
	names = append(names, "program")
	if o.files != "" {
		names = append(names, "more files")
	}
	return append(names, "console plugin")
}

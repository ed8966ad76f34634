package olm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	// installPage is the page with the manifest for OLM v1.
	installPage = "docs/how-to/install.md"
	// documentedCatalog is the catalog image in that manifest.
	documentedCatalog = "registry.example.com/lvms-catalog:latest"
)

var (
	sectionV1 = regexp.MustCompile(`(?s)\n### With OLM v1\n(.*?)\n##? `)
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

// Manifest is a list of objects to apply.
type Manifest []*unstructured.Unstructured

// DocumentedV1 returns the objects in the documentation for an installation with OLM v1, with a catalog image.
func DocumentedV1(catalog string) (Manifest, error) {
	root, err := lab.Root()
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(root, installPage))
	if err != nil {
		return nil, err
	}
	section := sectionV1.FindSubmatch(page)
	if section == nil {
		return nil, fmt.Errorf("%s has no section about OLM v1", installPage)
	}
	block := yamlBlock.FindSubmatch(section[1])
	if block == nil || bytes.Count(block[1], []byte(documentedCatalog)) != 1 {
		return nil, fmt.Errorf("%s: no manifest for OLM v1 with the catalog %s", installPage, documentedCatalog)
	}
	return decode(bytes.ReplaceAll(block[1], []byte(documentedCatalog), []byte(catalog)))
}

// DocumentedCommand returns the only command line of a documentation page with a given beginning.
func DocumentedCommand(page, beginning string) (string, error) {
	root, err := lab.Root()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^    (`+regexp.QuoteMeta(beginning)+`.*)$`).FindAllSubmatch(text, -1)
	if len(found) != 1 {
		return "", fmt.Errorf("%s has %d commands %q, want one", page, len(found), beginning)
	}
	return string(found[0][1]), nil
}

// decode reads the objects of a YAML stream.
func decode(stream []byte) (Manifest, error) {
	var all Manifest
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(stream), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", installPage, err)
		}
		all = append(all, object)
	}
}

// Without returns the objects that are not of some kinds.
func (m Manifest) Without(kinds ...string) Manifest {
	unwanted := func(o *unstructured.Unstructured) bool { return slices.Contains(kinds, o.GetKind()) }
	return slices.DeleteFunc(slices.Clone(m), unwanted)
}

// V1 is a lab's cluster with OLM v1.
type V1 struct{ Cluster }

// Apply applies a manifest.
func (c V1) Apply(ctx context.Context, m Manifest) error {
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": m})
	if err != nil {
		return err
	}
	return c.ApplyManifest(ctx, string(data))
}

// WaitServing waits until the documented ClusterCatalog serves the content of an image, which is given with its digest.
func (c V1) WaitServing(ctx context.Context, image string) error {
	return story.Wait(ctx, "ClusterCatalog "+Source+" serves "+image, func(ctx context.Context) (bool, string, error) {
		catalog, err := c.readV1(ctx, "ClusterCatalog", Source)
		if err != nil {
			return false, "", err
		}
		resolved, _, _ := unstructured.NestedString(catalog.Object, "status", "resolvedSource", "image", "ref")
		seen := conditionsOf(catalog)
		return resolved == image && strings.Contains(seen, "Serving=True"), resolved + "; " + seen, nil
	})
}

// WaitInstalled waits until OLM v1 has installed a version and is idle.
func (c V1) WaitInstalled(ctx context.Context, version string) error {
	what := "ClusterExtension " + PackageName + " has version " + version
	return story.Wait(ctx, what, func(ctx context.Context) (bool, string, error) {
		extension, err := c.readV1(ctx, "ClusterExtension", PackageName)
		if err != nil {
			return false, "", err
		}
		found, _, _ := unstructured.NestedString(extension.Object, "status", "install", "bundle", "version")
		seen := conditionsOf(extension)
		installed := strings.Contains(seen, "Installed=True") && strings.Contains(seen, "Progressing=True Succeeded")
		return installed && found == version, found + "; " + seen, nil
	})
}

// Says returns the conditions of the ClusterExtension.
func (c V1) Says(ctx context.Context) (string, error) {
	extension, err := c.readV1(ctx, "ClusterExtension", PackageName)
	if err != nil {
		return "", err
	}
	return conditionsOf(extension), nil
}

// Extension returns the spec of the ClusterExtension, to apply it again.
func (c V1) Extension(ctx context.Context) (*unstructured.Unstructured, error) {
	found, err := c.readV1(ctx, "ClusterExtension", PackageName)
	if err != nil {
		return nil, err
	}
	asked := &unstructured.Unstructured{Object: map[string]any{"spec": found.Object["spec"]}}
	asked.SetGroupVersionKind(found.GroupVersionKind())
	asked.SetName(found.GetName())
	return asked, nil
}

func (c V1) readV1(ctx context.Context, kind, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "olm.operatorframework.io", Version: "v1", Kind: kind})
	return object, c.Get(ctx, client.ObjectKey{Name: name}, object)
}

// conditionsOf returns the conditions of an object as TYPE=STATUS REASON: MESSAGE.
func conditionsOf(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var all []string
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok {
			all = append(all, fmt.Sprintf("%v=%v %v: %v", fields["type"], fields["status"], fields["reason"],
				fields["message"]))
		}
	}
	return strings.Join(all, "; ")
}

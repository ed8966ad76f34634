// Package upstream has the objects that upstream LVMS leaves in a cluster that is taken over.
package upstream

import (
	"bytes"
	_ "embed" // for the objects
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed objects.yaml
var objects string

// CRDs has upstream's CRDs as a manifest.
//
//go:embed crds.yaml
var CRDs string

// FieldManager is the field manager of upstream.
const FieldManager = "lvms"

// Options are the values that differ between clusters.
type Options struct{ Namespace, Node, Disk, Image string }

// Objects returns the objects in an order in which they can be created.
func Objects(o Options) ([]*unstructured.Unstructured, error) {
	text := strings.NewReplacer("NAMESPACE\n", o.Namespace+"\n", ": NAMESPACE", ": "+o.Namespace, "NODE\n", o.Node+"\n",
		"/NODE", "/"+o.Node, "DISK", o.Disk, "image: IMAGE", "image: "+o.Image).Replace(objects)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	var all []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("object %d of upstream: %w", len(all), err)
		}
		all = append(all, object)
	}
}

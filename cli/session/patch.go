package session

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Operation is an operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// PatchWith applies a JSON patch to an object. The object in memory stays as it is.
func PatchWith(ctx context.Context, c client.Client, object client.Object, patch []Operation) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	copied, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("a copy of %T is not an object", object)
	}
	return c.Patch(ctx, copied, client.RawPatch(types.JSONPatchType, data))
}

// Manifest returns an object as YAML, as it is sent to the API server.
func Manifest(object client.Object) (string, error) {
	gvk, err := gvkOf(object)
	if err != nil {
		return "", err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", err
	}
	fields["apiVersion"], fields["kind"] = gvk.GroupVersion().String(), gvk.Kind
	delete(fields, "status")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	data, err := yaml.Marshal(fields)
	return string(data), err
}

func gvkOf(object client.Object) (schema.GroupVersionKind, error) {
	kinds, _, err := Scheme.ObjectKinds(object)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return kinds[0], nil
}

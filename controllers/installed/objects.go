package installed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Objects returns the objects of a YAML manifest in the namespace of the operator's Deployment, with the labels of the
// Deployment and an owner reference to it, so that they are deleted with the operator.
func Objects(manifest []byte, operator *appsv1.Deployment) ([]*unstructured.Unstructured, error) {
	owner := metav1.OwnerReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: operator.Name, UID: operator.UID,
	}
	var all []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), len(manifest)); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode object %d of the manifest: %w", len(all)+1, err)
		}
		object.SetNamespace(operator.Namespace)
		object.SetLabels(Labels(operator))
		object.SetOwnerReferences([]metav1.OwnerReference{owner})
		all = append(all, object)
	}
}

// EnqueueOne returns an event handler for controllers that reconcile all their objects at once: each event adds the
// same, empty request.
func EnqueueOne() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
}

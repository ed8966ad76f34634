package main

import (
	"context"
	"encoding/base64"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const injectBundle = "inject-cabundle"

// injectedKind is a kind whose objects can request the bundle of the authority.
type injectedKind struct {
	schema.GroupVersionKind
	// set sets the bundle in an object.
	set func(object map[string]any, bundle []byte) error
}

var injectedKinds = []injectedKind{
	{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, setData},
	{schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1",
		Kind: "ValidatingWebhookConfiguration"}, setWebhooks},
	{schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1",
		Kind: "MutatingWebhookConfiguration"}, setWebhooks},
	{schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"}, setConversion},
	{schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}, setSpec},
}

// setData replaces the data of a ConfigMap with the bundle, like the service CA.
func setData(object map[string]any, bundle []byte) error {
	object["data"] = map[string]any{"service-ca.crt": string(bundle)}
	return nil
}

func setWebhooks(object map[string]any, bundle []byte) error {
	webhooks, found, err := unstructured.NestedSlice(object, "webhooks")
	if err != nil || !found {
		return err
	}
	for _, webhook := range webhooks {
		if fields, ok := webhook.(map[string]any); ok {
			if err := unstructured.SetNestedField(fields, encoded(bundle), "clientConfig", "caBundle"); err != nil {
				return err
			}
		}
	}
	return unstructured.SetNestedSlice(object, webhooks, "webhooks")
}

// setConversion does not change a CustomResourceDefinition without a conversion webhook.
func setConversion(object map[string]any, bundle []byte) error {
	strategy, _, err := unstructured.NestedString(object, "spec", "conversion", "strategy")
	if err != nil || strategy != "Webhook" {
		return err
	}
	return unstructured.SetNestedField(object, encoded(bundle), "spec", "conversion", "webhook",
		"clientConfig", "caBundle")
}

func setSpec(object map[string]any, bundle []byte) error {
	return unstructured.SetNestedField(object, encoded(bundle), "spec", "caBundle")
}

func encoded(bundle []byte) string { return base64.StdEncoding.EncodeToString(bundle) }

// injector sets the bundle in the objects of a kind that request it.
type injector struct {
	client client.Client
	bundle []byte
	kind   injectedKind
}

func (i *injector) addTo(manager ctrl.Manager) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(i.kind.GroupVersionKind)
	asked := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return strings.EqualFold(annotation(object, injectBundle), "true")
	})
	return ctrl.NewControllerManagedBy(manager).Named("inject-"+strings.ToLower(i.kind.Kind)).
		For(object, builder.OnlyMetadata, builder.WithPredicates(asked)).Complete(i)
}

// Reconcile sets the bundle in an object with a different one or none.
func (i *injector) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(i.kind.GroupVersionKind)
	// Reads from the API server, because only the metadata of these kinds are cached.
	if err := i.client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := object.DeepCopy()
	if err := i.kind.set(object.Object, i.bundle); err != nil {
		return ctrl.Result{}, err
	}
	if reflect.DeepEqual(before.Object, object.Object) {
		return ctrl.Result{}, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return ctrl.Result{}, i.client.Patch(ctx, object, patch)
}

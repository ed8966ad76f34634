package main

import (
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	// namespace is the namespace in the manifests. In the chart, it is that of the release.
	namespace = "openshift-lvm-storage"
	// operator is the name of the operator's Deployment.
	operator = "lvms-operator"
)

// source has the objects of the manifests, in the order of Kustomize.
type source struct {
	// plain are those of config/default, and openshift those of config/openshift, which contain the plain ones.
	plain, openshift []*unstructured.Unstructured
	// prometheus are those of monitoring/prometheus-operator.
	prometheus []*unstructured.Unstructured
	// scheduler are those of config/scheduler, and schedulerHTTPS those of config/scheduler-https, which are the same
	// objects.
	scheduler, schedulerHTTPS []*unstructured.Unstructured
	// podWebhook are those of config/pod-webhook.
	podWebhook []*unstructured.Unstructured
}

// read builds the kustomizations of a repository.
func read(repository string) (*source, error) {
	s := &source{}
	for _, folder := range []struct {
		path string
		into *[]*unstructured.Unstructured
	}{
		{"config/default", &s.plain}, {"config/openshift", &s.openshift},
		{"monitoring/prometheus-operator", &s.prometheus},
		{"config/scheduler", &s.scheduler}, {"config/scheduler-https", &s.schedulerHTTPS},
		{"config/pod-webhook", &s.podWebhook},
	} {
		objects, err := build(filepath.Join(repository, folder.path))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", folder.path, err)
		}
		*folder.into = objects
	}
	return s, nil
}

// build returns the objects of a kustomization.
func build(folder string) ([]*unstructured.Unstructured, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, resource := range resources.Resources() {
		data, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", resource.CurId(), err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(data); err != nil {
			return nil, fmt.Errorf("%s: %w", resource.CurId(), err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// find returns the object with the kind, namespace and name of another one, or nil.
func find(objects []*unstructured.Unstructured, like *unstructured.Unstructured) *unstructured.Unstructured {
	for _, object := range objects {
		if object.GetKind() == like.GetKind() && object.GetNamespace() == like.GetNamespace() &&
			object.GetName() == like.GetName() {
			return object
		}
	}
	return nil
}

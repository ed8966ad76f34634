package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// source has the input files of the repository.
type source struct {
	crds, rbac, manager, webhooks []*unstructured.Unstructured
	// samples are the LVMClusters of config/samples, the recommended one first.
	samples []*unstructured.Unstructured
}

// read reads config/.
func read(repository string) (*source, error) {
	s := &source{}
	for folder, into := range map[string]*[]*unstructured.Unstructured{
		"config/crd": &s.crds, "config/rbac": &s.rbac, "config/manager": &s.manager, "config/webhook": &s.webhooks,
		"config/samples": &s.samples,
	} {
		files, err := filepath.Glob(filepath.Join(repository, folder, "*.yaml"))
		if err != nil || len(files) == 0 {
			return nil, errors.Join(err, fmt.Errorf("%s has no files", folder))
		}
		slices.Sort(files)
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			objects, err := readFile(file)
			if err != nil {
				return nil, err
			}
			*into = append(*into, objects...)
		}
	}
	return s, nil
}

func readFile(file string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, object)
	}
}

// services returns the Services without the webhook's, which OLM creates itself.
func (s *source) services() []*unstructured.Unstructured {
	var services []*unstructured.Unstructured
	for _, object := range s.manager {
		if object.GetKind() == "Service" && !strings.Contains(object.GetName(), "webhook") {
			service := object.DeepCopy()
			service.SetNamespace("") // OLM sets that of the operator.
			services = append(services, service)
		}
	}
	return services
}

// discovery returns the sample LVMCluster without device classes.
func (s *source) discovery() (*unstructured.Unstructured, error) {
	for _, sample := range s.samples {
		if classes, _, err := unstructured.NestedSlice(sample.Object, "spec", "storage", "deviceClasses"); err != nil {
			return nil, fmt.Errorf("sample %s: %w", sample.GetName(), err)
		} else if len(classes) == 0 {
			return sample, nil
		}
	}
	return nil, errors.New("config/samples has no LVMCluster without device classes")
}

// find returns the object with a kind and name, converted to its type.
func find[T any](objects []*unstructured.Unstructured, kind, name string) (*T, error) {
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			typed := new(T)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed,
				true); err != nil {
				return nil, fmt.Errorf("%s %s: %w", kind, name, err)
			}
			return typed, nil
		}
	}
	return nil, fmt.Errorf("config has no %s %s", kind, name)
}

package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"

// addons installs the requested components other than Kubernetes itself.
func (s *supervisor) addons(ctx context.Context) error {
	if len(s.CRDs) > 0 {
		if err := s.step(ctx, "custom resource definitions", s.applyCRDs); err != nil {
			return err
		}
	}
	if s.Snapshots {
		if err := s.step(ctx, "snapshot controller", s.snapshotController); err != nil {
			return err
		}
	}
	if s.OLM {
		if err := s.step(ctx, "Operator Lifecycle Manager", s.lifecycleManager); err != nil {
			return err
		}
	}
	if err := s.components(ctx); err != nil {
		return err
	}
	if s.OpenShift {
		return s.step(ctx, "OpenShift's objects", s.openShift)
	}
	return nil
}

func (s *supervisor) applyCRDs(ctx context.Context) error {
	var names []string
	for _, file := range s.CRDs {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, doc := range bytes.Split(data, []byte("\n---")) {
			var meta struct {
				Kind     string `json:"kind"`
				Metadata struct {
					Name string `json:"name"`
				} `json:"metadata"`
			}
			if err := yaml.Unmarshal(doc, &meta); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if meta.Kind != "CustomResourceDefinition" {
				continue
			}
			if err := s.kube.apply(ctx, crdPath+url.PathEscape(meta.Metadata.Name), doc); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			names = append(names, meta.Metadata.Name)
		}
	}
	return poll(ctx, addonLimit, 100*time.Millisecond, func(ctx context.Context) error {
		for _, name := range names {
			var crd object
			if err := s.kube.get(ctx, crdPath+name, &crd); err != nil {
				return err
			}
			if !crd.is("Established") {
				return fmt.Errorf("%s is not established: %v", name, crd.Status.Conditions)
			}
		}
		return nil
	})
}

// snapshotController runs next to the control plane, because it needs no node.
func (s *supervisor) snapshotController(context.Context) error {
	_, err := s.essential("snapshot-controller", "snapshot-controller", nil,
		"--kubeconfig", cert("snapshot-controller.kubeconfig"), "--leader-election=false")
	return err
}

// openShift creates the two objects with which an operator detects OpenShift and the topology of the cluster.
func (s *supervisor) openShift(ctx context.Context) error {
	topology := "HighlyAvailable"
	if len(s.Nodes) == 1 {
		topology = "SingleReplica"
	}
	const base = "/apis/config.openshift.io/v1/"
	infrastructure := `{"apiVersion":"config.openshift.io/v1","kind":"Infrastructure","metadata":{"name":"cluster"},"spec":{"platformSpec":{"type":"None"}}}`
	apiServer := `{"apiVersion":"config.openshift.io/v1","kind":"APIServer","metadata":{"name":"cluster"},"spec":{}}`
	if err := s.kube.apply(ctx, base+"infrastructures/cluster", []byte(infrastructure)); err != nil {
		return err
	}
	status := fmt.Sprintf(
		`{"status":{"platform":"None","platformStatus":{"type":"None"},"infrastructureName":%q,"controlPlaneTopology":%q,`+
			`"infrastructureTopology":%q,"apiServerURL":"https://api.lab:6443","apiServerInternalURI":"https://api-int.lab:6443","etcdDiscoveryDomain":"","cpuPartitioning":"None"}}`, s.Name, topology, topology)
	if err := s.kube.merge(ctx, base+"infrastructures/cluster/status", status); err != nil {
		return err
	}
	return s.kube.apply(ctx, base+"apiservers/cluster", []byte(apiServer))
}

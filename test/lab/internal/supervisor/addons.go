package supervisor

import (
	"bytes"
	"context"
	"crypto/sha256"
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
		"--kubeconfig", cert("snapshot-controller.kubeconfig"), "--leader-election=false",
		"--feature-gates=CSIVolumeGroupSnapshot=true")
	return err
}

// openShift creates the objects with which an operator detects OpenShift, the identity and the topology of the cluster.
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
	if err := s.kube.apply(ctx, base+"apiservers/cluster", []byte(apiServer)); err != nil {
		return err
	}
	version := fmt.Sprintf(`{"apiVersion":"config.openshift.io/v1","kind":"ClusterVersion","metadata":{"name":"version"},`+
		`"spec":{"clusterID":%q}}`, clusterID(s.Name))
	return s.kube.apply(ctx, base+"clusterversions/version", []byte(version))
}

// clusterID returns the cluster ID of the lab with a name. A later lab of this name has the same one, like a cluster
// after an image-based upgrade.
func clusterID(name string) string {
	sum := sha256.Sum256([]byte(name))
	id := []byte(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
	id[14], id[19] = '4', '8' // a UUID of version 4
	return string(id)
}

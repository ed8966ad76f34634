package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/story"
)

// discoveryInterval is the interval at which targets are discovered.
const discoveryInterval = 3 * time.Second

// discovery writes the targets of Services like Prometheus' own discovery
// (https://prometheus.io/docs/prometheus/latest/configuration/configuration/#endpointslice, with the label names of the
// role endpoints).
type discovery struct {
	api             client.Client
	namespace, file string
}

// newDiscovery returns a discovery that authenticates with a client certificate.
func newDiscovery(cluster *story.Cluster, namespace, file string, certificate, key []byte) (*discovery, error) {
	admin, err := cluster.Lab.RESTConfig()
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(admin)
	config.Dial = admin.Dial
	config.CertData = certificate
	config.KeyData = key
	api, err := client.New(config, client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		return nil, err
	}
	d := &discovery{api: api, namespace: namespace, file: file}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// Missing permissions are an error of the first discovery.
	return d, d.look(ctx)
}

// keep discovers targets until ctx ends. After an error the previous targets remain.
func (d *discovery) keep(ctx context.Context) {
	ticker := time.NewTicker(discoveryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := d.look(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "discovery:", err)
			}
		}
	}
}

// targetGroup is an entry of a file (file_sd_config).
type targetGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func (d *discovery) look(ctx context.Context) error {
	services := &corev1.ServiceList{}
	slices := &discoveryv1.EndpointSliceList{}
	pods := &corev1.PodList{}
	for _, list := range []client.ObjectList{services, slices, pods} {
		if err := d.api.List(ctx, list, client.InNamespace(d.namespace)); err != nil {
			return err
		}
	}
	labels := map[string]map[string]string{}
	nodes := map[string]corev1.Pod{}
	for _, s := range services.Items {
		labels[s.Name] = s.Labels
	}
	for _, p := range pods.Items {
		nodes[p.Name] = p
	}
	groups := []targetGroup{}
	for _, slice := range slices.Items {
		service := slice.Labels[discoveryv1.LabelServiceName]
		for _, e := range slice.Endpoints {
			if e.TargetRef == nil {
				continue
			}
			pod, ok := nodes[e.TargetRef.Name]
			if !ok {
				continue
			}
			for _, port := range slice.Ports {
				found := map[string]string{
					"__meta_kubernetes_namespace": d.namespace, "__meta_kubernetes_service_name": service,
					"__meta_kubernetes_endpoint_port_name": *port.Name,
					"__meta_kubernetes_pod_name":           pod.Name,
					"__meta_kubernetes_pod_node_name":      pod.Spec.NodeName,
					"__meta_kubernetes_pod_container_name": pod.Spec.Containers[0].Name,
				}
				for name, value := range labels[service] {
					found["__meta_kubernetes_service_label_"+labelName(name)] = value
				}
				groups = append(groups, targetGroup{Targets: []string{fmt.Sprintf("%s:%d", e.Addresses[0],
					*port.Port)}, Labels: found})
			}
		}
	}
	data, err := json.Marshal(groups)
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.file+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(d.file+".new", d.file)
}

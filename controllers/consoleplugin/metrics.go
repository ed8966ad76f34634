package consoleplugin

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
)

// readLimit is the timeout of one read from the cache, which is in memory.
const readLimit = time.Second

var replicasFamily = metric.NewGauge("lvms_console_plugin_replicas",
	"Number of Pods that serve the OpenShift console plugin: wanted and available. Without an available Pod, the "+
		"console cannot load the plugin. No series while the cluster has no console.", "state")

// Families lists all metrics of the Collector.
var Families = []metric.Family{replicasFamily}

// Collector exports the number of replicas that serve the plugin. It reads from a cache. It implements
// prometheus.Collector.
type Collector struct {
	client    client.Reader
	namespace string
}

// NewCollector returns a Collector for the operator's namespace.
func NewCollector(c client.Reader, namespace string) *Collector {
	return &Collector{client: c, namespace: namespace}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) { metric.Describe(to, Families) }

// Collect implements prometheus.Collector. If the Deployment cannot be read, there is no series.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	deployment := &appsv1.Deployment{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: Name}, deployment); err != nil {
		if client.IgnoreNotFound(err) != nil {
			log.Log.Error(err, "cannot read the Deployment of the console plugin: its metrics are missing", "namespace",
				c.namespace, "name", Name)
		}
		return
	}
	if deployment.Spec.Replicas != nil {
		replicasFamily.Send(to, float64(*deployment.Spec.Replicas), "wanted")
	}
	replicasFamily.Send(to, float64(deployment.Status.AvailableReplicas), "available")
}

package lvmcluster

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
)

// readLimit is the timeout of one read from the cache, which is in memory.
const readLimit = time.Second

var (
	stateFamily = metric.NewGauge("lvms_lvmcluster_state",
		"1 for the current state of the LVMCluster, 0 for the others (Progressing, Ready, Failed, Degraded, "+
			"Unknown).",
		"lvmcluster", "state")
	conditionFamily = metric.NewGauge("lvms_lvmcluster_condition",
		"1 for the current status of a condition of the LVMCluster, 0 for the others (True, False, Unknown).",
		"lvmcluster", "condition", "status")
	groupsFamily = metric.NewGauge("lvms_node_volume_groups",
		"Number of device classes with a volume group on the node, including those whose volume group is being "+
			"created. A node with at least one needs its node agent.",
		"node")
	observedFamily = metric.NewGauge("lvms_node_status_observed_timestamp_seconds",
		"Time of the last observation of the node by its node agent, from the node status, in seconds since 1970. "+
			"It is updated every 10 minutes if nothing changes.", "node")
)

// Families lists all metrics of the Collector.
var Families = []metric.Family{stateFamily, conditionFamily, groupsFamily, observedFamily}

var (
	clusterStates = []v1alpha1.LVMState{v1alpha1.LVMStatusProgressing, v1alpha1.LVMStatusReady,
		v1alpha1.LVMStatusFailed, v1alpha1.LVMStatusDegraded, v1alpha1.LVMStatusUnknown}
	conditionStatuses = []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}
)

// Collector exports metrics of the LVMCluster and of the nodes with a node status. It reads from a cache. It implements
// prometheus.Collector.
type Collector struct {
	client    client.Reader
	namespace string
}

// NewCollector returns a Collector for a namespace.
func NewCollector(c client.Reader, namespace string) *Collector {
	return &Collector{client: c, namespace: namespace}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) { metric.Describe(to, Families) }

// Collect implements prometheus.Collector. Objects that cannot be read have no series.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	clusters := &v1alpha1.LVMClusterList{}
	nodes := &v1alpha1.LVMVolumeGroupNodeStatusList{}
	if err := c.client.List(ctx, clusters, client.InNamespace(c.namespace)); err != nil {
		log.Log.Error(err, "cannot read the LVMCluster: its metrics are missing", "namespace", c.namespace)
	}
	if err := c.client.List(ctx, nodes, client.InNamespace(c.namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.Log.Error(err, "cannot read the node statuses: the metrics of nodes are missing", "namespace", c.namespace)
	}
	for i := range clusters.Items {
		collectCluster(to, &clusters.Items[i])
	}
	for i := range nodes.Items {
		groupsFamily.Send(to, float64(len(nodes.Items[i].Status.NodeStatus)), nodes.Items[i].Name)
		if last := nodes.Items[i].Status.LastObserved; last != nil {
			observedFamily.Send(to, float64(last.Unix()), nodes.Items[i].Name)
		}
	}
}

func collectCluster(to chan<- prometheus.Metric, cluster *v1alpha1.LVMCluster) {
	state := cluster.Status.State
	if state == "" {
		state = v1alpha1.LVMStatusUnknown
	}
	for _, s := range clusterStates {
		stateFamily.Send(to, number(s == state), cluster.Name, string(s))
	}
	for _, condition := range cluster.Status.Conditions {
		for _, s := range conditionStatuses {
			conditionFamily.Send(to, number(s == condition.Status), cluster.Name, condition.Type, string(s))
		}
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

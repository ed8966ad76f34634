package sidecar

import (
	"context"
	"fmt"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/external-provisioner/v6/pkg/capacity"
	"github.com/kubernetes-csi/external-provisioner/v6/pkg/capacity/topology"
	"github.com/kubernetes-csi/external-provisioner/v6/pkg/owner"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	// capacityManager is the label value by which capacity objects are known as the provisioner's.
	capacityManager = "external-provisioner"
	// capacityWorkers is how many capacities are read and written at a time.
	capacityWorkers = 4
	// levelsToDeployment is the number of owners from a pod to its Deployment.
	levelsToDeployment = 2
)

// publisher keeps a CSIStorageCapacity for each StorageClass and node.
type publisher struct {
	controller *capacity.Controller
	topology   topology.Informer
	informers  informers.SharedInformerFactory
}

// +kubebuilder:rbac:groups=storage.k8s.io,resources=csistoragecapacities,namespace=openshift-lvm-storage,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,namespace=openshift-lvm-storage,verbs=get
// +kubebuilder:rbac:groups=apps,resources=replicasets,namespace=openshift-lvm-storage,verbs=get

// newCapacity prepares the publisher. It has a client of its own: a burst of capacities must not delay volumes.
func (p *provisioner) newCapacity(ctx context.Context) (*publisher, error) {
	client, err := kubernetes.NewForConfig(limited(p.Config, "csi-capacity", runtime.ContentTypeProtobuf))
	if err != nil {
		return nil, fmt.Errorf("client of the capacity publisher: %w", err)
	}
	deployment, err := owner.Lookup(p.Config, p.Namespace, p.PodName,
		corev1.SchemeGroupVersion.WithKind("Pod"), levelsToDeployment)
	if err != nil {
		return nil, fmt.Errorf("find the Deployment of pod %s/%s, which has to own CSIStorageCapacity objects: %w",
			p.Namespace, p.PodName, err)
	}
	own := informers.NewSharedInformerFactoryWithOptions(client, resyncPeriod,
		informers.WithNamespace(p.Namespace), informers.WithTweakListOptions(p.onlyOurs))
	nodes := topology.NewNodeTopology(p.Driver, p.client, p.informers.Core().V1().Nodes(),
		p.informers.Storage().V1().CSINodes(), queue[string]("csi-topology"))
	const immediateToo = false
	return &publisher{
		topology:  nodes,
		informers: own,
		controller: capacity.NewCentralCapacityController(
			csi.NewControllerClient(p.connection), p.Driver, capacity.NewV1ClientFactory(client),
			queue[capacity.QueueKey]("csi-storage-capacity"), deployment, capacityManager, p.Namespace, nodes,
			p.informers.Storage().V1().StorageClasses(), own.Storage().V1().CSIStorageCapacities(),
			p.CapacityPollInterval, immediateToo, operationTimeout),
	}, nil
}

// onlyOurs narrows an informer down to the capacity objects of this driver.
func (p *provisioner) onlyOurs(options *metav1.ListOptions) {
	options.LabelSelector = labels.Set{
		capacity.DriverNameLabel: p.Driver,
		capacity.ManagedByLabel:  capacityManager,
	}.AsSelector().String()
}

// refreshing wraps a provisioner so that the capacity of a node is read again after each volume.
func (c *publisher) refreshing(plugin controller.Provisioner) controller.Provisioner {
	return capacity.NewProvisionWrapper(plugin, c.controller)
}

// run publishes until the context ends.
func (c *publisher) run(ctx context.Context, workers *sync.WaitGroup) {
	c.informers.StartWithContext(ctx)
	workers.Go(func() { c.topology.RunWorker(ctx) })
	c.controller.Run(ctx, capacityWorkers, workers)
}

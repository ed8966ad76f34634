package sidecar

import (
	"context"
	"fmt"
	"sync"
	"time"

	provisioning "github.com/kubernetes-csi/external-provisioner/v6/pkg/controller"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	csitranslation "k8s.io/csi-translation-lib"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
	libmetrics "sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller/metrics"

	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

const (
	// volumeNamePrefix is the prefix of volume names. It is followed by the complete UID of the claim.
	volumeNamePrefix = "pvc"
	wholeUID         = -1

	// orphanSweepInterval is the interval at which finalizers are removed from the sources of finished restores.
	orphanSweepInterval = 5 * time.Minute
)

// provisioner creates and deletes volumes for claims: external-provisioner as a Runnable.
type provisioner struct {
	*Sidecars
	// volumes is the controller of claims and PersistentVolumes. current is the provisioner that it calls when the CSI
	// driver is ready.
	volumes *controller.ProvisionController
	current *latePlugin
}

// latePlugin is a provisioner that is set when the capabilities of the CSI driver are known. The library needs it
// earlier, to create its controller, which does not call it before it runs.
type latePlugin struct {
	completePlugin
	// copies creates volumes that are copies. A copy is on the node of its source, so its request lists all nodes, and
	// the Pod is scheduled to the node of the copy. Other requests have only the node that the scheduler selected: a
	// thousand nodes in each request would take a megabyte of memory for each volume that is being created.
	copies controller.Provisioner
}

// Provision creates a volume. Its PersistentVolume has the label of its node.
func (p *latePlugin) Provision(ctx context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume,
	controller.ProvisioningState, error) {
	plugin := controller.Provisioner(p.completePlugin)
	if claim := options.PVC.Spec; claim.DataSource != nil || claim.DataSourceRef != nil {
		plugin = p.copies
	}
	pv, state, err := plugin.Provision(ctx, options)
	if pv != nil {
		labelNode(pv)
	}
	return pv, state, err
}

// labelNode labels a PersistentVolume with the node of its node affinity, by which upstream LVMS lets users select the
// PersistentVolumes of a node.
func labelNode(pv *corev1.PersistentVolume) {
	if node := view.NodeOfVolume(pv); node != "" {
		metav1.SetMetaDataLabel(&pv.ObjectMeta, corev1.LabelHostname, node)
	}
}

// completePlugin has all interfaces that the library's controller uses.
type completePlugin interface {
	controller.BlockProvisioner
	controller.Qualifier
}

func newProvisioner(ctx context.Context, s *Sidecars) (*provisioner, error) {
	p := &provisioner{Sidecars: s, current: &latePlugin{}}
	metrics, err := p.volumeMetrics()
	if err != nil {
		return nil, err
	}
	storage := p.informers.Storage().V1()
	core := p.informers.Core().V1()
	p.volumes = controller.NewProvisionController(ctx, p.client, p.Driver, p.current,
		controller.LeaderElection(false),
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
		controller.RateLimiter(limiter[string]()),
		controller.RetryIntervalMax(retryMax),
		controller.Threadiness(p.Workers),
		controller.CreateProvisionedPVLimiter(workqueue.DefaultTypedControllerRateLimiter[string]()),
		controller.ClaimsInformer(core.PersistentVolumeClaims().Informer()),
		controller.VolumesInformer(core.PersistentVolumes().Informer()),
		controller.ClassesInformer(storage.StorageClasses().Informer()),
		controller.AddFinalizer(true),
		controller.MetricsInstance(metrics),
	)
	return p, nil
}

// NeedLeaderElection returns true: two provisioners would create two volumes for one claim.
func (p *provisioner) NeedLeaderElection() bool { return true }

// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses;csinodes,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattributesclasses,verbs=get
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshots,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotcontents,verbs=get;list

// Start runs the provisioner until the context ends.
func (p *provisioner) Start(ctx context.Context) error {
	driver, err := p.awaitDriver(ctx)
	if err != nil {
		return endedOr(ctx, err)
	}
	plugin, ok := p.plugin(driver, onlyScheduled).(completePlugin)
	if !ok {
		return fmt.Errorf(
			"the library's provisioner %T no longer decides which claims are its own, or whether it supports block "+
				"volumes",
			plugin)
	}
	p.current.completePlugin, p.current.copies = plugin, p.plugin(driver, allNodes)
	claims := p.informers.Core().V1().PersistentVolumeClaims()
	clones := provisioning.NewCloningProtectionController(p.client, claims.Lister(), claims.Informer(),
		queue[string]("cloning-claims"), driver.controller)
	restores := p.restores(driver)

	p.informers.StartWithContext(ctx)
	if !synced(ctx, p.informers) {
		return nil
	}
	if p.BeforeProvisioning != nil {
		p.BeforeProvisioning(ctx)
	}
	workers := &sync.WaitGroup{}
	p.volumes.ControllerWaitGroup(workers)
	if clones != nil {
		workers.Go(func() { clones.Run(ctx, 1, workers) })
	}
	if restores != nil {
		workers.Go(func() { restores.Run(ctx, workers) })
	}
	workers.Go(func() { p.volumes.Run(ctx) })
	workers.Wait()
	return nil
}

// Values of the library's strictTopology: which nodes the request for a volume lists if the scheduler has selected one.
const (
	onlyScheduled = true
	allNodes      = false
)

// plugin returns the provisioner that calls the CSI controller.
func (p *provisioner) plugin(driver capabilities, strictTopology bool) controller.Provisioner {
	var (
		migratedPlugin    = ""
		immediateTopology = true
		extraMetadata     = true
		defaultFSType     = ""
		publishReadOnly   = false
		guardVolumeMode   = true
	)
	storage := p.informers.Storage().V1()
	core := p.informers.Core().V1()
	return provisioning.NewCSIProvisioner(
		p.client, operationTimeout, p.identity(), volumeNamePrefix, wholeUID, p.connection,
		restoredSnapshots{p.Sidecars.snapshots},
		p.Driver, driver.plugin, driver.controller, migratedPlugin, strictTopology, immediateTopology,
		csitranslation.New(), storage.StorageClasses().Lister(), storage.CSINodes().Lister(), core.Nodes().Lister(),
		wholeClaims{core.PersistentVolumeClaims().Lister(), p.client}, nil, nil, extraMetadata, defaultFSType, nil,
		publishReadOnly,
		guardVolumeMode, provisioning.NewInMemoryStore(),
	)
}

// identity returns the identity with which this process marks its volumes.
func (p *provisioner) identity() string {
	return fmt.Sprintf("%d-%s-%s", time.Now().UnixMilli(), p.PodName, p.Driver)
}

func (p *provisioner) volumeMetrics() (libmetrics.Metrics, error) {
	metrics := libmetrics.New("controller")
	for _, collector := range []prometheus.Collector{
		metrics.PersistentVolumeClaimProvisionTotal,
		metrics.PersistentVolumeClaimProvisionFailedTotal,
		metrics.PersistentVolumeClaimProvisionDurationSeconds,
		metrics.PersistentVolumeDeleteTotal,
		metrics.PersistentVolumeDeleteFailedTotal,
		metrics.PersistentVolumeDeleteDurationSeconds,
	} {
		if err := register(p.Metrics, collector); err != nil {
			return metrics, fmt.Errorf("register the metrics of the provisioner: %w", err)
		}
	}
	return metrics, nil
}

// restores returns the controller that removes the finalizers of snapshots after their restore, or nil without
// snapshots.
func (p *provisioner) restores(driver capabilities) *provisioning.SnapshotFinalizerController {
	if !p.Options.Snapshots {
		return nil
	}
	return provisioning.NewSnapshotFinalizerController(p.Sidecars.snapshots,
		p.informers.Core().V1().PersistentVolumeClaims().Lister(), driver.controller, orphanSweepInterval)
}

// limiter returns a rate limiter with exponential back-off for each object.
func limiter[T comparable]() workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[T](retryMin, retryMax)
}

// queue returns a work queue. name is the name in its metrics.
func queue[T comparable](name string) workqueue.TypedRateLimitingInterface[T] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter[T](),
		workqueue.TypedRateLimitingQueueConfig[T]{Name: name})
}

// endedOr returns nil if the context has ended, because the error is then only a consequence.
func endedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		log.FromContext(ctx).V(1).Info("stopped before the start was complete", "cause", err.Error())
		return nil
	}
	return err
}

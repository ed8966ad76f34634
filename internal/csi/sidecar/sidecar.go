// Package sidecar runs the CSI sidecar controllers inside the operator: provisioner, resizer and snapshotter. Each is a
// manager.Runnable, and they share one connection to the CSI controller in the same process. The package also has what
// both programs need to be a CSI driver: a gRPC server on a socket, and the registration with the kubelet.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// operationTimeout is the timeout of one CSI call. CreateVolume waits for the node agent, which creates the volumes
	// of a node one after another. A shorter timeout would only cause retries and more delay.
	operationTimeout = time.Minute

	// retryMin and retryMax limit the time between two attempts for one object.
	retryMin = time.Second
	retryMax = time.Minute

	// resyncPeriod is the interval at which informers deliver all their objects again.
	resyncPeriod = 15 * time.Minute

	// clientQPS and clientBurst limit requests to the API server. Provisioning a volume needs three writes.
	clientQPS   = 50
	clientBurst = 100

	// defaultWorkers is the number of volumes that are processed at the same time. A worker mostly waits for a node
	// agent.
	defaultWorkers = 100
)

// Options configure the sidecars.
type Options struct {
	// Config is the configuration of the API client.
	Config *rest.Config
	// Cache is a manager's cache with the kinds that the sidecars read. The manager starts it.
	Cache cache.Cache
	// Driver is the name of the CSI driver.
	Driver string
	// Socket is the socket of the CSI controller.
	Socket string
	// PodName is the name of this process's Pod, for the identity in its volumes.
	PodName string
	// BeforeProvisioning is called before the provisioner starts, in the leader. It ends with its context.
	BeforeProvisioning func(context.Context)
	// Earlier is closed when volumes of TopoLVM before 0.15 have to be expanded; nil if they never have to.
	Earlier <-chan struct{}
	// Snapshots reports whether the cluster has the VolumeSnapshot API.
	Snapshots bool
	// GroupSnapshots reports whether the cluster has the VolumeGroupSnapshot API.
	GroupSnapshots bool
	// VolumeAttributes reports whether the cluster has the API of VolumeAttributesClasses.
	VolumeAttributes bool
	// Workers is the number of volumes that are processed at the same time; the default is 100.
	Workers int
	// Metrics is the registry for the metrics of the sidecars.
	Metrics prometheus.Registerer
}

// Sidecars share a connection, clients and informers.
type Sidecars struct {
	Options
	connection  *grpc.ClientConn
	client      kubernetes.Interface
	snapshots   snapshotclient.Interface
	informers   *managed
	provisioner *provisioner
}

// New prepares the sidecars, for a process that ends with the context. It connects to nothing and watches nothing
// before they start. Call it before anything else runs: the libraries add types to client-go's scheme, which has no
// lock.
func New(ctx context.Context, options Options) (*Sidecars, error) {
	if options.Workers == 0 {
		options.Workers = defaultWorkers
	}
	if err := setFeatures(options.VolumeAttributes); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(limited(options.Config, "csi-sidecars", runtime.ContentTypeProtobuf))
	if err != nil {
		return nil, fmt.Errorf("client of the CSI sidecars: %w", err)
	}
	snapshots, err := snapshotclient.NewForConfig(limited(options.Config, "csi-snapshotter", runtime.ContentTypeJSON))
	if err != nil {
		return nil, fmt.Errorf("snapshot client of the CSI sidecars: %w", err)
	}
	kinds := watched
	if options.VolumeAttributes {
		kinds = append(slices.Clone(kinds), &storagev1.VolumeAttributesClass{})
	}
	factory, err := newManaged(ctx, client, options.Cache, kinds)
	if err != nil {
		return nil, err
	}
	connection, err := dial(options.Socket, options.Driver, options.Metrics)
	if err != nil {
		return nil, err
	}
	s := &Sidecars{
		Options:    options,
		connection: connection,
		client:     client,
		snapshots:  snapshots,
		informers:  factory,
	}
	if s.provisioner, err = newProvisioner(ctx, s); err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return s, nil
}

// Runnables returns the sidecars that the cluster needs.
func (s *Sidecars) Runnables() []manager.Runnable {
	runnables := []manager.Runnable{s.provisioner, &resizer{s}}
	if s.Snapshots {
		runnables = append(runnables, &snapshotter{s})
	}
	if s.Earlier != nil {
		runnables = append(runnables, &earlierResizer{s})
	}
	return runnables
}

// Close closes the connection to the CSI controller. Call it when the manager has ended.
func (s *Sidecars) Close() error {
	return s.connection.Close()
}

// setFeatures sets the feature gates of the libraries, which share them and read them when they run. The first makes
// them count their workers, so that a sidecar ends only after its last call. The second is off if the cluster has no
// VolumeAttributesClasses, as in the sidecars themselves.
func setFeatures(volumeAttributes bool) error {
	gates := map[string]bool{"ReleaseLeaderElectionOnExit": true, "VolumeAttributesClass": volumeAttributes}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return fmt.Errorf("feature gates of the CSI sidecars: %w", err)
	}
	return nil
}

// limited returns a copy of a client configuration with the rate limits of the sidecars.
func limited(config *rest.Config, userAgent, contentType string) *rest.Config {
	limited := rest.AddUserAgent(rest.CopyConfig(config), userAgent)
	limited.QPS = clientQPS
	limited.Burst = clientBurst
	limited.ContentType = contentType
	return limited
}

// register registers a collector. If it is already registered, as after a second start of a sidecar, the registered
// collector continues to count.
func register(metrics prometheus.Registerer, collector prometheus.Collector) error {
	if metrics == nil {
		return nil
	}
	err := metrics.Register(collector)
	if already := (prometheus.AlreadyRegisteredError{}); errors.As(err, &already) {
		return nil
	}
	return err
}

// Package sidecar runs the CSI side-car controllers inside the operator: provisioner, resizer
// and snapshotter, each a manager.Runnable over one connection to the CSI controller in the same process; and what
// both programs need to be a CSI driver: the gRPC server of a socket and the registration with the kubelet.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// operationTimeout is how long one CSI call may take. Creating a volume waits for the node agent, and many
	// volumes of one node are made one after the other: a call that gives up early only comes again, and later.
	operationTimeout = time.Minute

	// retryMin and retryMax bound the time between two attempts at one object.
	retryMin = time.Second
	retryMax = time.Minute

	// resyncPeriod is how often informers hand all their objects out again.
	resyncPeriod = 15 * time.Minute

	// The limits of requests to the API server, a second and at once. Provisioning a volume takes three writes.
	clientQPS   = 50
	clientBurst = 100

	// defaultWorkers is how many volumes are worked on at a time; a worker only waits for a node agent.
	defaultWorkers = 100
)

// Options of the side-cars.
type Options struct {
	// Config reaches the API server.
	Config *rest.Config
	// Cache has what the side-cars look at: a manager's, which starts it.
	Cache cache.Cache
	// Driver is the name of the CSI driver.
	Driver string
	// Socket of the CSI controller.
	Socket string
	// PodName is that of this process, for the mark on the volumes that it makes.
	PodName string
	// Snapshots: the cluster has the VolumeSnapshot API.
	Snapshots bool
	// Workers is how many volumes are worked on at a time; 100 when not set.
	Workers int
	// Metrics is where the metrics of the side-cars are registered.
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

// New prepares the side-cars, for a process that ends with the context. Nothing is connected or watched before they
// start. Call it before anything else runs: libraries add to client-go's scheme, which has no lock.
func New(ctx context.Context, options Options) (*Sidecars, error) {
	if options.Workers == 0 {
		options.Workers = defaultWorkers
	}
	if err := waitForWorkers(); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(limited(options.Config, "csi-sidecars", runtime.ContentTypeProtobuf))
	if err != nil {
		return nil, fmt.Errorf("client of the CSI side-cars: %w", err)
	}
	snapshots, err := snapshotclient.NewForConfig(limited(options.Config, "csi-snapshotter", runtime.ContentTypeJSON))
	if err != nil {
		return nil, fmt.Errorf("snapshot client of the CSI side-cars: %w", err)
	}
	factory, err := newManaged(ctx, client, options.Cache)
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

// Runnables returns the side-cars that the cluster has a use for.
func (s *Sidecars) Runnables() []manager.Runnable {
	runnables := []manager.Runnable{s.provisioner, &resizer{s}}
	if s.Snapshots {
		runnables = append(runnables, &snapshotter{s})
	}
	return runnables
}

// Close closes the connection to the CSI controller. Call it when the manager has ended.
func (s *Sidecars) Close() error {
	return s.connection.Close()
}

// waitForWorkers makes the libraries count their workers, so that a side-car ends only when its last call has.
// It is a feature gate that the three libraries share; they read it when they run.
func waitForWorkers() error {
	const gate = "ReleaseLeaderElectionOnExit"
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{gate: true}); err != nil {
		return fmt.Errorf("feature gate %s of the CSI side-cars: %w", gate, err)
	}
	return nil
}

// limited returns a copy of a configuration with the limits of the side-cars.
func limited(config *rest.Config, userAgent, contentType string) *rest.Config {
	limited := rest.AddUserAgent(rest.CopyConfig(config), userAgent)
	limited.QPS = clientQPS
	limited.Burst = clientBurst
	limited.ContentType = contentType
	return limited
}

// register registers a collector. One that is there already stays: a second start of a side-car counts on.
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

// Package legacydriver serves the CSI driver of TopoLVM before 0.15 while a volume of this node needs it.
package legacydriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

const (
	// interval is the interval at which the agent checks whether a volume needs the legacy driver.
	interval = 10 * time.Second
	// maxDelay is the longest delay before the legacy driver is registered again after a failure.
	maxDelay = 5 * time.Minute
	// answerTimeout limits the connection to a socket.
	answerTimeout = 5 * time.Second
)

// Options configure a Driver.
type Options struct {
	// Node is the name of this node.
	Node string
	// Client reads LogicalVolumes from a cache, and patches them. Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// OtherSocket is the socket with which TopoLVM's own node service registers the legacy driver.
	OtherSocket string
	// Serve serves the legacy driver and registers it with the kubelet, until its context ends.
	Serve func(context.Context) error
}

// Driver serves the driver of TopoLVM before 0.15 on this node while a volume needs it. It does not serve the driver
// while TopoLVM's own node service does.
type Driver struct {
	Options
	now func() time.Time
	// cancel ends Serve; nil if it does not run. ended receives the error of Serve.
	cancel context.CancelFunc
	ended  chan error
	// failures is the number of consecutive failures, and retryAt is when Serve is started again.
	failures int
	retryAt  time.Time
	// told is the problem that was logged last.
	told string
}

// New returns a Driver.
func New(o Options) *Driver {
	return &Driver{Options: o, now: time.Now, ended: make(chan error, 1)}
}

// NeedLeaderElection returns false: each node serves its own volumes.
func (d *Driver) NeedLeaderElection() bool { return false }

// Start serves the legacy driver when a volume needs it, until the context ends.
func (d *Driver) Start(ctx context.Context) error {
	defer d.stop(ctx)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		d.check(ctx)
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.ended:
			d.hasEnded(ctx, err)
		case <-ticker.C:
		}
	}
}

// check starts or stops the service. If something cannot be read, it changes nothing.
func (d *Driver) check(ctx context.Context) {
	ctx, end := liveness.Begin(ctx, "check for volumes of the earlier driver")
	defer end()
	volumes, err := d.volumes(ctx)
	if err != nil {
		d.tell(ctx, err.Error())
		return
	}
	for i := range volumes {
		if err := d.forgetRemoved(ctx, &volumes[i]); err != nil {
			d.tell(ctx, err.Error())
		}
	}
	if len(volumes) == 0 {
		d.stop(ctx)
		d.told = ""
		return
	}
	other, err := answers(ctx, d.OtherSocket)
	switch {
	case err != nil:
		d.tell(ctx, err.Error())
	case other:
		d.stop(ctx)
		d.tell(ctx, fmt.Sprintf("the node service of TopoLVM answers at %s: uninstall TopoLVM", d.OtherSocket))
	case d.cancel == nil && !d.now().Before(d.retryAt):
		d.start(ctx)
	}
}

// volumes returns the LogicalVolumes of this node that need the legacy driver.
func (d *Driver) volumes(ctx context.Context) ([]topolvmv1.LogicalVolume, error) {
	list := &topolvmv1.LogicalVolumeList{}
	if err := d.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list LogicalVolumes: %w", err)
	}
	var volumes []topolvmv1.LogicalVolume
	for i := range list.Items {
		lv := &list.Items[i]
		if lv.Spec.NodeName == d.Node && (view.EarlierDriver(lv) ==
			wellknown.EarlierDriverName || view.EarlierStaged(lv) != "") {
			volumes = append(volumes, *lv)
		}
	}
	return volumes, nil
}

// tell logs a problem, unless it is the same as the last one.
func (d *Driver) tell(ctx context.Context, problem string) {
	if problem == d.told || ctx.Err() != nil {
		return
	}
	d.told = problem
	log.FromContext(ctx).Info("cannot serve the driver of an earlier TopoLVM", "driver", wellknown.EarlierDriverName,
		"cause", problem)
}

func (d *Driver) start(ctx context.Context) {
	log.FromContext(ctx).Info("serving the driver of an earlier TopoLVM", "driver", wellknown.EarlierDriverName)
	ctx, d.cancel = context.WithCancel(ctx)
	go func() { d.ended <- d.Serve(ctx) }()
}

// stop ends the service and waits for it.
func (d *Driver) stop(ctx context.Context) {
	if d.cancel == nil {
		return
	}
	d.cancel()
	err := <-d.ended
	d.cancel, d.failures, d.retryAt = nil, 0, time.Time{}
	log.FromContext(ctx).Info("stopped the driver of an earlier TopoLVM", "driver", wellknown.EarlierDriverName,
		"cause", fmt.Sprint(err))
}

// hasEnded notes that the service ended by itself, for example because the kubelet refused the registration.
func (d *Driver) hasEnded(ctx context.Context, err error) {
	d.cancel()
	d.cancel = nil
	delay := min(interval<<min(d.failures, 10), maxDelay)
	d.failures++
	d.retryAt = d.now().Add(delay)
	d.tell(ctx, fmt.Sprintf("the service ended: %v", err))
}

// answers reports whether a process listens on a socket. A socket that a process has left does not answer.
func answers(ctx context.Context, socket string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	switch {
	case err == nil:
		return true, connection.Close()
	case errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED):
		return false, nil
	}
	return false, fmt.Errorf("check whether the node service of TopoLVM answers at %s: %w", socket, err)
}

// BeforeStaging records the path of a volume of the legacy driver. It refuses a volume that is being migrated. The
// operator begins a migration in the same way, so that only one of the two succeeds.
func (d *Driver) BeforeStaging(ctx context.Context, volumeID, path string) error {
	lv, err := d.find(ctx, volumeID)
	switch {
	case err != nil:
		return err
	case lv == nil || view.EarlierDriver(lv) != wellknown.EarlierDriverName:
		return status.Errorf(codes.NotFound, "no LogicalVolume on node %s has the volume ID %s of the driver %s: wait "+
			"until the operator has created it, or see the events of the PersistentVolume", d.Node, volumeID,
			wellknown.EarlierDriverName)
	case view.MovedVolume(lv) != "":
		return status.Errorf(codes.Unavailable, "volume %s is being migrated to the driver %s: the Pod can start when "+
			"this is complete", volumeID, wellknown.DriverName)
	}
	// forgetRemoved removes the record of a path that does not exist.
	if err := os.MkdirAll(path, 0o750); err != nil {
		return status.Errorf(codes.Internal, "create mount point %s of volume %s on node %s: %v", path, volumeID,
			d.Node, err)
	}
	return d.record(ctx, lv, path)
}

// Unstaged removes the record of a volume.
func (d *Driver) Unstaged(ctx context.Context, volumeID, path string) error {
	lv, err := d.find(ctx, volumeID)
	if err != nil || lv == nil || view.EarlierStaged(lv) != path {
		return err
	}
	return d.record(ctx, lv, "")
}

// forgetRemoved removes the record of a volume whose staging directory does not exist: the kubelet does not unstage a
// volume if staging has failed.
func (d *Driver) forgetRemoved(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	path := view.EarlierStaged(lv)
	if path == "" {
		return nil
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		if err != nil {
			return fmt.Errorf("check the staging directory of volume %s: %w", lv.Status.VolumeID, err)
		}
		return nil
	}
	// The version is that of the cache: if the volume has just been staged, the request fails.
	return d.record(ctx, lv.DeepCopy(), "")
}

// record sets or removes EarlierStagedAnnotation, if the LogicalVolume has not changed.
func (d *Driver) record(ctx context.Context, lv *topolvmv1.LogicalVolume, path string) error {
	if view.EarlierStaged(lv) == path {
		return nil
	}
	before := lv.DeepCopy()
	if path == "" {
		delete(lv.Annotations, wellknown.EarlierStagedAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.EarlierStagedAnnotation, path)
	}
	err := d.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) && path == "" {
		return nil
	}
	if err != nil {
		return status.Errorf(codes.Unavailable, "set annotation %s of LogicalVolume %s: %v",
			wellknown.EarlierStagedAnnotation, lv.Name, err)
	}
	return nil
}

// find returns the LogicalVolume with a volume ID from the API server, or nil if this node has none.
func (d *Driver) find(ctx context.Context, volumeID string) (*topolvmv1.LogicalVolume, error) {
	list := &topolvmv1.LogicalVolumeList{}
	if err := d.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, status.Errorf(codes.Unavailable, "list LogicalVolumes: %v", err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.NodeName != d.Node || list.Items[i].Status.VolumeID != volumeID {
			continue
		}
		lv := &topolvmv1.LogicalVolume{}
		err := d.Live.Get(ctx, client.ObjectKeyFromObject(&list.Items[i]), lv)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, status.Errorf(codes.Unavailable, "read LogicalVolume %s: %v", list.Items[i].Name, err)
		}
		return lv, nil
	}
	return nil, nil
}

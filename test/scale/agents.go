package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// agents simulate the node agents: their writes and watches, without any effect on a node. They read from one common
// cache. In addition each of them watches like a real one, and discards the events.
type agents struct {
	*cluster
	cache cache.Cache
	known client.Client
	// heard is the number of bytes that the API server has sent to all of them. watches counts started watches, read
	// and written count reads and writes, and conflicts counts failed writes.
	heard, watches, read, written, conflicts atomic.Int64
	// deaf reports once why a watch ended.
	deaf sync.Once
	// busy has one lock for each node, because LVM is serialized.
	busy []sync.Mutex
}

// volumeTime is the time in which a node creates a volume.
const volumeTime = 100 * time.Millisecond

func newAgents(c *cluster) *agents { return &agents{cluster: c, busy: make([]sync.Mutex, c.nodes)} }

// start watches and serves until ctx ends.
func (a *agents) start(ctx context.Context) error {
	var err error
	if a.cache, err = cache.New(a.config, cache.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return err
	}
	if a.known, err = client.New(a.config,
		client.Options{Scheme: clientgoscheme.Scheme, Cache: &client.CacheOptions{Reader: a.cache}}); err != nil {
		return err
	}
	volumes, err := a.cache.GetInformer(ctx, &topolvmv1.LogicalVolume{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if _, err := volumes.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if lv, ok := object.(*topolvmv1.LogicalVolume); ok && lv.Status.VolumeID == "" {
			go a.makeVolume(ctx, lv.DeepCopy())
		}
	}}); err != nil {
		return err
	}
	for _, object := range []client.Object{&v1alpha1.LVMVolumeGroup{}, &v1alpha1.LVMVolumeGroupNodeStatus{}} {
		if _, err := a.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	go func() { _ = a.cache.Start(ctx) }()
	if !a.cache.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	// A connection carries at most 100 watches (HTTP/2, SETTINGS_MAX_CONCURRENT_STREAMS of net/http).
	transports := make([]*http.Client, (a.nodes+99)/100)
	for i := range transports {
		config := rest.CopyConfig(a.config)
		config.Dial = nil
		config.UserAgent = fmt.Sprintf("agents-%d", i)
		if transports[i], err = rest.HTTPClientFor(config); err != nil {
			return err
		}
	}
	for i := range a.nodes {
		go a.listen(ctx, transports[i/100])
	}
	return nil
}

// listen runs an agent's watch on the LVMVolumeGroups.
func (a *agents) listen(ctx context.Context, transport *http.Client) {
	url := strings.TrimSuffix(a.config.Host, "/") + "/apis/lvm.topolvm.io/v1alpha1/namespaces/" + namespace +
		"/lvmvolumegroups?watch=true&allowWatchBookmarks=true"
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return
		}
		a.watches.Add(1)
		response, err := transport.Do(request)
		if err == nil && response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		if err == nil {
			_, err = io.Copy(counter{&a.heard}, response.Body)
		}
		if response != nil {
			_ = response.Body.Close()
		}
		if err != nil && ctx.Err() == nil {
			a.deaf.Do(func() { progress("an agent's watch ends: %v", err) })
		}
		// A delay like that of client-go's reflectors, because a server that refuses is overloaded.
		select {
		case <-ctx.Done():
		case <-time.After(time.Second + rand.N(time.Second)):
		}
	}
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// setUp does what the agent of a node does for new device classes.
func (a *agents) setUp(ctx context.Context, i int) error {
	node := nodeName(i)
	for _, class := range classes {
		if err := a.takePart(ctx, node, class); err != nil {
			return err
		}
	}
	return a.writeStatus(ctx, node, func(status *v1alpha1.LVMVolumeGroupNodeStatusStatus) {
		status.NodeStatus = nil
		for _, class := range classes {
			status.NodeStatus = append(status.NodeStatus, a.entry(i, class))
		}
		slices.SortFunc(status.NodeStatus, func(x, y v1alpha1.VGStatus) int { return len(x.Name) - len(y.Name) })
		for n := range 6 {
			capacity := resource.MustParse("1Ti")
			status.Devices = append(status.Devices,
				v1alpha1.DeviceStatus{Name: fmt.Sprintf("/dev/sd%c", 'a'+n),
					ID: fmt.Sprintf("wwn:0x5000c500%08x", i*6+n), Type: "disk",
					ByID: []string{fmt.Sprintf("ata-ST1000NM0008_%08x", i*6+n),
						fmt.Sprintf("wwn-0x5000c500%08x", i*6+n)},
					ByPath: []string{fmt.Sprintf("pci-0000:00:1f.2-ata-%d", n)},
					Size:   &capacity, Model: "ST1000NM0008", Vendor: "ATA", Serial: fmt.Sprintf("%08x", i*6+n),
					WWN: fmt.Sprintf("0x5000c500%08x", i*6+n), Transport: "sata", State: v1alpha1.DeviceInUse})
		}
	})
}

func (a *agents) entry(i int, class string) v1alpha1.VGStatus {
	whole := resource.MustParse("1Ti")
	free := resource.MustParse("102Gi")
	id := fmt.Sprintf("%s-%04d", class, i)
	now := metav1.Now()
	entry := v1alpha1.VGStatus{Name: class, Status: v1alpha1.VGStatusReady, ObservedGeneration: 1, UUID: id,
		Devices: []string{"/dev/sdb"}, Size: &whole, Free: &free,
		PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{{UUID: id, Name: "/dev/sdb", DeviceID: "wwn:" + id,
			Path: "/dev/disk/by-id/wwn-" + id, Size: &whole, Free: &free, State: v1alpha1.PhysicalVolumeReady}}}
	for _, kind := range []string{v1alpha1.ConditionDevicesHealthy, v1alpha1.ConditionVolumesHealthy,
		v1alpha1.ConditionThinPoolHealthy} {
		entry.Conditions = append(entry.Conditions,
			metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: now,
				ObservedGeneration: 1})
	}
	return entry
}

// takePart writes that a node is a member of a class, and reads the class, like an agent.
func (a *agents) takePart(ctx context.Context, node, class string) error {
	if _, err := wait(ctx, "", time.Second, func() (bool, string, error) {
		err := errors.Join(a.known.Get(ctx, client.ObjectKey{Namespace: namespace, Name: class},
			&v1alpha1.LVMVolumeGroup{}),
			a.known.Get(ctx, client.ObjectKey{Namespace: namespace, Name: node}, &v1alpha1.LVMVolumeGroupNodeStatus{}))
		return err == nil, "", err // does not exist yet
	}); err != nil {
		return err
	}
	_, err := wait(ctx, "", time.Second, func() (bool, string, error) {
		a.read.Add(2)
		status := &v1alpha1.LVMVolumeGroupNodeStatus{}
		if err := a.Get(ctx, client.ObjectKey{Namespace: namespace, Name: node}, status); err != nil {
			return false, "", err
		}
		next := status.DeepCopy()
		next.Status.NodeStatus = append(next.Status.NodeStatus,
			v1alpha1.VGStatus{Name: class, Status: v1alpha1.VGStatusProgressing, Reason: "begins"})
		if err := a.Status().Patch(ctx, next,
			client.MergeFromWithOptions(status, client.MergeFromWithOptimisticLock{})); err != nil {
			if apierrors.IsConflict(err) {
				a.conflicts.Add(1)
			}
			return false, "", err
		}
		a.written.Add(1)
		err := a.Get(ctx, client.ObjectKey{Namespace: namespace, Name: class}, &v1alpha1.LVMVolumeGroup{})
		return err == nil, "", err
	})
	return err
}

// writeStatus modifies the status of a node.
func (a *agents) writeStatus(ctx context.Context, node string,
	change func(*v1alpha1.LVMVolumeGroupNodeStatusStatus)) error {
	_, err := wait(ctx, "", 500*time.Millisecond, func() (bool, string, error) {
		status := &v1alpha1.LVMVolumeGroupNodeStatus{}
		if err := a.known.Get(ctx, client.ObjectKey{Namespace: namespace, Name: node}, status); err != nil {
			return false, "", err
		}
		next := status.DeepCopy()
		change(&next.Status)
		a.written.Add(1)
		err := a.known.Status().Patch(ctx, next,
			client.MergeFromWithOptions(status, client.MergeFromWithOptimisticLock{}))
		return err == nil, "", err
	})
	return err
}

// makeVolume does what the agent does for a new LogicalVolume. It serializes the volumes of a node.
func (a *agents) makeVolume(ctx context.Context, lv *topolvmv1.LogicalVolume) {
	i := -1
	if _, err := fmt.Sscanf(lv.Spec.NodeName, "worker-%d.", &i); err != nil || i < 0 || i >= a.nodes {
		return
	}
	a.busy[i].Lock()
	defer a.busy[i].Unlock()
	marked := lv.DeepCopy()
	marked.Finalizers = append(marked.Finalizers, wellknown.LogicalVolumeFinalizer)
	if err := a.Patch(ctx, marked, client.MergeFrom(lv)); err != nil {
		return
	}
	time.Sleep(volumeTime)
	made := marked.DeepCopy()
	made.Status = topolvmv1.LogicalVolumeStatus{VolumeID: string(lv.UID), CurrentSize: &lv.Spec.Size}
	_ = a.Status().Patch(ctx, made, client.MergeFrom(marked))
}

//go:build lab

package sanity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/topolvm/topolvm"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	lvmsdriver "github.com/lvm-storage/lvm-operator/internal/csi/driver"
	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/csi/sidecar"
	"github.com/lvm-storage/lvm-operator/internal/volume/activecache"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/limits"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/cgroup"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/erase"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/outside/capacity"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/groupsnapshot"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/logicalvolume"
)

const nodeName = "node1"

// sockets are the sockets of the two parts of the driver.
type sockets struct{ controller, node string }

// startDriver starts the driver in two managers, for its two processes: the operator has the controller service, and
// the agent has the rest. It returns when the capacity of all classes is known.
func startDriver(t *testing.T, cluster *env.Env, storage *lvmexec.LVM, dir string) sockets {
	t.Helper()
	createNode(t, cluster)
	must(t, createCluster(t.Context(), cluster.Client))
	s := sockets{controller: filepath.Join(dir, "controller.sock"), node: filepath.Join(dir, "node.sock")}
	engine := newEngine(t, storage, dir)
	agent := newManager(t, cluster, cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Node{}: {Field: fields.OneTermEqualSelector("metadata.name", nodeName)},
	}})
	must(t, addNodeService(t.Context(), agent, engine, newTaker(t, storage, dir), s.node, newPodCgroups(t, dir)))
	volumes := &activecache.Volumes{}
	operator := newManager(t, cluster, cache.Options{NewInformer: volumes.NewInformer})
	must(t, addControllerService(operator, volumes, s.controller))
	start(t, agent)
	start(t, operator)
	waitForCapacity(t, cluster.Client)
	return s
}

// createCluster creates the LVMCluster, which says which device classes are thick.
func createCluster(ctx context.Context, c client.Client) error {
	lvms := &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: "sanity", Namespace: "default"}}
	for _, name := range append([]string{thinClass}, withoutSnapshots...) {
		class := v1alpha1.DeviceClass{Name: name}
		if name == thinClass {
			class.ThinPoolConfig = &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90, OverprovisionRatio: 10}
		}
		lvms.Spec.Storage.DeviceClasses = append(lvms.Spec.Storage.DeviceClasses, class)
	}
	if err := c.Create(ctx, lvms); err != nil {
		return fmt.Errorf("create the LVMCluster: %w", err)
	}
	return nil
}

// createNode creates the objects of this node.
func createNode(t *testing.T, cluster *env.Env) {
	t.Helper()
	must(t, cluster.Client.Create(t.Context(), node()))
	must(t, cluster.Client.Create(t.Context(),
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: topolvm.GetPluginName(), NodeID: nodeName,
				TopologyKeys: []string{topolvm.GetTopologyNodeKey()}}},
		}}))
}

// node returns this node as the kubelet registers it, with the topology of the driver. The agent adds the capacity.
func node() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   nodeName,
		Labels: map[string]string{topolvm.GetTopologyNodeKey(): nodeName},
		Annotations: map[string]string{"csi.volume.kubernetes.io/nodeid": `{"` + topolvm.GetPluginName() + `":"` +
			nodeName + `"}`},
	}}
}

func newManager(t *testing.T, cluster *env.Env, options cache.Options) ctrl.Manager {
	t.Helper()
	manager, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme: cluster.Client.Scheme(), Cache: options, Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // two drivers in one program
	})
	must(t, err)
	return manager
}

// noOtherNode is returned for the agent of any node: there is only this one, with one device class for each suite.
func noOtherNode(_ context.Context, node string) (copies.Source, error) {
	return nil, fmt.Errorf("no node agent of %s", node)
}

// newPodCgroups returns the cgroups of a node without Pods, because no kubelet creates some on this node.
func newPodCgroups(t *testing.T, dir string) *cgroup.Pods {
	t.Helper()
	root := filepath.Join(dir, "cgroup")
	must(t, os.MkdirAll(filepath.Join(root, "kubepods"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("io"), 0o600))
	must(t, os.WriteFile(filepath.Join(root, "kubepods", "io.max"), nil, 0o600))
	return cgroup.New(root)
}

// newTaker returns what takes the group snapshots of this node. The test's program is also the watchdog: see TestMain.
func newTaker(t *testing.T, storage *lvmexec.LVM, dir string) *groupsnapshot.Node {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return groupsnapshot.New(groupsnapshot.OfNode(storage), devicemapper.New(), devicemapper.NewChanger(),
		groupsnapshot.WatchWith(host.NewLocal(), self), filepath.Join(dir, "suspended"))
}

// addNodeService adds the parts of the agent of a node: see addVolumes in cmd/lvms/vgmanager.go.
func addNodeService(ctx context.Context, manager ctrl.Manager, engine *engine.Engine,
	taker *groupsnapshot.Node, socket string, pods limits.PodLimiter) error {
	if err := manager.Add(engine); err != nil {
		return err
	}
	service := csinode.NewNodeServer(csinode.NodeOptions{Node: nodeName, Client: manager.GetClient(),
		Live:    manager.GetAPIReader(),
		Volumes: engine, Programs: host.NewLocal(), Pods: pods, StateDir: filepath.Dir(socket)})
	engine.HoldUnformattedWith(service.HoldUnformatted)
	copier := copies.New(ctx)
	volumes := logicalvolume.New(logicalvolume.Options{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Node: nodeName, Cluster: "sanity", Volumes: engine,
		Eraser: erase.New(ctx), Copier: copier, SourceOn: noOtherNode,
		SupportsLimits: service.Limits.Supported, Removed: service.Removed,
		Recorder: manager.GetEventRecorder("vg-manager"),
	})
	ioLimits := limits.NewReconciler(service.Limits, manager.GetClient())
	if err := errors.Join(volumes.SetupWithManager(manager),
		logicalvolume.NewGroups(volumes, engine, taker).SetupWithManager(manager),
		ioLimits.SetupWithManager(manager)); err != nil {
		return err
	}
	if err := manager.Add(capacity.New(manager.GetClient(), nodeName, engine)); err != nil {
		return err
	}
	return serve(manager, socket, func(s *grpc.Server) { csi.RegisterNodeServer(s, service) })
}

// addControllerService adds the parts of the operator: see addCSI in cmd/lvms/csi.go.
func addControllerService(manager ctrl.Manager, volumes *activecache.Volumes, socket string) error {
	service := lvmsdriver.NewControllerServer(objects.Options{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Active: manager.GetCache(), NameOf: volumes.Name,
	})
	if err := service.Watch(context.Background(), manager.GetCache()); err != nil {
		return err
	}
	return serve(manager, socket, func(s *grpc.Server) {
		csi.RegisterControllerServer(s, service)
		csi.RegisterGroupControllerServer(s, lvmsdriver.NewGroupServer(service))
	})
}

// serve adds a gRPC server with a service and the driver's identity.
func serve(manager ctrl.Manager, socket string, register func(*grpc.Server)) error {
	s := grpc.NewServer()
	csi.RegisterIdentityServer(s, lvmsdriver.NewIdentityServer(func() error { return nil }))
	register(s)
	return manager.Add(sidecar.NewGRPCServer(s, socket))
}

// start runs a manager until the test ends.
func start(t *testing.T, manager ctrl.Manager) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("a manager ended: %v", err)
		}
	})
}

// waitForCapacity waits until the node has the capacity of each class: a volume without a node is placed where the
// capacity is greatest.
func waitForCapacity(t *testing.T, reader client.Reader) {
	t.Helper()
	var known map[string]string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			var node corev1.Node
			if err := reader.Get(ctx, client.ObjectKey{Name: nodeName}, &node); err != nil {
				return false, err
			}
			known = node.Annotations
			return known[topolvm.GetCapacityKeyPrefix()+thinClass] != "" &&
				known[topolvm.GetCapacityKeyPrefix()+thickClass] != "", nil
		})
	if err != nil {
		t.Fatalf("the capacity is not on the Node: %v; annotations: %v", err, known)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

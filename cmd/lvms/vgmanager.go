package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/cobra"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/cluster/clusterid"
	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	"github.com/lvm-storage/lvm-operator/internal/cluster/platform"
	"github.com/lvm-storage/lvm-operator/internal/csi/sidecar"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/metrics/memory"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile/profilewatch"
	"github.com/lvm-storage/lvm-operator/internal/version"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/fscheck"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/limits"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mountedfs"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/smart"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/inventory"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/clusterobjects"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmarchive"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/erase"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host/lvmsource"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/uevent"
	"github.com/lvm-storage/lvm-operator/vgmanager/outside/capacity"
	nodemetrics "github.com/lvm-storage/lvm-operator/vgmanager/outside/metrics"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/audit"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/fstrim"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/groupsnapshot"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/logicalvolume"
)

const (
	lvmdFile           = "lvmd.yaml"
	registrationSocket = "/registration/topolvm.io-reg.sock"
	// suspendedFile names the devices that a group snapshot has suspended. A reboot removes it: the directory is on a
	// tmpfs of the node.
	suspendedFile = "/var/lock/vgmanager/suspended"
)

// vgmanagerOptions are the flags of `lvms vgmanager`.
type vgmanagerOptions struct {
	metricsAddress, metricsCertDir, healthAddress string
	agentAddress, peerAddress                     string
	pprofPort                                     uint16
	volumeMetrics                                 int
	smartInterval                                 time.Duration
	layout                                        hostpaths.Layout
	clusterID                                     string
	// profile is the TLS profile of all servers. It is not a flag.
	profile *tlsprofile.Follower
}

func vgmanagerCommand() *cobra.Command {
	var o vgmanagerOptions
	command := &cobra.Command{
		Use:   "vgmanager",
		Short: "Run the node agent, which manages devices, volume groups and volumes",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return runVGManager(ctrl.SetupSignalHandler(), o) },
	}
	flags := command.Flags()
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "address of the metrics server (HTTPS)")
	flags.StringVar(&o.metricsCertDir, "metrics-cert-dir", "", metricsCertificateHelp)
	flags.StringVar(&o.agentAddress, "agent-bind-address", ":8444",
		"address of the server for the operator (gRPC with mutual TLS)")
	flags.StringVar(&o.peerAddress, "peer-bind-address", ":8446",
		"address of the server for other node agents (HTTPS with mutual TLS)")
	flags.IntVar(&o.volumeMetrics, "volume-metrics", defaultVolumeMetrics,
		"maximum number of volumes with their own metrics; 0 for none")
	flags.DurationVar(&o.smartInterval, "smart-interval", 0,
		"interval at which the SMART health of disks is read, at least 1m; 0 for never")
	flags.Uint16Var(&o.pprofPort, "pprof-port", 0, "port on 127.0.0.1 for profiling (net/http/pprof); 0 to disable")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	return command
}

func runVGManager(ctx context.Context, o vgmanagerOptions) error {
	if err := o.complete(); err != nil {
		return err
	}
	nodeName, err := environment(nodeNameVariable)
	if err != nil {
		return err
	}
	ctrl.Log.Info("starting the node agent", "version", version.Full(), "node", nodeName)
	namespace, err := environment(namespaceVariable)
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	monitor := adapt.NewMonitor()
	ctx = monitor.Context(ctx)
	config.Wrap(adapt.Transport(monitor))
	release, err := lockNode(ctx, lockFile)
	if err != nil {
		return err
	}
	defer release()
	live, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	cluster, err := clusterid.Read(ctx, live, o.clusterID)
	if err != nil {
		return err
	}
	o.profile = tlsprofile.New()
	mgr, err := newAgentManager(ctx, config, live, nodeName, namespace, o)
	if err != nil {
		return err
	}
	if err := addLiveness(mgr, monitor); err != nil {
		return err
	}
	fileSystems := sharedFileSystems{FileSystems: mountedfs.New(nodeName), locks: &service.Locks{},
		eraser: erase.New(ctx), copier: copies.New(ctx)}
	local := host.NewLocal()
	parts, err := addVolumeGroups(ctx, mgr, nodeName, namespace, cluster, local, fileSystems, o)
	if err != nil {
		return err
	}
	if err := addVolumes(ctx, mgr, nodeName, cluster.ID, parts, local, fileSystems, o.layout, monitor); err != nil {
		return err
	}
	if err := addArchivePruner(mgr, parts.engine); err != nil {
		return err
	}
	if err := addTrimmer(mgr, nodeName, namespace, parts.engine, fileSystems, o.layout); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// complete checks the flags and reads the options that are environment variables.
func (o *vgmanagerOptions) complete() (err error) {
	if o.smartInterval != 0 && o.smartInterval < smart.MinInterval {
		return fmt.Errorf("invalid --smart-interval %s: must be at least %s, or 0 for never", o.smartInterval,
			smart.MinInterval)
	}
	if o.clusterID, err = clusterid.Declared("", os.Getenv); err != nil {
		return err
	}
	o.layout, err = hostpaths.FromEnvironment(os.Getenv)
	return err
}

// sharedFileSystems are the file systems of the node for all parts of the agent. locks are the volumes on whose file
// systems one of them works. eraser erases volumes before they are removed. copier copies volumes that agents send.
type sharedFileSystems struct {
	*mountedfs.FileSystems
	locks  *service.Locks
	eraser *erase.Eraser
	copier *copies.Copier
}

// volumeParts are what the reconciler of volumes shares with that of volume groups. taker takes group snapshots,
// agents finds the agents of other nodes.
type volumeParts struct {
	engine *engine.Engine
	taker  *groupsnapshot.Node
	agents *copies.Agents
}

// newAgentManager returns the agent's manager, which serves metrics with the TLS profile of the cluster.
func newAgentManager(ctx context.Context, config *rest.Config, live client.Client, nodeName, namespace string,
	o vgmanagerOptions) (ctrl.Manager, error) {
	volumes, err := logicalvolume.Selector(ctx, live, nodeName)
	if err != nil {
		return nil, err
	}
	hasProfile, err := hasTLSProfile(config)
	if err != nil {
		return nil, err
	}
	approvals, err := clusterobjects.ApprovalSelector(ctx, live, namespace, nodeName)
	if err != nil {
		return nil, err
	}
	objects := agentCache(nodeName, namespace, volumes, approvals)
	if hasProfile {
		maps.Copy(objects, profilewatch.CacheByObject())
	}
	certificate := servingcert.NewFolderOrSelfSigned(o.metricsCertDir, reportCertificate)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                noMetrics,
		HealthProbeBindAddress: o.healthAddress,
		PprofBindAddress:       pprofAddress(o.pprofPort),
		Cache:                  cache.Options{ByObject: objects},
		BaseContext:            baseContext(ctx),
	})
	if err != nil {
		return nil, err
	}
	if hasProfile {
		if err := profilewatch.Follow(ctx, o.profile, mgr.GetCache()); err != nil {
			return nil, err
		}
	}
	if err := addMetricsServer(ctx, mgr, o.metricsAddress, certificate, o.profile, live); err != nil {
		return nil, err
	}
	return mgr, addProcessMetrics("vg-manager", map[string]certificateSource{"metrics": certificate.Current})
}

func hasTLSProfile(config *rest.Config) (bool, error) {
	apis, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false, err
	}
	return platform.HasTLSProfile(apis)
}

// agentCache limits the agent's cache to its own node and namespace. volumes and approvals select the LogicalVolumes
// and LVMDeviceApprovals of the node.
func agentCache(nodeName, namespace string, volumes, approvals fields.Selector) map[client.Object]cache.ByObject {
	own := fields.OneTermEqualSelector("metadata.name", nodeName)
	inNamespace := map[string]cache.Config{namespace: {}}
	return map[client.Object]cache.ByObject{
		&corev1.Node{}:                          {Field: own},
		&topolvmv1.LogicalVolume{}:              {Field: volumes},
		&lvmv1alpha1.LVMVolumeGroup{}:           {Namespaces: inNamespace},
		&lvmv1alpha1.LVMVolumeGroupNodeStatus{}: {Namespaces: inNamespace, Field: own},
		&lvmv1alpha1.LVMRecovery{}:              {Namespaces: inNamespace},
		&lvmv1alpha1.LVMDeviceApproval{}:        {Namespaces: inNamespace, Field: approvals},
	}
}

// addVolumeGroups adds the reconcilers of devices and volume groups, and the sources of their events. local runs the
// programs of the image.
func addVolumeGroups(
	ctx context.Context, mgr ctrl.Manager, nodeName, namespace string, cluster clusterid.Identity, local *host.Local,
	fileSystems sharedFileSystems,
	o vgmanagerOptions,
) (volumeParts, error) {
	node, image := host.NewNamespace(o.layout.HostPath()), host.NewImage()
	liveness.CountCommands(ctx, host.Counters{node.Started(), image.Started(), local.Started()})
	if err := metrics.Registry.Register(nodemetrics.Commands{node.Started(), image.Started(),
		local.Started()}); err != nil {
		return volumeParts{}, err
	}
	if err := addSmart(mgr, nodeName, namespace, local, o.smartInterval); err != nil {
		return volumeParts{}, err
	}
	s, err := newStorage(lvmsource.New(node, image, ctrl.Log.WithName("lvm")), o.layout.StateDir())
	if err != nil {
		return volumeParts{}, err
	}
	taker, err := newTaker(s, local)
	if err != nil {
		return volumeParts{}, err
	}
	list := inventory.New(inventory.Options{
		Client: mgr.GetClient(), Node: nodeName, Namespace: namespace, Cluster: cluster.ID,
		FormerCluster: cluster.Former, LVM: s.volumes,
		Devices: s.devices, Health: s.watch, Source: s.runner.Source,
	})
	audit := audit.New(audit.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Node: nodeName, Cluster: cluster.ID, Namespace: namespace,
		States: s.engine, IO: s.kernel,
		Recorder: mgr.GetEventRecorder("vg-manager"), MaxVolumes: o.volumeMetrics,
		FileSystems: fileSystems, Detained: s.users.Detained,
	})
	groups := volumegroup.New(s.groupOptions(volumegroup.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("vg-manager"),
		Node: nodeName, Namespace: namespace, Cluster: cluster.ID, FormerCluster: cluster.Former,
		Changed: list.Changed, StatusChanged: audit.Wake, Orphans: audit.Orphans,
		Eraser: fileSystems.eraser, FileSystems: fileSystems,
		Checker: fscheck.New(nodeName, fileSystems.locks, local, s.engine.TagsOf),
	}))
	if err := followObjects(ctx, mgr, audit, groups.Wake); err != nil {
		return volumeParts{}, err
	}
	events := uevent.New()
	for _, wake := range []func(){groups.Wake, list.Wake} {
		events.Subscribe(wake)
		s.watch.monitor.Subscribe(wake)
	}
	// A change of health also affects capacity and the condition of volumes.
	s.watch.monitor.Subscribe(s.engine.Changed)
	agents, err := addAgentServer(mgr, nodeName, namespace, s.engine, s.volumes, s.kernel, fileSystems.locks, o)
	if err != nil {
		return volumeParts{}, err
	}
	err = errors.Join(metrics.Registry.Register(audit),
		metrics.Registry.Register(nodemetrics.New(mgr.GetClient(), nodeName, namespace)), mgr.Add(audit),
		mgr.Add(s.engine), mgr.Add(memory.Reducer{}), mgr.Add(manager.RunnableFunc(s.watch.monitor.Start)),
		mgr.Add(manager.RunnableFunc(events.Start)),
		groups.SetupWithManager(mgr), list.SetupWithManager(mgr))
	return volumeParts{engine: s.engine, taker: taker, agents: agents}, err
}

// newTaker returns what takes group snapshots. local runs its watchdog, which is this program.
func newTaker(s *storage, local *host.Local) (*groupsnapshot.Node, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program of the watchdog: %w", err)
	}
	return groupsnapshot.New(groupsnapshot.OfNode(s.volumes), s.kernel, devicemapper.NewChanger(),
		groupsnapshot.WatchWith(local, self), suspendedFile), nil
}

// followObjects has logical volumes audited when their objects begin or cease to exist, and the status of the node
// written when its orphans change.
func followObjects(ctx context.Context, mgr ctrl.Manager, audit *audit.Auditor, wake func()) error {
	audit.Subscribe(wake)
	informer, err := mgr.GetCache().GetInformer(ctx, &topolvmv1.LogicalVolume{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch LogicalVolumes: %w", err)
	}
	if _, err := informer.AddEventHandler(audit.ObjectHandler()); err != nil {
		return fmt.Errorf("watch LogicalVolumes: %w", err)
	}
	return nil
}

// addSmart adds the monitor for the health of disks if it is configured. smartctl is in the image, not on the node.
func addSmart(mgr ctrl.Manager, nodeName, namespace string, runner *host.Local, interval time.Duration) error {
	if interval == 0 {
		return nil
	}
	monitor := smart.New(smart.Options{Client: mgr.GetClient(), Node: nodeName, Namespace: namespace, Runner: runner,
		Interval: interval})
	return errors.Join(metrics.Registry.Register(monitor), mgr.Add(monitor))
}

// addVolumes adds the parts that serve volumes: the reconciler of LogicalVolumes, the CSI node service, its
// registration with the kubelet, and the capacity for the Node and the metrics.
func addVolumes(ctx context.Context, mgr ctrl.Manager, nodeName, cluster string, parts volumeParts,
	local *host.Local, fileSystems sharedFileSystems, layout hostpaths.Layout, monitor *liveness.Monitor) error {
	engine := parts.engine
	node := csinode.NewNodeServer(csinode.NodeOptions{Node: nodeName, Client: mgr.GetClient(),
		Live: mgr.GetAPIReader(), Volumes: engine, FileSystems: fileSystems.FileSystems,
		Programs: local, Locks: fileSystems.locks, StateDir: layout.StateDir()})
	engine.HoldUnformattedWith(node.HoldUnformatted)
	volumes := logicalvolume.New(logicalvolume.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Node: nodeName, Cluster: cluster, Volumes: engine,
		Eraser: fileSystems.eraser, Copier: fileSystems.copier,
		SourceOn: parts.agents.Of, SupportsLimits: node.Limits.Supported, Removed: node.Removed,
		Recorder: mgr.GetEventRecorder("vg-manager"),
	})
	ioLimits := limits.NewReconciler(node.Limits, mgr.GetClient())
	fences := csinode.NewFenceReconciler(node, mgr.GetClient(), devicemapper.New())
	offer := capacity.New(mgr.GetClient(), nodeName, engine)
	if err := errors.Join(volumes.SetupWithManager(mgr),
		logicalvolume.NewGroups(volumes, engine, parts.taker).SetupWithManager(mgr), ioLimits.SetupWithManager(mgr),
		fences.SetupWithManager(mgr),
		mgr.Add(offer), metrics.Registry.Register(offer)); err != nil {
		return err
	}
	measure, err := sidecar.MeasureServer(wellknown.DriverName, metrics.Registry)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(adapt.Interceptor(monitor), measure,
		service.LogCalls(node.ClaimOf)))
	csi.RegisterIdentityServer(server, newIdentity(monitor))
	csi.RegisterNodeServer(server, node)
	if err := mgr.Add(sidecar.NewGRPCServer(server, csiSocket)); err != nil {
		return err
	}
	registrar := sidecar.NewRegistrar(sidecar.RegistrarOptions{
		Driver: wellknown.DriverName, Socket: registrationSocket, Endpoint: csiEndpoint(layout),
		CSISocket: csiSocket,
	})
	if err := mgr.Add(registrar); err != nil {
		return err
	}
	if err := addEarlierDriver(mgr, node.NodeOptions, layout, monitor); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("kubelet-registration", registrar.Ready)
}

// addTrimmer adds what trims the file systems of mounted volumes, if a device class wants that.
func addTrimmer(mgr ctrl.Manager, nodeName, namespace string, engine *engine.Engine, fileSystems sharedFileSystems,
	layout hostpaths.Layout) error {
	trimmer := fstrim.New(fstrim.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Node: nodeName, Namespace: namespace, Volumes: engine,
		FileSystems: fileSystems, Plugins: layout.CSIPluginsDir(), NotSupported: mountedfs.NotSupported,
		Recorder: mgr.GetEventRecorder("vg-manager"),
	})
	return errors.Join(metrics.Registry.Register(trimmer), mgr.Add(trimmer))
}

// addArchivePruner adds what bounds LVM's archive of the volume groups of device classes, without those that an
// administrator created. A published class has the name of its volume group.
func addArchivePruner(mgr ctrl.Manager, engine *engine.Engine) error {
	return mgr.Add(&lvmarchive.Pruner{Dir: lvm.ArchiveDir, Now: time.Now, Groups: func() []lvmarchive.Group {
		var groups []lvmarchive.Group
		for _, name := range engine.VolumeGroups() {
			class, published := engine.Class(name)
			if published && !class.ExistingVolumeGroup && class.VolumeGroup == name && class.VolumeGroupUUID != "" {
				groups = append(groups, lvmarchive.Group{Name: name, UUID: class.VolumeGroupUUID})
			}
		}
		return groups
	}})
}

// csiEndpoint returns the path of csiSocket on the node, which the kubelet uses.
func csiEndpoint(layout hostpaths.Layout) string {
	return filepath.Join(layout.NodeSocketDir(), filepath.Base(csiSocket))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	podwebhookrole "github.com/lvm-storage/lvm-operator/config/pod-webhook"
	"github.com/lvm-storage/lvm-operator/config/rbac"
	"github.com/lvm-storage/lvm-operator/controllers/alertrules"
	"github.com/lvm-storage/lvm-operator/controllers/consoleplugin"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
	"github.com/lvm-storage/lvm-operator/controllers/metricsaccess"
	"github.com/lvm-storage/lvm-operator/controllers/networkpolicies"
	"github.com/lvm-storage/lvm-operator/controllers/nodeprobe"
	"github.com/lvm-storage/lvm-operator/controllers/standby"
	"github.com/lvm-storage/lvm-operator/controllers/volumeimport"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove"
	"github.com/lvm-storage/lvm-operator/internal/cluster/clusterid"
	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	"github.com/lvm-storage/lvm-operator/internal/cluster/permissions"
	"github.com/lvm-storage/lvm-operator/internal/cluster/platform"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/metrics/memory"
	"github.com/lvm-storage/lvm-operator/internal/tls/agentca"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile/profilewatch"
	"github.com/lvm-storage/lvm-operator/internal/version"
	"github.com/lvm-storage/lvm-operator/internal/volume/activecache"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/smart"
)

const (
	csiSocket        = "/run/topolvm/csi-topolvm.sock"
	managerContainer = "manager"
	account          = "lvms-operator"
	webhookSecret    = "lvms-operator-webhook-server-cert"
	webhookService   = "lvms-operator-webhook-service"
	webhookConfig    = "lvms-operator-webhook"
)

// operatorOptions are the flags of `lvms operator`.
type operatorOptions struct {
	metricsAddress, metricsCertDir string
	healthAddress                  string
	webhookPort                    int
	webhookCertDir                 string
	leaderElect                    bool
	standbys                       int
	pprofPort                      uint16
	volumeMetrics                  int
	smartInterval                  time.Duration
	nodeProbeInterval              time.Duration
	runbooks                       string
	kubeletDir, hostPath           string
	layout                         hostpaths.Layout
	clusterID                      string
	podWebhook                     bool
	snapshotMetadataAddress        string
}

func operatorCommand() *cobra.Command { return (&operatorOptions{}).command() }

// command returns the command whose flags are the options.
func (o *operatorOptions) command() *cobra.Command {
	command := &cobra.Command{
		Use:   "operator",
		Short: "Run the operator",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return runOperator(ctrl.SetupSignalHandler(), *o) },
	}
	flags := command.Flags()
	flags.StringVar(&o.metricsAddress, "diagnostics-address", ":8443", "address of the metrics server (HTTPS)")
	flags.StringVar(&o.metricsCertDir, "metrics-cert-dir", "", metricsCertificateHelp)
	flags.IntVar(&o.volumeMetrics, "volume-metrics", defaultVolumeMetrics,
		"maximum number of volumes of a node with their own metrics; 0 for none. The environment variable "+
			volumeMetricsVariable+", which a Subscription can set, overrides this flag")
	flags.DurationVar(&o.smartInterval, "smart-interval", 0,
		"interval at which the SMART health of disks is read, at least 1m; 0 for never. The environment variable "+
			smartIntervalVariable+", which a Subscription can set, overrides this flag")
	flags.DurationVar(&o.nodeProbeInterval, "node-probe-interval", 0,
		"interval at which a small volume of each device class is created, written and deleted on each node, at least "+
			"1m; 0 for never. The environment variable "+nodeProbeVariable+
			", which a Subscription can set, overrides this flag")
	flags.StringVar(&o.runbooks, "runbook-base-url", "",
		"prefix of runbook_url in the alerts; empty for "+alertrules.DefaultRunbooks+
			". The environment variable "+runbooksVariable+", which a Subscription can set, overrides this flag")
	flags.StringVar(&o.kubeletDir, "kubelet-root-dir", hostpaths.DefaultKubeletDir,
		"the kubelet's directory on all nodes, which is its --root-dir. The environment variable "+
			hostpaths.KubeletDirVariable+", which a Subscription can set, overrides this flag")
	flags.StringVar(&o.hostPath, "host-path", hostpaths.DefaultHostPath,
		"directories with the programs of the nodes, separated by colons, in the order of the search. Only root may "+
			"be able to write to them. The environment variable "+hostpaths.HostPathVariable+
			", which a Subscription can set, overrides this flag")
	flags.StringVar(&o.clusterID, "cluster-id", "",
		"identity of a cluster that is not OpenShift, with which its volume groups are tagged; empty for the UID of "+
			"the namespace kube-system, which a new cluster does not have. No two clusters may have the same. The "+
			"environment variable "+clusterid.Variable+", which a Subscription can set, overrides this flag")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flags.Uint16Var(&o.pprofPort, "pprof-port", 0, "port on 127.0.0.1 for profiling (net/http/pprof); 0 to disable")
	flags.IntVar(&o.webhookPort, "webhook-port", 9443, "port of the admission webhook (HTTPS)")
	flags.StringVar(&o.webhookCertDir, "webhook-cert-dir", "",
		"directory with tls.crt and tls.key for the webhook, issued by OpenShift's service CA or OLM; if empty, "+
			"the operator issues and rotates its own certificate")
	flags.BoolVar(&o.podWebhook, "pod-webhook", false, "mark Pods for a scheduler extender, with a mutating webhook; "+
		"requires the permission in config/pod-webhook, and a kube-scheduler with the extender: without it, marked "+
		"Pods stay Pending. The environment variable "+podWebhookVariable+
		", which a Subscription can set, overrides this flag")
	flags.StringVar(&o.snapshotMetadataAddress, "snapshot-metadata-bind-address",
		fmt.Sprintf(":%d", wellknown.SnapshotMetadataPort), "address of the server with which backup software reads "+
			"the changed blocks of snapshots (gRPC with TLS); empty for none")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "elect a leader, so that only one of several replicas "+
		"reconciles; all of them serve admission")
	flags.IntVar(&o.standbys, "standbys", 1, "number of standby replicas, 0 to 2, each on another node; fewer if "+
		"there are fewer nodes")
	return command
}

// clientQPS and clientBurst limit the operator's requests to the API server per second. With the default of 20
// (controller-runtime, client/config), one node status for each of a thousand nodes would take a minute. The API server
// itself ensures fairness among its clients (KEP-1040).
const (
	clientQPS   = 100
	clientBurst = 200
)

// The operator reads its own Pod to get the image for the node agents.
// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=pods,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=openshift-lvm-storage,resources=leases,verbs=get;create;update
// Permissions to authorize clients that read metrics:
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=extension-apiserver-authentication,verbs=get
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

func runOperator(ctx context.Context, options operatorOptions) error {
	if err := options.complete(); err != nil {
		return err
	}
	o, err := newOperator(ctx, options)
	if err != nil {
		return err
	}
	ctx = o.liveness.Context(ctx)
	defer liveness.Ask(ctx, "cache of volumes", o.volumes.Answers)()
	o.applyClusterScoped(ctx)
	mgr, err := o.newManager(ctx)
	if err != nil {
		return err
	}
	if err := addLiveness(mgr, o.liveness); err != nil {
		return err
	}
	if err := addMetricsServer(ctx, mgr, o.metricsAddress, o.certificate, o.profile, o.direct); err != nil {
		return err
	}
	if err := o.addServices(ctx, mgr); err != nil {
		return err
	}
	if err := addControllers(mgr, o); err != nil {
		return err
	}
	snapshots, err := o.addSnapshotMetadata(mgr)
	if err != nil {
		return err
	}
	closeSidecars, err := addCSI(ctx, mgr, o, snapshots)
	if err != nil {
		return err
	}
	defer closeSidecars()
	if err := mgr.Add(memory.Reducer{}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// complete checks the flags, and replaces those for which an environment variable is set.
func (o *operatorOptions) complete() (err error) {
	if o.standbys < 0 || o.standbys > 2 {
		return fmt.Errorf("invalid --standbys %d: must be 0, 1 or 2", o.standbys)
	}
	if o.volumeMetrics, err = numberFromEnvironment(volumeMetricsVariable, o.volumeMetrics); err != nil {
		return err
	}
	if o.smartInterval, err = intervalFromEnvironment(smartIntervalVariable, "smart-interval", o.smartInterval,
		smart.MinInterval); err != nil {
		return err
	}
	if o.nodeProbeInterval, err = intervalFromEnvironment(nodeProbeVariable, "node-probe-interval",
		o.nodeProbeInterval, nodeprobe.MinInterval); err != nil {
		return err
	}
	if o.layout, err = hostpaths.Parse(o.kubeletDir, o.hostPath, os.Getenv); err != nil {
		return err
	}
	if o.clusterID, err = clusterid.Declared(o.clusterID, os.Getenv); err != nil {
		return err
	}
	if o.podWebhook, err = boolFromEnvironment(podWebhookVariable, o.podWebhook); err != nil {
		return err
	}
	o.runbooks, err = runbooks(o.runbooks)
	return err
}

// operator has what the operator needs before its manager exists.
type operator struct {
	operatorOptions
	namespace, podName string
	config             *rest.Config
	direct             client.Client
	apis               *discovery.DiscoveryClient
	found              platform.Platform
	identity           clusterid.Identity
	watch              *permissions.Watch
	// image is the operator's own image, which the node agents run too.
	image       string
	certificate servingcert.Source
	webhookCert webhookCertificate
	profile     *tlsprofile.Follower
	agentCA     *agentca.Store
	volumes     *activecache.Volumes
	liveness    *liveness.Monitor
	// earlierServed is closed when the first volume of an earlier TopoLVM is served.
	earlierServed chan struct{}
}

// newOperator detects the platform and checks that the operator has its permissions.
func newOperator(ctx context.Context, options operatorOptions) (*operator, error) {
	o := &operator{operatorOptions: options, profile: tlsprofile.New(), volumes: &activecache.Volumes{},
		earlierServed: make(chan struct{}), liveness: adapt.NewMonitor(),
		certificate: servingcert.NewFolderOrSelfSigned(options.metricsCertDir, reportCertificate)}
	var err error
	if o.namespace, err = environment(namespaceVariable); err != nil {
		return nil, err
	}
	if o.podName, err = environment(podNameVariable); err != nil {
		return nil, err
	}
	if err := o.connect(); err != nil {
		return nil, err
	}
	if o.found, err = platform.Detect(ctx, o.apis, o.direct); err != nil {
		return nil, fmt.Errorf("detect the platform: %w", err)
	}
	ctrl.Log.Info("starting the operator", "version", version.Full(), "platform", o.found, "namespace", o.namespace)
	needed, err := o.permissions()
	if err != nil {
		return nil, err
	}
	o.watch = permissions.NewWatch(o.direct, o.namespace+"/"+account, needed)
	if err := o.watch.CanStart(ctx); err != nil {
		return nil, err
	}
	if o.identity, err = clusterid.Read(ctx, o.direct, o.clusterID); err != nil {
		return nil, err
	}
	o.webhookCert = newWebhookCertificate(o.direct, o.namespace, options.webhookCertDir)
	o.agentCA = o.newAgentCA()
	o.image, err = ownImage(ctx, o.direct, o.namespace, o.podName)
	return o, err
}

// permissions returns the permissions that the operator needs.
func (o *operator) permissions() ([]permissions.Right, error) {
	roles := rbac.Operator
	if o.podWebhook {
		roles = slices.Concat(roles, []byte("\n---\n"), podwebhookrole.Role)
	}
	return permissions.Of(roles, rbac.Namespace, o.namespace, o.found.Absent()...)
}

// applyClusterScopedLimit limits the time for which the start waits for the cluster-scoped objects.
const applyClusterScopedLimit = 30 * time.Second

// applyClusterScoped gives the cluster-scoped objects their owner before this Pod is ready: OLM then deletes the owner
// of the previous version, and Kubernetes would delete these objects with it. If it fails, the leader retries, and may
// have to create them again.
func (o *operator) applyClusterScoped(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, applyClusterScopedLimit)
	defer cancel()
	err := operand.NewInstallationPolicies(o.direct, o.direct, o.namespace).Apply(ctx)
	if o.found.Console {
		plugin := consoleplugin.New(o.direct, o.direct, nil, consoleplugin.Options{Namespace: o.namespace})
		err = errors.Join(err, plugin.ApplyClusterScoped(ctx))
	}
	if err != nil {
		ctrl.Log.Error(err, "cannot apply the cluster-scoped objects before the start; the leader retries")
	}
}

// connect creates the clients of the API server.
func (o *operator) connect() (err error) {
	if o.config, err = ctrl.GetConfig(); err != nil {
		return err
	}
	o.config.QPS = clientQPS
	o.config.Burst = clientBurst
	o.config.Wrap(adapt.Transport(o.liveness))
	// The finalizers of upstream have no path, and the API server returns a warning for each of them.
	o.config.WarningHandlerWithContext = logf.NewKubeAPIWarningLogger(
		logf.KubeAPIWarningLoggerOptions{Deduplicate: true})
	if o.direct, err = client.New(o.config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	o.apis, err = discovery.NewDiscoveryClientForConfig(o.config)
	return err
}

func (o *operator) newManager(ctx context.Context) (ctrl.Manager, error) {
	lock, err := newLeaderLock(o.config, o.namespace, o.podName)
	if err != nil {
		return nil, err
	}
	return ctrl.NewManager(o.config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                noMetrics,
		HealthProbeBindAddress: o.healthAddress,
		PprofBindAddress:       pprofAddress(o.pprofPort),
		WebhookServer:          o.webhookCert.server(o.operatorOptions, o.profile),
		Cache: cache.Options{ByObject: operatorCache(o.namespace, o.found),
			DefaultTransform: activecache.Any, NewInformer: o.volumes.NewInformer},
		NewClient:                           activecache.NewClient,
		BaseContext:                         baseContext(ctx),
		LeaderElection:                      o.leaderElect,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       ptr.To(leaseDuration),
		RenewDeadline:                       ptr.To(renewDeadline),
		RetryPeriod:                         ptr.To(retryPeriod),
	})
}

// addServices adds what the operator runs besides its controllers.
func (o *operator) addServices(ctx context.Context, mgr ctrl.Manager) error {
	if o.found.TLSProfile {
		if err := profilewatch.Follow(ctx, o.profile, mgr.GetCache()); err != nil {
			return err
		}
	}
	if err := mgr.Add(platform.RestartWhenAPIsAppear(o.apis, o.found)); err != nil {
		return err
	}
	if err := mgr.Add(clusterid.RestartWhenChanged(o.direct, o.clusterID, o.identity)); err != nil {
		return err
	}
	if err := mgr.Add(o.agentCA); err != nil {
		return err
	}
	if err := o.webhookCert.addTo(mgr); err != nil {
		return err
	}
	shown := map[string]certificateSource{"metrics": o.certificate.Current, "webhook": o.webhookCert.Current}
	if err := addProcessMetrics("lvms-operator", shown); err != nil {
		return err
	}
	if err := mgr.Add(o.watch); err != nil || !o.leaderElect {
		return err
	}
	return standby.New(mgr.GetClient(), mgr.GetAPIReader(), o.namespace, o.standbys).SetupWithManager(mgr)
}

// operatorCache limits the operator's cache to what it needs.
func operatorCache(namespace string, found platform.Platform) map[client.Object]cache.ByObject {
	objects := lvmcluster.CacheByObject(namespace)
	maps.Copy(objects, networkpolicies.CacheByObject(namespace))
	maps.Copy(objects, volumeimport.CacheByObject(namespace))
	maps.Copy(objects, volumemove.CacheByObject(namespace))
	objects[&corev1.Node{}] = cache.ByObject{Transform: activecache.Node}
	if found.TLSProfile {
		maps.Copy(objects, profilewatch.CacheByObject())
	}
	if found.Console {
		maps.Copy(objects, consoleplugin.CacheByObject(namespace))
	}
	if found.ServiceMonitors {
		maps.Copy(objects, alertrules.CacheByObject(namespace))
	}
	if hasPlatformPrometheus(found) {
		maps.Copy(objects, metricsaccess.CacheByObject(namespace))
	}
	return objects
}

// hasPlatformPrometheus reports whether the cluster has OpenShift's own Prometheus, which can read the metrics.
func hasPlatformPrometheus(found platform.Platform) bool {
	return found.Kind == platform.OpenShift && found.ServiceMonitors
}

func ownImage(ctx context.Context, reader client.Reader, namespace, podName string) (string, error) {
	var pod corev1.Pod
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: podName}, &pod); err != nil {
		return "", fmt.Errorf("read the Pod of the operator to find its image: %w", err)
	}
	for _, container := range pod.Spec.Containers {
		if container.Name == managerContainer {
			return container.Image, nil
		}
	}
	return "", fmt.Errorf("the Pod %s/%s has no container %q: its image is required for the node agents", namespace,
		podName,
		managerContainer)
}

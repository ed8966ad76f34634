package operand

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/cluster/clusterid"
	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	"github.com/lvm-storage/lvm-operator/internal/cluster/platform"
)

const (
	healthPort  = 8081
	metricsPort = 8443

	// cpuRequest and memoryRequest are small, and there are no limits: a limit could kill the agent during an LVM
	// command. memorySoft, twice the memory request, is the soft limit for Go's garbage collector.
	cpuRequest    = "5m"
	memoryRequest = "45Mi"
	memorySoft    = "90MiB"
	// garbagePercent limits the garbage to half of the live memory (GOGC): the live memory is small, and the agent
	// reuses its large buffers, so collections are cheap.
	garbagePercent = "50"

	// gracePeriod, in seconds, is enough for a running LVM command to end.
	gracePeriod = 30
	// maxUnavailable limits how many nodes are without an agent during an update. Running Pods keep their volumes.
	maxUnavailable = "10%"

	managementAnnotation = "target.workload.openshift.io/management"
	managementEffect     = `{"effect": "PreferredDuringScheduling"}`

	// certificateSecret is the Secret in which OpenShift's service CA creates the certificate of the metrics Service.
	// On other platforms the Secret does not exist, and the agent uses a self-signed certificate.
	certificateSecret = "vg-manager-metrics-cert"
	certificateDir    = "/var/run/secrets/metrics"
)

// podLabels returns the labels that select the Pods of the DaemonSet. They must never change: the selector of a
// DaemonSet is immutable.
func podLabels() map[string]string {
	return map[string]string{
		labelName:      AgentName,
		labelManagedBy: FieldOwner,
		labelPartOf:    partOf,
		labelComponent: AgentName,
	}
}

// accountAnnotation has the UID of the ServiceAccount for which the Pods were created. If a ServiceAccount is recreated
// with the same name, tokens of the old one are invalid.
const accountAnnotation = "lvm.openshift.io/service-account-uid"

// identityAnnotation has the identity of the cluster when the Pods were created: if it changes, they are replaced.
const identityAnnotation = "lvm.openshift.io/cluster-id"

// newDaemonSet builds the DaemonSet of the node agent. account is the UID of its ServiceAccount.
func newDaemonSet(cluster *lvmv1alpha1.LVMCluster, placement observe.Placement, account types.UID,
	options Options) *applyappsv1.DaemonSetApplyConfiguration {
	all := labels(cluster, AgentName)
	maps.Copy(all, podLabels())
	rolling := applyappsv1.RollingUpdateDaemonSet().WithMaxUnavailable(intstr.FromString(maxUnavailable))
	return applyappsv1.DaemonSet(AgentName, cluster.Namespace).
		WithLabels(all).
		WithOwnerReferences(ownerReference(cluster)).
		WithSpec(applyappsv1.DaemonSetSpec().
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(podLabels())).
			WithUpdateStrategy(applyappsv1.DaemonSetUpdateStrategy().
				WithType("RollingUpdate").
				WithRollingUpdate(rolling)).
			WithTemplate(applycorev1.PodTemplateSpec().
				WithLabels(podLabels()).
				WithAnnotations(map[string]string{managementAnnotation: managementEffect,
					accountAnnotation: string(account), identityAnnotation: options.Identity}).
				WithSpec(newPodSpec(placement, options))))
}

func newPodSpec(placement observe.Placement, options Options) *applycorev1.PodSpecApplyConfiguration {
	spec := applycorev1.PodSpec().
		WithServiceAccountName(AgentName).
		WithPriorityClassName(priorityClass(options.Platform.Kind)).
		WithHostPID(true).
		WithTerminationGracePeriodSeconds(gracePeriod).
		WithContainers(newContainer(options)).
		WithVolumes(newVolumes(options)...)
	return spec.
		WithTolerations(applycorev1.Toleration().WithOperator(corev1.TolerationOpExists)).
		WithAffinity(newAffinity(placement.Terms()))
}

// priorityClass returns a priority class that prevents eviction of the agent before the Pods that use its volumes.
// OpenShift has a class for user operators. On other platforms the only suitable class is the highest one for nodes.
func priorityClass(kind platform.Kind) string {
	if kind == platform.OpenShift {
		return "openshift-user-critical"
	}
	return "system-node-critical"
}

func newContainer(options Options) *applycorev1.ContainerApplyConfiguration {
	env := []*applycorev1.EnvVarApplyConfiguration{
		fieldEnv("NODE_NAME", "spec.nodeName"),
		fieldEnv("NAMESPACE", "metadata.namespace"),
		applycorev1.EnvVar().WithName("GOMEMLIMIT").WithValue(memorySoft),
		applycorev1.EnvVar().WithName("GOGC").WithValue(garbagePercent),
		// For administrators who run LVM of the image in this container: it must not wait for udev of a node without
		// the rules for it. Programs that the agent starts have their own environment.
		applycorev1.EnvVar().WithName("DM_DISABLE_UDEV").WithValue("1"),
	}
	for _, variable := range layoutOf(options).Environment() {
		env = append(env, applycorev1.EnvVar().WithName(variable.Name).WithValue(variable.Value))
	}
	if options.ClusterID != "" {
		env = append(env, applycorev1.EnvVar().WithName(clusterid.Variable).WithValue(options.ClusterID))
	}
	return applycorev1.Container().
		WithName(AgentName).
		WithImage(options.Image).
		WithImagePullPolicy(corev1.PullIfNotPresent).
		WithCommand("/lvms", "vgmanager").
		WithArgs(newArguments(options)...).
		WithEnv(env...).
		WithPorts(
			applycorev1.ContainerPort().WithName("healthz").WithContainerPort(healthPort).WithProtocol(
				corev1.ProtocolTCP),
			applycorev1.ContainerPort().WithName("metrics").WithContainerPort(metricsPort).WithProtocol(
				corev1.ProtocolTCP),
			applycorev1.ContainerPort().WithName("peer").WithContainerPort(wellknown.PeerPort).WithProtocol(
				corev1.ProtocolTCP),
			applycorev1.ContainerPort().WithName("agent").WithContainerPort(wellknown.AgentPort).WithProtocol(
				corev1.ProtocolTCP),
		).
		WithSecurityContext(applycorev1.SecurityContext().
			WithPrivileged(true).
			WithRunAsUser(0).
			WithReadOnlyRootFilesystem(true)).
		WithResources(applycorev1.ResourceRequirements().WithRequests(corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpuRequest),
			corev1.ResourceMemory: resource.MustParse(memoryRequest),
		})).
		WithStartupProbe(newProbe("/healthz", 10, 60)).
		WithLivenessProbe(newProbe("/healthz", 30, 6)).
		WithReadinessProbe(newProbe("/readyz", 10, 3)).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithVolumeMounts(newVolumeMounts(options)...)
}

func newArguments(options Options) []string {
	args := []string{"--health-probe-bind-address=:8081", "--metrics-bind-address=:8443",
		fmt.Sprintf("--agent-bind-address=:%d", wellknown.AgentPort),
		fmt.Sprintf("--peer-bind-address=:%d", wellknown.PeerPort), "--metrics-cert-dir=" + certificateDir,
		fmt.Sprintf("--volume-metrics=%d", options.VolumeMetrics)}
	if options.SmartInterval > 0 {
		args = append(args, "--smart-interval="+options.SmartInterval.String())
	}
	return args
}

func fieldEnv(name, path string) *applycorev1.EnvVarApplyConfiguration {
	return applycorev1.EnvVar().WithName(name).WithValueFrom(applycorev1.EnvVarSource().
		WithFieldRef(applycorev1.ObjectFieldSelector().WithFieldPath(path)))
}

func newProbe(path string, period, failures int32) *applycorev1.ProbeApplyConfiguration {
	return applycorev1.Probe().
		WithHTTPGet(applycorev1.HTTPGetAction().WithPath(path).WithPort(intstr.FromInt32(healthPort))).
		WithPeriodSeconds(period).
		WithTimeoutSeconds(5).
		WithFailureThreshold(failures)
}

// hostPath is a directory of the node that is mounted in the agent's container.
type hostPath struct {
	name, host, container string
	create                bool
	// shared enables bidirectional mount propagation: the agent mounts volumes that the kubelet passes to Pods.
	shared bool
}

// hostPaths returns the directories of the node that the agent can access. The paths of volumes are the same in its
// container, because the kubelet passes them to the CSI node service.
func hostPaths(options Options) []hostPath {
	layout := layoutOf(options)
	return []hostPath{
		{name: "registration", host: layout.RegistryDir(), container: "/registration"},
		{name: "csi-socket", host: layout.NodeSocketDir(), container: "/run/topolvm", create: true},
		{name: "csi-plugins", host: layout.CSIPluginsDir(), container: layout.CSIPluginsDir(), create: true,
			shared: true},
		{name: "pods", host: layout.PodsDir(), container: layout.PodsDir(), shared: true},
		{name: "lvmd-config", host: layout.StateDir(), container: layout.StateDir(), create: true},
		{name: "lock", host: "/var/lock/vgmanager", container: "/var/lock/vgmanager", create: true},
		{name: "dev", host: "/dev", container: "/dev"},
		{name: "udev", host: "/run/udev", container: "/run/udev"},
		{name: "sys", host: "/sys", container: "/sys"},
		// For LVM of the image, on nodes without LVM: its configuration, devices file, backups, locks and caches.
		{name: "lvm-config", host: "/etc/lvm", container: "/etc/lvm", create: true},
		{name: "lvm-lock", host: "/run/lock/lvm", container: "/run/lock/lvm", create: true},
		{name: "lvm-run", host: "/run/lvm", container: "/run/lvm", create: true},
	}
}

// layoutOf returns the layout of the nodes. MicroShift writes the device classes to a directory of its own.
func layoutOf(options Options) hostpaths.Layout {
	if options.Platform.Kind == platform.MicroShift {
		return options.Layout.WithStateDir("/var/lib/microshift/lvms")
	}
	return options.Layout
}

const tmpVolume = "tmp"

func newVolumes(options Options) []*applycorev1.VolumeApplyConfiguration {
	var volumes []*applycorev1.VolumeApplyConfiguration
	for _, path := range hostPaths(options) {
		pathType := corev1.HostPathDirectory
		if path.create {
			pathType = corev1.HostPathDirectoryOrCreate
		}
		volumes = append(volumes, applycorev1.Volume().WithName(path.name).
			WithHostPath(applycorev1.HostPathVolumeSource().WithPath(path.host).WithType(pathType)))
	}
	return append(volumes, applycorev1.Volume().WithName(tmpVolume).WithEmptyDir(applycorev1.EmptyDirVolumeSource()),
		applycorev1.Volume().WithName(certificateSecret).
			WithSecret(applycorev1.SecretVolumeSource().WithSecretName(certificateSecret).WithOptional(true)))
}

func newVolumeMounts(options Options) []*applycorev1.VolumeMountApplyConfiguration {
	var mounts []*applycorev1.VolumeMountApplyConfiguration
	for _, path := range hostPaths(options) {
		mount := applycorev1.VolumeMount().WithName(path.name).WithMountPath(path.container)
		if path.shared {
			mount.WithMountPropagation(corev1.MountPropagationBidirectional)
		}
		mounts = append(mounts, mount)
	}
	return append(mounts, applycorev1.VolumeMount().WithName(tmpVolume).WithMountPath("/tmp"),
		applycorev1.VolumeMount().WithName(certificateSecret).WithMountPath(certificateDir).WithReadOnly(true))
}

// newAffinity returns a node affinity for nodes that any of the terms selects.
func newAffinity(terms []corev1.NodeSelectorTerm) *applycorev1.AffinityApplyConfiguration {
	required := applycorev1.NodeSelector()
	for _, term := range terms {
		required.WithNodeSelectorTerms(applycorev1.NodeSelectorTerm().
			WithMatchExpressions(newRequirements(term.MatchExpressions)...).
			WithMatchFields(newRequirements(term.MatchFields)...))
	}
	return applycorev1.Affinity().WithNodeAffinity(
		applycorev1.NodeAffinity().WithRequiredDuringSchedulingIgnoredDuringExecution(required))
}

func newRequirements(
	requirements []corev1.NodeSelectorRequirement) []*applycorev1.NodeSelectorRequirementApplyConfiguration {
	var all []*applycorev1.NodeSelectorRequirementApplyConfiguration
	for _, requirement := range requirements {
		all = append(all, applycorev1.NodeSelectorRequirement().
			WithKey(requirement.Key).
			WithOperator(requirement.Operator).
			WithValues(requirement.Values...))
	}
	return all
}

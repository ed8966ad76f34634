package consoleplugin

import (
	_ "embed"
	"fmt"
	"maps"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	consolev1 "github.com/openshift/api/console/v1"
	applyconsolev1 "github.com/openshift/client-go/console/applyconfigurations/console/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applynetworkingv1 "k8s.io/client-go/applyconfigurations/networking/v1"
	applypolicyv1 "k8s.io/client-go/applyconfigurations/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
)

const (
	port              = 9443
	portName          = "https"
	certificateSecret = Name + "-cert"
	certificateFolder = "/var/run/secrets/serving-cert"
	certificateVolume = "serving-cert"
	// servingCert is the annotation with which OpenShift's service CA creates a certificate in a Secret. The Secret is
	// deleted with the Service.
	servingCert = "service.beta.openshift.io/serving-cert-secret-name"
	nameLabel   = "app.kubernetes.io/name"
	// managementPrefix is the prefix of the annotations of Pods that belong to cluster management (workload
	// partitioning).
	managementPrefix = "target.workload.openshift.io/"
	// progressDeadline is the time, in seconds, after which the Deployment reports Pods that do not start.
	progressDeadline = 300
)

// pluginKind and quickStartKind are kinds of the console's API.
var (
	pluginKind     = consolev1.GroupVersion.WithKind("ConsolePlugin")
	quickStartKind = consolev1.GroupVersion.WithKind("ConsoleQuickStart")
)

// consoleNamespace and consolePods select the console's Pods, which download the files (openshift/console-operator,
// bindata).
var (
	consoleNamespace = map[string]string{corev1.LabelMetadataName: "openshift-console"}
	consolePods      = map[string]string{"app": "console", "component": "ui"}
)

// design has everything from which the objects are built.
type design struct {
	operator *appsv1.Deployment
	image    string
	replicas int32
	profile  configv1.TLSProfileSpec
}

func (d design) labels() map[string]string {
	labels := installed.Labels(d.operator)
	maps.Copy(labels, map[string]string{nameLabel: Name, "app.kubernetes.io/component": "console-plugin"})
	return labels
}

func (d design) selector() *applymetav1.LabelSelectorApplyConfiguration {
	return applymetav1.LabelSelector().WithMatchLabels(map[string]string{nameLabel: Name})
}

// namespaced returns the objects in the operator's namespace that always exist. The Deployment is last: it needs the
// others.
func (d design) namespaced() []runtime.ApplyConfiguration {
	return []runtime.ApplyConfiguration{d.account(), d.service(), d.networkPolicy(), d.deployment()}
}

func (d design) account() *applycorev1.ServiceAccountApplyConfiguration {
	return applycorev1.ServiceAccount(Name, d.operator.Namespace).WithLabels(d.labels()).WithOwnerReferences(
		installed.Owner(d.operator)).
		WithAutomountServiceAccountToken(false)
}

func (d design) service() *applycorev1.ServiceApplyConfiguration {
	return applycorev1.Service(Name, d.operator.Namespace).WithLabels(d.labels()).WithOwnerReferences(
		installed.Owner(d.operator)).
		WithAnnotations(map[string]string{servingCert: certificateSecret}).
		WithSpec(applycorev1.ServiceSpec().WithSelector(d.selector().MatchLabels).
			WithPorts(applycorev1.ServicePort().WithName(portName).WithProtocol(corev1.ProtocolTCP).WithPort(port).
				WithTargetPort(intstr.FromString(portName))))
}

// networkPolicy allows ingress from the console's Pods and no egress: the server needs no connections.
func (d design) networkPolicy() *applynetworkingv1.NetworkPolicyApplyConfiguration {
	console := applynetworkingv1.NetworkPolicyPeer().
		WithNamespaceSelector(applymetav1.LabelSelector().WithMatchLabels(consoleNamespace)).
		WithPodSelector(applymetav1.LabelSelector().WithMatchLabels(consolePods))
	return applynetworkingv1.NetworkPolicy(Name, d.operator.Namespace).WithLabels(d.labels()).WithOwnerReferences(
		installed.Owner(d.operator)).
		WithSpec(applynetworkingv1.NetworkPolicySpec().WithPodSelector(d.selector()).
			WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress).
			WithIngress(applynetworkingv1.NetworkPolicyIngressRule().WithFrom(console).
				WithPorts(applynetworkingv1.NetworkPolicyPort().WithProtocol(corev1.ProtocolTCP).WithPort(
					intstr.FromInt32(port)))))
}

func (d design) deployment() *applyappsv1.DeploymentApplyConfiguration {
	return applyappsv1.Deployment(Name, d.operator.Namespace).WithLabels(d.labels()).WithOwnerReferences(
		installed.Owner(d.operator)).
		WithSpec(applyappsv1.DeploymentSpec().WithReplicas(d.replicas).WithSelector(d.selector()).
			WithProgressDeadlineSeconds(progressDeadline).
			WithTemplate(applycorev1.PodTemplateSpec().WithLabels(d.labels()).WithAnnotations(d.annotations()).
				WithSpec(d.pod())))
}

// annotations returns the workload partitioning annotations of the operator's Pods, which select their CPUs.
func (d design) annotations() map[string]string {
	found := maps.Clone(d.operator.Spec.Template.Annotations)
	maps.DeleteFunc(found, func(key, _ string) bool { return !strings.HasPrefix(key, managementPrefix) })
	return found
}

// pod returns a Pod spec with the scheduling constraints of the operator. It prefers a different node for each Pod.
func (d design) pod() *applycorev1.PodSpecApplyConfiguration {
	apart := applycorev1.WeightedPodAffinityTerm().WithWeight(100).
		WithPodAffinityTerm(applycorev1.PodAffinityTerm().WithTopologyKey(corev1.LabelHostname).
			WithLabelSelector(d.selector()))
	affinity := applycorev1.Affinity().WithPodAntiAffinity(
		applycorev1.PodAntiAffinity().WithPreferredDuringSchedulingIgnoredDuringExecution(apart))
	theirs := d.operator.Spec.Template.Spec
	if theirs.Affinity != nil && theirs.Affinity.NodeAffinity != nil {
		affinity.WithNodeAffinity(converted[applycorev1.NodeAffinityApplyConfiguration](theirs.Affinity.NodeAffinity))
	}
	pod := applycorev1.PodSpec().
		WithServiceAccountName(Name).WithAutomountServiceAccountToken(false).WithEnableServiceLinks(false).
		WithNodeSelector(theirs.NodeSelector).WithAffinity(affinity).
		WithSecurityContext(applycorev1.PodSecurityContext().WithRunAsNonRoot(true).
			WithSeccompProfile(applycorev1.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(d.container()).
		// Not optional: the console loads nothing from a server without a certificate.
		WithVolumes(applycorev1.Volume().WithName(certificateVolume).WithSecret(
			applycorev1.SecretVolumeSource().WithSecretName(certificateSecret)))
	for i := range theirs.Tolerations {
		pod.WithTolerations(converted[applycorev1.TolerationApplyConfiguration](&theirs.Tolerations[i]))
	}
	for i := range theirs.ImagePullSecrets {
		pod.WithImagePullSecrets(applycorev1.LocalObjectReference().WithName(theirs.ImagePullSecrets[i].Name))
	}
	return pod
}

func (d design) container() *applycorev1.ContainerApplyConfiguration {
	args := []string{"--namespace=" + d.operator.Namespace, "--cert-dir=" + certificateFolder}
	if d.profile.MinTLSVersion != "" {
		args = append(args, "--tls-min-version="+string(d.profile.MinTLSVersion),
			"--tls-ciphers="+strings.Join(d.profile.Ciphers, ","))
	}
	probe := func(seconds int32) *applycorev1.ProbeApplyConfiguration {
		return applycorev1.Probe().WithPeriodSeconds(seconds).WithTimeoutSeconds(5).
			WithHTTPGet(applycorev1.HTTPGetAction().WithScheme(corev1.URISchemeHTTPS).WithPath("/healthz").WithPort(
				intstr.FromString(portName)))
	}
	return applycorev1.Container().WithName("console-plugin").WithImage(d.image).WithCommand("/console-plugin").
		WithArgs(args...).
		WithPorts(applycorev1.ContainerPort().WithName(portName).WithContainerPort(port).WithProtocol(
			corev1.ProtocolTCP)).
		WithReadinessProbe(probe(10)).WithLivenessProbe(probe(30)).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithResources(applycorev1.ResourceRequirements().WithRequests(corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("20Mi")})).
		WithSecurityContext(applycorev1.SecurityContext().WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithCapabilities(applycorev1.Capabilities().WithDrop("ALL"))).
		WithVolumeMounts(applycorev1.VolumeMount().WithName(certificateVolume).WithMountPath(certificateFolder).
			WithReadOnly(true))
}

// budget returns a PodDisruptionBudget that allows the eviction of one Pod at a time.
func (d design) budget() *applypolicyv1.PodDisruptionBudgetApplyConfiguration {
	return applypolicyv1.PodDisruptionBudget(Name, d.operator.Namespace).WithLabels(d.labels()).WithOwnerReferences(
		installed.Owner(d.operator)).
		WithSpec(applypolicyv1.PodDisruptionBudgetSpec().WithMaxUnavailable(intstr.FromInt32(1)).
			WithSelector(d.selector()))
}

// plugin returns the ConsolePlugin with the address of the server and the path of the build on it. The console loads
// the plugin if an administrator enables it.
func (d design) plugin(owner *applymetav1.OwnerReferenceApplyConfiguration,
	path string) *applyconsolev1.ConsolePluginApplyConfiguration {
	service := applyconsolev1.ConsolePluginService().WithName(Name).WithNamespace(d.operator.Namespace).WithPort(port).
		WithBasePath(path)
	return applyconsolev1.ConsolePlugin(PluginName).WithLabels(d.labels()).WithOwnerReferences(owner).
		WithSpec(applyconsolev1.ConsolePluginSpec().WithDisplayName("LVM Storage").
			WithI18n(applyconsolev1.ConsolePluginI18n().WithLoadType(consolev1.Preload)).
			WithBackend(applyconsolev1.ConsolePluginBackend().WithType(consolev1.Service).WithService(service)))
}

//go:embed quickstart.yaml
var quickStartFile []byte

// suggestedNamespace is the operator's namespace in the quick start file.
const suggestedNamespace = "openshift-lvm-storage"

// quickStart returns the ConsoleQuickStart, which is a tour of the plugin's pages.
func (d design) quickStart(
	owner *applymetav1.OwnerReferenceApplyConfiguration) (*applyconsolev1.ConsoleQuickStartApplyConfiguration, error) {
	spec := applyconsolev1.ConsoleQuickStartSpec()
	file := strings.ReplaceAll(string(quickStartFile), suggestedNamespace, d.operator.Namespace)
	if err := yaml.UnmarshalStrict([]byte(file), spec); err != nil {
		return nil, fmt.Errorf("quick start of the console plugin: %w", err)
	}
	return applyconsolev1.ConsoleQuickStart(quickStartName).WithLabels(d.labels()).WithOwnerReferences(owner).
		WithSpec(spec), nil
}

// metadataOf returns an empty PartialObjectMetadata of a kind: the client reads and caches only metadata.
func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// converted converts a part of an object to its apply configuration, which has the same fields.
func converted[T any](part any) *T {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part)
	into := new(T)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into)
	}
	if err != nil {
		panic(fmt.Sprintf("%T as %T: %v", part, into, err)) // Both are types of Kubernetes itself.
	}
	return into
}

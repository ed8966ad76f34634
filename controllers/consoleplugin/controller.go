// Package consoleplugin serves the plugin of the OpenShift console as soon as the operator starts: the form of the
// plugin creates the first LVMCluster. An administrator decides whether the console loads the plugin. All objects of
// this package are deleted with the operator.
package consoleplugin

import (
	"context"
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile"
)

const (
	// Name is the name of the objects in the operator's namespace.
	Name = "lvms-console-plugin"
	// PluginName is the name of the ConsolePlugin and of the plugin in its manifest. The console compares the two.
	PluginName = "lvms-console"
	// quickStartName is the name of the ConsoleQuickStart.
	quickStartName = "lvms-local-volumes"

	fieldOwner = "lvms-operator-console"
	// mostReplicas is the maximum number of replicas. There is one replica for each suitable node up to this number.
	mostReplicas = 2
)

// The events of the operator's Deployment.
var (
	// eventIncomplete is a Warning event on the Deployment of the operator: an object of the console plugin could not
	// be applied.
	// What to do: see the error in the note; the operator tries again.
	eventIncomplete = event.Warning("ConsolePluginIncomplete", "Reconcile", "console plugin: %s")
	// eventUnavailable is a Warning event on the Deployment of the operator: no Pod serves the console plugin, so the
	// console cannot load it.
	// What to do: check the Deployment that the note names, and its Pods.
	eventUnavailable = event.Warning("ConsolePluginUnavailable", "Reconcile",
		"the console cannot load the console plugin, because no Pod of Deployment "+Name+" is available: %s")
)

// Options configure the Controller.
type Options struct {
	Namespace, Image string
	// TLSProfile reports whether the cluster has APIServer objects, which configure the TLS profile.
	TLSProfile bool
}

// Controller reconciles the objects of the plugin.
type Controller struct {
	client  client.Client
	live    client.Reader
	applier *apply.Applier
	emitter *event.Emitter
	options Options
	profile *tlsprofile.Follower
}

// New returns a Controller. The client may read from a cache; live must not.
func New(c client.Client, live client.Reader, recorder event.Recorder, options Options) *Controller {
	return &Controller{client: c, live: live, applier: apply.New(c, fieldOwner), emitter: event.NewEmitter(recorder),
		options: options, profile: tlsprofile.New()}
}

// +kubebuilder:rbac:groups=apps,namespace=openshift-lvm-storage,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,namespace=openshift-lvm-storage,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=serviceaccounts,verbs=list;watch
// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=serviceaccounts,resourceNames=lvms-console-plugin,verbs=create;patch
// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=services,resourceNames=lvms-console-plugin,verbs=list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,namespace=openshift-lvm-storage,resources=networkpolicies,resourceNames=lvms-console-plugin,verbs=create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,namespace=openshift-lvm-storage,resources=networkpolicies,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// A change of the owner reference, as in an upgrade, requires permission to delete the object (admission plugin
// OwnerReferencesPermissionEnforcement).
// +kubebuilder:rbac:groups=console.openshift.io,resources=consoleplugins,resourceNames=lvms-console,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=console.openshift.io,resources=consolequickstarts,resourceNames=lvms-local-volumes,verbs=get;list;watch;create;patch;delete

// Reconcile applies all objects of the plugin, and again after versionInterval: the version of the cluster may be
// another one then. The request is ignored.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	operator, err := installed.Deployment(ctx, c.client, c.options.Namespace)
	if operator == nil || err != nil {
		return reconcile.Result{}, err
	}
	err = c.apply(ctx, operator)
	if err != nil {
		c.emitter.Emit(operator, eventIncomplete, err)
		return reconcile.Result{}, err
	}
	c.emitter.Clear(operator, eventIncomplete.Reason)
	return reconcile.Result{RequeueAfter: versionInterval}, c.emitUnavailable(ctx, operator)
}

// ApplyClusterScoped applies the cluster-scoped objects. In an upgrade, OLM deletes the previous owner of these objects
// as soon as the new Pod of the operator is ready, and Kubernetes deletes what has no other owner. So every Pod calls
// this before it is ready: the leader, which is a Pod of the previous version then, may be late on a busy cluster.
func (c *Controller) ApplyClusterScoped(ctx context.Context) error {
	operator, err := installed.Deployment(ctx, c.live, c.options.Namespace)
	if operator == nil || err != nil {
		return err
	}
	return c.applyClusterScoped(ctx, design{operator: operator})
}

func (c *Controller) applyClusterScoped(ctx context.Context, d design) error {
	owner, err := installed.ClusterOwner(ctx, c.live, d.operator)
	if err != nil {
		return err
	}
	quickStart, err := d.quickStart(owner)
	if err == nil {
		err = c.applier.Apply(ctx, quickStart)
	}
	path, pathErr := c.basePath(ctx)
	err = errors.Join(err, pathErr)
	if path == "" {
		return err
	}
	return errors.Join(err, c.applier.Apply(ctx, d.plugin(owner, path)))
}

// apply applies every object, also if others fail.
func (c *Controller) apply(ctx context.Context, operator *appsv1.Deployment) error {
	replicas, err := c.replicas(ctx, operator)
	if err != nil {
		return err
	}
	errs := []error{c.followProfile(ctx)}
	d := design{operator: operator, image: c.options.Image, replicas: replicas, profile: c.profile.Spec()}
	for _, object := range d.namespaced() {
		errs = append(errs, c.applier.Apply(ctx, object))
	}
	if replicas > 1 {
		errs = append(errs, c.applier.Apply(ctx, d.budget()))
	} else {
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: Name}}
		errs = append(errs, apply.IgnoreRemaining(c.applier.Delete(ctx, c.live, budget)))
	}
	return errors.Join(append(errs, c.applyClusterScoped(ctx, d))...)
}

// replicas returns the number of replicas: one for each node on which the operator could run, at most mostReplicas.
func (c *Controller) replicas(ctx context.Context, operator *appsv1.Deployment) (int32, error) {
	nodes := &corev1.NodeList{}
	if err := c.client.List(ctx, nodes); err != nil {
		return 0, fmt.Errorf("list nodes: %w", err)
	}
	places, err := installed.Places(&operator.Spec.Template, nodes.Items)
	return int32(max(1, min(mostReplicas, places))), err
}

// followProfile reads the TLS profile of the cluster. If it cannot be read, the last profile remains in effect.
func (c *Controller) followProfile(ctx context.Context) error {
	if !c.options.TLSProfile {
		return nil
	}
	server := &configv1.APIServer{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: "cluster"}, server); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the TLS profile from apiservers.config.openshift.io cluster: %w", err)
	}
	if err := c.profile.Set(server.Spec.TLSSecurityProfile); err != nil {
		return fmt.Errorf("cannot apply the TLS profile of apiservers.config.openshift.io cluster, so the previous "+
			"one remains in use: %w", err)
	}
	return nil
}

// emitUnavailable emits an event if the Pods do not start.
func (c *Controller) emitUnavailable(ctx context.Context, operator *appsv1.Deployment) error {
	deployment := &appsv1.Deployment{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: operator.Namespace, Name: Name}, deployment)
	if apierrors.IsNotFound(err) {
		return nil // The cache does not have it yet.
	}
	if err != nil {
		return fmt.Errorf("read Deployment %s/%s: %w", operator.Namespace, Name, err)
	}
	if trouble := troubleOf(deployment); trouble != "" {
		c.emitter.Emit(operator, eventUnavailable, trouble)
	} else {
		c.emitter.Clear(operator, eventUnavailable.Reason)
	}
	return nil
}

// troubleOf returns the message of the Deployment's controller if the Deployment does not progress, or "".
func troubleOf(deployment *appsv1.Deployment) string {
	for _, condition := range deployment.Status.Conditions {
		failed := condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue
		stuck := condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse
		if (failed || stuck) && deployment.Status.AvailableReplicas == 0 {
			return condition.Message
		}
	}
	return ""
}

// CacheByObject limits the manager's cache to the objects that the controller has permission to read.
// controllers/networkpolicies configures the cache of NetworkPolicies. Other controllers share the cache of
// ServiceAccounts.
func CacheByObject(namespace string) map[client.Object]cache.ByObject {
	byName := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	here := byName(Name)
	here.Namespaces = map[string]cache.Config{namespace: {}}
	return map[client.Object]cache.ByObject{
		&corev1.Service{}:          here,
		metadataOf(pluginKind):     byName(PluginName),
		metadataOf(quickStartKind): byName(quickStartName),
	}
}

// SetupWithManager starts the controller with the manager. The cluster must have the API of the console.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	wake := installed.EnqueueOne()
	ours := builder.WithPredicates(predicate.NewPredicateFuncs(
		func(o client.Object) bool { return o.GetName() == Name || o.GetName() == installed.Name }))
	b := builder.ControllerManagedBy(mgr).
		Named("consoleplugin").
		Watches(&appsv1.Deployment{}, wake, ours).
		Watches(&policyv1.PodDisruptionBudget{}, wake, ours).
		Watches(&corev1.Service{}, wake, ours).
		Watches(&networkingv1.NetworkPolicy{}, wake, ours).
		Watches(&corev1.ServiceAccount{}, wake, ours).
		Watches(&corev1.Node{}, wake, builder.WithPredicates(installed.PlaceChanged())).
		WatchesMetadata(metadataOf(pluginKind), wake).
		WatchesMetadata(metadataOf(quickStartKind), wake)
	if c.options.TLSProfile {
		b = b.Watches(&configv1.APIServer{}, wake)
	}
	return b.Complete(adapt.Reconciler(c))
}

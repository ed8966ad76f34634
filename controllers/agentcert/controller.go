// Package agentcert issues the certificates of node agents. An agent requests one in its LVMVolumeGroupNodeStatus,
// which no other agent can change (ValidatingAdmissionPolicy lvms-vg-manager-nodestatuses).
package agentcert

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	lvmsevent "github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/tls/agentca"
	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

const (
	// resync is the interval at which a node status is compared with the authority, which can change. It is much less
	// than the time for which a new authority is distributed before it signs.
	resync = 10 * time.Minute
	// afterConflict gives the cache time to catch up.
	afterConflict = time.Second
	// maxNodes is the maximum number of nodes whose rates are remembered. It is more than a cluster has.
	maxNodes = 8192
	// maxMessage is the API's limit for the message, in bytes.
	maxMessage = 1024
)

// answers is the rate of the answers to one node agent. It requests a certificate when it starts, and one each day. The
// kubelet restarts an agent that fails less often than this.
var answers = limit.Rate{Interval: time.Minute, Burst: 5}

// Authorities has the authority that signs.
type Authorities interface {
	Authority() (*agentca.Authority, error)
}

// Controller issues the certificate of one agent at a time.
type Controller struct {
	client      client.Client
	authorities Authorities
	emitter     *lvmsevent.Emitter
	now         func() time.Time
	// answered limits the answers by node, so that an agent that changes its request in a loop delays only itself.
	answered *limit.Rates
	// without are the agents that have no valid certificate, by node.
	without map[string]absence
}

// New returns a Controller. The client may read from a cache.
func New(c client.Client, authorities Authorities, recorder lvmsevent.Recorder) *Controller {
	return &Controller{client: c, authorities: authorities, emitter: lvmsevent.NewEmitter(recorder), now: time.Now,
		answered: limit.NewRates(answers, maxNodes), without: map[string]absence{}}
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroupnodestatuses,namespace=openshift-lvm-storage,verbs=get;list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroupnodestatuses/status,namespace=openshift-lvm-storage,verbs=patch

// Reconcile issues a certificate if the agent has none for its request.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	err := c.client.Get(ctx, request.NamespacedName, status)
	if apierrors.IsNotFound(err) || err == nil && !status.DeletionTimestamp.IsZero() {
		status.UID = c.without[request.Name].uid
		c.emitter.Forget(status)
		delete(c.without, request.Name)
		c.answered.Forget(request.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("certificate of the node agent of %s: read the node status: %w",
			request.Name, err)
	}
	if status.Status.AgentCertificate == nil {
		c.report(status, nil)
		return reconcile.Result{RequeueAfter: resync}, nil
	}
	if wait := c.answered.Delay(status.Name); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	authority, err := c.authorities.Authority()
	if err != nil {
		c.report(status, status.Status.AgentCertificate)
		return reconcile.Result{}, fmt.Errorf("certificate of the node agent of %s: %w", status.Name, err)
	}
	after := status.DeepCopy()
	issued, err := answer(after.Status.AgentCertificate, status.Name, authority, c.now())
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("certificate of the node agent of %s: %w", status.Name, err)
	}
	c.report(status, after.Status.AgentCertificate)
	if equality.Semantic.DeepEqual(status.Status.AgentCertificate, after.Status.AgentCertificate) {
		return reconcile.Result{RequeueAfter: resync}, nil
	}
	c.answered.Allow(status.Name)
	// The lock prevents an answer to a request that the agent has replaced.
	err = c.client.Status().Patch(ctx, after, client.MergeFromWithOptions(status, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: afterConflict}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("certificate of the node agent of %s: write the node status: %w",
			status.Name, err)
	}
	if message := after.Status.AgentCertificate.Message; message != "" {
		log.FromContext(ctx).Info("refused the request of a node agent for a certificate", "node", status.Name, "cause",
			message)
	} else if issued {
		log.FromContext(ctx).V(1).Info("issued a certificate for a node agent", "node", status.Name)
	}
	return reconcile.Result{RequeueAfter: resync}, nil
}

// answer sets what the operator writes. A certificate that peers trust is kept until the agent requests another one,
// which it does before the certificate expires. A request that is refused removes the certificate before it.
func answer(c *v1alpha1.AgentCertificate, node string, authority *agentca.Authority,
	now time.Time) (issued bool, err error) {
	c.Authorities = string(authority.Trusted)
	c.Message = ""
	if c.Request == "" {
		c.Certificate = ""
		return false, nil
	}
	key, err := pki.ParseSigningRequest([]byte(c.Request), mutualtls.Node(node))
	if err != nil {
		c.Certificate = ""
		c.Message = text.Truncate(fmt.Sprintf("the node agent of %s gets no certificate: %v", node, err), maxMessage)
		return false, nil
	}
	if authority.Accepts([]byte(c.Certificate), key, now) == nil {
		return false, nil
	}
	certificate, err := authority.IssueFor(node, key, now)
	if err != nil {
		return false, err
	}
	c.Certificate = string(certificate)
	return true, nil
}

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("agentcert").
		Watches(&v1alpha1.LVMVolumeGroupNodeStatus{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(certificateChanged())).
		Complete(adapt.Reconciler(c))
}

// certificateChanged omits changes of other parts of a node status.
func certificateChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*v1alpha1.LVMVolumeGroupNodeStatus)
			after, same := e.ObjectNew.(*v1alpha1.LVMVolumeGroupNodeStatus)
			return !ok || !same ||
				!equality.Semantic.DeepEqual(before.Status.AgentCertificate, after.Status.AgentCertificate)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// Package agentcert has the certificate of this node agent. It creates a key, which stays in memory, requests a
// certificate in the node status, where the operator issues it, and renews both.
package agentcert

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

const (
	// resync is the interval at which the renewal is checked.
	resync = 10 * time.Minute
	// whileWaiting is the delay while the operator must create the node status.
	whileWaiting = 10 * time.Second
	// afterConflict gives the cache time to catch up.
	afterConflict = time.Second
)

var errNoCertificate = errors.New("the operator has not issued a certificate for this node agent yet")

// Reconciler keeps the certificate. It is a mutualtls.Source.
type Reconciler struct {
	client          client.Client
	node, namespace string
	now             func() time.Time

	// used and requested are keys with their requests. requested is nil while no other certificate is requested. Only
	// Reconcile uses them, which is not called concurrently.
	used, requested *key
	current         atomic.Pointer[mutualtls.Credentials]
}

// key is a private key and the certificate signing request for it.
type key struct {
	private *ecdsa.PrivateKey
	request string
}

// New returns a Reconciler for the agent of a node. The client may read from a cache.
func New(c client.Client, node, namespace string) *Reconciler {
	return &Reconciler{client: c, node: node, namespace: namespace, now: time.Now}
}

// Current returns the credentials of this agent.
func (r *Reconciler) Current() (*mutualtls.Credentials, error) {
	current := r.current.Load()
	if current == nil {
		return nil, fmt.Errorf("node %s: %w: see status.agentCertificate of its LVMVolumeGroupNodeStatus", r.node,
			errNoCertificate)
	}
	if end := current.Certificate.Leaf.NotAfter; r.now().After(end) {
		return nil, fmt.Errorf("node %s: the certificate of the node agent has expired at %s, and the operator has "+
			"not issued another: see status.agentCertificate of its LVMVolumeGroupNodeStatus", r.node,
			end.Format(time.RFC3339))
	}
	return current, nil
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmvolumegroupnodestatuses,verbs=get;list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmvolumegroupnodestatuses/status,verbs=patch

// Reconcile uses the certificate that the operator issued, and requests the next one when half of its lifetime is over.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: r.node}, status)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: whileWaiting}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("certificate of the node agent: read node status %s: %w", r.node, err)
	}
	after := status.DeepCopy()
	if after.Status.AgentCertificate == nil {
		after.Status.AgentCertificate = &v1alpha1.AgentCertificate{}
	}
	used := r.use(after.Status.AgentCertificate)
	if err := r.request(after.Status.AgentCertificate); err != nil {
		return ctrl.Result{}, errors.Join(used, err)
	}
	if equality.Semantic.DeepEqual(status.Status, after.Status) {
		return ctrl.Result{RequeueAfter: resync}, used
	}
	err = r.client.Status().Patch(ctx, after, client.MergeFromWithOptions(status, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	}
	if err != nil {
		err = fmt.Errorf("request a certificate of the node agent in node status %s: %w", r.node, err)
	}
	return ctrl.Result{RequeueAfter: resync}, errors.Join(used, err)
}

// use starts to use a certificate that was issued for one of the keys, and trusts the authorities of now. A node status
// without them changes nothing: it was just created.
func (r *Reconciler) use(c *v1alpha1.AgentCertificate) error {
	if c.Certificate == "" || c.Authorities == "" {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(c.Authorities)) {
		return fmt.Errorf("node status %s: status.agentCertificate.authorities has no certificate", r.node)
	}
	issued, err := pki.ParseCertificate([]byte(c.Certificate))
	if err != nil {
		return fmt.Errorf("node status %s: status.agentCertificate: %w", r.node, err)
	}
	for _, k := range []*key{r.requested, r.used} {
		if k == nil {
			continue
		}
		certificate, err := pki.WithKey(issued, k.private)
		if err != nil {
			continue // It is for another key, of this agent or of the one before.
		}
		r.current.Store(&mutualtls.Credentials{Certificate: certificate, Authorities: pool})
		r.used = k
		if k == r.requested {
			r.requested = nil
		}
		return nil
	}
	return nil
}

// request has the node status request a certificate: for a new key if none is used or half of its lifetime is over.
func (r *Reconciler) request(c *v1alpha1.AgentCertificate) error {
	if r.requested == nil && r.isDue() {
		request, private, err := pki.NewSigningRequest(mutualtls.Node(r.node))
		if err != nil {
			return fmt.Errorf("certificate of the node agent of %s: %w", r.node, err)
		}
		r.requested = &key{private: private, request: string(request)}
	}
	wanted := r.requested
	if wanted == nil {
		wanted = r.used
	}
	if c.Request != wanted.request {
		*c = v1alpha1.AgentCertificate{Request: wanted.request, Authorities: c.Authorities}
	}
	return nil
}

// isDue reports whether another certificate must be requested.
func (r *Reconciler) isDue() bool {
	current := r.current.Load()
	if r.used == nil || current == nil {
		return true
	}
	leaf := current.Certificate.Leaf
	return r.now().After(leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2))
}

// SetupWithManager adds the reconciler to a manager. The cache only has the node status of this node.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("agentcert").
		Watches(&v1alpha1.LVMVolumeGroupNodeStatus{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(certificateChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(adapt.Reconciler(r))
}

// certificateChanged omits changes of other parts of the node status.
var certificateChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.(*v1alpha1.LVMVolumeGroupNodeStatus)
		after, is := e.ObjectNew.(*v1alpha1.LVMVolumeGroupNodeStatus)
		return was && is && !equality.Semantic.DeepEqual(before.Status.AgentCertificate, after.Status.AgentCertificate)
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

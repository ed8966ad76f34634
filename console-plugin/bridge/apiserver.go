package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/lvm-storage/lvm-operator/internal/webhook"
	"github.com/lvm-storage/lvm-operator/test/env"
)

// startAPIServer starts an API server with our CRDs, the operator's namespace and our admission webhook, and returns
// its configuration and a function that ends it.
func startAPIServer(ctx context.Context, namespace string) (*rest.Config, func() error, error) {
	server, err := env.Start()
	if err != nil {
		return nil, nil, err
	}
	if err := makeNamespace(ctx, server.Config, namespace); err != nil {
		return nil, nil, errors.Join(err, server.Stop())
	}
	options := &envtest.WebhookInstallOptions{ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{{
		ObjectMeta: metav1.ObjectMeta{Name: "lvms-operator-webhook"},
		Webhooks: []admissionv1.ValidatingWebhook{
			validating("lvmcluster", "lvmclusters", admissionv1.Create, admissionv1.Update),
			validating("lvmdeviceapproval", "lvmdeviceapprovals", admissionv1.Create),
		},
	}}}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	stop := func() error {
		cancel()
		return errors.Join(<-ended, options.Cleanup(), server.Stop())
	}
	if err := serveAdmission(running, server.Config, namespace, options, ended); err != nil {
		cancel()
		return nil, nil, errors.Join(err, server.Stop())
	}
	return server.Config, stop, nil
}

// makeNamespace creates a namespace, if it does not exist.
func makeNamespace(ctx context.Context, config *rest.Config, name string) error {
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return err
	}
	err = c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

// validating returns the registration of our webhook for a kind.
func validating(kind, resource string, operations ...admissionv1.OperationType) admissionv1.ValidatingWebhook {
	path := "/validate-lvm-topolvm-io-v1alpha1-" + kind
	return admissionv1.ValidatingWebhook{
		Name: "v" + kind + ".kb.io", AdmissionReviewVersions: []string{"v1"},
		SideEffects: ptr.To(admissionv1.SideEffectClassNone),
		ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "x",
			Namespace: "x", Path: &path}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: operations,
			Rule: admissionv1.Rule{APIGroups: []string{"lvm.topolvm.io"}, APIVersions: []string{"v1alpha1"},
				Resources: []string{resource}},
		}},
	}
}

func serveAdmission(ctx context.Context, config *rest.Config, namespace string,
	options *envtest.WebhookInstallOptions, ended chan<- error) error {
	if err := options.Install(config); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  clientgoscheme.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir}),
	})
	if err != nil {
		return err
	}
	if err := (&webhook.Validator{Live: mgr.GetAPIReader(), Cached: mgr.GetClient(),
		Namespace: namespace}).SetupWithManager(mgr); err != nil {
		return err
	}
	if err := (&webhook.ApprovalValidator{Namespace: namespace}).SetupWithManager(mgr); err != nil {
		return err
	}
	go func() { ended <- mgr.Start(ctx) }()
	for mgr.GetWebhookServer().StartedChecker()(nil) != nil {
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

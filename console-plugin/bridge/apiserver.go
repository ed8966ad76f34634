package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/admission/webhook"
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
	stopAdmission, err := server.ServeAdmission(func(mgr ctrl.Manager) error { return webhook.Setup(mgr, namespace) })
	if err != nil {
		return nil, nil, errors.Join(err, server.Stop())
	}
	return server.Config, func() error { return errors.Join(stopAdmission(), server.Stop()) }, nil
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

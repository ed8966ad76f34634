package main

import (
	"crypto/tls"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/lvm-storage/lvm-operator/internal/servingcert"
	"github.com/lvm-storage/lvm-operator/internal/tlsprofile"
	"github.com/lvm-storage/lvm-operator/internal/webhook"
)

// webhookCertificates are the operator's own, or nil if OpenShift's service CA or OLM provides them.
type webhookCertificates struct{ own *webhook.Certificates }

func newCertificates(direct client.Client, namespace string, o operatorOptions) webhookCertificates {
	if o.webhookCertDir != "" {
		return webhookCertificates{}
	}
	return webhookCertificates{own: webhook.NewCertificates(webhook.CertificateOptions{
		Client:        direct,
		Secret:        client.ObjectKey{Namespace: namespace, Name: webhookSecret},
		ServiceName:   webhookService,
		Configuration: webhookConfig,
	})}
}

func (c webhookCertificates) server(o operatorOptions, profile *tlsprofile.Follower) ctrlwebhook.Server {
	options := ctrlwebhook.Options{Port: o.webhookPort, CertDir: o.webhookCertDir,
		TLSOpts: []func(*tls.Config){profile.Configure}}
	if c.own != nil {
		options.TLSOpts = append(options.TLSOpts, c.own.Configure)
	}
	return ctrlwebhook.NewServer(options)
}

func (c webhookCertificates) addTo(mgr ctrl.Manager) error {
	if c.own == nil {
		return nil
	}
	if err := mgr.Add(c.own); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("webhook-certificate", c.own.Ready)
}

// current returns the source of the webhook's certificate.
func (c webhookCertificates) current(o operatorOptions) certificateSource {
	if c.own != nil {
		return c.own.Current
	}
	return servingcert.New(o.webhookCertDir, nil).FromFolder
}

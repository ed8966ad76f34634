package main

import (
	"crypto/tls"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/lvm-storage/lvm-operator/internal/admission/webhookserver"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert/secretcert"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile"
)

// webhookCertificate is the certificate of the webhook.
type webhookCertificate struct {
	servingcert.Source
	// own is the operator's own certificate, or nil if OpenShift's service CA or OLM provides one.
	own *secretcert.Secret
}

func newWebhookCertificate(direct client.Client, namespace, folder string) webhookCertificate {
	if folder != "" {
		return webhookCertificate{Source: servingcert.NewFolder(folder, reportCertificate)}
	}
	own := secretcert.New(secretcert.Options{
		Client:        direct,
		Secret:        client.ObjectKey{Namespace: namespace, Name: webhookSecret},
		ServiceName:   webhookService,
		Configuration: webhookConfig,
	})
	return webhookCertificate{Source: own, own: own}
}

// server returns the webhook server.
func (c webhookCertificate) server(o operatorOptions, profile *tlsprofile.Follower) ctrlwebhook.Server {
	return webhookserver.New(webhookserver.Options{Port: o.webhookPort,
		TLS: []func(*tls.Config){profile.Configure, servingcert.Configure(c)}})
}

func (c webhookCertificate) addTo(mgr ctrl.Manager) error {
	if c.own == nil {
		return nil
	}
	if err := mgr.Add(c.own); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("webhook-certificate", c.own.Ready)
}

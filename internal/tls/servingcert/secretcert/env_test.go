//go:build env

package secretcert

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

func TestCertificatesAreSharedAndTrusted(t *testing.T) {
	ctx := t.Context()
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "of-certificates"},
		Webhooks: []admissionv1.ValidatingWebhook{{Name: "a.example.com", AdmissionReviewVersions: []string{"v1"},
			SideEffects: ptr.To(admissionv1.SideEffectClassNone),
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "x",
				Namespace: "x"}}}}}
	if err := server.Client.Create(ctx, configuration); err != nil {
		t.Fatal(err)
	}
	options := Options{Client: server.Client,
		Secret:      client.ObjectKey{Namespace: env.Namespace, Name: "certificate"},
		ServiceName: "lvms-operator-webhook-service", Configuration: configuration.Name}
	first := New(options)
	second := New(options)
	for _, replica := range []*Secret{first, second} {
		if err := replica.Ready(nil); err == nil {
			t.Error("ready before it has a certificate")
		}
		if err := replica.keep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if string(first.serving.Load().Certificate[0]) != string(second.serving.Load().Certificate[0]) {
		t.Error("the replicas serve different certificates")
	}
	if err := server.Client.Get(ctx, client.ObjectKeyFromObject(configuration), configuration); err != nil {
		t.Fatal(err)
	}
	old := configuration.Webhooks[0].ClientConfig.CABundle
	if len(old) == 0 {
		t.Fatal("the API server does not trust the certificate")
	}

	later := time.Now().Add(validity - servingcert.RenewBefore(validity) + time.Minute)
	first.now = func() time.Time { return later }
	if err := first.keep(ctx); err != nil {
		t.Fatal(err)
	}
	if err := server.Client.Get(ctx, client.ObjectKeyFromObject(configuration), configuration); err != nil {
		t.Fatal(err)
	}
	if bundle := string(configuration.Webhooks[0].ClientConfig.CABundle); !strings.HasSuffix(bundle,
		string(firstBlock(old))) || bundle == string(old) {
		t.Error("after the renewal the old authority, by which the other replica still serves, is not trusted next " +
			"to the new one")
	}
}

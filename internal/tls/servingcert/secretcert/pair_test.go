package secretcert

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
)

const testName = "lvms-operator-webhook-service.ns.svc"

var testNames = pki.ServiceNames("ns", "lvms-operator-webhook-service")

func TestCertificateServesTheNameOfTheService(t *testing.T) {
	now := time.Now()
	made, err := issue(testNames, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := made.check(testName, now)
	if err != nil {
		t.Fatal(err)
	}
	secret := &Secret{}
	config := &tls.Config{}
	servingcert.Configure(secret)(config)
	if err := handshake(t, config, made.authorities); err == nil {
		t.Error("served without a certificate")
	}
	secret.serving.Store(certificate)
	if err := handshake(t, config, made.authorities); err != nil {
		t.Error(err)
	}
	other, err := issue(testNames, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := handshake(t, config, other.authorities); err == nil {
		t.Error("trusted by an authority that did not sign it")
	}
	if err := handshake(t, config, append(other.authorities, made.authorities...)); err != nil {
		t.Errorf("not trusted next to a newer authority: %v", err)
	}
}

// handshake connects to a TLS server as the API server does.
func handshake(t *testing.T, server *tls.Config, authorities []byte) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	ours, theirs := net.Pipe()
	defer func() { _ = ours.Close() }()
	go func() {
		connection := tls.Server(theirs, server)
		_ = connection.Handshake()
		_ = connection.Close()
	}()
	return tls.Client(ours, &tls.Config{RootCAs: roots, ServerName: testName}).Handshake()
}

func TestWhatMakesACertificateBeReplaced(t *testing.T) {
	now := time.Now()
	made, err := issue(testNames, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := issue(pki.ServiceNames("ns", "other"), now, nil)
	if err != nil {
		t.Fatal(err)
	}
	renewBefore := servingcert.RenewBefore(validity)
	for name, test := range map[string]struct {
		pair pair
		at   time.Time
		want string
	}{
		"nothing there":       {pair{}, now, "failed to find any PEM data"},
		"other name":          {foreign, now, "certificate is valid for other.ns.svc"},
		"ends soon":           {made, now.Add(validity - renewBefore + time.Hour), "expired"},
		"no authority":        {pair{made.Pair, nil}, now, "no certificate authority"},
		"other authority":     {pair{made.Pair, foreign.authorities}, now, "unknown authority"},
		"key of another":      {pair{pki.Pair{Certificate: made.Certificate, Key: foreign.Key}, made.authorities}, now, "does not match"},
		"not yet near an end": {made, now.Add(validity - renewBefore - time.Hour), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.pair.check(testName, test.at)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestRenewalKeepsOneAuthorityOfBefore(t *testing.T) {
	now := time.Now()
	authorities := []byte(nil)
	for range 3 {
		made, err := issue(testNames, now, authorities)
		if err != nil {
			t.Fatal(err)
		}
		authorities = made.authorities
	}
	if n := strings.Count(string(authorities), "BEGIN CERTIFICATE"); n != 2 {
		t.Errorf("%d authorities", n)
	}
}

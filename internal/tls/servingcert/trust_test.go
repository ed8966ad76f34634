package servingcert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

// issue returns a self-signed certificate for a server.
func issue(t *testing.T, now time.Time, hosts ...string) *tls.Certificate {
	t.Helper()
	pair, err := pki.SelfSigned(pki.ServerRequest(now, 24*time.Hour, hosts...))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return &certificate
}

func TestTheServiceIsThatOfTheCertificate(t *testing.T) {
	for name, test := range map[string]struct {
		hosts        []string
		service, err string
	}{
		"of the operator or the service CA": {hosts: pki.ServiceNames("ns", "lvms-operator-webhook-service"),
			service: "lvms-operator-webhook-service"},
		"of OLM": {hosts: []string{"lvms-operator-service.ns", "lvms-operator-service.ns.svc"},
			service: "lvms-operator-service"},
		"of another namespace": {hosts: pki.ServiceNames("other", "a"), err: "not for a Service in namespace ns"},
		"of a Pod":             {hosts: []string{"pod.service.ns.svc"}, err: "not for a Service in namespace ns"},
	} {
		t.Run(name, func(t *testing.T) {
			certificate := issue(t, time.Now(), test.hosts...)
			certificate.Leaf = nil
			service, err := ServiceOf(certificate, "ns")
			if service != test.service || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %q, %v", service, err)
			}
		})
	}
	if _, err := ServiceOf(&tls.Certificate{Certificate: [][]byte{{1}}}, "ns"); err == nil {
		t.Error("a broken certificate has a Service")
	}
}

// The authority of OLM or of the service CA is not in the bundle.
func TestTheBundleVerifiesACertificateOfAnUnknownAuthority(t *testing.T) {
	now := time.Now()
	authority, err := pki.NewAuthority(pki.Request{Name: "ca", Now: now, Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.ServerRequest(now, time.Hour, pki.ServiceNames("ns", "a")...))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(Trusted(&certificate, nil, now)) {
		t.Fatal("the bundle has no certificate")
	}
	if _, err := certificate.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "a.ns.svc"}); err != nil {
		t.Error(err)
	}
	if _, err := issue(t, now, "a.ns.svc").Leaf.Verify(x509.VerifyOptions{Roots: roots,
		DNSName: "a.ns.svc"}); err == nil {
		t.Error("another certificate is trusted")
	}
}

func TestTheBundleKeepsOneCertificateOfBefore(t *testing.T) {
	now := time.Now()
	first, second, third := issue(t, now, "a"), issue(t, now, "a"), issue(t, now, "a")
	encoded := func(certificates ...*tls.Certificate) []byte {
		var all []byte
		for _, c := range certificates {
			all = append(all, pki.Encode(pki.BlockCertificate, c.Certificate[0])...)
		}
		return all
	}
	for name, test := range map[string]struct {
		before, want []byte
		now          time.Time
	}{
		"the first":            {nil, encoded(third), now},
		"unchanged":            {encoded(third), encoded(third), now},
		"renewed":              {encoded(second), encoded(third, second), now},
		"unchanged after that": {encoded(third, second), encoded(third, second), now},
		"renewed twice":        {encoded(second, first), encoded(third, second), now},
		"another one expired":  {encoded(second), encoded(third), now.Add(48 * time.Hour)},
		"what cannot be parsed": {append(pki.Encode(pki.BlockCertificate, []byte("x")), encoded(second)...),
			encoded(third, second), now},
		"not PEM": {[]byte("x"), encoded(third), now},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Trusted(third, test.before, test.now); !bytes.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"
	"time"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newAuthority(t *testing.T) (*Authority, *x509.CertPool) {
	t.Helper()
	authority, err := NewAuthority(Request{Name: "authority", Now: now, Validity: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority.PEM()) {
		t.Fatal("the authority has no certificate")
	}
	return authority, roots
}

func leaf(t *testing.T, pair Pair, err error) *x509.Certificate {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return certificate.Leaf
}

func TestWhatAnAuthorityIssues(t *testing.T) {
	authority, roots := newAuthority(t)
	pair, err := authority.Issue(Request{
		Name: "user", Groups: []string{"group"}, Hosts: []string{"a.example.com", "192.0.2.1"},
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, Now: now, Validity: time.Hour,
	})
	certificate := leaf(t, pair, err)
	if certificate.Subject.CommonName != "user" || !slices.Equal(certificate.Subject.Organization, []string{"group"}) {
		t.Errorf("is for %s", certificate.Subject)
	}
	for name, tt := range map[string]struct {
		host  string
		at    time.Time
		usage x509.ExtKeyUsage
		valid bool
	}{
		"its name":            {"a.example.com", now, x509.ExtKeyUsageServerAuth, true},
		"its address":         {"192.0.2.1", now, x509.ExtKeyUsageServerAuth, true},
		"another name":        {"b.example.com", now, x509.ExtKeyUsageServerAuth, false},
		"another usage":       {"a.example.com", now, x509.ExtKeyUsageClientAuth, false},
		"a clock behind":      {"a.example.com", now.Add(-59 * time.Minute), x509.ExtKeyUsageServerAuth, true},
		"too early":           {"a.example.com", now.Add(-61 * time.Minute), x509.ExtKeyUsageServerAuth, false},
		"after it has ended":  {"a.example.com", now.Add(61 * time.Minute), x509.ExtKeyUsageServerAuth, false},
		"just before its end": {"a.example.com", now.Add(59 * time.Minute), x509.ExtKeyUsageServerAuth, true},
	} {
		_, err := certificate.Verify(x509.VerifyOptions{DNSName: tt.host, Roots: roots, CurrentTime: tt.at,
			KeyUsages: []x509.ExtKeyUsage{tt.usage}})
		if (err == nil) != tt.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnotherAuthorityIsNotTrusted(t *testing.T) {
	authority, _ := newAuthority(t)
	_, others := newAuthority(t)
	pair, err := authority.Issue(Request{Name: "user", Now: now, Validity: time.Hour})
	if _, err := leaf(t, pair, err).Verify(x509.VerifyOptions{Roots: others, CurrentTime: now}); err == nil {
		t.Error("is trusted")
	}
}

func TestASelfSignedCertificateIsNoAuthority(t *testing.T) {
	pair, err := SelfSigned(Request{Name: "self", Hosts: []string{"localhost"}, Now: now, Validity: time.Hour})
	certificate := leaf(t, pair, err)
	if certificate.IsCA || certificate.KeyUsage != x509.KeyUsageDigitalSignature ||
		certificate.Issuer.CommonName != "self" {
		t.Errorf("got %+v", certificate)
	}
	if err := certificate.CheckSignature(certificate.SignatureAlgorithm, certificate.RawTBSCertificate,
		certificate.Signature); err != nil {
		t.Error(err)
	}
}

func TestTheKeyOfAnAuthoritySigns(t *testing.T) {
	authority, _ := newAuthority(t)
	key, err := authority.Key()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(authority.PEM(), key); err != nil {
		t.Error(err)
	}
}

func TestTheCertificateOfAServiceServesItsNames(t *testing.T) {
	authority, roots := newAuthority(t)
	pair, err := authority.Issue(ServerRequest(now, time.Hour, ServiceNames("ns", "service")...))
	certificate := leaf(t, pair, err)
	if certificate.Subject.CommonName != "service.ns.svc" {
		t.Errorf("is for %s", certificate.Subject)
	}
	for name, valid := range map[string]bool{"service.ns.svc": true, "service.ns.svc.cluster.local": true,
		"service.other.svc": false} {
		_, err := certificate.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now})
		if (err == nil) != valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

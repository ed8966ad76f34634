package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"strings"
	"testing"
	"time"
)

const identity = "lvms://example.com/node/a"

func signingRequest(t *testing.T, template x509.CertificateRequest, curve elliptic.Curve) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	return Encode(blockRequest, der)
}

func uris(t *testing.T, all ...string) []*url.URL {
	t.Helper()
	var list []*url.URL
	for _, one := range all {
		parsed, err := url.Parse(one)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, parsed)
	}
	return list
}

func TestSigningRequestsOfOtherIdentitiesAreRefused(t *testing.T) {
	request, _, err := NewSigningRequest(identity)
	if err != nil {
		t.Fatal(err)
	}
	p256 := elliptic.P256()
	// The last byte is a part of the signature.
	forged, err := x509.ParseCertificateRequest(decode(t, request))
	if err != nil {
		t.Fatal(err)
	}
	forged.Raw[len(forged.Raw)-1] ^= 1
	for name, tt := range map[string]struct {
		request []byte
		want    string
	}{
		"its own":       {request, ""},
		"another":       {signingRequest(t, x509.CertificateRequest{URIs: uris(t, identity+"b")}, p256), "must be for"},
		"two":           {signingRequest(t, x509.CertificateRequest{URIs: uris(t, identity, identity)}, p256), "must be for"},
		"none":          {signingRequest(t, x509.CertificateRequest{}, p256), "must be for"},
		"also a host":   {signingRequest(t, x509.CertificateRequest{URIs: uris(t, identity), DNSNames: []string{"a"}}, p256), "1 other"},
		"another curve": {signingRequest(t, x509.CertificateRequest{URIs: uris(t, identity)}, elliptic.P384()), "P-256"},
		"nothing":       {nil, "one PEM block"},
		"a certificate": {Encode(BlockCertificate, decode(t, request)), "one PEM block"},
		"two requests":  {append(bytes.Clone(request), request...), "one PEM block"},
		"damaged":       {Encode(blockRequest, []byte("x")), "certificate signing request"},
		"forged":        {Encode(blockRequest, forged.Raw), "its own key"},
	} {
		key, err := ParseSigningRequest(tt.request, identity)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
		if (key == nil) != (err != nil) {
			t.Errorf("%s: got the key %v", name, key)
		}
	}
}

func TestACertificateIsForTheKeyOfItsRequest(t *testing.T) {
	authority, roots := newAuthority(t)
	request, key, err := NewSigningRequest(identity)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ParseSigningRequest(request, identity)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := authority.IssueFor(Request{Name: "agent", URIs: []string{identity}, Hosts: []string{"a"}, Now: now,
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, Validity: time.Hour}, public)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := ParseCertificate(issued)
	if err != nil {
		t.Fatal(err)
	}
	if len(certificate.URIs) != 1 || certificate.URIs[0].String() != identity || certificate.IsCA {
		t.Errorf("got %v", certificate.URIs)
	}
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if pair, err := WithKey(certificate, key); err != nil || pair.Leaf != certificate {
		t.Errorf("got %v, %v", pair.Leaf, err)
	}
	_, other, err := NewSigningRequest(identity)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := WithKey(certificate, other); err == nil {
		t.Error("another key was accepted")
	}
}

func TestAStoredAuthoritySigns(t *testing.T) {
	authority, roots := newAuthority(t)
	stored, err := authority.Pair()
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadAuthority(stored)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := loaded.Issue(Request{Name: "user", Now: now, Validity: time.Hour})
	if _, err := leaf(t, pair, err).Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Error(err)
	}
	for name, damaged := range map[string]Pair{
		"empty":            {},
		"no key":           {Certificate: stored.Certificate},
		"key of another":   {Certificate: stored.Certificate, Key: pair.Key},
		"not an authority": pair,
	} {
		if _, err := LoadAuthority(damaged); err == nil {
			t.Errorf("%s: was loaded", name)
		}
	}
}

func TestAnIdentityMustBeAURI(t *testing.T) {
	authority, _ := newAuthority(t)
	if _, err := authority.Issue(Request{Name: "user", URIs: []string{"%"}, Now: now, Validity: time.Hour}); err == nil {
		t.Error("a certificate was issued")
	}
	if _, _, err := NewSigningRequest("%"); err == nil {
		t.Error("a request was created")
	}
	for _, data := range []string{"", "x", "-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n"} {
		if _, err := ParseCertificate([]byte(data)); err == nil {
			t.Errorf("%q was parsed", data)
		}
	}
}

func decode(t *testing.T, data []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatal("no PEM block")
	}
	return block.Bytes
}

// FuzzParseSigningRequest: a request comes from a node. Whatever it is, a key is for the identity of this node only.
func FuzzParseSigningRequest(f *testing.F) {
	own, _, err := NewSigningRequest(identity)
	if err != nil {
		f.Fatal(err)
	}
	other, _, err := NewSigningRequest(identity + "b")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Add(other)
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, request []byte) {
		key, err := ParseSigningRequest(request, identity)
		if (key == nil) == (err == nil) {
			t.Fatalf("got %v, %v", key, err)
		}
		if _, both := ParseSigningRequest(request, identity+"b"); err == nil && both == nil {
			t.Error("the request is for two identities")
		}
		if certificate, err := ParseCertificate(request); (certificate == nil) == (err == nil) {
			t.Errorf("got %v, %v", certificate, err)
		}
	})
}

package tlsprofile

import (
	"crypto/fips140"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/client-go/util/cert"
)

// server starts a TLS server that follows a profile.
func server(t *testing.T, f *Follower) string {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{}
	f.Configure(config)
	// As in controller-runtime, the certificate is set after the options.
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func(c net.Conn) {
				_, _ = c.Read(make([]byte, 1))
				_ = c.Close()
			}(c)
		}
	}()
	return listener.Addr().String()
}

// connects reports whether a client with a maximum version and given suites can connect.
func connects(address string, version uint16, suites ...uint16) bool {
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10,
		MaxVersion: version, CipherSuites: suites})
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func custom(version configv1.TLSProtocolVersion, ciphers ...string) *configv1.TLSSecurityProfile {
	return &configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType,
		Custom: &configv1.CustomTLSProfile{TLSProfileSpec: configv1.TLSProfileSpec{MinTLSVersion: version,
			Ciphers: ciphers}}}
}

// TestServerFollows changes the profile while a server runs.
func TestServerFollows(t *testing.T) {
	f := New()
	address := server(t, f)
	const (
		strong = tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
		other  = tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
		weak   = tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA
	)
	check := func(what string, tls11, tls12, tls12Other, tls12Weak bool) {
		t.Helper()
		for name, c := range map[string]struct{ got, want bool }{
			"TLS 1.1":               {connects(address, tls.VersionTLS11), tls11},
			"TLS 1.2":               {connects(address, tls.VersionTLS12, strong), tls12},
			"TLS 1.2, AES 256":      {connects(address, tls.VersionTLS12, other), tls12Other},
			"TLS 1.2, a weak suite": {connects(address, tls.VersionTLS12, weak), tls12Weak},
			"TLS 1.3":               {connects(address, tls.VersionTLS13), true},
		} {
			if c.got != c.want {
				t.Errorf("%s: a client with %s connects: %v, want %v", what, name, c.got, c.want)
			}
		}
	}
	set := func(p *configv1.TLSSecurityProfile) {
		t.Helper()
		if err := f.Set(p); err != nil {
			t.Fatal(err)
		}
	}
	// FIPS mode allows neither TLS 1.1 nor weak suites, whatever the profile says (make test-long ITEMS=fips).
	weakest := !fips140.Enabled()
	check("at first", false, true, true, weakest)
	set(nil)
	check("OpenShift's default", false, true, true, false)
	set(&configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType})
	check("Modern", false, false, false, false)
	set(&configv1.TLSSecurityProfile{Type: configv1.TLSProfileOldType})
	check("Old", weakest, true, true, weakest)
	set(custom(configv1.VersionTLS12, "ECDHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES128-GCM-SHA256"))
	check("Custom", false, true, false, false)
	for says, p := range map[string]*configv1.TLSSecurityProfile{
		"none of the ciphers": custom(configv1.VersionTLS12, "DHE-RSA-AES128-GCM-SHA256"),
		`"VersionTLS99"`:      custom("VersionTLS99", "ECDHE-RSA-AES128-GCM-SHA256"),
	} {
		if err := f.Set(p); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
		check("after one that cannot be followed", false, true, false, false)
	}
	set(custom(configv1.VersionTLS13))
	check("Custom with TLS 1.3", false, false, false, false)
	set(&configv1.TLSSecurityProfile{Type: "Newest"})
	check("a type that is not known", false, true, true, false)
}

// TestFIPSModeKeepsTheLastProfile: with the suites of a profile that FIPS mode does not allow, no client could connect.
func TestFIPSModeKeepsTheLastProfile(t *testing.T) {
	f := New()
	if err := f.Set(custom(configv1.VersionTLS12, "ECDHE-RSA-AES128-GCM-SHA256")); err != nil {
		t.Fatal(err)
	}
	err := f.Set(custom(configv1.VersionTLS12, "ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-SHA"))
	if !fips140.Enabled() {
		if err != nil {
			t.Errorf("without FIPS mode: %v", err)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), "with TLS 1.2 in FIPS mode: use other ciphers") {
		t.Errorf("got %v", err)
	}
	if got := f.Spec().Ciphers; len(got) != 1 || got[0] != "ECDHE-RSA-AES128-GCM-SHA256" {
		t.Errorf("it serves %q", got)
	}
}

// Package tlsprofile configures TLS servers with the cluster's profile, which an OpenShift administrator sets for all
// servers, and follows its changes while the process runs.
package tlsprofile

import (
	"crypto/fips140"
	"crypto/tls"
	"fmt"
	"slices"
	"sync/atomic"

	configv1 "github.com/openshift/api/config/v1"
)

// settings are the Go settings for a profile. Go does not allow choosing the cipher suites of TLS 1.3 (crypto/tls,
// Config.CipherSuites).
type settings struct {
	minVersion   uint16
	cipherSuites []uint16
	spec         configv1.TLSProfileSpec
}

// Follower configures servers with the last profile that it received.
type Follower struct{ current atomic.Pointer[settings] }

// New returns a Follower. Before it receives a profile, the minimum version is TLS 1.2, and Go chooses the cipher
// suites.
func New() *Follower {
	f := &Follower{}
	f.current.Store(&settings{minVersion: tls.VersionTLS12})
	return f
}

// Configure makes a server's configuration follow the profile. A connection uses the profile that is current when it
// starts.
func (f *Follower) Configure(server *tls.Config) {
	server.MinVersion = tls.VersionTLS12
	server.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := f.current.Load()
		config := server.Clone()
		config.GetConfigForClient = nil
		config.MinVersion = now.minVersion
		config.CipherSuites = now.cipherSuites
		return config, nil
	}
}

// Spec returns the served profile, which is the last one that was valid. It is empty before the Follower receives a
// profile.
func (f *Follower) Spec() configv1.TLSProfileSpec { return f.current.Load().spec }

// Set sets a profile; nil is OpenShift's default. If the profile cannot be served, Set returns an error, and the
// previous one remains in use.
func (f *Follower) Set(profile *configv1.TLSSecurityProfile) error {
	next, err := translate(specOf(profile))
	if err != nil {
		return err
	}
	f.current.Store(next)
	return nil
}

// specOf returns the settings of a profile. A profile without a type, or with an unknown one, is Intermediate
// (openshift/api, config/v1, TLSSecurityProfile).
func specOf(profile *configv1.TLSSecurityProfile) configv1.TLSProfileSpec {
	if profile != nil {
		if profile.Type == configv1.TLSProfileCustomType && profile.Custom != nil {
			return profile.Custom.TLSProfileSpec
		}
		if spec, known := configv1.TLSProfiles[profile.Type]; known {
			return *spec
		}
	}
	return *configv1.TLSProfiles[configv1.TLSProfileIntermediateType]
}

var versions = map[configv1.TLSProtocolVersion]uint16{
	configv1.VersionTLS10: tls.VersionTLS10, configv1.VersionTLS11: tls.VersionTLS11,
	configv1.VersionTLS12: tls.VersionTLS12, configv1.VersionTLS13: tls.VersionTLS13,
}

// suites maps OpenSSL's names (ciphers(1)) to Go's cipher suites, without RC4 and 3DES.
var suites = map[string]uint16{
	"ECDHE-ECDSA-AES128-GCM-SHA256": tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-RSA-AES128-GCM-SHA256":   tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-ECDSA-AES256-GCM-SHA384": tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-RSA-AES256-GCM-SHA384":   tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-ECDSA-CHACHA20-POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-RSA-CHACHA20-POLY1305":   tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-ECDSA-AES128-SHA256":     tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256,
	"ECDHE-RSA-AES128-SHA256":       tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256,
	"ECDHE-ECDSA-AES128-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,
	"ECDHE-RSA-AES128-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
	"ECDHE-ECDSA-AES256-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,
	"ECDHE-RSA-AES256-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
	"AES128-GCM-SHA256":             tls.TLS_RSA_WITH_AES_128_GCM_SHA256,
	"AES256-GCM-SHA384":             tls.TLS_RSA_WITH_AES_256_GCM_SHA384,
	"AES128-SHA256":                 tls.TLS_RSA_WITH_AES_128_CBC_SHA256,
	"AES128-SHA":                    tls.TLS_RSA_WITH_AES_128_CBC_SHA,
	"AES256-SHA":                    tls.TLS_RSA_WITH_AES_256_CBC_SHA,
}

// approved reports whether FIPS mode is off, or allows a cipher suite of TLS 1.2 (crypto/tls, defaults_fips140.go).
func approved(suite uint16) bool {
	if !fips140.Enabled() {
		return true
	}
	switch suite {
	case tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:
		return true
	}
	return false
}

// translate returns the Go settings for a profile. It ignores ciphers that Go does not have, or does not allow in FIPS
// mode.
func translate(spec configv1.TLSProfileSpec) (*settings, error) {
	version, known := versions[spec.MinTLSVersion]
	if !known {
		return nil, fmt.Errorf("TLS profile: unknown minTLSVersion %q", spec.MinTLSVersion)
	}
	next := &settings{minVersion: version, spec: spec}
	for _, name := range spec.Ciphers {
		if suite, known := suites[name]; known && approved(suite) {
			next.cipherSuites = append(next.cipherSuites, suite)
		}
	}
	// With an empty list Go would choose the cipher suites itself, contrary to the profile.
	if version < tls.VersionTLS13 && len(next.cipherSuites) == 0 {
		return nil, fmt.Errorf("TLS profile: none of the ciphers %q is supported with TLS 1.2%s: use other ciphers, "+
			"or minTLSVersion VersionTLS13", slices.Clone(spec.Ciphers), inFIPSMode())
	}
	return next, nil
}

func inFIPSMode() string {
	if fips140.Enabled() {
		return " in FIPS mode"
	}
	return ""
}

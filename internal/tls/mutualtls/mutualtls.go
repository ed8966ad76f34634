// Package mutualtls has the identities of the operator and of the node agents, and the TLS configurations with which
// they authenticate each other. A certificate has one identity, as a URI.
package mutualtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

const (
	scheme    = "lvms"
	authority = "lvm.topolvm.io"
	nodes     = "/node/"
)

// Operator is the identity of the operator.
const Operator = scheme + "://" + authority + "/operator"

// Node returns the identity of the agent of a node.
func Node(name string) string {
	return (&url.URL{Scheme: scheme, Host: authority, Path: nodes + name}).String()
}

// Credentials are the certificate of a program, and the authorities that it trusts. They must not be changed.
type Credentials struct {
	Certificate tls.Certificate
	Authorities *x509.CertPool
}

// Source has the credentials of this program, which are renewed while it runs.
type Source interface {
	// Current returns the current credentials, or an error that says why there are none.
	Current() (*Credentials, error)
}

// Server returns the configuration of a server that only the program with the identity client may call. It can be
// configured further, with a TLS profile for example.
func Server(source Source, client string) *tls.Config {
	return server(source, func(c *x509.Certificate) error { return hasIdentity(c, client) })
}

// ServerOfNodes returns the configuration of a server that only node agents may call. NodeOf has the node.
func ServerOfNodes(source Source) *tls.Config {
	return server(source, func(c *x509.Certificate) error {
		_, err := nodeOf(c)
		return err
	})
}

// NodeOf returns the node of the agent that has opened a connection to a server of ServerOfNodes.
func NodeOf(state tls.ConnectionState) (string, error) {
	if len(state.PeerCertificates) == 0 {
		return "", errNoCertificate
	}
	return nodeOf(state.PeerCertificates[0])
}

func nodeOf(certificate *x509.Certificate) (string, error) {
	if len(certificate.URIs) == 1 {
		if node, is := strings.CutPrefix(certificate.URIs[0].Path, nodes); is && node != "" &&
			certificate.URIs[0].String() == Node(node) {
			return node, nil
		}
	}
	return "", fmt.Errorf("the certificate of the peer is for %v, must be for a node agent only", certificate.URIs)
}

// server returns the configuration of a server. allow returns an error for a client that may not call it.
func server(source Source, allow func(*x509.Certificate) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			current, err := source.Current()
			if err != nil {
				return nil, err
			}
			return &current.Certificate, nil
		},
		// VerifyConnection verifies the certificate, also of a session that is resumed, with the authorities of now.
		ClientAuth: tls.RequireAnyClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			current, err := source.Current()
			if err != nil {
				return err
			}
			if err := verify(state, current.Authorities, x509.ExtKeyUsageClientAuth); err != nil {
				return err
			}
			return allow(state.PeerCertificates[0])
		},
	}
}

// ClientOfNode returns the configuration for a connection to the agent of a node. It is for one connection, because the
// credentials are renewed.
func ClientOfNode(source Source, node string) (*tls.Config, error) {
	current, err := source.Current()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{current.Certificate},
		RootCAs:      current.Authorities,
		// The certificate of an agent has the name of its node as a host, because addresses of Pods change.
		ServerName: node,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errNoCertificate
			}
			return hasIdentity(state.PeerCertificates[0], Node(node))
		},
	}, nil
}

var errNoCertificate = errors.New("the peer has no certificate")

func verify(state tls.ConnectionState, authorities *x509.CertPool, usage x509.ExtKeyUsage) error {
	if len(state.PeerCertificates) == 0 {
		return errNoCertificate
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: authorities, CurrentTime: time.Now(),
		KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func hasIdentity(certificate *x509.Certificate, want string) error {
	if len(certificate.URIs) != 1 || certificate.URIs[0].String() != want {
		return fmt.Errorf("the certificate of the peer is for %v, must be for %s only", certificate.URIs, want)
	}
	return nil
}

// Package server serves the plugin of the console over TLS. It never logs or stores request headers, because the
// console adds the token of the user to each request.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile"
)

// Options configure the server.
type Options struct {
	Address, CertDir, Namespace string
	// Profile is a TLS profile of OpenShift's API. Without a version, the minimum is TLS 1.2, and Go chooses the cipher
	// suites.
	Profile configv1.TLSProfileSpec
	Files   fs.FS
	Log     *slog.Logger
	// Listening is called with the address of the listener.
	Listening func(net.Addr)
}

// The console waits up to 120 s for a file. Its requests have only headers.
const (
	headerTimeout = 10 * time.Second
	writeTimeout  = 120 * time.Second
	idleTimeout   = 120 * time.Second
	maxHeader     = 64 << 10
	// stopTimeout is the time that requests have to end when the server is stopped.
	stopTimeout = 10 * time.Second
	// maxConnections limits connections, and peerConnections those of one address. The clients are the Pods of the
	// console, which ask for users.
	maxConnections  = 512
	peerConnections = 256
)

// tlsConfig returns a TLS configuration with the profile and the certificate in the directory, which must exist.
func tlsConfig(o Options) (*tls.Config, error) {
	certificate := servingcert.NewFolder(o.CertDir, func(err error) {
		o.Log.Error("cannot reload the serving certificate: the previous one stays in use", "cause", err)
	})
	if _, err := certificate.Current(); err != nil {
		return nil, err
	}
	profile := tlsprofile.New()
	if o.Profile.MinTLSVersion != "" || len(o.Profile.Ciphers) > 0 {
		custom := &configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType,
			Custom: &configv1.CustomTLSProfile{TLSProfileSpec: o.Profile}}
		if err := profile.Set(custom); err != nil {
			return nil, err
		}
	}
	config := &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	profile.Configure(config)
	servingcert.Configure(certificate)(config)
	return config, nil
}

// Run serves until the context ends.
func Run(ctx context.Context, o Options) error {
	handler, err := NewHandler(o.Files, o.Namespace)
	if err != nil {
		return err
	}
	config, err := tlsConfig(o)
	if err != nil {
		return err
	}
	listener, err := limit.Listen(ctx, o.Address, limit.Connections{All: maxConnections, Peer: peerConnections})
	if err != nil {
		return fmt.Errorf("serve the plugin: %w", err)
	}
	s := &http.Server{
		Handler: handler, TLSConfig: config, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: writeTimeout,
		IdleTimeout:  idleTimeout, MaxHeaderBytes: maxHeader,
		// net/http logs failed handshakes and panics of handlers: addresses and stacks, but no headers.
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	context.AfterFunc(ctx, func() {
		stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if s.Shutdown(stopping) != nil {
			_ = s.Close() // A client has not ended its request in time.
		}
	})
	o.Log.Info("serving the plugin", "address", listener.Addr().String())
	if o.Listening != nil {
		o.Listening(listener.Addr())
	}
	if err := s.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the plugin: %w", err)
	}
	return nil
}

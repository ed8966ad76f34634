// Package server serves the plugin of the console over TLS. It never writes a header of a request anywhere: the console
// passes the token of the user on with each one.
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

	"github.com/lvm-storage/lvm-operator/internal/servingcert"
	"github.com/lvm-storage/lvm-operator/internal/tlsprofile"
)

// Options are what the server needs.
type Options struct {
	Address, CertDir, Namespace string
	// Profile says how TLS is to be served, in the words of OpenShift's API; without a version TLS 1.2 is the least,
	// and Go chooses the cipher suites.
	Profile configv1.TLSProfileSpec
	Files   fs.FS
	Log     *slog.Logger
	// Listening is told the address that is served on.
	Listening func(net.Addr)
}

// The console gives a file 120 s; it has nothing to send but headers.
const (
	headerTimeout = 10 * time.Second
	writeTimeout  = 120 * time.Second
	idleTimeout   = 120 * time.Second
	maxHeader     = 64 << 10
	// stopTimeout is for requests that run when the server is told to stop.
	stopTimeout = 10 * time.Second
)

// tlsConfig serves the certificate in the folder, which has to be there, by the profile.
func tlsConfig(o Options) (*tls.Config, error) {
	certificate := servingcert.New(o.CertDir, func(err error) {
		o.Log.Error("The serving certificate cannot be read again: the last one is served on", "error", err)
	})
	if _, err := certificate.FromFolder(); err != nil {
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
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate.FromFolder() }
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
	listener, err := net.Listen("tcp", o.Address)
	if err != nil {
		return fmt.Errorf("serve the plugin: %w", err)
	}
	s := &http.Server{
		Handler: handler, TLSConfig: config, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: writeTimeout,
		IdleTimeout:  idleTimeout, MaxHeaderBytes: maxHeader,
		// net/http tells of failed handshakes and of handlers that panic: addresses and stacks, no headers.
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	context.AfterFunc(ctx, func() {
		stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		_ = s.Shutdown(stopping)
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

package extender

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/httpserver"
	"github.com/lvm-storage/lvm-operator/internal/servingcert"
	"github.com/lvm-storage/lvm-operator/internal/tlsprofile"
)

const (
	// kube-scheduler, the only client, waits 5 s by default (httpTimeout).
	readTimeout  = 30 * time.Second
	writeTimeout = time.Minute
	// maxConnections limits connections.
	maxConnections = 128
)

// Options configure the server.
type Options struct {
	Config Config
	// CertDir is the directory with tls.crt and tls.key. If it is empty, the server listens on loopback addresses only.
	CertDir string
	Log     logr.Logger
	// Listening is called with the address of the listener.
	Listening func(net.Addr)
}

// Run serves until the context ends.
func Run(ctx context.Context, o Options) error {
	config, err := tlsConfig(o)
	if err != nil {
		return err
	}
	ctx = log.IntoContext(ctx, o.Log)
	server := httpserver.New(httpserver.Options{Name: "the scheduler extender", Address: o.Config.Address, TLS: config,
		Handler: NewHandler(o.Config.Divisors, o.Log), All: maxConnections, Peer: maxConnections,
		Read: readTimeout, Write: writeTimeout})
	listener, err := server.Listen(ctx)
	if err != nil {
		return err
	}
	if config == nil && !isLoopback(listener.Addr()) {
		_ = listener.Close()
		return fmt.Errorf("serve the scheduler extender: %s is not a loopback address: listen on %s, or serve HTTPS "+
			"with --tls-cert-dir", o.Config.Address, DefaultAddress)
	}
	if o.Listening != nil {
		o.Listening(listener.Addr())
	}
	return server.Serve(ctx, listener)
}

// isLoopback reports whether only this machine reaches an address. Anybody who can send requests to the scheduler's
// extender, or answer in its place, decides where Pods run.
func isLoopback(address net.Addr) bool {
	at, isTCP := address.(*net.TCPAddr)
	return isTCP && at.IP.IsLoopback()
}

// tlsConfig returns the TLS configuration with the certificate in the directory, which must exist, or nil without one.
func tlsConfig(o Options) (*tls.Config, error) {
	if o.CertDir == "" {
		return nil, nil
	}
	certificate := servingcert.NewFolder(o.CertDir, func(err error) {
		o.Log.Error(err, "cannot reload the serving certificate: the previous one stays in use")
	})
	if _, err := certificate.Current(); err != nil {
		return nil, fmt.Errorf("certificate of the scheduler extender: %w", err)
	}
	config := &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	tlsprofile.New().Configure(config)
	servingcert.Configure(certificate)(config)
	return config, nil
}

package extender

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile"
)

// Time limits of the server. The default of kube-scheduler's httpTimeout is 5 s.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = time.Minute
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// stopTimeout is the time that requests have to end when the server is stopped.
	stopTimeout = 10 * time.Second
	// maxConnections limits connections. The only client is kube-scheduler.
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
	listener, err := listen(ctx, o.Config.Address, config)
	if err != nil {
		return fmt.Errorf("serve the scheduler extender: %w", err)
	}
	server := &http.Server{
		Handler:           NewHandler(o.Config.Divisors, o.Log),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		// net/http logs failed handshakes and panics of handlers.
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(o.Log), slog.LevelWarn),
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if server.Shutdown(stopping) != nil {
			_ = server.Close() // A client has not ended its request in time.
		}
	})
	o.Log.Info("serving the scheduler extender", "address", listener.Addr().String())
	if o.Listening != nil {
		o.Listening(listener.Addr())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve the scheduler extender: %w", err)
	}
	<-stopped
	return nil
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

// listen listens on an address. Without TLS, it must be a loopback address: anybody who can send requests to the
// scheduler's extender, or answer in its place, decides where Pods run.
func listen(ctx context.Context, address string, config *tls.Config) (net.Listener, error) {
	listener, err := limit.Listen(ctx, address, limit.Connections{All: maxConnections, Peer: maxConnections})
	if err != nil {
		return nil, err
	}
	if config != nil {
		return tls.NewListener(listener, config), nil
	}
	if at, ok := listener.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		_ = listener.Close()
		return nil, fmt.Errorf("%s is not a loopback address: listen on %s, or serve HTTPS with --tls-cert-dir",
			address, DefaultAddress)
	}
	return listener, nil
}

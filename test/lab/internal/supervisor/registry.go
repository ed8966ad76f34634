package supervisor

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/images"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/pki"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// registry serves images to the nodes, and accepts pushes from outside. It always has pause and busybox.
func (s *supervisor) registry(ctx context.Context) error {
	config, err := pki.TLS(spec.CertDir, "registry")
	if err != nil {
		return err
	}
	config.ClientAuth = tls.NoClientCert // as in any registry, everybody in the lab's network may pull
	listener, err := tls.Listen("tcp", spec.HostIP+":5000", config)
	if err != nil {
		return err
	}
	blobs := registry.NewDiskBlobHandler(filepath.Join(s.State, spec.RegistryDir))
	server := &http.Server{
		Handler:           registry.New(registry.WithBlobHandler(blobs), registry.Logger(log.New(io.Discard, "", 0))),
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { _ = server.Serve(listener) }()

	program, err := s.find("pause")
	if err != nil {
		return err
	}
	pusher := images.Pusher{CA: s.ca.PEM(), Dial: dialRegistry}
	return parallel(ctx, func(ctx context.Context) error {
		return pushBuilt(ctx, pusher, "pause", func() (v1.Image, error) { return images.Pause(program) })
	}, func(ctx context.Context) error {
		return pushBuilt(ctx, pusher, "busybox", func() (v1.Image, error) { return images.Busybox(s.Busybox, nil) })
	})
}

func pushBuilt(ctx context.Context, pusher images.Pusher, name string, build func() (v1.Image, error)) error {
	img, err := build()
	if err != nil {
		return fmt.Errorf("image %s: %w", name, err)
	}
	_, err = pusher.Push(ctx, spec.Registry+"/"+name+":1", img)
	return err
}

func dialRegistry(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, spec.HostIP+":5000")
}

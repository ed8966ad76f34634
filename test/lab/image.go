package lab

import (
	"context"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/images"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// PushImage pushes an image to the lab's registry and returns its reference with the digest. ref must begin with
// [Lab.Registry], for example "registry.lab:5000/operator:1".
func (l *Lab) PushImage(ctx context.Context, ref string, img v1.Image) (string, error) {
	ca, err := os.ReadFile(filepath.Join(l.spec.State, spec.CertDir, "ca.crt"))
	if err != nil {
		return "", err
	}
	return images.Pusher{CA: ca, Dial: l.dialRegistry}.Push(ctx, ref, img)
}

// LoadImage pushes an image from an OCI layout, as a directory or tar, or from an archive in the format of "docker
// save".
func (l *Lab) LoadImage(ctx context.Context, path, ref string) (string, error) {
	img, done, err := images.Load(path)
	defer done()
	if err != nil {
		return "", err
	}
	return l.PushImage(ctx, ref, img)
}

// PushBusybox pushes an image of busybox, as busybox:1. With a program, this is in the root folder of the image and its
// entry point, and runs with the arguments by default.
func (l *Lab) PushBusybox(ctx context.Context, ref, program string, arguments ...string) (string, error) {
	applets, err := busyboxApplets(ctx)
	if err != nil {
		return "", err
	}
	build := func() (v1.Image, error) { return images.Busybox(applets, nil) }
	if program != "" {
		build = func() (v1.Image, error) { return images.Tool(applets, program, arguments...) }
	}
	img, err := build()
	if err != nil {
		return "", err
	}
	return l.PushImage(ctx, ref, img)
}

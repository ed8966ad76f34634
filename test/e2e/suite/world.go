package suite

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/permissions"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// World is a cluster of the lab in a test that does not use Ginkgo.
type World struct {
	*testing.T
	*story.Cluster
	Begin time.Time
}

// NewWorld starts a cluster. At its end, the test prints the state of the cluster if it has failed, and stops the
// cluster.
func NewWorld(ctx context.Context, t *testing.T, options lab.Options) *World {
	t.Helper()
	w := &World{T: t, Begin: time.Now()}
	l, err := lab.Up(ctx, options)
	w.Must(err)
	t.Cleanup(func() { w.Must(l.Down(context.WithoutCancel(ctx))) })
	w.Cluster, err = story.Open(l)
	w.Must(err)
	t.Cleanup(func() {
		if t.Failed() {
			w.report(context.WithoutCancel(ctx))
		}
	})
	return w
}

// RecordPermissions records for test/permissions which permissions the product has used on the cluster when the test
// ends.
func (w *World) RecordPermissions() { w.Cleanup(func() { w.Must(permissions.Record(w.Lab)) }) }

// Must ends the test if there is an error.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Since returns the time since the start of the test.
func (w *World) Since() time.Duration { return time.Since(w.Begin).Round(time.Second) }

// Environment returns the path that an environment variable of `make test-long ITEMS=e2e/` names.
func (w *World) Environment(variable string) string {
	w.Helper()
	path := os.Getenv(variable)
	if path == "" {
		w.Fatalf("%s is not set: run `make test-long ITEMS=e2e/`", variable)
	}
	return path
}

// MustKubectl runs kubectl without stdin, and ends the test if it fails.
func (w *World) MustKubectl(ctx context.Context, args ...string) {
	w.Helper()
	_, err := w.Kubectl(ctx, nil, args...)
	w.Must(err)
}

// Limited returns a context that ends after a time.
func Limited(ctx context.Context, within time.Duration) context.Context {
	limited, cancel := context.WithTimeout(ctx, within)
	context.AfterFunc(limited, cancel)
	return limited
}

// report prints the state of the cluster.
func (w *World) report(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, args := range []string{
		"get nodes", "get pods -A -o wide", "get lvmcluster,lvmvgns -A -o yaml", "get pvc,pv -A",
		"get events -A --field-selector=type=Warning",
		"logs -n " + story.OperatorNamespace + " -l app.kubernetes.io/part-of=lvms --tail=30 --prefix",
		"logs -n " + story.OperatorNamespace + " -l app.kubernetes.io/name=vg-manager --tail=30 --prefix",
	} {
		out, err := w.Kubectl(ctx, nil, strings.Fields(args)...)
		w.Logf("--- kubectl %s\n%.12000s\n%v", args, out, err)
	}
}

package adapt

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

// whatIsStuck returns what a Monitor finds stuck within two minutes of simulated time, while work runs.
func whatIsStuck(t *testing.T,
	work func(ctx context.Context, m *liveness.Monitor, never <-chan struct{})) (found string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := liveness.New(func(err error) { t.Error(err) }, func(stuck []string) {
			found = strings.Join(stuck, "; ")
			cancel()
		})
		never := make(chan struct{})
		go func() { _ = m.Start(ctx) }()
		go work(m.Context(ctx), m, never)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		cancel()
		close(never)
	})
	return found
}

func TestStuckReconcile(t *testing.T) {
	found := whatIsStuck(t, func(ctx context.Context, _ *liveness.Monitor, never <-chan struct{}) {
		request := reconcile.Request{}
		request.Name = "vg1"
		_, _ = Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			<-never
			return reconcile.Result{}, nil
		})).Reconcile(ctx, request)
	})
	if !strings.HasPrefix(found, "reconcile of /vg1 by reconcile.TypedFunc") {
		t.Errorf("stuck: %q", found)
	}
}

func TestStuckCall(t *testing.T) {
	const method = "/csi.v1.Controller/CreateVolume"
	found := whatIsStuck(t, func(_ context.Context, m *liveness.Monitor, never <-chan struct{}) {
		_, _ = Interceptor(m)(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: method},
			func(context.Context, any) (any, error) {
				<-never
				return nil, nil
			})
	})
	if !strings.HasPrefix(found, method+": ") {
		t.Errorf("stuck: %q", found)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestReconcileThatWaitsForTheAPIServerIsNotStuck(t *testing.T) {
	found := whatIsStuck(t, func(ctx context.Context, m *liveness.Monitor, never <-chan struct{}) {
		_, _ = Reconciler(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api", nil)
			if err != nil {
				return reconcile.Result{}, err
			}
			_, err = Transport(m)(roundTripper(func(*http.Request) (*http.Response, error) {
				<-never
				return nil, errors.New("no answer")
			})).RoundTrip(request)
			return reconcile.Result{}, err
		})).Reconcile(ctx, reconcile.Request{})
	})
	if found != "" {
		t.Errorf("stuck: %q", found)
	}
}

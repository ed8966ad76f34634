//go:build e2e

package replicas

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	// loadInterval is the time between two new claims.
	loadInterval = time.Second
	// kept is the number of claims after which the oldest one is deleted.
	kept = 20
)

// load creates a claim in each interval, and deletes old ones that are bound.
type load struct {
	cancel context.CancelFunc
	ended  chan struct{}

	mu                sync.Mutex
	created, failures int
}

func startLoad() *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel, ended: make(chan struct{})}
	go l.run(ctx)
	return l
}

// stop ends the load and returns the number of claims, and of requests that failed. It can be called twice.
func (l *load) stop() (created, failures int) {
	l.cancel()
	<-l.ended
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.created, l.failures
}

func (l *load) run(ctx context.Context) {
	defer close(l.ended)
	ticker := time.NewTicker(loadInterval)
	defer ticker.Stop()
	for i := 0; ; i++ {
		name := fmt.Sprint("load-", i)
		if !l.repeat(ctx, func() error {
			return client.IgnoreAlreadyExists(cluster.Claim(ctx, story.Volume{Namespace: namespace, Name: name,
				Class: class, Size: "16Mi"}))
		}) {
			return
		}
		l.mu.Lock()
		l.created++
		l.mu.Unlock()
		if i >= kept && !l.repeat(ctx, func() error { return deleteBound(ctx, fmt.Sprint("load-", i-kept)) }) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// deleteBound deletes a claim if it is bound. A claim that is deleted while its operator is lost can leave an unclaimed
// volume (docs/explanation/topolvm.md).
func deleteBound(ctx context.Context, name string) error {
	claim := &corev1.PersistentVolumeClaim{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return nil
	}
	return client.IgnoreNotFound(cluster.Delete(ctx, claim))
}

// repeat calls a request until it succeeds. It returns false if the load ends first.
func (l *load) repeat(ctx context.Context, request func() error) bool {
	for {
		err := request()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		l.mu.Lock()
		l.failures++
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return false
		case <-time.After(loadInterval):
		}
	}
}

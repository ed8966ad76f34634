package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	nodeReadyLimit = 10 * time.Minute
	addonLimit     = 5 * time.Minute
)

// bringUp starts everything, and independent parts at the same time.
func (s *supervisor) bringUp(ctx context.Context) error {
	if err := s.step(ctx, "network and certificates", func(context.Context) error {
		return errors.Join(s.network(), s.certificates())
	}); err != nil {
		return err
	}
	for _, n := range s.Nodes {
		s.nodes[n.Name] = newNode(s, n)
	}
	if s.Bare {
		return s.bootNodes(ctx)
	}
	if err := s.step(ctx, "registry and images", s.registry); err != nil {
		return err
	}
	return parallel(ctx, s.bootNodes, func(ctx context.Context) error {
		if err := s.step(ctx, "control plane", s.controlPlane); err != nil {
			return err
		}
		return parallel(ctx, s.addons, s.readyNodes)
	})
}

func (s *supervisor) bootNodes(ctx context.Context) error {
	var boots []func(context.Context) error
	for _, n := range s.nodes {
		boots = append(boots, func(ctx context.Context) error {
			return s.step(ctx, n.spec.Name+" boots", n.prepareAndStart)
		})
	}
	return parallel(ctx, boots...)
}

// readyNodes waits for every node and sets the role of OpenShift's workers.
func (s *supervisor) readyNodes(ctx context.Context) error {
	var waits []func(context.Context) error
	for _, n := range s.nodes {
		waits = append(waits, func(ctx context.Context) error {
			return s.step(ctx, n.spec.Name+" is Ready", func(ctx context.Context) error {
				if err := n.awaitReady(ctx, nodeReadyLimit); err != nil {
					return err
				}
				return s.kube.merge(ctx, "/api/v1/nodes/"+n.spec.Name,
					`{"metadata":{"labels":{"node-role.kubernetes.io/worker":""}}}`)
			})
		})
	}
	return parallel(ctx, waits...)
}

// parallel runs functions at the same time. The first error cancels the others.
func parallel(ctx context.Context, do ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(do))
	var group sync.WaitGroup
	for i, f := range do {
		group.Go(func() {
			if errs[i] = f(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	return firstCause(errs)
}

// firstCause omits the errors of functions that were canceled because another one failed.
func firstCause(errs []error) error {
	var causes []error
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			causes = append(causes, err)
		}
	}
	if len(causes) == 0 {
		return errors.Join(errs...)
	}
	return errors.Join(causes...)
}

// poll calls a function until it returns no error or the timeout is over.
func poll(ctx context.Context, limit, pause time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not there after %s: %w", limit, err)
		case <-time.After(pause):
		}
	}
}

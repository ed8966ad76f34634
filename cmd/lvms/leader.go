package main

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaderElectionLock is the name of the Lease that the acting operator holds.
const leaderElectionLock = "lvms-operator-leader"

// How long the Lease holds, until when it must have been renewed, and how often that is tried: another operator takes
// over within 20 s.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// newLeaderLock returns the lock of the acting operator. Its holder is the Pod, not the process: a container that was
// killed is started again in the same Pod, never beside the old one, and goes on at once instead of waiting until its
// own Lease has ended.
func newLeaderLock(config *rest.Config, namespace, podName string) (resourcelock.Interface, error) {
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaderElectionLock,
		resourcelock.ResourceLockConfig{Identity: podName}, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("prepare the Lease %s/%s: %w", namespace, leaderElectionLock, err)
	}
	return lock, nil
}

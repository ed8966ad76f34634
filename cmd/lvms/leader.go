package main

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaderElectionLock is the name of the Lease for leader election.
const leaderElectionLock = "lvms-operator-leader"

// leaseDuration is how long the Lease is valid, renewDeadline is the time in which it must be renewed, and retryPeriod
// is the time between two attempts. With these values another operator becomes the leader within 20 s.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// newLeaderLock returns the lock for leader election. Its holder is the Pod and not the process: if a container is
// killed, the kubelet restarts it in the same Pod, never next to the old one. The new process is then the leader at
// once and does not wait for the expiry of its own Lease.
func newLeaderLock(config *rest.Config, namespace, podName string) (resourcelock.Interface, error) {
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaderElectionLock,
		resourcelock.ResourceLockConfig{Identity: podName}, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("prepare leader election with Lease %s/%s: %w", namespace, leaderElectionLock, err)
	}
	return lock, nil
}

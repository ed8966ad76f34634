//go:build e2e

package tenants

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/story"
)

// countingPod counts in a file, and continues with the count that it finds. It fails permanently after the first failed
// write.
const countingPod = `
apiVersion: v1
kind: Pod
metadata: {name: writer, namespace: bystander}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: REGISTRY/busybox:1
    command:
    - /bin/sh
    - -c
    - "i=$(cat /data/count || echo 0); while :; do i=$((i+1)); echo $i > /data/next && sync /data/next && mv /data/next /data/count || exit 1; sleep 0.2; done"
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

const (
	// cycleTimeout is the time limit for a Pod to end and to start again.
	cycleTimeout = 5 * time.Minute
	// rest is how long a Pod writes before it is deleted.
	rest = 5 * time.Second
)

// recreated is a Pod that is deleted and created again until the end of the suite.
type recreated struct {
	mu sync.Mutex
	// begun and done are the numbers of the last cycle that has begun, and of the last one that has succeeded.
	begun, done int
	// failure is the error of the last cycle, if it failed, and failed the number of cycles that failed.
	failure error
	failed  int
	// count is the last count that was read.
	count int
}

// writer is the Pod of the bystander.
var writer = &recreated{}

// startBystander creates the volume of the bystander, and recreates its Pod until the end of the suite.
func startBystander(ctx context.Context) {
	GinkgoHelper()
	Expect(cluster.Claim(ctx, story.Volume{Namespace: bystander, Name: "data", Class: storageClass, Size: "64Mi",
		Labels: spreadOver("shared")})).To(Succeed())
	running, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		writer.run(running)
	}()
	DeferCleanup(func() {
		cancel()
		<-ended
	})
	writer.isRecreatedSince(ctx, 0)
}

func (r *recreated) run(ctx context.Context) {
	for ctx.Err() == nil {
		r.mu.Lock()
		r.begun++
		r.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, cycleTimeout)
		err := r.once(limited)
		cancel()
		r.mu.Lock()
		r.failure = err
		switch {
		case err == nil:
			r.done = r.begun
		case ctx.Err() == nil:
			r.failed++
		}
		r.mu.Unlock()
	}
}

// once starts the Pod, checks that it finds the count of the earlier one and continues, and deletes it.
func (r *recreated) once(ctx context.Context) error {
	manifest := strings.ReplaceAll(countingPod, "REGISTRY", cluster.Lab.Registry())
	if err := cluster.ApplyManifest(ctx, manifest); err != nil {
		return err
	}
	if err := cluster.WaitRunning(ctx, bystander, "writer"); err != nil {
		return err
	}
	first, err := r.read(ctx, r.count)
	if err != nil {
		return err
	}
	if _, err := r.read(ctx, first+1); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(rest):
	}
	if r.count, err = r.read(ctx, first+2); err != nil {
		return err
	}
	return cluster.StopPod(ctx, bystander, "writer")
}

// read waits for a count of at least a number, and returns the count.
func (r *recreated) read(ctx context.Context, least int) (int, error) {
	count := 0
	err := story.Wait(ctx, fmt.Sprintf("a count of at least %d", least), func(ctx context.Context) (bool, string, error) {
		out, err := cluster.Shell(ctx, bystander, "writer", "cat /data/count")
		if err != nil {
			return false, "", err
		}
		count, err = strconv.Atoi(strings.TrimSpace(out))
		return count >= least, out, err
	})
	return count, err
}

// cycle returns the number of the present cycle.
func (r *recreated) cycle() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun
}

// failures returns the number of cycles that failed, and the error of the last cycle that has ended.
func (r *recreated) failures() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed, r.failure
}

// isRecreatedSince waits until a cycle that began after another one has succeeded.
func (r *recreated) isRecreatedSince(ctx context.Context, cycle int) {
	GinkgoHelper()
	Eventually(func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.done > cycle {
			return nil
		}
		return errors.Join(fmt.Errorf("cycle %d has begun, %d has succeeded", r.begun, r.done), r.failure)
	}).WithContext(ctx).WithTimeout(2*cycleTimeout).Should(Succeed(), "the Pod of the bystander")
}

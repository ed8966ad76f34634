package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

const (
	mebibyte = 1 << 20
	// startUp is the time in which the agents start.
	startUp = time.Minute
)

var clusterKey = client.ObjectKey{Namespace: namespace, Name: "scale"}

func (c *cluster) status(ctx context.Context) (*v1alpha1.LVMCluster, error) {
	lvmCluster := &v1alpha1.LVMCluster{}
	return lvmCluster, c.Get(ctx, clusterKey, lvmCluster)
}

func (c *cluster) isReady(ctx context.Context) func() (bool, string, error) {
	return func() (bool, string, error) {
		lvmCluster, err := c.status(ctx)
		return err == nil && lvmCluster.Status.Ready,
			string(lvmCluster.Status.State) + " " + lvmCluster.Status.VolumeGroups, err
	}
}

// steady waits until the operator has sent nothing but lease requests to the API server for ten seconds.
func (c *cluster) steady(ctx context.Context) (time.Duration, error) {
	const quiet = 10 * time.Second
	log := &auditReader{path: c.audit()}
	if _, err := log.next(); err != nil {
		return 0, err
	}
	begun := time.Now()
	last := time.Now()
	_, err := wait(ctx, "the operator is steady", 500*time.Millisecond, func() (bool, string, error) {
		now, err := log.next()
		if err != nil {
			return false, "", err
		}
		if now = now.without("leases"); now.total() > 0 {
			last = time.Now()
		}
		return time.Since(last) > quiet, fmt.Sprint(now), nil
	})
	return last.Sub(begun), err
}

// measureStart measures the time from the LVMCluster to Ready on all nodes.
func (c *cluster) measureStart(ctx context.Context, a *agents, r *report) error {
	if err := c.installOperator(ctx); err != nil {
		return err
	}
	lvmCluster := &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: clusterKey.Namespace,
		Name: clusterKey.Name}}
	for i, class := range classes {
		lvmCluster.Spec.Storage.DeviceClasses = append(lvmCluster.Spec.Storage.DeviceClasses, v1alpha1.DeviceClass{
			Name: class, Default: i == 0, ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool",
				OverprovisionRatio: 10},
			DeviceSelector: &v1alpha1.DeviceSelector{
				Paths: []v1alpha1.DevicePath{v1alpha1.DevicePath("/dev/disk/by-id/" + class)}}})
	}
	if err := c.Create(ctx, lvmCluster); err != nil {
		return err
	}
	// After the LVMCluster, because the webhook does not serve yet.
	if err := c.registerWebhook(ctx); err != nil {
		return err
	}
	progress("starting the operator and %d agents", c.nodes)
	begun := time.Now()
	if err := c.startOperator(ctx); err != nil {
		return err
	}
	if err := a.start(ctx); err != nil {
		return err
	}
	go c.playDaemonSet(ctx)
	if err := eachAtOnce(ctx, c.nodes, func(i int) error {
		// The Pods of a DaemonSet do not all start in the same second.
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(i) * startUp / time.Duration(c.nodes)):
		}
		return a.setUp(ctx, i)
	}); err != nil {
		return err
	}
	r.add("agents set up, within a minute",
		"%.0f s, %d reads, %d writes, %d conflicts, %d watches, %d MiB sent to them", time.Since(begun).Seconds(),
		a.read.Load(), a.written.Load(), a.conflicts.Load(), a.watches.Load(), a.heard.Load()/mebibyte)
	if _, err := wait(ctx, "the LVMCluster is Ready", 200*time.Millisecond, c.isReady(ctx)); err != nil {
		return err
	}
	r.add("from LVMCluster to Ready", "%.0f s", time.Since(begun).Seconds())
	return nil
}

// eachAtOnce calls a function for 0 to n-1 at the same time, like independent nodes.
func eachAtOnce(ctx context.Context, n int, do func(int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- do(i) }()
	}
	var done atomic.Int64
	for range n {
		if err := <-errs; err != nil {
			return err
		}
		done.Add(1)
	}
	return ctx.Err()
}

// playDaemonSet simulates the DaemonSet controller: the Pods run.
func (c *cluster) playDaemonSet(ctx context.Context) {
	for ctx.Err() == nil {
		set := &appsv1.DaemonSet{}
		if c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "vg-manager"}, set) == nil &&
			set.Status.ObservedGeneration != set.Generation {
			n := int32(c.nodes)
			set.Status = appsv1.DaemonSetStatus{ObservedGeneration: set.Generation, DesiredNumberScheduled: n,
				CurrentNumberScheduled: n, UpdatedNumberScheduled: n, NumberReady: n, NumberAvailable: n}
			_ = c.Status().Update(ctx, set)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// measureRest counts the requests of the idle operator.
func (c *cluster) measureRest(ctx context.Context, _ *agents, r *report) error {
	if _, err := c.steady(ctx); err != nil {
		return err
	}
	log := &auditReader{path: c.audit()}
	if _, err := log.next(); err != nil {
		return err
	}
	before, err := c.operator.usage()
	if err != nil {
		return err
	}
	progress("at rest for %s", c.rest)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(c.rest):
	}
	after, err := c.operator.usage()
	if err != nil {
		return err
	}
	made, err := log.next()
	if err != nil {
		return err
	}
	r.add("memory at rest", "%d MiB resident, %d MiB at most so far", after.resident/mebibyte, after.peak/mebibyte)
	r.add("processor at rest", "%.2f %% of a core", 100*(after.cpu-before.cpu).Seconds()/c.rest.Seconds())
	r.add("requests at rest", "%d writes beside the lease in %s; %v", made.writesBut("leases"), c.rest, made)
	return nil
}

// measureChange changes the status of one node.
func (c *cluster) measureChange(ctx context.Context, a *agents, r *report) error {
	if _, err := c.steady(ctx); err != nil {
		return err
	}
	log := &auditReader{path: c.audit()}
	if _, err := log.next(); err != nil {
		return err
	}
	node := nodeName(c.nodes / 2)
	begun := time.Now()
	if err := a.writeStatus(ctx, node, func(status *v1alpha1.LVMVolumeGroupNodeStatusStatus) {
		status.NodeStatus[0].Status = v1alpha1.VGStatusDegraded
		status.NodeStatus[0].Reason = "disk /dev/sdb is missing"
	}); err != nil {
		return err
	}
	if _, err := wait(ctx, "the LVMCluster says Degraded", 20*time.Millisecond, func() (bool, string, error) {
		lvmCluster, err := c.status(ctx)
		return err == nil && lvmCluster.Status.State == v1alpha1.LVMStatusDegraded, string(lvmCluster.Status.State), err
	}); err != nil {
		return err
	}
	took := time.Since(begun)
	if _, err := c.steady(ctx); err != nil {
		return err
	}
	made, err := log.next()
	if err != nil {
		return err
	}
	r.add("a node degrades: until the LVMCluster says so", "%.1f s; requests of the operator: %v", took.Seconds(),
		made.without("leases"))
	return a.writeStatus(ctx, node, func(status *v1alpha1.LVMVolumeGroupNodeStatusStatus) {
		status.NodeStatus[0].Status = v1alpha1.VGStatusReady
		status.NodeStatus[0].Reason = ""
	})
}

// measureClaims creates claims at the same time, each with a selected node.
func (c *cluster) measureClaims(ctx context.Context, a *agents, r *report) error {
	if _, err := wait(ctx, "the LVMCluster is Ready", 200*time.Millisecond, c.isReady(ctx)); err != nil {
		return err
	}
	bound := &atomic.Int64{}
	claims, err := a.cache.GetInformer(ctx, &corev1.PersistentVolumeClaim{}, cache.BlockUntilSynced(true))
	if err != nil {
		return err
	}
	handler, err := claims.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		was, _ := before.(*corev1.PersistentVolumeClaim)
		is, _ := after.(*corev1.PersistentVolumeClaim)
		if was != nil && is != nil && was.Status.Phase != corev1.ClaimBound && is.Status.Phase == corev1.ClaimBound {
			bound.Add(1)
		}
	}})
	if err != nil {
		return err
	}
	defer func() { _ = claims.RemoveEventHandler(handler) }()
	if err := c.Get(ctx, client.ObjectKey{Name: "lvms-fast"}, &storagev1.StorageClass{}); err != nil {
		return err
	}
	progress("%d claims at once", c.claims)
	begun := time.Now()
	storageClass := "lvms-fast"
	if err := each(ctx, c.claims, func(i int) error {
		return c.Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("new-%04d",
			i), Namespace: "apps",
			Annotations: map[string]string{"volume.kubernetes.io/selected-node": nodeName(i % c.nodes)}},
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: writeOnce, StorageClassName: &storageClass,
				Resources: corev1.VolumeResourceRequirements{Requests: size}}})
	}); err != nil {
		return err
	}
	made := time.Since(begun)
	if _, err := wait(ctx, "all claims are bound", 50*time.Millisecond, func() (bool, string, error) {
		return bound.Load() == int64(c.claims), fmt.Sprintf("%d bound", bound.Load()), nil
	}); err != nil {
		return err
	}
	u, err := c.operator.usage()
	if err != nil {
		return err
	}
	r.add(fmt.Sprintf("%d claims at once", c.claims),
		"%.1f s until all are bound (%.1f s to make the claims); memory %d MiB resident, %d MiB at most so far",
		time.Since(begun).Seconds(), made.Seconds(), u.resident/mebibyte, u.peak/mebibyte)
	return nil
}

// measureRestart kills the operator and restarts it.
func (c *cluster) measureRestart(ctx context.Context, _ *agents, r *report) error {
	if _, err := c.steady(ctx); err != nil {
		return err
	}
	c.operator.kill()
	log := &auditReader{path: c.audit()}
	if _, err := log.next(); err != nil {
		return err
	}
	begun := time.Now()
	if err := c.startOperator(ctx); err != nil {
		return err
	}
	if _, err := wait(ctx, "the operator is ready", 50*time.Millisecond,
		func() (bool, string, error) { return ready(), "", nil }); err != nil {
		return err
	}
	isReady := time.Since(begun)
	quiet, err := c.steady(ctx)
	if err != nil {
		return err
	}
	made, err := log.next()
	if err != nil {
		return err
	}
	u, err := c.operator.usage()
	if err != nil {
		return err
	}
	r.add("restart", "ready after %.1f s, steady after %.1f s; memory %d MiB resident, %d MiB at most; requests: %v",
		isReady.Seconds(), (isReady + quiet).Seconds(), u.resident/mebibyte, u.peak/mebibyte, made.without("leases"))
	return nil
}

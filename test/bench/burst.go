package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	burstClaims = 50
	burstClass  = "burst"
	burstSize   = "64Mi"
)

var burstLab = lab.Options{Name: "bench-burst", Nodes: 2, Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}}

// runBurst compares 50 simultaneous claims on two nodes with a loop of lvcreate on each node, in parallel: from the
// claims to their bound PersistentVolumes, and from their deletion to the deletion of the last logical volume.
// Before that, it measures the start of a Pod with a new claim.
func runBurst(ctx context.Context, b *bench) error {
	if err := b.createThinClass(ctx); err != nil {
		return err
	}
	immediate := storagev1.VolumeBindingImmediate
	err := b.cluster.Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: burstClass}, Provisioner: wellknown.DriverName,
		VolumeBindingMode: &immediate,
		Parameters:        map[string]string{wellknown.DeviceClassParameter: className},
	})
	if err != nil {
		return err
	}
	if err := b.podWithClaim(ctx); err != nil {
		return err
	}
	bareCreate, err := b.onBothNodes(ctx, `lvcreate -T bench/pool -n bare-$i -V 64m -W y -y`)
	if err != nil {
		return err
	}
	bareRemove, err := b.onBothNodes(ctx, `lvremove -f bench/bare-$i`)
	if err != nil {
		return err
	}
	create, err := b.claims(ctx)
	if err != nil {
		return err
	}
	remove, err := b.unclaims(ctx)
	if err != nil {
		return err
	}
	print := func(what string, ours, bare time.Duration) {
		fmt.Printf("| %s | %.1f s | %.2f |\n", what, bare.Seconds(), float64(ours)/float64(bare))
	}
	fmt.Print("\n| two nodes | loop of the bare command on each node | LVMS ÷ bare |\n|---|---|---|\n")
	print(fmt.Sprintf("%d claims at once, until the last is bound", burstClaims), create, bareCreate)
	print(fmt.Sprintf("%d claims deleted at once, until the last PersistentVolume is gone", burstClaims),
		remove, bareRemove)
	return nil
}

// onBothNodes runs a command 25 times in a shell on each node, at the same time.
func (b *bench) onBothNodes(ctx context.Context, command string) (time.Duration, error) {
	line := fmt.Sprintf("for i in $(seq %d); do %s >/dev/null 2>&1 || exit 1; done", burstClaims/2, command)
	failed := make(chan error, len(b.lab.Nodes()))
	start := time.Now()
	for _, node := range b.lab.Nodes() {
		go func() {
			_, err := node.Exec(ctx, "sh", "-c", line)
			failed <- err
		}()
	}
	var errs []error
	for range b.lab.Nodes() {
		errs = append(errs, <-failed)
	}
	return time.Since(start), errors.Join(errs...)
}

func (b *bench) claims(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	for i := range burstClaims {
		err := b.cluster.Claim(ctx, story.Volume{Namespace: "default", Name: fmt.Sprint("burst-", i), Class: burstClass,
			Size: burstSize})
		if err != nil {
			return 0, err
		}
	}
	err := b.count(ctx, func() (int, error) {
		list := &corev1.PersistentVolumeClaimList{}
		err := b.cluster.List(ctx, list, client.InNamespace("default"))
		pending := 0
		for _, claim := range list.Items {
			if claim.Status.Phase != corev1.ClaimBound {
				pending++
			}
		}
		return pending, err
	})
	return time.Since(start), err
}

func (b *bench) unclaims(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	if err := b.cluster.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace("default")); err != nil {
		return 0, err
	}
	err := b.count(ctx, func() (int, error) {
		list := &corev1.PersistentVolumeList{}
		err := b.cluster.List(ctx, list)
		return len(list.Items), err
	})
	return time.Since(start), err
}

// count waits until nothing is left.
func (b *bench) count(ctx context.Context, left func() (int, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		n, err := left()
		if err == nil && n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d volumes are left: %w", n, errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

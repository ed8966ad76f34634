package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	neighborRounds = 5
	// neighborTime is how long fio writes for each sample.
	neighborTime = 20 * time.Second
	// neighborMiB is the size of the volume that is measured, and fillerMiB is what other volumes use of the thin
	// pool of 3.6 GiB: 80 % with the copies.
	neighborMiB = 256
	fillerMiB   = 2500
)

var neighborLab = lab.Options{Name: "bench-neighbor", Nodes: 2, Snapshots: true,
	Disks: []lab.DiskSpec{{Size: 4 * lab.GiB}}}

var neighbor = story.Volume{Namespace: "default", Name: "neighbor", Class: "lvms-" + className,
	Size: fmt.Sprintf("%dMi", neighborMiB), Node: "node2", Block: true}

// latency are the percentiles of the time that a write takes.
type latency struct{ median, p99 time.Duration }

// runNeighbor measures the writes of a volume while snapshots are restored to its thin pool, one after the other. It
// compares them with the writes without restores, in turns. fio is the folder of the program, which the nodes see,
// because they have the root directory of the machine.
func runNeighbor(fio string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		if err := b.prepareNeighbor(ctx); err != nil {
			return err
		}
		fmt.Print("\n| restores to the thin pool | writes of 4 KiB, alone: median, p99 | beside them: median, p99 " +
			"| p99 ÷ p99 | restores |\n|---|---|---|---|---|\n")
		for _, limit := range []string{"", "20Mi", "5Mi"} {
			if err := b.besideCopies(ctx, fio, limit); err != nil {
				return err
			}
		}
		return nil
	}
}

// prepareNeighbor fills the pool of the second node.
func (b *bench) prepareNeighbor(ctx context.Context) error {
	if err := b.prepareCopies(ctx); err != nil {
		return err
	}
	if err := errors.Join(b.cluster.Claim(ctx, neighbor),
		b.cluster.StartPod(ctx, neighbor, neighbor.Name)); err != nil {
		return err
	}
	if _, err := b.lab.Nodes()[1].Exec(ctx, "sh", "-c", fmt.Sprintf("lvcreate -qq -W y -y -V %dm -T bench/pool "+
		"-n filler && dd if=/dev/zero of=/dev/bench/filler bs=1M oflag=direct count=%d", fillerMiB,
		fillerMiB)); err != nil {
		return err
	}
	device, err := b.neighborDevice(ctx)
	if err != nil {
		return err
	}
	_, err = b.lab.Nodes()[1].Exec(ctx, "dd", "if=/dev/zero", "of="+device, "bs=1M", "oflag=direct",
		fmt.Sprint("count=", neighborMiB))
	return err
}

// neighborDevice returns the path of the volume on its node.
func (b *bench) neighborDevice(ctx context.Context) (string, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := b.cluster.Get(ctx, client.ObjectKey{Namespace: neighbor.Namespace, Name: neighbor.Name},
		claim); err != nil {
		return "", err
	}
	pv := &corev1.PersistentVolume{}
	if err := b.cluster.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, pv); err != nil {
		return "", err
	}
	if pv.Spec.CSI == nil {
		return "", fmt.Errorf("PersistentVolume %s has no CSI source", pv.Name)
	}
	return "/dev/bench/" + pv.Spec.CSI.VolumeHandle, nil
}

// besideCopies measures with a bandwidth limit of copies, and prints a row.
func (b *bench) besideCopies(ctx context.Context, fio, limit string) error {
	if err := b.limitCopies(ctx, limit); err != nil {
		return err
	}
	device, err := b.neighborDevice(ctx)
	if err != nil {
		return err
	}
	var alone, beside []latency
	restores := 0
	for range neighborRounds {
		one, err := b.writes(ctx, fio, device)
		if err != nil {
			return err
		}
		alone = append(alone, one)
		measuring, stop := context.WithCancel(ctx)
		failed := make(chan error, 1)
		go func() { failed <- b.restoreUntil(ctx, measuring, &restores) }()
		two, err := b.writes(ctx, fio, device)
		stop()
		if err := errors.Join(err, <-failed); err != nil {
			return err
		}
		beside = append(beside, two)
	}
	if limit == "" {
		limit = "no limit"
	}
	one, two := medians(alone), medians(beside)
	fmt.Printf("| %s | %s | %s | %.2f | %d |\n", limit, one, two, float64(two.p99)/float64(one.p99), restores)
	return nil
}

// restoreUntil restores snapshots until measuring ends, and counts them. The last one is completed.
func (b *bench) restoreUntil(ctx, measuring context.Context, count *int) error {
	for measuring.Err() == nil {
		if _, err := b.restore(ctx, fmt.Sprint("beside-", *count)); err != nil {
			return err
		}
		*count++
	}
	return nil
}

func (b *bench) limitCopies(ctx context.Context, limit string) error {
	object := &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: "bench", Namespace: story.OperatorNamespace}}
	if err := b.cluster.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	object.Spec.VolumeCopy = nil
	if limit != "" {
		quantity := resource.MustParse(limit)
		object.Spec.VolumeCopy = &v1alpha1.VolumeCopyConfig{BandwidthLimit: &quantity}
	}
	if err := b.cluster.Update(ctx, object); err != nil {
		return err
	}
	return errors.Join(sleep(ctx, 5*time.Second), b.cluster.WaitReady(ctx, "bench"))
}

// writes writes 4 KiB at random places of a device, 50 times a second, and each write to the disk. An error of a write
// is an error.
func (b *bench) writes(ctx context.Context, folder, device string) (latency, error) {
	libraries := folder + "/usr/lib/x86_64-linux-gnu"
	out, err := b.lab.Nodes()[1].Exec(ctx, "env", "LD_LIBRARY_PATH="+libraries+":"+folder+"/lib/x86_64-linux-gnu:"+
		libraries+"/ceph", folder+"/usr/bin/fio", "--name=neighbor", "--filename="+device, "--rw=randwrite",
		"--bs=4k", "--direct=1", "--ioengine=psync", "--rate_iops=50", "--time_based",
		fmt.Sprintf("--runtime=%.0f", neighborTime.Seconds()), fmt.Sprintf("--size=%dM", neighborMiB),
		"--output-format=json")
	if err != nil {
		return latency{}, fmt.Errorf("fio: %w: %s", err, out.Stderr)
	}
	var result struct {
		Jobs []struct {
			Error int `json:"error"`
			Write struct {
				Latency struct {
					Percentile map[string]int64 `json:"percentile"`
				} `json:"clat_ns"`
			} `json:"write"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal([]byte(out.Stdout), &result); err != nil {
		return latency{}, fmt.Errorf("fio printed %q: %w", out.Stdout, err)
	}
	if len(result.Jobs) != 1 || result.Jobs[0].Error != 0 {
		return latency{}, fmt.Errorf("fio has failed: %s", out.Stdout)
	}
	percentile := result.Jobs[0].Write.Latency.Percentile
	l := latency{median: time.Duration(percentile["50.000000"]), p99: time.Duration(percentile["99.000000"])}
	if l.median == 0 || l.p99 == 0 {
		return l, fmt.Errorf("fio printed no latencies: %s", out.Stdout)
	}
	return l, nil
}

func (l latency) String() string {
	return fmt.Sprintf("%.2f ms, %.2f ms", l.median.Seconds()*1000, l.p99.Seconds()*1000)
}

// medians returns the median of each value.
func medians(list []latency) latency {
	var ms, ps []time.Duration
	for _, l := range list {
		ms, ps = append(ms, l.median), append(ps, l.p99)
	}
	return latency{median: middle(ms), p99: middle(ps)}
}

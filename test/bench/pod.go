package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	podClass   = "pod"
	boundClass = "pod-bound"
	podSamples = 9
	podLimit   = 3 * time.Minute
)

// bareVolume creates, formats and mounts a thin volume on a node, and prints how long that takes in nanoseconds. %d is
// its number.
const bareVolume = `begin=$(date +%%s%%N) && { lvcreate -T bench/pool -n pod-%[1]d -V 64m -W y -y &&
mkfs.ext4 -q -F -m0 /dev/bench/pod-%[1]d && mkdir -p /run/pod-%[1]d && mount /dev/bench/pod-%[1]d /run/pod-%[1]d
} >/dev/null 2>&1 && echo $(($(date +%%s%%N) - begin))`

const bareVolumeRemoval = `umount /run/pod-%[1]d && lvremove -f bench/pod-%[1]d >/dev/null 2>&1`

// podWithClaim measures what a new claim adds to the start of a Pod, compared with the bare commands that create,
// format and mount a volume on the node. The samples are taken in turns. The scheduler checks only once a second
// whether a claim with WaitForFirstConsumer is bound (BindPodVolumes in its plugin volumebinding), so the same is also
// measured with a class that binds immediately.
func (b *bench) podWithClaim(ctx context.Context) error {
	for name, mode := range map[string]storagev1.VolumeBindingMode{
		podClass: storagev1.VolumeBindingWaitForFirstConsumer, boundClass: storagev1.VolumeBindingImmediate,
	} {
		if err := b.cluster.Create(ctx, b.podStorageClass(name, mode)); err != nil {
			return err
		}
	}
	var bare, bound []time.Duration
	var without, with, after podTimes
	for i := range podSamples {
		took, err := b.bareVolume(ctx, i)
		if err == nil {
			err = b.podAlone(ctx, i, &without)
		}
		if err == nil {
			err = b.podAndClaim(ctx, i, &with)
		}
		if err == nil {
			err = b.podAfterClaim(ctx, i, &after, &bound)
		}
		if err != nil {
			return err
		}
		bare = append(bare, took)
	}
	fmt.Println("\n| | medians of", podSamples, "|\n|---|---|")
	for _, row := range []struct {
		what string
		took time.Duration
	}{
		{"bare: lvcreate, mkfs, mount", middle(bare)},
		{"Pod without a claim, until it is scheduled", middle(without.scheduled)},
		{"Pod without a claim, until it is Ready", middle(without.ready)},
		{"Pod with a new claim, until it is scheduled: the volume exists", middle(with.scheduled)},
		{"Pod with a new claim, until it is Ready", middle(with.ready)},
		{"new claim that binds immediately, until it is bound", middle(bound)},
		{"Pod that is created when such a claim is bound, until it is Ready: since the claim", middle(after.ready)},
	} {
		fmt.Printf("| %s | %.2f s |\n", row.what, row.took.Seconds())
	}
	added := func(times podTimes) float64 {
		return float64(middle(times.ready)-middle(without.ready)) / float64(middle(bare))
	}
	fmt.Printf("| (with − without) ÷ bare | %.2f |\n", added(with))
	fmt.Printf("| the same with immediate binding | %.2f |\n", added(after))
	return nil
}

// podStorageClass returns a StorageClass whose volumes are created on the node of the Pods.
func (b *bench) podStorageClass(name string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: wellknown.DriverName, VolumeBindingMode: &mode,
		Parameters: map[string]string{wellknown.DeviceClassParameter: className, "csi.storage.k8s.io/fstype": "ext4"},
		AllowedTopologies: []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
				{Key: wellknown.TopologyNodeKey, Values: []string{b.node.Name()}}}}},
	}
}

// podTimes are times from the creation of Pods, or of their claims, until they are scheduled and Ready.
type podTimes struct{ scheduled, ready []time.Duration }

func middle(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// bareVolume returns the time that the node measures, without that of the connection to it.
func (b *bench) bareVolume(ctx context.Context, i int) (time.Duration, error) {
	result, err := b.node.Exec(ctx, "sh", "-c", fmt.Sprintf(bareVolume, i))
	if err != nil {
		return 0, fmt.Errorf("create a bare volume: %w: %s", err, result.Stderr)
	}
	took, err := strconv.ParseInt(strings.TrimSpace(result.Stdout), 10, 64)
	if err != nil {
		return 0, err
	}
	return time.Duration(took), b.exec(ctx, "sh", "-c", fmt.Sprintf(bareVolumeRemoval, i))
}

func (b *bench) podAlone(ctx context.Context, i int, times *podTimes) error {
	return b.startPod(ctx, b.pod(fmt.Sprint("alone-", i), ""), time.Now(), times)
}

// podAndClaim includes the creation of the claim.
func (b *bench) podAndClaim(ctx context.Context, i int, times *podTimes) error {
	name := fmt.Sprint("claim-", i)
	v := story.Volume{Namespace: "default", Name: name, Class: podClass, Size: burstSize}
	begun := time.Now()
	if err := b.cluster.Claim(ctx, v); err != nil {
		return err
	}
	return errors.Join(b.startPod(ctx, b.pod(name, name), begun, times), b.cluster.Unclaim(ctx, v))
}

// podAfterClaim creates the Pod when its claim is bound. The times begin with the creation of the claim.
func (b *bench) podAfterClaim(ctx context.Context, i int, times *podTimes, bound *[]time.Duration) error {
	name := fmt.Sprint("bound-", i)
	v := story.Volume{Namespace: "default", Name: name, Class: boundClass, Size: burstSize}
	begun := time.Now()
	if err := b.cluster.Claim(ctx, v); err != nil {
		return err
	}
	err := b.untilBound(ctx, name)
	*bound = append(*bound, time.Since(begun))
	if err == nil {
		err = b.startPod(ctx, b.pod(name, name), begun, times)
	}
	return errors.Join(err, b.cluster.Unclaim(ctx, v))
}

// pod returns a Pod on the first node, with a claim if its name is not "".
func (b *bench) pod(name, claim string) *corev1.Pod {
	grace := int64(1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: b.node.Name()},
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "main", Image: b.lab.Registry() + "/busybox:1",
				Command: []string{"/bin/sh", "-c", "trap exit TERM; sleep 86400 & wait"}}},
		},
	}
	if claim != "" {
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	}
	return pod
}

// startPod creates a Pod, adds its times, and removes it.
func (b *bench) startPod(ctx context.Context, pod *corev1.Pod, begun time.Time, times *podTimes) error {
	limited, cancel := context.WithTimeout(ctx, podLimit)
	defer cancel()
	if err := b.cluster.Create(limited, pod); err != nil {
		return err
	}
	err := b.untilPod(limited, pod, corev1.PodScheduled)
	times.scheduled = append(times.scheduled, time.Since(begun))
	if err == nil {
		err = b.untilPod(limited, pod, corev1.PodReady)
	}
	times.ready = append(times.ready, time.Since(begun))
	return errors.Join(err, b.cluster.StopPod(ctx, pod.Namespace, pod.Name))
}

func (b *bench) untilPod(ctx context.Context, pod *corev1.Pod, want corev1.PodConditionType) error {
	return b.poll(ctx, fmt.Sprintf("pod %s is %s", pod.Name, want), pod, func() bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == want && c.Status == corev1.ConditionTrue
		})
	})
}

func (b *bench) untilBound(ctx context.Context, name string) error {
	limited, cancel := context.WithTimeout(ctx, podLimit)
	defer cancel()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	return b.poll(limited, "claim "+name+" is bound", claim,
		func() bool { return claim.Status.Phase == corev1.ClaimBound })
}

// poll reads an object every 20 ms, which is much shorter than the measured times.
func (b *bench) poll(ctx context.Context, what string, object client.Object, reached func() bool) error {
	for {
		err := b.cluster.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil && reached() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, errors.Join(ctx.Err(), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

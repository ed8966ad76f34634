package story

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Soon is the timeout of each wait for something that takes seconds. It only ends what would never end: a node of the
// lab has one processor, which is five times slower on some machines than on others.
const (
	Soon = 10 * time.Minute
	// Timeout is Soon as an option of kubectl and helm.
	Timeout = "--timeout=10m"
)

// Volume is a claim of a user.
type Volume struct {
	Namespace, Name string
	Class           string
	Size            string
	Block           bool
	// Snapshot, if set, is the VolumeSnapshot from which the volume is created.
	Snapshot string
	// Clone, if set, is the claim from which the volume is created.
	Clone string
	// Attributes, if set, is the VolumeAttributesClass.
	Attributes string
	// Existing, if set, is the PersistentVolume for the claim.
	Existing string
	// Node, if set, is the node of the volume's Pods.
	Node string
	// Labels are the labels of the claim.
	Labels map[string]string
	// AccessMode is ReadWriteOnce if it is empty.
	AccessMode corev1.PersistentVolumeAccessMode
	// Level, if set, is the SELinux level of the volume's Pods.
	Level string
}

// The paths of a volume in its Pods, and the size of the file that Write writes.
const (
	mountPath  = "/data"
	devicePath = "/dev/data"
	fileMiB    = 64
)

// Claim creates the volume's claim.
func (c *Cluster) Claim(ctx context.Context, v Volume) error {
	size, err := resource.ParseQuantity(v.Size)
	if err != nil {
		return err
	}
	mode := corev1.PersistentVolumeFilesystem
	if v.Block {
		mode = corev1.PersistentVolumeBlock
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Name, Labels: v.Labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &v.Class,
			VolumeMode:       &mode,
			VolumeName:       v.Existing,
			AccessModes:      []corev1.PersistentVolumeAccessMode{cmp.Or(v.AccessMode, corev1.ReadWriteOnce)},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	if v.Snapshot != "" {
		group := "snapshot.storage.k8s.io"
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot",
			Name: v.Snapshot}
	}
	if v.Attributes != "" {
		claim.Spec.VolumeAttributesClassName = &v.Attributes
	}
	if v.Clone != "" {
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: v.Clone}
	}
	return c.Create(ctx, claim)
}

// pod returns a pod that mounts the volume and runs a shell line.
func (c *Cluster) pod(v Volume, name, line string) *corev1.Pod {
	grace := int64(1)
	container := corev1.Container{Name: "main", Image: c.Lab.Registry() + "/busybox:1",
		Command: []string{"/bin/sh", "-c", line}}
	if v.Block {
		container.VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: devicePath}}
	} else {
		container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: mountPath}}
	}
	var selector map[string]string
	if v.Node != "" {
		selector = map[string]string{corev1.LabelHostname: v.Node}
	}
	var security *corev1.PodSecurityContext
	if v.Level != "" {
		security = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: v.Level}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: name},
		Spec: corev1.PodSpec{
			SecurityContext:               security,
			NodeSelector:                  selector,
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{container},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.Name}}}},
		},
	}
}

// StartPod starts a Pod with the volume, which keeps running, and waits until it runs.
func (c *Cluster) StartPod(ctx context.Context, v Volume, name string) error {
	if err := c.CreatePod(ctx, v, name); err != nil {
		return err
	}
	return c.WaitRunning(ctx, v.Namespace, name)
}

// CreatePod creates a Pod with the volume, which keeps running.
func (c *Cluster) CreatePod(ctx context.Context, v Volume, name string) error {
	return c.Create(ctx, c.pod(v, name, "trap exit TERM; sleep 86400 & wait"))
}

// WaitRunning waits until a pod is Ready.
func (c *Cluster) WaitRunning(ctx context.Context, namespace, name string) error {
	ctx, cancel := context.WithTimeout(ctx, Soon)
	defer cancel()
	return Wait(ctx, "pod "+name+" running", func(ctx context.Context) (bool, string, error) {
		var pod corev1.Pod
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
			return false, "", err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return true, "", nil
			}
		}
		return false, c.podState(ctx, &pod), nil
	})
}

func (c *Cluster) podState(ctx context.Context, pod *corev1.Pod) string {
	seen := string(pod.Status.Phase)
	for _, condition := range pod.Status.Conditions {
		if condition.Message != "" {
			seen += "; " + condition.Message
		}
	}
	events, err := c.Clientset.CoreV1().Events(pod.Namespace).List(ctx,
		metav1.ListOptions{FieldSelector: "type=Warning", Limit: 20})
	if err != nil {
		return seen
	}
	for _, event := range events.Items {
		seen += "; " + event.InvolvedObject.Name + ": " + event.Message
	}
	return seen
}

// StopPod deletes a Pod and waits until it no longer exists.
func (c *Cluster) StopPod(ctx context.Context, namespace, name string) error {
	return c.Remove(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, Soon)
}

// Unclaim deletes the volume's claim and waits until it and its PersistentVolume no longer exist.
func (c *Cluster) Unclaim(ctx context.Context, v Volume) error {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Name}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	volumeName := claim.Spec.VolumeName
	if err := c.Remove(ctx, claim, Soon); err != nil || volumeName == "" {
		return err
	}
	return c.waitGone(ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volumeName}}, Soon)
}

// Remove deletes an object and waits until it no longer exists.
func (c *Cluster) Remove(ctx context.Context, object client.Object, limit time.Duration) error {
	if err := client.IgnoreNotFound(c.Delete(ctx, object)); err != nil {
		return err
	}
	return c.waitGone(ctx, object, limit)
}

func (c *Cluster) waitGone(ctx context.Context, object client.Object, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	key := client.ObjectKeyFromObject(object)
	return Wait(ctx, fmt.Sprintf("%T %s gone", object, key.Name), func(ctx context.Context) (bool, string, error) {
		err := c.Get(ctx, key, object)
		if client.IgnoreNotFound(err) == nil && err != nil {
			return true, "", nil
		}
		return false, fmt.Sprintf("finalizers %v", object.GetFinalizers()), err
	})
}

// Write writes and flushes 64 MiB of random data to the volume in a running Pod, and returns their checksum.
func (c *Cluster) Write(ctx context.Context, v Volume, pod string) (string, error) {
	target := mountPath + "/file"
	if v.Block {
		target = devicePath
	}
	line := fmt.Sprintf("dd if=/dev/urandom of=%s bs=1M count=%d iflag=fullblock conv=fsync 2>&1", target, fileMiB)
	if _, err := c.Shell(ctx, v.Namespace, pod, line); err != nil {
		return "", err
	}
	return c.Checksum(ctx, v, pod)
}

// Checksum reads the data of Write in a running Pod.
func (c *Cluster) Checksum(ctx context.Context, v Volume, pod string) (string, error) {
	line := "sha256sum < " + mountPath + "/file"
	if v.Block {
		line = fmt.Sprintf("dd if=%s bs=1M count=%d iflag=fullblock 2>/dev/null | sha256sum", devicePath, fileMiB)
	}
	out, err := c.Shell(ctx, v.Namespace, pod, line)
	if err != nil {
		return "", err
	}
	sum, _, _ := strings.Cut(out, " ")
	if len(sum) != 64 {
		return "", fmt.Errorf("no checksum in %q", out)
	}
	return sum, nil
}

// Expand requests a new size and waits until the Pod with the volume has it. It returns the size in the Pod, in bytes.
func (c *Cluster) Expand(ctx context.Context, v Volume, pod, size string) (int64, error) {
	want, err := resource.ParseQuantity(size)
	if err != nil {
		return 0, err
	}
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: v.Namespace, Name: v.Name}, claim); err != nil {
		return 0, err
	}
	least := leastSize(v, 0, 0, want.Value())
	// If the size was requested before, the volume may grow just now.
	if requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]; requested.Cmp(want) < 0 {
		before := claim.Status.Capacity[corev1.ResourceStorage]
		smaller, err := c.sizeInPod(ctx, v, pod)
		if err != nil {
			return 0, err
		}
		least = max(least, leastSize(v, smaller, before.Value(), want.Value()))
	}
	if err := c.Patch(ctx, claim, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, Soon)
	defer cancel()
	var seen int64
	return seen, Wait(ctx, "volume "+v.Name+" of "+size, func(ctx context.Context) (bool, string, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return false, "", err
		}
		if seen, err = c.sizeInPod(ctx, v, pod); err != nil {
			return false, "", err
		}
		capacity := claim.Status.Capacity[corev1.ResourceStorage]
		done := capacity.Cmp(want) >= 0 && seen >= least
		return done, fmt.Sprintf("claim has %s, the pod sees %d of at least %d bytes, conditions %v",
			capacity.String(), seen, least, claim.Status.Conditions), nil
	})
}

// leastSize returns the least size in the Pod, in bytes, of a volume that has grown from one capacity to another. A
// block device has all of it. A file system has at least four fifths of the additional space: an ext4 of less than 512
// MiB uses 7 % for inodes (mke2fs.conf, type small), and df includes neither them nor the journal.
func leastSize(v Volume, seen, before, after int64) int64 {
	if v.Block {
		return after
	}
	return seen + max(0, after-before)*4/5
}

// smallestLog is the minimum size of the log of an XFS file system (mkfs.xfs, -l size), which df does not include.
const smallestLog = 64 << 20

// sizeInPod returns the size of a volume in its Pod, in bytes: of the device, or of the file system with its log.
func (c *Cluster) sizeInPod(ctx context.Context, v Volume, pod string) (int64, error) {
	line := fmt.Sprintf("log=$(awk '$2 == %q && $3 == \"xfs\" {print %d}' /proc/mounts); "+
		"df -P -k %s | awk -v extra=${log:-0} 'NR == 2 {print $2 * 1024 + extra}'", mountPath, smallestLog, mountPath)
	if v.Block {
		line = "blockdev --getsize64 " + devicePath
	}
	out, err := c.Shell(ctx, v.Namespace, pod, line)
	if err != nil {
		return 0, err
	}
	var size float64
	if _, err := fmt.Sscan(out, &size); err != nil {
		return 0, fmt.Errorf("no size in %q: %w", out, err)
	}
	return int64(size), nil
}

// Snapshot creates a snapshot of a volume and waits until it is ready to use.
func (c *Cluster) Snapshot(ctx context.Context, v Volume, name string) error {
	snapshot := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: name},
		Spec: snapshotv1.VolumeSnapshotSpec{
			VolumeSnapshotClassName: &v.Class,
			Source:                  snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &v.Name},
		},
	}
	if err := c.Create(ctx, snapshot); err != nil {
		return err
	}
	return c.WaitSnapshot(ctx, v.Namespace, name)
}

// WaitSnapshot waits until a snapshot is ready to use.
func (c *Cluster) WaitSnapshot(ctx context.Context, namespace, name string) error {
	snapshot := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	ctx, cancel := context.WithTimeout(ctx, Soon)
	defer cancel()
	return Wait(ctx, "snapshot "+name, func(ctx context.Context) (bool, string, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(snapshot), snapshot); err != nil {
			return false, "", err
		}
		status := snapshot.Status
		switch {
		case status == nil:
			return false, "not looked at yet", nil
		case status.Error != nil && status.Error.Message != nil:
			return false, *status.Error.Message, nil
		}
		return status.ReadyToUse != nil && *status.ReadyToUse, "not ready", nil
	})
}

// RemoveSnapshot deletes a snapshot and waits until it no longer exists.
func (c *Cluster) RemoveSnapshot(ctx context.Context, namespace, name string) error {
	return c.Remove(ctx, &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: name}}, Soon)
}

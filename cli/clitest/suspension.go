package clitest

import (
	"context"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// podWith returns a Pod that uses a claim.
func podWith(namespace, name, claim string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status: corev1.PodStatus{Phase: phase},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}}}
}

// SuspendedVolume returns a volume that a person suspended.
func SuspendedVolume(name, claim, text string) *topolvmv1.LogicalVolume {
	lv := Volume(name, "worker-1", "vg1", claim)
	lv.UID = "uid-lv"
	lv.Annotations[wellknown.SuspendedAnnotation] = text
	return lv
}

// WithUser returns a client of a user.
func WithUser(t *testing.T, c *Cluster, user string) client.Client {
	t.Helper()
	watched, ok := c.Client.(client.WithWatch)
	if !ok {
		t.Fatal("the fake client cannot be intercepted")
	}
	return interceptor.NewClient(watched, interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, object client.Object,
			options ...client.CreateOption) error {
			if review, is := object.(*authenticationv1.SelfSubjectReview); is {
				review.Status.UserInfo.Username = user
				return nil
			}
			return w.Create(ctx, object, options...)
		}})
}

// Suspendable returns a fake API server with volumes on a node, their claims, Pods and devices.
func Suspendable(t *testing.T) *Cluster {
	shared := Volume("pvc-1", "worker-1", "vg1", "shop/data")
	shared.UID = "uid-lv"
	onDevice := Volume("pvc-3", "worker-1", "vg1", "shop/other")
	onDevice.Annotations[wellknown.SuspendedDevicesAnnotation] = "/dev/sdb"
	ephemeral := podWith("shop", "batch", "unrelated", corev1.PodRunning)
	ephemeral.Spec.Volumes[0] = corev1.Volume{Name: "tmp",
		VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}
	return NewCluster(t, shared, BoundTo("pvc-1", "shop/data"), podWith("shop", "db-0", "data", corev1.PodRunning),
		podWith("shop", "old", "data", corev1.PodSucceeded), podWith("web", "db-0", "data", corev1.PodRunning),
		ephemeral, SuspendedVolume("pvc-2", "shop/batch-tmp", "by bob at noon: disk errors"),
		BoundTo("pvc-2", "shop/batch-tmp"), onDevice, BoundTo("pvc-3", "shop/other"), StorageCluster("storage"),
		PairedNode("storage", "90Gi"))
}

// SuspensionOf returns who suspended a volume, or "no".
func (c *Cluster) SuspensionOf(name string) string {
	c.t.Helper()
	lv := &topolvmv1.LogicalVolume{}
	if err := c.Client.Get(c.t.Context(), client.ObjectKey{Name: name}, lv); err != nil {
		c.t.Fatal(err)
	}
	text, suspended := lv.Annotations[wellknown.SuspendedAnnotation]
	if !suspended {
		return "no"
	}
	return text
}

// SetSuspended returns a step in which the node agent reports whether /dev/sdb is suspended.
func (c *Cluster) SetSuspended(suspended bool) func() {
	return func() {
		c.t.Helper()
		node := &v1alpha1.LVMVolumeGroupNodeStatus{}
		if err := c.Client.Get(c.t.Context(), client.ObjectKey{Namespace: "storage", Name: "worker-1"},
			node); err != nil {
			c.t.Fatal(err)
		}
		node.Status.NodeStatus[0].PhysicalVolumes[0].Suspended = suspended
		node.Status.NodeStatus[0].PhysicalVolumes[0].Message = "suspended by admin at noon"
		if err := c.Update(c.t.Context(), node); err != nil {
			c.t.Fatal(err)
		}
	}
}

package clitest

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// Cluster is a fake API server whose LVMRecoveries a test changes as the node agent would.
type Cluster struct {
	t *testing.T
	client.Client
	// GetErrors are the errors of the next reads of an LVMRecovery.
	GetErrors []error
	// BeforePatch is called before the next patch.
	BeforePatch func()
	Writes      int
}

// NewCluster returns a fake API server with objects.
func NewCluster(t *testing.T, objects ...client.Object) *Cluster {
	c := &Cluster{t: t}
	c.Client = fake.NewClientBuilder().WithScheme(session.Scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.LVMRecovery{}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			c.Writes++
			o.SetUID("uid-1") // the fake client gives no UID
			return w.Create(ctx, o, opts...)
		},
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if len(c.GetErrors) > 0 {
				err := c.GetErrors[0]
				c.GetErrors = c.GetErrors[1:]
				if err != nil {
					return err
				}
			}
			return w.Get(ctx, key, o, opts...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			c.Writes++
			if before := c.BeforePatch; before != nil {
				c.BeforePatch = nil
				before()
			}
			return w.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			c.Writes++
			return w.Delete(ctx, o, opts...)
		},
	}).Build()
	return c
}

// Recovery returns the only LVMRecovery, or nil.
func (c *Cluster) Recovery() *v1alpha1.LVMRecovery {
	c.t.Helper()
	all := &v1alpha1.LVMRecoveryList{}
	if err := c.List(c.t.Context(), all); err != nil || len(all.Items) > 1 {
		c.t.Fatalf("%d LVMRecoveries, %v", len(all.Items), err)
	}
	if len(all.Items) == 0 {
		return nil
	}
	return &all.Items[0]
}

// Report returns a step in which the node agent writes the status of the LVMRecovery.
func (c *Cluster) Report(status v1alpha1.LVMRecoveryStatus) func() {
	return func() {
		c.t.Helper()
		recovery := c.Recovery()
		recovery.Status = status
		if err := c.Status().Update(c.t.Context(), recovery); err != nil {
			c.t.Fatal(err)
		}
	}
}

// ApprovedPlan returns the plan that is approved, or "".
func (c *Cluster) ApprovedPlan() string {
	if r := c.Recovery(); r != nil {
		return r.Spec.ApprovedPlan
	}
	return ""
}

// DeviceLabels returns the labels of devices in the node status worker-1.
func (c *Cluster) DeviceLabels(namespace string) []v1alpha1.DeviceLabels {
	c.t.Helper()
	node := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := c.Client.Get(c.t.Context(), client.ObjectKey{Namespace: namespace, Name: "worker-1"}, node); err != nil {
		c.t.Fatal(err)
	}
	return node.Spec.DeviceLabels
}

// RequestsNow returns the requests of the device class vg1.
func (c *Cluster) RequestsNow() []v1alpha1.DeviceRequest {
	c.t.Helper()
	all := &v1alpha1.LVMClusterList{}
	if err := c.List(c.t.Context(), all); err != nil || len(all.Items) != 1 {
		c.t.Fatal(len(all.Items), err)
	}
	return all.Items[0].Spec.Storage.DeviceClasses[1].DeviceRequests
}

// SetState returns a step in which the node agent reports the state of /dev/sdb.
func (c *Cluster) SetState(state v1alpha1.PhysicalVolumeState) func() {
	return func() {
		c.t.Helper()
		node := &v1alpha1.LVMVolumeGroupNodeStatus{}
		if err := c.Client.Get(c.t.Context(), client.ObjectKey{Namespace: "storage", Name: "worker-1"},
			node); err != nil {
			c.t.Fatal(err)
		}
		volumes := node.Status.NodeStatus[0].PhysicalVolumes
		if state == "" {
			node.Status.NodeStatus[0].PhysicalVolumes = volumes[1:]
		} else {
			volumes[0].State = state
			volumes[0].Message = "as tested"
		}
		if err := c.Update(c.t.Context(), node); err != nil {
			c.t.Fatal(err)
		}
	}
}

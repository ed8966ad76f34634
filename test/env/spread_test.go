//go:build env

package env

import (
	"context"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/driver"
	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// spreadClaim creates a claim in a spread group, and returns the request for its volume on a node that the scheduler
// has selected.
func spreadClaim(t *testing.T, name, group, node string) *csi.CreateVolumeRequest {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Annotations: map[string]string{"volume.kubernetes.io/selected-node": node},
			Labels: map[string]string{wellknown.SpreadGroupLabel: group,
				wellknown.SpreadLabel:       wellknown.SpreadNode,
				wellknown.SpreadPolicyLabel: wellknown.SpreadRequired}},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
	if err := server.Client.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	volume := "pvc-" + string(claim.UID)
	t.Cleanup(func() {
		claim.Finalizers = nil
		_ = server.Client.Update(context.Background(), claim)
		_ = server.Client.Delete(context.Background(), claim)
		_ = server.Client.Delete(context.Background(),
			&topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}})
	})
	return &csi.CreateVolumeRequest{
		Name: volume, CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 30},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
		Parameters: map[string]string{wellknown.DeviceClassParameter: "vg1",
			service.ClaimNamespaceKey: "default", service.ClaimNameKey: name},
		AccessibilityRequirements: &csi.TopologyRequirement{Requisite: []*csi.Topology{
			{Segments: map[string]string{wellknown.TopologyNodeKey: node}}}},
	}
}

// answering is a client whose LogicalVolumes are created at once, as by agents with enough capacity.
func answering(t *testing.T) client.Client {
	t.Helper()
	inner, err := client.NewWithWatch(server.Config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.CreateOption) error {
			if err := c.Create(ctx, object, o...); err != nil {
				return err
			}
			lv, ok := object.DeepCopyObject().(*topolvmv1.LogicalVolume)
			if !ok {
				return nil
			}
			lv.Status.VolumeID = string(lv.UID)
			lv.Status.CurrentSize = &lv.Spec.Size
			return c.Status().Update(ctx, lv)
		},
	})
}

// TestVolumesOfASpreadGroupAreFoundByTheirLabel: the cache does not have them, and a group can have the longest name.
func TestVolumesOfASpreadGroupAreFoundByTheirLabel(t *testing.T) {
	group := strings.Repeat("g", 63)
	events, err := cache.New(server.Config, cache.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	agents := answering(t)
	controller := driver.NewControllerServer(objects.Options{Client: agents, Live: agents, Active: agents,
		NameOf: func(string) string { return "" }})
	if err := controller.Watch(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	go func() { _ = events.Start(t.Context()) }()
	if !events.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache was not filled")
	}
	create := func(request *csi.CreateVolumeRequest, want string) {
		t.Helper()
		response, err := controller.CreateVolume(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		topology := response.GetVolume().GetAccessibleTopology()[0]
		if got := topology.GetSegments()[wellknown.TopologyNodeKey]; got != want {
			t.Errorf("%s: got %s, want %s", request.GetName(), got, want)
		}
	}
	first := spreadClaim(t, "spread-a", group, "n1")
	create(first, "n1")
	create(first, "n1")
	create(spreadClaim(t, "spread-c", "other", "n1"), "n1")
	second := spreadClaim(t, "spread-b", group, "n1")
	if _, err := controller.CreateVolume(t.Context(), second); status.Code(err) != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "default/spread-a") {
		t.Errorf("the same node: got %v", err)
	}
	lv := &topolvmv1.LogicalVolume{}
	if err := agents.Get(t.Context(), client.ObjectKey{Name: second.GetName()}, lv); !apierrors.IsNotFound(err) {
		t.Errorf("the refused volume: got %v, %v", lv, err)
	}
	second.AccessibilityRequirements.Requisite[0].Segments[wellknown.TopologyNodeKey] = "n2"
	create(second, "n2")
}

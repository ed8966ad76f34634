package driver

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/expect"
)

// overtaken reads from the API server for a process that is paused after it has read a LogicalVolume without a volume.
// Meanwhile, another leader has its volume created.
type overtaken struct {
	client.Reader
	c    *cluster
	once sync.Once
}

func (o *overtaken) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	options ...client.GetOption) error {
	err := o.Reader.Get(ctx, key, object, options...)
	if lv, ok := object.(*topolvmv1.LogicalVolume); ok && err == nil && lv.Status.VolumeID == "" {
		o.once.Do(func() { o.c.serve(o.c.get(lv.Name)) })
	}
	return err
}

// TestAVolumeThatWasCreatedMeanwhileIsNotDeleted by a process that has read its LogicalVolume before: its
// PersistentVolume may exist.
func TestAVolumeThatWasCreatedMeanwhileIsNotDeleted(t *testing.T) {
	refused := func(w withSource) *csi.CreateVolumeRequest {
		request := wanted("pvc-3", 40*mebi, "node2")
		desired, _, err := w.server.desiredVolume(w.Context(), request)
		w.must(err)
		desired.Spec.NodeName = "node2"
		w.agent = func(*topolvmv1.LogicalVolume) {}
		w.must(w.api.Create(w.Context(), desired))
		w.refuse(codes.ResourceExhausted)(w.get("pvc-3"))
		return request
	}
	for name, prepare := range map[string]func(w withSource) *csi.CreateVolumeRequest{
		"it was refused": refused,
		"it was requested of another node": func(w withSource) *csi.CreateVolumeRequest {
			request := refused(w)
			w.refuse(codes.OK)(w.get("pvc-3"))
			request.AccessibilityRequirements = on("node1")
			return request
		},
		"it is a copy whose claim was deleted": func(w withSource) *csi.CreateVolumeRequest {
			request := copyOf("pvc-2", w.volume, 80*mebi, "node1")
			w.interrupted(request)
			w.must(w.api.Delete(w.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "data"}}))
			return request
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWithSource(t, 400*mebi, "")
			request := prepare(w)
			w.agent = func(*topolvmv1.LogicalVolume) {}
			w.server.volumes.Live = &overtaken{Reader: w.api, c: w.cluster}
			_, err := w.server.CreateVolume(t.Context(), request)
			wantCode(t, "the paused process", err, codes.Aborted)
			lv := w.get(request.GetName())
			if lv == nil {
				t.Fatal("the volume was deleted")
			}
			for range 2 {
				response, err := w.server.CreateVolume(t.Context(), request)
				w.must(err)
				expect.Equal(t, "volume", response.GetVolume().GetVolumeId(), string(lv.UID))
			}
		})
	}
}

// TestARefusalThatIsNoLongerTrue: the node has created the volume after it had refused it, and before the call deletes
// the LogicalVolume.
func TestARefusalThatIsNoLongerTrue(t *testing.T) {
	c := newCluster(t)
	c.agent = func(lv *topolvmv1.LogicalVolume) {
		c.refuse(codes.ResourceExhausted)(lv)
		c.serve(c.get(lv.Name))
	}
	_, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 40*mebi, "node1"))
	wantCode(t, "a refusal of before", err, codes.Aborted)
	lv := c.get("pvc-1")
	if lv == nil {
		t.Fatal("the volume was deleted")
	}
	response, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 40*mebi, "node1"))
	c.must(err)
	expect.Equal(t, "volume", response.GetVolume().GetVolumeId(), string(lv.UID))
}

// TestARefusedVolumeThatCannotBeDeleted is refused again by the next call.
func TestARefusedVolumeThatCannotBeDeleted(t *testing.T) {
	c := newCluster(t)
	c.agent = c.refuse(codes.ResourceExhausted)
	c.fail["delete"] = errors.New("timeout")
	_, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 40*mebi, "node1"))
	wantCode(t, "the refusal of the node", err, codes.ResourceExhausted)
	_, err = c.server.CreateVolume(t.Context(), wanted("pvc-1", 40*mebi, "node1"))
	wantCode(t, "it is still there", err, codes.Unavailable)
	delete(c.fail, "delete")
	_, err = c.server.CreateVolume(t.Context(), wanted("pvc-1", 40*mebi, "node1"))
	wantCode(t, "the node refuses again", err, codes.ResourceExhausted)
	if c.get("pvc-1") != nil {
		t.Error("the refused LogicalVolume remains")
	}
}

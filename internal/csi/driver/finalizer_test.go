package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unreadableNodes is a client that cannot list Nodes.
type unreadableNodes struct{ client.Client }

func (u unreadableNodes) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, nodes := list.(*corev1.NodeList); nodes {
		return failingReads{}.List(ctx, list, options...)
	}
	return u.Client.List(ctx, list, options...)
}

func readyNode(name string, ready corev1.ConditionStatus, class string) *corev1.Node {
	node := offering(name, map[string]string{class: "1000000000"})
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return node
}

// TestNoLogicalVolumeIsCreatedIfTheNodesCannotBeRead checks that a failed read does not count as the only node.
func TestNoLogicalVolumeIsCreatedIfTheNodesCannotBeRead(t *testing.T) {
	c := newCluster(t, readyNode("node1", corev1.ConditionTrue, "ssd"))
	c.server.volumes.Client = unreadableNodes{c.server.volumes.Client}
	_, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 40*mebi, "node1"))
	wantCode(t, "unreadable", err, codes.Unavailable)
	if lv := c.get("pvc-1"); lv != nil {
		t.Errorf("got %+v", lv)
	}
}

// TestANewLogicalVolumeOfTheOnlyNodeIsNotGivenUp has the only node lost after the object was created, and checks that
// the object stays: its agent may have created the logical volume without another write.
func TestANewLogicalVolumeOfTheOnlyNodeIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, readyNode("node1", corev1.ConditionTrue, "ssd"))
		c.agent = func(*topolvmv1.LogicalVolume) {}
		create := func() error {
			short, cancel := context.WithTimeout(t.Context(), 6*time.Second)
			defer cancel()
			_, err := c.server.CreateVolume(short, wanted("pvc-1", 40*mebi, "node1"))
			return err
		}
		wantCode(t, "an agent that is slow", create(), codes.DeadlineExceeded)
		node := &corev1.Node{}
		c.must(c.api.Get(t.Context(), client.ObjectKey{Name: "node1"}, node))
		node.Status.Conditions[0].Status = corev1.ConditionUnknown
		c.must(c.api.Status().Update(t.Context(), node))
		first := c.get("pvc-1")
		wantCode(t, "a node that is lost", create(), codes.DeadlineExceeded)
		if lv := c.get("pvc-1"); lv == nil || lv.UID != first.UID {
			t.Errorf("got %+v", lv)
		}
	})
}

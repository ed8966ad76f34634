package driver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/test/kill"
)

// guarded passes the writes of the controller through points.
func (c *cluster) guarded(p *kill.Points) {
	gated := p.Client(c.api)
	c.server = NewControllerServer(objects.Options{Client: cached(gated), Live: gated, Active: cached(gated),
		NameOf: c.nameOf})
}

// objects returns the LogicalVolumes without fields that differ between runs.
func (c *cluster) objects() string {
	c.Helper()
	list := &topolvmv1.LogicalVolumeList{}
	c.must(c.api.List(c.Context(), list))
	var lines []string
	for i := range list.Items {
		lv := &list.Items[i]
		lines = append(lines, fmt.Sprintf("%s on %s of %q: %d of %d, made %v, code %s, finalizers %q", lv.Name,
			lv.Spec.NodeName, lv.Spec.Source,
			lv.Status.CurrentSize.Value(), lv.Spec.Size.Value(), lv.Status.VolumeID != "",
			lv.Status.Code, lv.Finalizers))
	}
	return strings.Join(lines, "\n")
}

func TestControllerKilledAtEveryWrite(t *testing.T) {
	create := func(c *cluster, name string) string {
		c.Helper()
		response, err := c.server.CreateVolume(c.Context(), wanted(name, 40*mebi, "node1"))
		c.must(err)
		return response.GetVolume().GetVolumeId()
	}
	for name, operation := range map[string]struct {
		prepare func(c *cluster) string // returns the identity of the prepared objects
		request func(c *cluster, id string) error
		code    codes.Code // of the response if nothing is ended
		want    []string
	}{
		"create": {
			request: func(c *cluster, _ string) error {
				_, err := c.server.CreateVolume(c.Context(), wanted("pvc-1", 40*mebi, "node1"))
				return err
			},
			want: []string{"pvc-1 on node1"},
		},
		"create what the node refuses": {
			prepare: func(c *cluster) string { c.agent = c.refuse(codes.ResourceExhausted); return "" },
			request: func(c *cluster, _ string) error {
				_, err := c.server.CreateVolume(c.Context(), wanted("pvc-1", 40*mebi, "node1"))
				return err
			},
			code: codes.ResourceExhausted,
		},
		"create after the scheduler's choice has changed": {
			prepare: func(c *cluster) string {
				asked, _, err := c.server.desiredVolume(c.Context(), wanted("pvc-1", 40*mebi))
				c.must(err)
				asked.Spec.NodeName = "node2"
				c.agent = func(*topolvmv1.LogicalVolume) {}
				c.must(c.api.Create(c.Context(), asked))
				c.agent = nil
				return ""
			},
			request: func(c *cluster, _ string) error {
				_, err := c.server.CreateVolume(c.Context(), wanted("pvc-1", 40*mebi, "node1"))
				return err
			},
			want: []string{"pvc-1 on node1"},
		},
		"create apart from a volume of its group": {
			prepare: func(c *cluster) string {
				c.wantNode("a neighbor", c.grouped("1", byNode, required, "node1"), "node1")
				return c.grouped("2", byNode, required, "node2").GetName()
			},
			request: func(c *cluster, _ string) error {
				_, err := c.server.CreateVolume(c.Context(), wantedFor("2", "node2"))
				return err
			},
			want: []string{"pvc-1 on node1", "pvc-2 on node2"},
		},
		"snapshot": {
			prepare: func(c *cluster) string { return create(c, "pvc-1") },
			request: func(c *cluster, id string) error {
				_, err := c.server.CreateSnapshot(c.Context(),
					&csi.CreateSnapshotRequest{Name: "snapshot-1", SourceVolumeId: id})
				return err
			},
			want: []string{"pvc-1 on node1", `snapshot-1 on node1 of "pvc-1"`},
		},
		"clone": {
			prepare: func(c *cluster) string { return create(c, "pvc-1") },
			request: func(c *cluster, id string) error {
				_, err := c.server.CreateVolume(c.Context(), copyOf("pvc-2", id, 60*mebi, "node1"))
				return err
			},
			want: []string{"pvc-1 on node1", `pvc-2 on node1 of "pvc-1": 62914560 of 62914560`},
		},
		"clone of a thick volume": {
			prepare: func(c *cluster) string {
				id := create(c, "pvc-1")
				lv := c.get("pvc-1")
				lv.Spec.DeviceClass = "thick"
				c.must(c.api.Update(c.Context(), lv))
				c.must(c.api.Create(c.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: "data", UID: "2", Annotations: map[string]string{selectedNode: "node1"}}}))
				return id
			},
			request: func(c *cluster, id string) error {
				_, err := c.server.CreateVolume(c.Context(), copyOf("pvc-2", id, 60*mebi, "node1"))
				return err
			},
			want: []string{"pvc-1 on node1", `pvc-2 on node1 of "pvc-1": 62914560 of 62914560`},
		},
		"expand": {
			prepare: func(c *cluster) string { return create(c, "pvc-1") },
			request: func(c *cluster, id string) error {
				_, err := c.server.ControllerExpandVolume(c.Context(),
					&csi.ControllerExpandVolumeRequest{VolumeId: id,
						CapacityRange: &csi.CapacityRange{RequiredBytes: 80 * mebi}})
				return err
			},
			want: []string{"pvc-1 on node1 of \"\": 83886080 of 83886080"},
		},
		"expand to what there is not": {
			prepare: func(c *cluster) string {
				id := create(c, "pvc-1")
				c.agent = func(lv *topolvmv1.LogicalVolume) {
					if lv.Spec.Size.Value() > 40*mebi && lv.Status.Code == codes.OK {
						c.refuse(codes.ResourceExhausted)(lv)
					}
				}
				return id
			},
			request: func(c *cluster, id string) error {
				_, err := c.server.ControllerExpandVolume(c.Context(),
					&csi.ControllerExpandVolumeRequest{VolumeId: id,
						CapacityRange: &csi.CapacityRange{RequiredBytes: 80 * mebi}})
				return err
			},
			code: codes.OutOfRange,
			want: []string{"pvc-1 on node1 of \"\": 41943040 of 41943040"},
		},
		"delete": {
			prepare: func(c *cluster) string { create(c, "pvc-2"); return create(c, "pvc-1") },
			request: func(c *cluster, id string) error {
				_, err := c.server.DeleteVolume(c.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
				return err
			},
			want: []string{"pvc-2 on node1"},
		},
		"delete a snapshot": {
			prepare: func(c *cluster) string {
				r, err := c.server.CreateSnapshot(c.Context(),
					&csi.CreateSnapshotRequest{Name: "snapshot-1", SourceVolumeId: create(c, "pvc-1")})
				c.must(err)
				return r.GetSnapshot().GetSnapshotId()
			},
			request: func(c *cluster, id string) error {
				_, err := c.server.DeleteSnapshot(c.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id})
				return err
			},
			want: []string{"pvc-1 on node1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			unharmed := ""
			kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
				c := newCluster(t)
				id := ""
				if operation.prepare != nil {
					id = operation.prepare(c)
				}
				killed := p.Kills()
				c.guarded(p)
				first := operation.request(c, id)
				if !killed {
					wantCode(t, "the answer", first, operation.code)
				}
				if killed && !p.Dead() {
					t.Errorf("the process lives: %v", first)
				}
				for range 2 {
					p.Restart()
					c.guarded(p)
					wantCode(t, "the same request again", operation.request(c, id), operation.code)
				}
				got := c.objects()
				if unharmed == "" && !killed {
					unharmed = got
				}
				lines := strings.Split(got, "\n")
				if got == "" {
					lines = nil
				}
				if got != unharmed || !slices.EqualFunc(lines, operation.want,
					func(line, want string) bool { return strings.HasPrefix(line, want) }) {
					t.Errorf("got\n%s\nwant %q, as when nobody is killed:\n%s", got, operation.want, unharmed)
				}
			})
		})
	}
}

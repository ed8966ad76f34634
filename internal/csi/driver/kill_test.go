package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// This file ends the process before and after each change: a write to the API server, an LVM or mkfs command, a mount.
// A complete run counts the changes, so that no new one is missed.

var errKilled = errors.New("killed")

// points counts the changes of a process, and ends the process at one of them.
type points struct {
	mu     sync.Mutex
	passed int
	// at is the number of the point that ends the process, from 1; 0 for none. effect is when it ends the process:
	// before the change, midway, which leaves only the damage, or after it.
	at     int
	effect effect
	dead   bool
	// total is the number of points in a run that is not ended.
	total int
}

type effect string

const (
	before effect = "before"
	midway effect = "midway"
	after  effect = "after"
)

// pass runs do unless the process has ended. damage is what remains if the process ends during the change; nil for
// nothing.
func (p *points) pass(do func() error, damage func()) error {
	if p == nil {
		return do()
	}
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return errKilled
	}
	p.passed++
	ends := p.passed == p.at
	p.dead = ends
	p.mu.Unlock()
	if !ends {
		return do()
	}
	switch p.effect {
	case after:
		if err := do(); err != nil {
			return err
		}
	case midway:
		if damage != nil {
			damage()
		}
	}
	return errKilled
}

// restart starts a new process, which is not ended.
func (p *points) restart() {
	if p.total == 0 {
		p.total = p.passed
	}
	p.at = 0
	p.dead = false
}

// armed counts the points of a run, and then runs it again for each of them. run starts from the beginning each time.
func armed(t *testing.T, effects []effect, run func(t *testing.T, p *points)) {
	t.Helper()
	count := &points{}
	run(t, count)
	if count.total == 0 {
		t.Fatal("nothing is changed")
	}
	for at := 1; at <= count.total; at++ {
		for _, e := range effects {
			t.Run(fmt.Sprintf("%s point %d of %d", e, at, count.total), func(t *testing.T) {
				p := &points{at: at, effect: e}
				run(t, p)
				if p.total != at {
					t.Errorf("the process ended at point %d", p.total)
				}
			})
		}
	}
}

// guarded passes the writes of the controller through points.
func (c *cluster) guarded(p *points) {
	gated := interceptor.NewClient(c.api, interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return p.pass(func() error { return w.Create(ctx, o, options...) }, nil)
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return p.pass(func() error { return w.Delete(ctx, o, options...) }, nil)
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errors.New("the controller patches")
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			return p.pass(func() error { return w.Patch(ctx, o, patch, options...) }, nil)
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption) error {
			return p.pass(func() error { return w.SubResource(sub).Patch(ctx, o, patch, options...) }, nil)
		},
	})
	c.server = NewControllerServer(ControllerOptions{Client: cached(gated), Live: gated, Active: cached(gated),
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
				asked, err := c.server.wishOf(c.Context(), wanted("pvc-1", 40*mebi))
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
			armed(t, []effect{before, after}, func(t *testing.T, p *points) {
				c := newCluster(t)
				id := ""
				if operation.prepare != nil {
					id = operation.prepare(c)
				}
				killed := p.at != 0
				c.guarded(p)
				first := operation.request(c, id)
				if !killed {
					wantCode(t, "the answer", first, operation.code)
				}
				if killed && !p.dead {
					t.Errorf("the process lives: %v", first)
				}
				for range 2 {
					p.restart()
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

// guarded passes the changes of the node service through points.
func (b *bench) guarded(p *points) {
	b.volumes.points = p
	b.host.points = p
	server := NewNodeServer(b.server.NodeOptions)
	server.host = b.host
	b.server = server
}

func TestNodeServiceKilledAtEveryStep(t *testing.T) {
	stage := func(b *bench) error { return b.stage("xfs", writer) }
	publish := func(b *bench) error { return b.publish(false, false) }
	unpublish := func(b *bench) error {
		_, err := b.server.NodeUnpublishVolume(b.Context(),
			&csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: b.target})
		return err
	}
	unstage := func(b *bench) error {
		_, err := b.server.NodeUnstageVolume(b.Context(),
			&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: b.staging})
		return err
	}
	grow := func(b *bench) error {
		_, err := b.server.NodeExpandVolume(b.Context(),
			&csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: b.target, StagingTargetPath: b.staging,
				CapacityRange: &csi.CapacityRange{RequiredBytes: 1}})
		return err
	}
	for name, operation := range map[string]struct {
		prepare, requests []func(*bench) error
		inactive          bool
		mounts            int
		tags              string
	}{
		"first use": {requests: []func(*bench) error{stage, publish}, mounts: 2,
			tags: "lvms.formatted=xfs"},
		"first use of an inactive volume": {requests: []func(*bench) error{stage, publish}, inactive: true, mounts: 2,
			tags: "lvms.formatted=xfs"},
		"second use": {prepare: []func(*bench) error{stage, publish, unpublish, unstage},
			requests: []func(*bench) error{stage, publish}, mounts: 2, tags: "lvms.formatted=xfs"},
		"growth": {prepare: []func(*bench) error{stage, publish}, requests: []func(*bench) error{grow},
			mounts: 2, tags: "lvms.formatted=xfs"},
		"end of use": {prepare: []func(*bench) error{stage, publish},
			requests: []func(*bench) error{unpublish, unstage}, tags: "lvms.formatted=xfs"},
		"a block volume": {requests: []func(*bench) error{func(b *bench) error {
			return b.publish(true,
				false)
		}}, mounts: 1},
		"end of a block volume": {prepare: []func(*bench) error{func(b *bench) error { return b.publish(true, false) }},
			requests: []func(*bench) error{unpublish}},
	} {
		t.Run(name, func(t *testing.T) {
			armed(t, []effect{before, midway, after}, func(t *testing.T, p *points) {
				b := newBench(t)
				b.volumes.lv.Tags = []string{"lvms.new"}
				if operation.inactive {
					b.volumes.lv.Attr = "-wi-------"
					b.volumes.lv.DevMajor = 0
					b.volumes.lv.DevMinor = 0
				}
				for _, do := range operation.prepare {
					b.wantCode(do(b), codes.OK)
				}
				used := b.host.usable
				b.guarded(p)
				for _, do := range operation.requests {
					if err := do(b); err != nil {
						if p.at == 0 {
							t.Fatal(err)
						}
						break
					}
				}
				used = used || b.host.usable
				for range 2 {
					p.restart()
					b.guarded(p)
					b.host.formats = 0
					for _, do := range operation.requests {
						b.wantCode(do(b), codes.OK)
					}
					if used && b.host.formats > 0 {
						t.Error("a volume that a Pod may have used was formatted again")
					}
				}
				if got := strings.Join(b.volumes.lv.GetTags(), " "); got != operation.tags ||
					len(b.host.mounts) != operation.mounts {
					t.Errorf("got the tags %q and the mounts %v", got, b.host.mounts)
				}
				if operation.tags != "" && b.host.found != (content{"xfs", true}) {
					t.Errorf("the volume carries %+v", b.host.found)
				}
			})
		})
	}
}

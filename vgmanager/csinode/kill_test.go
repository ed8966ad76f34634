package csinode

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/test/kill"
)

// guarded passes the changes of the node service through points.
func (b *bench) guarded(p *kill.Points) {
	b.volumes.points = p
	b.host.points = p
	b.luks.points = p
	b.rebuild(b.host, b.luks, b.host)
}

// killed ends the node service at each of its changes while it runs the requests, and then runs them twice. No volume
// that a Pod may have used is formatted again. check checks the result.
func killed(t *testing.T, create func(*testing.T) *bench, prepare, requests []func(*bench) error,
	check func(*testing.T, *bench)) {
	kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.Midway, kill.After}, func(t *testing.T, p *kill.Points) {
		b := create(t)
		for _, do := range prepare {
			b.wantCode(do(b), codes.OK)
		}
		used := b.host.usable
		b.guarded(p)
		for _, do := range requests {
			if err := do(b); err != nil {
				if !p.Kills() {
					t.Fatal(err)
				}
				break
			}
		}
		used = used || b.host.usable
		for range 2 {
			p.Restart()
			b.guarded(p)
			b.host.formats, b.luks.formats = 0, 0
			for _, do := range requests {
				b.wantCode(do(b), codes.OK)
			}
			if used && b.host.formats+b.luks.formats > 0 {
				t.Error("a volume that a Pod may have used was formatted again")
			}
		}
		check(t, b)
	})
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
		inactive, older   bool
		formatting        bool
		isGrown           bool
		mounts            int
		readOnly          bool
		tags              string
	}{
		"first use": {requests: []func(*bench) error{stage, publish}, mounts: 2,
			tags: "lvms.formatted=xfs"},
		"first use of a volume of an older version": {requests: []func(*bench) error{stage, publish}, older: true,
			mounts: 2, tags: "lvms.formatted=xfs"},
		"first use of a volume that an older version began to format": {requests: []func(*bench) error{stage, publish},
			formatting: true, mounts: 2, tags: "lvms.formatted=xfs"},
		"a block volume whose formatting was interrupted": {prepare: []func(*bench) error{func(b *bench) error {
			b.host.records[id] = recordOf(ownUUID, false)
			return nil
		}}, requests: []func(*bench) error{func(b *bench) error { return b.publish(true, false) }}, older: true,
			mounts: 1},
		"first use of an inactive volume": {requests: []func(*bench) error{stage, publish}, inactive: true, mounts: 2,
			tags: "lvms.formatted=xfs"},
		"second use": {prepare: []func(*bench) error{stage, publish, unpublish, unstage},
			requests: []func(*bench) error{stage, publish}, mounts: 2, isGrown: true, tags: "lvms.formatted=xfs"},
		"growth": {prepare: []func(*bench) error{stage, publish}, requests: []func(*bench) error{grow},
			mounts: 2, isGrown: true, tags: "lvms.formatted=xfs"},
		"end of use": {prepare: []func(*bench) error{stage, publish},
			requests: []func(*bench) error{unpublish, unstage}, tags: "lvms.formatted=xfs"},
		"end of a volume that TopoLVM mounted first": {prepare: []func(*bench) error{func(b *bench) error {
			b.publishBesideTopoLVM()
			delete(b.host.mounts, topolvmTarget)
			return nil
		}}, requests: []func(*bench) error{unpublish}, tags: "lvms.formatted=ext4"},
		"a block volume": {requests: []func(*bench) error{func(b *bench) error {
			return b.publish(true,
				false)
		}}, mounts: 1},
		"a read-only volume": {requests: []func(*bench) error{stage,
			func(b *bench) error { return b.publish(false, true) }}, mounts: 2, readOnly: true,
			tags: "lvms.formatted=xfs"},
		"end of a block volume": {prepare: []func(*bench) error{func(b *bench) error { return b.publish(true, false) }},
			requests: []func(*bench) error{unpublish}},
	} {
		t.Run(name, func(t *testing.T) {
			create := func(t *testing.T) *bench {
				b := newBench(t)
				b.volumes.lv.Tags = []string{"lvms.new"}
				if operation.older {
					b.volumes.lv.Tags = nil
				}
				if operation.formatting {
					b.volumes.lv.Tags = []string{"lvms.formatting=ext4"}
					b.host.found = contentOf("xfs")
				}
				if operation.inactive {
					b.volumes.lv.Attr = "-wi-------"
					b.volumes.lv.Major = 0
					b.volumes.lv.Minor = 0
				}
				return b
			}
			killed(t, create, operation.prepare, operation.requests, func(t *testing.T, b *bench) {
				if got := strings.Join(b.volumes.lv.Tags, " "); got != operation.tags ||
					len(b.host.mounts) != operation.mounts {
					t.Errorf("got the tags %q and the mounts %v", got, b.host.mounts)
				}
				if len(b.host.records) > 0 {
					t.Errorf("the records %v are left", b.host.records)
				}
				if b.host.readOnly[b.target] != operation.readOnly {
					t.Errorf("the mount of the Pod is read-only: %t", !operation.readOnly)
				}
				if operation.isGrown && !b.host.isGrown {
					t.Error("the file system was not expanded after it was mounted")
				}
				kind := strings.TrimPrefix(operation.tags, "lvms.formatted=")
				if kind != "" && b.host.found != (contentOf(kind)) {
					t.Errorf("the volume carries %+v", b.host.found)
				}
			})
		})
	}
}

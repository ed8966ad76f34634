//go:build lab

package copies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// newThickMove is a move of the thick volume "origin" of the class "from" to the class "thick", whose disk has random
// data. The volume is fenced on the API server, and not on its node.
func newThickMove(t *testing.T) *move {
	t.Helper()
	disks := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")
	if len(disks) < 2 {
		t.Fatal("LVMS_TEST_DISKS must name two blank disks of a lab node")
	}
	for i, group := range []string{"copyfrom", "copyto"} {
		runLVM(t, "vgcreate", "-qq", group, disks[i])
		t.Cleanup(func() { runLVM(t, "vgremove", "-qq", "--force", "--yes", group) })
	}
	runLVM(t, "lvcreate", "-qq", "--wipesignatures", "n", "-l", "100%FREE", "-n", "garbage", "copyto")
	dd(t, "/dev/urandom", "/dev/copyto/garbage", "bs=4M", "count=70", "oflag=direct")
	runLVM(t, "lvremove", "-qq", "--yes", "copyto/garbage")
	m := &move{T: t, runner: nodelvm.New(), random: rand.New(rand.NewPCG(1, 1))}
	m.engine = labEngine(t, lvmexec.New(m.runner))
	m.must(m.engine.Publish(deviceclass.Class{Name: "from", VolumeGroup: "copyfrom", Type: types.TypeThick}))
	volume := logicalVolume("pvc-1", "node1", "", "rw", "origin")
	volume.Spec.DeviceClass = "from"
	volume.Annotations = map[string]string{wellknown.FenceAnnotation: "m", wellknown.FencedAnnotation: "m",
		wellknown.FenceTimeAnnotation: fenceX}
	target := logicalVolume("target", "node2", "pvc-1", "rw", "")
	target.Annotations = map[string]string{wellknown.MoveAnnotation: "m", wellknown.MoveVolumeAnnotation: "origin",
		wellknown.FenceTimeAnnotation: fenceX}
	m.api = memory.Builder().WithObjects(target, volume).Build()
	m.source = serveOf(t, &Sender{Live: m.api, Node: "node1", Volumes: m.engine, Locks: &service.Locks{}})
	return m
}

// TestLabAThickVolumeIsMovedWhileItIsFenced copies a fenced volume with data, zeros and old content of its disk. The
// work is ended again and again. The copy has the same bytes; then it is adopted, and the earlier logical volume is
// retired and removed.
func TestLabAThickVolumeIsMovedWhileItIsFenced(t *testing.T) {
	m := newThickMove(t)
	m.origin(96)
	dd(t, "/dev/zero", "/dev/copyfrom/origin", "bs=1M", "count=60", "oflag=direct")
	dd(t, "/dev/urandom", "/dev/copyfrom/origin", "bs=1M", "count=24", "seek=30", "oflag=direct")
	for range 20 {
		dd(t, "/dev/urandom", "/dev/copyfrom/origin", "bs=4k", "count=1", fmt.Sprint("seek=", m.random.IntN(96*256)),
			"oflag=direct")
	}
	request := Request{Target: "target", Source: "pvc-1"}
	if _, err := m.source.Data(t.Context(), request); err == nil || !strings.Contains(err.Error(), "is not fenced") {
		t.Fatalf("it is sent without the tag: %v", err)
	}
	m.must(m.engine.TagLV(t.Context(), "from", "origin", []string{wellknown.FencedTagPrefix + "m"}, nil))
	got := m.receiveFrom("pvc-1", "thick", false)
	t.Logf("%d attempts, %d KiB sent in the last one", m.attempts, got.Sent>>10)
	if m.attempts < 2 {
		t.Error("the copy was not interrupted")
	}
	size := fmt.Sprint(96 << 20)
	runCommand(t, exec.Command("/usr/bin/cmp", "--bytes", size, "/dev/copyfrom/origin", "/dev/copyto/"+movedName))
	m.tags("copyto/"+movedName, "lvms.base=pvc-1,lvms.cluster=c,lvms.copying,lvms.formatted=xfs,lvms.pv=target,"+
		"lvms.uid=uid-t")

	owner := []string{"lvms.uid=uid-v", "lvms.pv=pvc-1", "lvms.pvc=ns/a", "lvms.cluster=c"}
	for range 2 {
		_, err := m.engine.Adopt(t.Context(), "thick", movedName, "uid-t", owner)
		m.must(err)
	}
	m.tags("copyto/"+movedName, "lvms.cluster=c,lvms.formatted=xfs,lvms.pv=pvc-1,lvms.pvc=ns/a,lvms.uid=uid-v")
	for range 2 {
		_, err := m.engine.Retire(t.Context(), engine.Retirement{Class: "from", Name: "origin", NewName: "uid-k",
			Move: "m", Tags: []string{"lvms.uid=uid-k", "lvms.pv=moved-m", "lvms.cluster=c"}})
		m.must(err)
	}
	if _, err := m.source.Data(t.Context(), request); err == nil {
		t.Error("the volume is sent after the move")
	}
	runCommand(t, exec.Command("/usr/bin/cmp", "--bytes", size, "/dev/copyfrom/uid-k", "/dev/copyto/"+movedName))
	err := m.engine.RemoveLV(t.Context(), "from", "uid-k")
	m.must(err)
}

// TestLabAThickVolumeThatChangesIsNotTakenForComplete: another program writes to it while it is copied.
func TestLabAThickVolumeThatChangesIsNotTakenForComplete(t *testing.T) {
	m := newThickMove(t)
	m.origin(32)
	m.must(m.engine.TagLV(t.Context(), "from", "origin", []string{wellknown.FencedTagPrefix + "m"}, nil))
	dd(t, "/dev/urandom", "/dev/copyfrom/origin", "bs=1M", "count=32", "oflag=direct")
	got := m.receiveFrom("pvc-1", "thick", true)
	if !got.Finished {
		t.Fatalf("%+v", got)
	}
	dd(t, "/dev/urandom", "/dev/copyfrom/origin", "bs=64k", "count=1", "seek=100", "oflag=direct")
	d, err := m.engine.Device(t.Context(), "thick", movedName)
	m.must(err)
	size := uint64(d.Size)
	_, err = New(t.Context()).Copy(t.Context(), m.source, Target{Key: movedName, Name: movedName, Object: "target",
		Device: blockdevice.Identity{Path: d.Path, Number: d.Number, Size: size}, Done: size,
		Round: Round{Source: "pvc-1"}}, func(context.Context, uint64) error { return nil })
	if !errors.Is(err, ErrDiffers) {
		t.Errorf("the change is not found: %v", err)
	}
}

// TestLabAThickVolumeIsClonedWhileItIsFenced copies a fenced volume to a clone, on the same disks as a move.
func TestLabAThickVolumeIsClonedWhileItIsFenced(t *testing.T) {
	m := newThickMove(t)
	m.origin(64)
	ctx := t.Context()
	key := client.ObjectKey{Name: "pvc-1"}
	volume := &topolvmv1.LogicalVolume{}
	m.must(m.api.Get(ctx, key, volume))
	target := &topolvmv1.LogicalVolume{}
	m.must(m.api.Get(ctx, client.ObjectKey{Name: "target"}, target))
	m.must(m.api.Delete(ctx, target))
	target.ObjectMeta = metav1.ObjectMeta{Name: "target", UID: "uid-t", Annotations: map[string]string{
		wellknown.CloneVolumeAnnotation: "origin", wellknown.FenceTimeAnnotation: fenceX}}
	m.must(m.api.Create(ctx, target))
	volume.Annotations[wellknown.FenceAnnotation] = "clone-uid-t"
	volume.Annotations[wellknown.FencedAnnotation] = "clone-uid-t"
	m.must(m.api.Update(ctx, volume))
	dd(t, "/dev/urandom", "/dev/copyfrom/origin", "bs=1M", "count=64", "oflag=direct")

	m.must(m.engine.EnsureTarget(ctx, engine.CopyTarget{Class: "thick", Name: "uid-t", UID: "uid-t", Size: 64 << 20,
		Source: "pvc-1", Tags: []string{"lvms.uid=uid-t", wellknown.NewTag}}))
	d, err := m.engine.Device(ctx, "thick", "uid-t")
	m.must(err)
	receive := func() (Progress, error) {
		return New(ctx).Copy(ctx, m.source, Target{Key: "uid-t", Name: "copyto/uid-t", Object: "target",
			Device: blockdevice.Identity{Path: d.Path, Number: d.Number, Size: uint64(d.Size)},
			Round:  Round{Only: true}}, func(ctx context.Context, done uint64) error {
			return m.engine.CopiedInRound(ctx, "thick", "uid-t", "uid-t", int64(done))
		})
	}
	for _, tag := range []string{"m", "clone-uid-u"} {
		m.must(m.engine.TagLV(ctx, "from", "origin", []string{wellknown.FencedTagPrefix + tag}, nil))
		if _, err := receive(); err == nil || !strings.Contains(err.Error(), "is not fenced") {
			t.Fatalf("it is sent with the tag of %s: %v", tag, err)
		}
		m.must(m.engine.TagLV(ctx, "from", "origin", nil, []string{wellknown.FencedTagPrefix + tag}))
	}
	m.must(m.engine.TagLV(ctx, "from", "origin", []string{wellknown.FencedTagPrefix + "clone-uid-t"}, nil))
	got, err := receive()
	m.must(err)
	if !got.Finished {
		t.Fatalf("%+v", got)
	}
	m.must(m.engine.CompleteCopy(ctx, "thick", "uid-t", "uid-t", got.Content))
	runCommand(t, exec.Command("/usr/bin/cmp", "--bytes", fmt.Sprint(64<<20), "/dev/copyfrom/origin", "/dev/copyto/uid-t"))
	m.tags("copyto/uid-t", "lvms.formatted=xfs,lvms.uid=uid-t")
}

package csinode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/test/kill"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/fencing"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/fsck"
)

// fakeDevices is the mapped device of the logical volume.
type fakeDevices struct {
	open int
	err  error
	// after is called after each read.
	after func()
}

func (f *fakeDevices) Volume(_ context.Context, vg, lv string) (devicemapper.Device, error) {
	if vg != "vg1" || lv != id {
		return devicemapper.Device{}, fmt.Errorf("another device: %s/%s", vg, lv)
	}
	d := devicemapper.Device{Number: "254:7", Open: f.open}
	if f.after != nil {
		f.after()
	}
	return d, f.err
}

type fenceBench struct {
	*bench
	devices *fakeDevices
}

// newFenceBench returns a bench whose volume has these annotations.
func newFenceBench(t *testing.T, pairs ...string) *fenceBench {
	b := &fenceBench{newBench(t), &fakeDevices{}}
	b.set(pairs...)
	return b
}

// set changes annotations like the operator. An empty value removes one.
func (b *fenceBench) set(pairs ...string) {
	b.Helper()
	lv := b.object()
	for i := 0; i < len(pairs); i += 2 {
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, pairs[i], pairs[i+1])
		if pairs[i+1] == "" {
			delete(lv.Annotations, pairs[i])
		}
	}
	if err := b.api.Update(b.Context(), lv); err != nil {
		b.Fatal(err)
	}
}

// withdraw ends the request for a fence like the operator.
func (b *fenceBench) withdraw() {
	b.Helper()
	lv := b.object()
	fence.Withdraw(lv)
	if err := b.api.Update(b.Context(), lv); err != nil {
		b.Fatal(err)
	}
}

func (b *fenceBench) object() *topolvmv1.LogicalVolume {
	b.Helper()
	lv := &topolvmv1.LogicalVolume{}
	if err := b.api.Get(b.Context(), client.ObjectKey{Name: "pvc-1"}, lv); err != nil {
		b.Fatal(err)
	}
	return lv
}

func (b *fenceBench) reconciler() *fencing.Reconciler {
	return NewFenceReconciler(b.server, b.api, b.devices)
}

func (b *fenceBench) reconcile() (ctrl.Result, error) {
	return b.reconciler().Reconcile(b.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "pvc-1"}})
}

// fencedFor returns the moves that the tags of the logical volume name.
func (b *fenceBench) fencedFor() string {
	return strings.ReplaceAll(strings.Join(volume.FenceTags(b.volumes.lv.Tags), " "), wellknown.FencedTagPrefix, "")
}

// see checks for which move the volume is fenced, on the disk and for the operator, and what the error says.
func (b *fenceBench) see(what, tag, annotation, says string) {
	b.Helper()
	a := b.object().Annotations
	if got := b.fencedFor(); got != tag || a[wellknown.FencedAnnotation] != annotation {
		b.Errorf("%s: fenced for %q, and %q is written, want %q and %q", what, got, a[wellknown.FencedAnnotation], tag,
			annotation)
	}
	if got := a[wellknown.FenceErrorAnnotation]; (got == "") != (says == "") || !strings.Contains(got, says) {
		b.Errorf("%s: error %q, want %q", what, got, says)
	}
}

// TestAVolumeIsFencedAndUnfenced, with each call repeated.
func TestAVolumeIsFencedAndUnfenced(t *testing.T) {
	b := newFenceBench(t, wellknown.FenceAnnotation, "m1")
	for range 2 {
		result, err := b.reconcile()
		b.wantCode(err, codes.OK)
		if result != (ctrl.Result{}) {
			t.Errorf("%+v", result)
		}
		b.see("fenced", "m1", "m1", "")
	}
	if b.volumes.tagged != 1 {
		t.Errorf("%d changes of tags", b.volumes.tagged)
	}
	// Nothing can use it now.
	const says = "is being moved to another node by the VolumeMove with the UID m1"
	b.wantCode(b.stage("ext4", writer), codes.FailedPrecondition, says, "delete the VolumeMove")
	b.wantCode(b.publish(true, false), codes.FailedPrecondition, says)
	_, err := b.server.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: b.target})
	b.wantCode(err, codes.FailedPrecondition, says)
	// What ends a use succeeds, because the kubelet repeats it.
	_, err = b.server.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: id,
		TargetPath: b.target})
	b.wantCode(err, codes.OK)
	_, err = b.server.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: id,
		StagingTargetPath: b.staging})
	b.wantCode(err, codes.OK)
	// Another move.
	b.set(wellknown.FenceAnnotation, "m2")
	_, err = b.reconcile()
	b.wantCode(err, codes.OK)
	b.see("another move", "m2", "m2", "")
	b.withdraw()
	for range 2 {
		_, err := b.reconcile()
		b.wantCode(err, codes.OK)
		b.see("ended", "", "", "")
	}
	if left := b.object().Annotations; len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	b.wantCode(b.stage("ext4", writer), codes.OK)
}

// TestAFenceThatNothingRequestsStays: etcd was restored from a backup of before the VolumeMove, or the metadata of the
// volume group is from a time of the fence. Another node may have later data, so that the volume is not used before
// somebody has said so for this fence.
func TestAFenceThatNothingRequestsStays(t *testing.T) {
	for name, other := range map[string]string{"the object knows no fence": "", "it knows another one": "m2"} {
		t.Run(name, func(t *testing.T) {
			b := newFenceBench(t)
			b.volumes.lv.Tags = []string{wellknown.FencedTagPrefix + "m1"}
			b.set(wellknown.UnfenceAnnotation, other)
			b.volumes.err = errors.New("exit status 5")
			if _, err := b.reconcile(); err == nil {
				t.Error("a failed read is no error")
			}
			b.volumes.err = nil
			for range 2 {
				_, err := b.reconcile()
				b.wantCode(err, codes.OK)
				b.see("unknown", "m1", "", "which nothing in the cluster requests")
				b.see("unknown", "m1", "", "kubectl annotate logicalvolume pvc-1 lvm.topolvm.io/unfence=m1")
			}
			b.wantCode(b.stage("ext4", writer), codes.FailedPrecondition, "see the condition of the volume")
			b.set(wellknown.UnfenceAnnotation, "m1")
			for range 2 {
				_, err := b.reconcile()
				b.wantCode(err, codes.OK)
				b.see("allowed", "", "", "")
			}
			if left := b.object().Annotations; len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			b.wantCode(b.stage("ext4", writer), codes.OK)
		})
	}
}

// TestAVolumeInUseIsNotFenced, until it is no longer in use.
func TestAVolumeInUseIsNotFenced(t *testing.T) {
	for name, tt := range map[string]struct {
		use  func(b *fenceBench)
		says string
	}{
		"staged":  {func(b *fenceBench) { b.host.mounts[b.staging] = mounter.Number{Major: 254, Minor: 7} }, "is mounted at"},
		"open":    {func(b *fenceBench) { b.devices.open = 2 }, "is open 2 times"},
		"unknown": {func(b *fenceBench) { b.devices.err = errors.New("no answer") }, "no answer"},
		"formatting": {func(b *fenceBench) {
			b.host.records[id] = recordOf(ownUUID, true)
			b.volumes.lv.Tags = []string{wellknown.NewTag}
		}, "its file system is not complete"},
		"no mounts": {func(b *fenceBench) { b.host.errors["mountPoints"] = errors.New("no table") }, "no table"},
		"no report": {func(b *fenceBench) { b.volumes.err = errors.New("exit status 5") }, "exit status 5"},
		"no tags":   {func(b *fenceBench) { b.volumes.tagErr = errors.New("locked") }, "locked"},
		"copied to": {func(b *fenceBench) { b.volumes.lv.Tags = []string{wellknown.CopyingTag} },
			"does not have all its data"},
		"work in progress": {func(b *fenceBench) {
			if err := b.server.Locks.Enter(id); err != nil {
				b.Fatal(err)
			}
		}, "volume 8a6e is in use by another call"},
		"not a UID": {func(b *fenceBench) { b.set(wellknown.FenceAnnotation, "a b") }, "must be the UID"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFenceBench(t, wellknown.FenceAnnotation, "m1")
			tt.use(b)
			result, err := b.reconcile()
			b.wantCode(err, codes.OK)
			if result.RequeueAfter != fencing.Retry {
				t.Errorf("%+v", result)
			}
			b.see("in use", "", "", tt.says)
		})
	}
}

// TestAVolumeThatGetsInUseWhileItIsFenced: an administrator opens it between the look and the tag. It is not confirmed.
func TestAVolumeThatGetsInUseWhileItIsFenced(t *testing.T) {
	b := newFenceBench(t, wellknown.FenceAnnotation, "m1")
	b.devices.after = func() { b.devices.open = 1 }
	_, err := b.reconcile()
	b.wantCode(err, codes.OK)
	b.see("opened", "m1", "", "is open 1 times")
	b.devices.after = nil
	b.devices.open = 0
	_, err = b.reconcile()
	b.wantCode(err, codes.OK)
	b.see("closed", "m1", "m1", "")
}

// TestAFenceThatIsConfirmedStays while this agent reads the volume, and if the tags cannot be read. If another program
// has removed the tag, Pods may have written to the volume, so the fence with this name is never confirmed again.
func TestAFenceThatIsConfirmedStays(t *testing.T) {
	b := newFenceBench(t, wellknown.FenceAnnotation, "m1", wellknown.FenceTimeAnnotation, "2026-01-01T00:00:00Z/1")
	_, err := b.reconcile()
	b.wantCode(err, codes.OK)
	b.devices.open = 1
	for range 2 {
		result, err := b.reconcile()
		b.wantCode(err, codes.OK)
		if result != (ctrl.Result{}) {
			t.Errorf("open: %+v", result)
		}
		b.see("open", "m1", "m1", "")
	}
	b.volumes.err = errors.New("exit status 5")
	result, err := b.reconcile()
	b.wantCode(err, codes.OK)
	if result.RequeueAfter != fencing.Retry {
		t.Errorf("not read: %+v", result)
	}
	b.see("not read", "m1", "m1", "")
	b.volumes.err = nil
	b.volumes.lv.Tags = nil
	lost := wellknown.LostFencePrefix + "2026-01-01T00:00:00Z/1"
	for range 3 {
		result, err := b.reconcile()
		b.wantCode(err, codes.OK)
		if result != (ctrl.Result{}) {
			t.Errorf("removed: %+v", result)
		}
		b.see("removed", "", lost, "was removed from its logical volume")
	}
	b.devices.open = 0
	_, err = b.reconcile()
	b.wantCode(err, codes.OK)
	b.see("removed, and closed", "", lost, "was removed from its logical volume")
	b.wantCode(b.stage("ext4", writer), codes.OK)
	b.unstage()
	// The tag comes back with LVM metadata from before.
	b.volumes.lv.Tags = append(b.volumes.lv.Tags, wellknown.FencedTagPrefix+"m1")
	_, err = b.reconcile()
	b.wantCode(err, codes.OK)
	b.see("the tag is back", "m1", lost, "was removed from its logical volume")

	// Another fence is set.
	b.set(wellknown.FenceTimeAnnotation, "2026-01-01T00:10:00Z/2")
	for range 2 {
		_, err = b.reconcile()
		b.wantCode(err, codes.OK)
		b.see("another time", "m1", "m1", "")
	}
	// It is lost too, and the operator ends it.
	b.volumes.lv.Tags = nil
	_, err = b.reconcile()
	b.wantCode(err, codes.OK)
	b.see("lost again", "", wellknown.LostFencePrefix+"2026-01-01T00:10:00Z/2", "was removed from its logical volume")
	b.set(wellknown.FenceAnnotation, "", wellknown.FenceTimeAnnotation, "")
	for range 2 {
		_, err = b.reconcile()
		b.wantCode(err, codes.OK)
		b.see("ended", "", "", "")
	}
	b.set(wellknown.FenceAnnotation, "m1", wellknown.FenceTimeAnnotation, "2026-01-01T00:20:00Z/3")
	_, err = b.reconcile()
	b.wantCode(err, codes.OK)
	b.see("fenced again", "m1", "m1", "")
}

// TestALostFenceIsKilledAtEveryPoint: at no time, the operator is told that the volume has been fenced since the fence
// was set first.
func TestALostFenceIsKilledAtEveryPoint(t *testing.T) {
	kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
		b := newFenceBench(t, wellknown.FenceAnnotation, "m1", wellknown.FenceTimeAnnotation, "t/1")
		_, err := b.reconcile()
		b.wantCode(err, codes.OK)
		b.volumes.lv.Tags = nil
		b.volumes.points = p
		api := b.api
		b.api = p.Client(api.(client.WithWatch))
		_, _ = b.reconcile()
		b.api = api
		p.Restart()
		for range 2 {
			_, err := b.reconcile()
			b.wantCode(err, codes.OK)
			b.see("lost", "", wellknown.LostFencePrefix+"t/1", "was removed from its logical volume")
		}
	})
}

// TestAnInactiveVolumeIsFenced: it has no mapped device.
func TestAnInactiveVolumeIsFenced(t *testing.T) {
	b := newFenceBench(t, wellknown.FenceAnnotation, "m1")
	b.volumes.lv.Attr = "-wi-------"
	b.devices.err = devicemapper.ErrNotFound
	_, err := b.reconcile()
	b.wantCode(err, codes.OK)
	b.see("inactive", "m1", "m1", "")
}

// TestTheFenceOfAVolumeThatWasMovedStays: the cache still has it on this node.
func TestTheFenceOfAVolumeThatWasMovedStays(t *testing.T) {
	b := newFenceBench(t, wellknown.FencedAnnotation, "m1")
	b.volumes.lv.Tags = []string{wellknown.FencedTagPrefix + "m1"}
	stale := b.server.Client
	b.server.Live = interceptor.NewClient(b.api.(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context,
		c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if err := c.Get(ctx, key, o, options...); err != nil {
			return err
		}
		o.(*topolvmv1.LogicalVolume).Spec.NodeName = "node2"
		return nil
	}})
	_, err := NewFenceReconciler(b.server, stale.(client.Client), b.devices).Reconcile(t.Context(),
		ctrl.Request{NamespacedName: client.ObjectKey{Name: "pvc-1"}})
	b.wantCode(err, codes.OK)
	b.see("moved", "m1", "m1", "")
	// Neither does a failed read end it.
	b.server.Live = interceptor.NewClient(b.api.(client.WithWatch), interceptor.Funcs{Get: func(context.Context,
		client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("timeout")
	}})
	if _, err := b.reconcile(); err == nil {
		t.Error("no error")
	}
	b.see("not read", "m1", "m1", "")
}

// TestAFenceIsKilledAtEveryPoint: the next process completes what is requested then. At no time, the operator is told
// about a fence that is not there.
func TestAFenceIsKilledAtEveryPoint(t *testing.T) {
	for name, end := range map[string]func(*fenceBench){"fence": nil, "end": (*fenceBench).withdraw,
		"allowed": func(b *fenceBench) {
			b.set(wellknown.FenceAnnotation, "", wellknown.FencedAnnotation, "", wellknown.UnfenceAnnotation, "m1")
		}} {
		t.Run(name, func(t *testing.T) {
			kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
				b := newFenceBench(t, wellknown.FenceAnnotation, "m1")
				want := "m1"
				if end != nil {
					if _, err := b.reconcile(); err != nil {
						t.Fatal(err)
					}
					end(b)
					want = ""
				}
				b.volumes.points = p
				api := b.api
				b.api = p.Client(api.(client.WithWatch))
				_, _ = b.reconcile()
				b.api = api
				p.Restart()
				told := b.object().Annotations[wellknown.FencedAnnotation]
				if told != "" && b.fencedFor() != told {
					t.Errorf("the operator is told of the fence %q, the volume has %q", told, b.volumes.lv.Tags)
				}
				for range 2 {
					_, err := b.reconcile()
					b.wantCode(err, codes.OK)
				}
				b.see("after", want, want, "")
			})
		})
	}
}

// TestAFenceIsSetWhenItsVolumeIsUnstaged: the unstage of the volume has it examined at once. It does not block if
// nobody receives it.
func TestAFenceIsSetWhenItsVolumeIsUnstaged(t *testing.T) {
	b := newFenceBench(t, wellknown.FenceAnnotation, "m1")
	unstage := func() error {
		_, err := b.server.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: id,
			StagingTargetPath: b.staging})
		return err
	}
	for range 2 { // The kubelet repeats calls.
		b.wantCode(unstage(), codes.OK)
		if len(b.server.unstaged) != 1 {
			t.Fatalf("%d volumes are reported", len(b.server.unstaged))
		}
		lv, ok := (<-b.server.unstaged).Object.(*topolvmv1.LogicalVolume)
		if !ok || lv.Status.VolumeID != id {
			t.Errorf("%+v is reported", lv)
		}
	}
	for range maxUnstaged + 1 { // It does not block if nobody receives.
		b.wantCode(unstage(), codes.OK)
	}
	if _, err := b.server.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: id}); err == nil {
		t.Error("a call without a path succeeds")
	}
	if len(b.server.unstaged) != maxUnstaged {
		t.Errorf("%d volumes are reported", len(b.server.unstaged))
	}
}

// TestAVolumeThatIsBeingClonedIsNotUsed, and the message says how it can be used.
func TestAVolumeThatIsBeingClonedIsNotUsed(t *testing.T) {
	b := newBench(t)
	b.volumes.lv.Tags = []string{wellknown.FencedTagPrefix + fence.OfClone("u"), wellknown.FormattedTagPrefix + "ext4"}
	b.wantCode(b.stage("ext4", writer), codes.FailedPrecondition, "is being copied to the LogicalVolume with the UID u, "+
		"a clone of it", "delete the clone's claim")
}

// TestAFileSystemIsNotCheckedDuringAMove, and neither if that is not known.
func TestAFileSystemIsNotCheckedDuringAMove(t *testing.T) {
	for _, tt := range []struct {
		tags []string
		err  error
		want error
	}{
		{[]string{wellknown.FencedTagPrefix + "m1"}, nil, fsck.ErrInUse},
		{[]string{wellknown.FencedTagPrefix + "clone-u"}, nil, fsck.ErrInUse},
		{[]string{wellknown.CopyingTag}, nil, fsck.ErrInUse},
		{nil, errLocked, errLocked},
		{[]string{"lvms.formatted=ext4"}, nil, nil},
	} {
		b := newBench(t)
		c, programs := b.newChecker("ext4")
		c.Tags = func(_ context.Context, vg, name string) ([]string, error) {
			if vg != "vg1" || name != id {
				t.Errorf("tags of %s/%s", vg, name)
			}
			return tt.tags, tt.err
		}
		_, err := c.Repair(t.Context(), checkedVolume, "ext4")
		if !errors.Is(err, tt.want) || (len(programs.ran) > 0) != (tt.want == nil) {
			t.Errorf("%q: %v, ran %q", tt.tags, err, programs.ran)
		}
	}
}

var errLocked = errors.New("the volume group is locked")

func TestAVolumeWhoseDataIsBeingCopiedIsNotUsed(t *testing.T) {
	b := newBench(t)
	b.volumes.lv.Tags = []string{wellknown.CopyingTag, wellknown.FormattedTagPrefix + "ext4"}
	b.wantCode(b.stage("ext4", writer), codes.FailedPrecondition, "is not complete yet")
}

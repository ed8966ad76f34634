package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/groupsnapshot"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// sized is a cluster whose volumes have one kind of content.
type sized struct {
	*cluster
	capability *csi.VolumeCapability
	encryption string
	names      int
}

// kinds are the kinds of content by name.
var kinds = map[string]func(w *sized){
	"block": func(w *sized) {
		w.capability = &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
	},
	"ext4":      func(w *sized) { w.capability = mountCapability("ext4") },
	"xfs":       func(w *sized) { w.capability = mountCapability("xfs") },
	"encrypted": func(w *sized) { w.capability, w.encryption = mountCapability("ext4"), wellknown.EncryptionLUKS2 },
}

func newSized(t *testing.T, kind string) *sized {
	t.Helper()
	const room = "1099511627776"
	offers := map[string]string{"ssd": room, "hdd": room, "thick": room}
	w := &sized{cluster: newCluster(t, offering("node1", offers), offering("node2", offers))}
	kinds[kind](w)
	return w
}

// request returns a request for a new volume of a class, without a claim.
func (w *sized) request(size int64, class, node string) *csi.CreateVolumeRequest {
	w.names++
	r := wanted(fmt.Sprint("pvc-", w.names), size, node)
	r.VolumeCapabilities[0] = w.capability
	r.Parameters = map[string]string{wellknown.DeviceClassParameter: class}
	if w.encryption != "" {
		r.Parameters[wellknown.EncryptionParameter] = w.encryption
	}
	return r
}

func (w *sized) create(r *csi.CreateVolumeRequest) *csi.Volume {
	w.Helper()
	response, err := w.server.CreateVolume(w.Context(), r)
	if err != nil {
		w.Fatalf("%s of %d bytes: %v", r.GetName(), r.GetCapacityRange().GetRequiredBytes(), err)
	}
	return response.GetVolume()
}

// clone returns the request for a clone.
func (w *sized) clone(volume string, size int64, class, node string) *csi.CreateVolumeRequest {
	r := w.request(size, class, node)
	r.VolumeContentSource = copyOf("", volume, 0).VolumeContentSource
	return r
}

// restore returns the request for a copy of a snapshot.
func (w *sized) restore(snapshot string, size int64, class, node string) *csi.CreateVolumeRequest {
	r := w.request(size, class, node)
	r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot}}}
	return r
}

func (w *sized) snapshot(volume string) *csi.Snapshot {
	w.Helper()
	w.names++
	request := &csi.CreateSnapshotRequest{Name: fmt.Sprint("snapshot-", w.names), SourceVolumeId: volume}
	first, err := w.server.CreateSnapshot(w.Context(), request)
	w.must(err)
	again, err := w.server.CreateSnapshot(w.Context(), request)
	w.must(err)
	expect.Equal(w.T, "size of the repeated call", again.GetSnapshot().GetSizeBytes(),
		first.GetSnapshot().GetSizeBytes())
	return first.GetSnapshot()
}

// places are the classes and nodes of copies: beside the source, on another node, in another class, and thick.
var places = [][2]string{{"ssd", "node1"}, {"ssd", "node2"}, {"hdd", "node1"}, {"thick", "node1"}, {"thick", "node2"}}

// copied creates each copy twice with a request, and checks that it is as large as the source.
func (w *sized) copied(what string, least int64, request func(class, node string) *csi.CreateVolumeRequest) {
	w.Helper()
	for _, place := range places {
		r := request(place[0], place[1])
		made := w.create(r)
		again := w.create(r)
		if made.GetCapacityBytes() < least || again.GetVolumeId() != made.GetVolumeId() {
			w.Errorf("%s to class %s of %s: %d bytes instead of %d; the same call again: %v", what, place[0], place[1],
				made.GetCapacityBytes(), least, again)
		}
	}
}

// sizesOfClaims are requests, most of which are rounded up.
var sizesOfClaims = map[string]int64{"1Mi": mebi, "100M": 1e8, "1G": 1e9, "1Gi": 1 << 30, "10G and a byte": 1e10 + 1}

// TestTheRequestOfAVolumeIsEnoughForItsCopies, before and after an expansion: the claim of a StatefulSet, a backup or a
// Git repository is the same for a volume and for its copy.
func TestTheRequestOfAVolumeIsEnoughForItsCopies(t *testing.T) {
	for name, size := range sizesOfClaims {
		for kind := range kinds {
			for _, class := range []string{"ssd", "thick"} {
				t.Run(fmt.Sprintf("%s of %s, %s", name, kind, class), func(t *testing.T) {
					w := newSized(t, kind)
					volume := w.create(w.request(size, class, "node1"))
					w.checkCopies(volume.GetVolumeId(), size, class)
					// A snapshot stays as it was taken.
					var early *csi.Snapshot
					if class == "ssd" {
						early = w.snapshot(volume.GetVolumeId())
					}
					larger := size + size/2 + 1
					for range 2 {
						_, err := w.server.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
							VolumeId: volume.GetVolumeId(), VolumeCapability: w.capability,
							CapacityRange: &csi.CapacityRange{RequiredBytes: larger}})
						w.must(err)
					}
					w.checkCopies(volume.GetVolumeId(), larger, class)
					if early != nil {
						w.copied("a restore of the snapshot from before", size, func(class, node string) *csi.CreateVolumeRequest {
							return w.restore(early.GetSnapshotId(), size, class, node)
						})
					}
				})
			}
		}
	}
}

// checkCopies checks the clones and snapshots of a volume for which a size was requested.
func (w *sized) checkCopies(volume string, size int64, class string) {
	w.Helper()
	source, err := w.server.volumes.Find(w.Context(), volume)
	w.must(err)
	have := volumespec.SizeOf(source)
	w.copied("a clone", have, func(class, node string) *csi.CreateVolumeRequest {
		return w.clone(volume, size, class, node)
	})
	// An extent less than the volume has, and less than was requested.
	if less := min(size, have-extent) - 1; less > 0 && have > 400*mebi {
		_, err := w.server.CreateVolume(w.Context(), w.clone(volume, less, class, "node1"))
		wantCode(w.T, "a clone for less", err, codes.OutOfRange)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("request at least %d", size)) {
			w.Errorf("the error does not say how much is enough: %v", err)
		}
	}
	if class != "ssd" {
		return
	}
	snapshot := w.snapshot(volume)
	expect.Equal(w.T, "size of the snapshot", snapshot.GetSizeBytes(), size)
	w.copied("a restore", have, func(class, node string) *csi.CreateVolumeRequest {
		return w.restore(snapshot.GetSnapshotId(), size, class, node)
	})
	restored := w.create(w.restore(snapshot.GetSnapshotId(), size, "ssd", "node1"))
	expect.Equal(w.T, "size of a snapshot of the restored volume", w.snapshot(restored.GetVolumeId()).GetSizeBytes(), size)
	member := groupsnapshot.NewMember("group-1", source, volume, "ns/group")
	member.Status.CurrentSize = resource.NewQuantity(have, resource.BinarySI)
	expect.Equal(w.T, "size of a member of a group", volumespec.SnapshotMessage(member, volume).GetSizeBytes(), size)
}

// forget removes the record of a LogicalVolume, as if an earlier version had created it.
func (w *sized) forget(name string) {
	w.Helper()
	lv := w.get(name)
	delete(lv.Annotations, wellknown.RequestedSizeAnnotation)
	w.must(w.api.Update(w.Context(), lv))
}

// TestCopiesOfVolumesOfEarlierVersions, which recorded no request.
func TestCopiesOfVolumesOfEarlierVersions(t *testing.T) {
	for name, size := range sizesOfClaims {
		for kind := range kinds {
			t.Run(name+" of "+kind, func(t *testing.T) {
				w := newSized(t, kind)
				r := w.request(size, "ssd", "node1")
				volume := w.create(r)
				w.forget(r.GetName())
				clone := func(class, node string) *csi.CreateVolumeRequest {
					return w.clone(volume.GetVolumeId(), size, class, node)
				}
				w.copied("a clone", volume.GetCapacityBytes(), clone)
				early := w.snapshot(volume.GetVolumeId())
				w.forget(fmt.Sprint("snapshot-", w.names))
				late := w.snapshot(volume.GetVolumeId())
				_, err := w.server.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: volume.GetVolumeId()})
				w.must(err)
				for what, snapshot := range map[string]*csi.Snapshot{"a snapshot of then": early, "a snapshot of now": late} {
					w.copied(what, volume.GetCapacityBytes(), func(class, node string) *csi.CreateVolumeRequest {
						return w.restore(snapshot.GetSnapshotId(), size, class, node)
					})
				}
			})
		}
	}
}

// TestASnapshotOfAnEarlierVersionInAGroupWithLargeExtents: the driver does not know the extents of the volume group,
// but the request of the source, as long as that exists and was not expanded.
func TestASnapshotOfAnEarlierVersionInAGroupWithLargeExtents(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w *sized, volume string)
		code   codes.Code
	}{
		"the source exists":                        {func(*sized, string) {}, codes.OK},
		"the source is of an earlier version, too": {func(w *sized, _ string) { w.forget("pvc-1") }, codes.OK},
		"the source was deleted": {func(w *sized, volume string) {
			_, err := w.server.DeleteVolume(w.Context(), &csi.DeleteVolumeRequest{VolumeId: volume})
			w.must(err)
		}, codes.OutOfRange},
		"the source was expanded": {func(w *sized, volume string) {
			_, err := w.server.ControllerExpandVolume(w.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: volume,
				CapacityRange: &csi.CapacityRange{RequiredBytes: 2e9}})
			w.must(err)
		}, codes.OutOfRange},
		"the source cannot be read": {func(w *sized, _ string) {
			w.server.volumes.Live = unreadable{w.api, "pvc-1"}
		}, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSized(t, "ext4")
			w.agent = func(lv *topolvmv1.LogicalVolume) {
				const large = 128 * mebi
				lv.Status.VolumeID = string(lv.UID)
				rounded := (lv.Spec.Size.Value() + large - 1) / large * large
				lv.Status.CurrentSize = resource.NewQuantity(rounded, resource.BinarySI)
				w.answer(lv)
			}
			volume := w.create(w.request(1e9, "ssd", "node1")).GetVolumeId()
			snapshot := w.snapshot(volume).GetSnapshotId()
			w.forget("snapshot-2")
			tt.change(w, volume)
			for range 2 {
				_, err := w.server.CreateVolume(t.Context(), w.restore(snapshot, 1e9, "ssd", "node1"))
				wantCode(t, name, err, tt.code)
			}
			if _, has := w.get("snapshot-2").Annotations[wellknown.RequestedSizeAnnotation]; has {
				t.Error("the LogicalVolume of the snapshot was changed")
			}
		})
	}
}

// unreadable cannot read an object.
type unreadable struct {
	client.Reader
	name string
}

func (u unreadable) Get(ctx context.Context, key client.ObjectKey, o client.Object,
	options ...client.GetOption) error {
	if key.Name == u.name {
		return errors.New("timeout")
	}
	return u.Reader.Get(ctx, key, o, options...)
}

// TestAnExpansionThatIsRefusedLeavesTheRecord of the size that the volume has.
func TestAnExpansionThatIsRefusedLeavesTheRecord(t *testing.T) {
	w := newSized(t, "ext4")
	volume := w.create(w.request(1e9, "ssd", "node1")).GetVolumeId()
	expand := func(size int64) error {
		_, err := w.server.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: volume,
			CapacityRange: &csi.CapacityRange{RequiredBytes: size}})
		return err
	}
	w.agent = func(lv *topolvmv1.LogicalVolume) {
		if lv.Name == "pvc-1" && lv.Spec.Size.Value() > 1<<30 && lv.Status.Code == codes.OK {
			w.refuse(codes.ResourceExhausted)(lv)
		} else if lv.Status.VolumeID == "" {
			w.serve(lv)
		}
	}
	for range 2 {
		wantCode(t, "a full node", expand(2e9), codes.OutOfRange)
		expect.Equal(t, "size of a snapshot", w.snapshot(volume).GetSizeBytes(), int64(1e9))
	}
	// The volume is expanded, and the record cannot be written.
	w.agent = func(lv *topolvmv1.LogicalVolume) {
		w.serve(lv)
		w.mu.Lock()
		w.fail["patch"] = errors.New("timeout")
		w.mu.Unlock()
	}
	err := expand(2e9)
	wantCode(t, "no record", err, codes.Unavailable)
	if err == nil || !strings.Contains(err.Error(), "LogicalVolume pvc-1") {
		t.Errorf("got %v", err)
	}
	w.agent = nil
	delete(w.fail, "patch")
	for range 2 {
		w.must(expand(2e9))
		expect.Equal(t, "size of a snapshot", w.snapshot(volume).GetSizeBytes(), int64(2e9))
	}
	w.must(expand(1e9)) // not less than it has
	expect.Equal(t, "size of a snapshot", w.snapshot(volume).GetSizeBytes(), int64(2e9))
}

// TestACopyOfASourceThatHasGrown is found by its request, although it would have another size now.
func TestACopyOfASourceThatHasGrown(t *testing.T) {
	w := newSized(t, "ext4")
	volume := w.create(w.request(1e9, "ssd", "node1")).GetVolumeId()
	r := w.clone(volume, 1e9, "ssd", "node1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.agent = func(*topolvmv1.LogicalVolume) { cancel() }
	_, err := w.server.CreateVolume(ctx, r)
	wantCode(t, "the agent is slow", err, codes.Canceled)
	source := w.get("pvc-1")
	source.Status.CurrentSize = resource.NewQuantity(1<<30, resource.BinarySI)
	w.answer(source)
	w.serve(w.get(r.GetName()))
	w.agent = nil
	expect.Equal(t, "volume", w.create(r).GetVolumeId(), string(w.get(r.GetName()).UID))
	// Another request is another volume.
	r.CapacityRange.RequiredBytes = 1e9 + 1
	_, err = w.server.CreateVolume(t.Context(), r)
	wantCode(t, "another request", err, codes.AlreadyExists)
}

// TestACopyThatExceedsItsLimit is refused: it would be larger than its request allows.
func TestACopyThatExceedsItsLimit(t *testing.T) {
	w := newSized(t, "ext4")
	volume := w.create(w.request(1e9, "ssd", "node1")).GetVolumeId()
	for limit, code := range map[int64]codes.Code{956*mebi - 1: codes.OutOfRange, 956 * mebi: codes.OK} {
		r := w.clone(volume, 1e9, "ssd", "node1")
		r.CapacityRange.LimitBytes = limit
		_, err := w.server.CreateVolume(t.Context(), r)
		wantCode(t, fmt.Sprint("a limit of ", limit), err, code)
	}
	r := w.clone(volume, 0, "ssd", "node1")
	r.CapacityRange = nil
	w.create(r)
	if _, has := w.get(r.GetName()).Annotations[wellknown.RequestedSizeAnnotation]; has {
		t.Error("a size is recorded that nobody has requested")
	}
}

package driver

import (
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/groupsnapshot"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// TestACopyHasTheFileSystemOfItsSource: with another one it is refused, before anything is created or copied.
func TestACopyHasTheFileSystemOfItsSource(t *testing.T) {
	for source, other := range map[string]string{"ext4": "xfs", "xfs": "ext4"} {
		w := newSized(t, source)
		volume := w.create(w.request(400*mebi, "ssd", "node1")).GetVolumeId()
		snapshot := w.snapshot(volume).GetSnapshotId()
		for what, request := range map[string]func() *csi.CreateVolumeRequest{
			"clone": func() *csi.CreateVolumeRequest { return w.clone(volume, 400*mebi, "ssd", "node1") },
			"clone on another node": func() *csi.CreateVolumeRequest {
				return w.clone(volume, 400*mebi, "hdd", "node2")
			},
			"restore": func() *csi.CreateVolumeRequest { return w.restore(snapshot, 400*mebi, "ssd", "node1") },
			"restore into another class": func() *csi.CreateVolumeRequest {
				return w.restore(snapshot, 400*mebi, "thick", "node1")
			},
		} {
			refused := request()
			refused.VolumeCapabilities = []*csi.VolumeCapability{mountCapability(other)}
			for range 2 {
				_, err := w.server.CreateVolume(t.Context(), refused)
				wantCode(t, fmt.Sprintf("%s of %s as %s", what, source, other), err, codes.InvalidArgument)
			}
			if w.get(refused.GetName()) != nil || w.get("copy-"+refused.GetName()) != nil {
				t.Errorf("%s: something was created", what)
			}
			for _, kind := range []string{"block", "", source} {
				r := request()
				r.VolumeCapabilities = []*csi.VolumeCapability{mountCapability(kind)}
				if kind == "block" {
					kinds["block"](w)
					r.VolumeCapabilities = []*csi.VolumeCapability{w.capability}
				}
				again := w.create(r).GetVolumeId()
				expect.Equal(t, what, w.create(r).GetVolumeId(), again)
				expect.Equal(t, what+": file system", w.get(r.GetName()).Annotations[wellknown.FileSystemAnnotation], source)
			}
		}
	}
}

// TestTheFileSystemThatIsRecorded on a LogicalVolume.
func TestTheFileSystemThatIsRecorded(t *testing.T) {
	for kind, want := range map[string]string{"": "ext4", "ext4": "ext4", "xfs": "xfs", "block": ""} {
		w := newSized(t, "block")
		r := w.request(400*mebi, "ssd", "node1")
		if kind != "block" {
			r.VolumeCapabilities[0] = mountCapability(kind)
		}
		volume := w.create(r).GetVolumeId()
		w.snapshot(volume)
		source := w.get(r.GetName())
		for name, lv := range map[string]*topolvmv1.LogicalVolume{"volume": source,
			"snapshot": w.get(fmt.Sprint("snapshot-", w.names)), "member": groupsnapshot.NewMember("g", source, volume, "")} {
			got, has := lv.Annotations[wellknown.FileSystemAnnotation]
			if got != want || has != (want != "") {
				t.Errorf("%q: the %s has %q, want %q", kind, name, got, want)
			}
		}
	}
}

// TestACopyOfAVolumeOfAnEarlierVersion, whose file system is not recorded: the node agent compares it with the request.
func TestACopyOfAVolumeOfAnEarlierVersion(t *testing.T) {
	w := newSized(t, "ext4")
	r := w.request(400*mebi, "ssd", "node1")
	volume := w.create(r).GetVolumeId()
	lv := w.get(r.GetName())
	delete(lv.Annotations, wellknown.FileSystemAnnotation)
	w.must(w.api.Update(t.Context(), lv))
	// The response was lost, and the operator was updated since.
	expect.Equal(t, "volume", w.create(r).GetVolumeId(), volume)
	for kind, want := range map[string]string{"xfs": "xfs", "ext4": "ext4", "": ""} {
		copied := w.clone(volume, 400*mebi, "ssd", "node1")
		copied.VolumeCapabilities = []*csi.VolumeCapability{mountCapability(kind)}
		w.create(copied)
		expect.Equal(t, "file system", w.get(copied.GetName()).Annotations[wellknown.FileSystemAnnotation], want)
	}
	// A volume that has a file system does not become one with another.
	r = w.request(400*mebi, "ssd", "node1")
	w.create(r)
	r.VolumeCapabilities = []*csi.VolumeCapability{mountCapability("xfs")}
	_, err := w.server.CreateVolume(t.Context(), r)
	wantCode(t, "the same name with another file system", err, codes.AlreadyExists)
}

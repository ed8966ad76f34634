package driver

import (
	"maps"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

var luksParameters = map[string]string{wellknown.EncryptionParameter: wellknown.EncryptionLUKS2,
	wellknown.EncryptionDiscardsParameter: "true"}

// encrypted adds parameters to a request.
func encrypted(request *csi.CreateVolumeRequest) *csi.CreateVolumeRequest {
	maps.Copy(request.Parameters, luksParameters)
	return request
}

func TestAnEncryptedVolumeIsMarked(t *testing.T) {
	c := newCluster(t)
	for range 2 {
		response, err := c.server.CreateVolume(t.Context(), encrypted(wanted("pvc-1", 80*mebi, "node2")))
		c.must(err)
		if got := response.GetVolume().GetVolumeContext(); !maps.Equal(got, luksParameters) {
			t.Errorf("got the context %v", got)
		}
	}
	if got := c.get("pvc-1").Annotations[wellknown.EncryptionAnnotation]; got != wellknown.EncryptionLUKS2 {
		t.Errorf("got the annotation %q", got)
	}
	_, err := c.server.CreateVolume(t.Context(), wanted("pvc-1", 80*mebi, "node2"))
	wantCode(t, "the same name, not encrypted", err, codes.AlreadyExists)
	for key, value := range map[string]string{wellknown.EncryptionParameter: "aes",
		wellknown.EncryptionDiscardsParameter: "yes"} {
		request := wanted("pvc-2", 80*mebi, "node2")
		request.Parameters[key] = value
		_, err := c.server.CreateVolume(t.Context(), request)
		wantCode(t, key, err, codes.InvalidArgument)
		if !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), value) {
			t.Errorf("%v does not name %s and %s", err, key, value)
		}
	}
	if c.get("pvc-2") != nil {
		t.Error("a volume with an unknown encryption was created")
	}
}

// TestACopyIsEncryptedAsItsSource copies volumes and snapshots with and without encryption into both kinds of
// StorageClass.
func TestACopyIsEncryptedAsItsSource(t *testing.T) {
	c := newCluster(t)
	for name, source := range map[string]*csi.CreateVolumeRequest{
		"encrypted": encrypted(wanted("encrypted", 80*mebi, "node2")),
		"plain":     wanted("plain", 80*mebi, "node2"),
	} {
		created, err := c.server.CreateVolume(t.Context(), source)
		c.must(err)
		id := created.GetVolume().GetVolumeId()
		snapshot, err := c.server.CreateSnapshot(t.Context(),
			&csi.CreateSnapshotRequest{Name: "snapshot-of-" + name, SourceVolumeId: id})
		c.must(err)
		restored := func(as string) *csi.CreateVolumeRequest {
			request := copyOf(as, id, 80*mebi, "node2")
			request.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
				Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot.GetSnapshot().GetSnapshotId()}}}
			return request
		}
		for _, copied := range []*csi.CreateVolumeRequest{copyOf("copy-of-"+name, id, 80*mebi, "node2"),
			restored("restored-" + name)} {
			same, other := encrypted(copied), restored("other")
			if name == "plain" {
				other = encrypted(restored("other"))
				for key := range luksParameters {
					delete(same.Parameters, key)
				}
			}
			_, err = c.server.CreateVolume(t.Context(), other)
			wantCode(t, name+", the other kind", err, codes.InvalidArgument)
			if !strings.Contains(err.Error(), wellknown.EncryptionParameter) || c.get("other") != nil {
				t.Errorf("%s: got %v", name, err)
			}
			_, err = c.server.CreateVolume(t.Context(), same)
			c.must(err)
			if got := c.get(same.GetName()).Annotations[wellknown.EncryptionAnnotation]; (got != "") != (name == "encrypted") {
				t.Errorf("%s: got the annotation %q", same.GetName(), got)
			}
		}
	}
}

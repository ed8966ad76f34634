package driver

import (
	"fmt"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

func TestHealthOfVolumesIsWhatTheirAgentsReported(t *testing.T) {
	c := newCluster(t)
	for i := range 6 {
		_, err := c.server.CreateVolume(t.Context(), wanted(fmt.Sprint("pvc-", i), 40*mebi, "node1"))
		c.must(err)
	}
	for name, annotations := range map[string]map[string]string{
		"pvc-1": {wellknown.HealthAnnotation: `[{"status":"Inaccessible","reason":"DeviceMissing","message":"x"}]`},
		"pvc-3": {wellknown.ConditionAnnotation: "an agent of an earlier version"},
		"pvc-5": {wellknown.HealthAnnotation: `[{"status":"Degraded","reason":"A"},{"status":"Degraded","reason":"B"}]`},
	} {
		lv := c.get(name)
		for key, text := range annotations {
			lv.Annotations[key] = text
		}
		c.must(c.api.Update(t.Context(), lv))
	}
	describe := func(h *csi.VolumeHealth) string {
		text := h.GetVolumeId()
		for _, s := range h.GetHealthStatuses() {
			text += " " + s.GetStatus().String() + " " + s.GetReason()
		}
		return text
	}
	var seen []string
	for token := ""; ; {
		r, err := c.server.ControllerListVolumeHealth(t.Context(),
			&csi.ControllerListVolumeHealthRequest{MaxEntries: 2, StartingToken: token})
		c.must(err)
		for _, h := range r.GetEntries() {
			seen = append(seen, describe(h))
		}
		if token = r.GetNextToken(); token == "" {
			break
		}
	}
	want := []string{"uid-2 INACCESSIBLE DeviceMissing", "uid-4 DEGRADED LogicalVolumeUnhealthy",
		"uid-6 DEGRADED A DEGRADED B"}
	if !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	for id, text := range map[string]string{"uid-2": want[0], "uid-1": "uid-1"} {
		one, err := c.server.ControllerGetVolumeHealth(t.Context(), &csi.ControllerGetVolumeHealthRequest{VolumeId: id})
		c.must(err)
		if got := describe(one.GetVolumeHealth()); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	_, err := c.server.ControllerGetVolumeHealth(t.Context(), &csi.ControllerGetVolumeHealthRequest{VolumeId: "none"})
	wantCode(t, "a volume that does not exist", err, codes.NotFound)
	_, err = c.server.ControllerGetVolumeHealth(t.Context(), &csi.ControllerGetVolumeHealthRequest{})
	wantCode(t, "no volume", err, codes.InvalidArgument)
	_, err = c.server.ControllerListVolumeHealth(t.Context(), &csi.ControllerListVolumeHealthRequest{StartingToken: "junk"})
	wantCode(t, "a token of somebody else", err, codes.Aborted)
}

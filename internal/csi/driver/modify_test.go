package driver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// limiting answers like an agent that applies all limits, except those in which a text occurs.
func (c *cluster) limiting(refused string) func(lv *topolvmv1.LogicalVolume) {
	return func(lv *topolvmv1.LogicalVolume) {
		if lv.Status.VolumeID == "" {
			c.serve(lv)
		}
		desired := lv.Annotations[wellknown.IOLimitsAnnotation]
		switch {
		case desired == "" || lv.Annotations[wellknown.IOLimitsInForceAnnotation] == desired:
			return
		case refused != "" && strings.Contains(desired, refused):
			lv.Annotations[wellknown.IOLimitsErrorAnnotation] = desired + ": no io controller"
		default:
			lv.Annotations[wellknown.IOLimitsInForceAnnotation] = desired
			delete(lv.Annotations, wellknown.IOLimitsErrorAnnotation)
		}
		if err := c.api.Update(context.Background(), lv); err != nil {
			c.Error(err)
		}
	}
}

func (c *cluster) modify(id string, parameters map[string]string) error {
	_, err := c.server.ControllerModifyVolume(c.Context(),
		&csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: parameters})
	return err
}

func (c *cluster) volume(parameters map[string]string) string {
	c.Helper()
	request := wanted("pvc-1", 40*mebi, "node1")
	request.MutableParameters = parameters
	response, err := c.server.CreateVolume(c.Context(), request)
	c.must(err)
	return response.GetVolume().GetVolumeId()
}

func (c *cluster) wantLimits(requested, inForce string) {
	c.Helper()
	a := c.get("pvc-1").Annotations
	if a[wellknown.IOLimitsAnnotation] != requested || a[wellknown.IOLimitsInForceAnnotation] != inForce {
		c.Errorf("got %q, want %q, of which %q is in force", a, requested, inForce)
	}
}

func TestLimitsAreChangedOrTheOldOnesStay(t *testing.T) {
	c := newCluster(t)
	c.agent = c.limiting("writeIOPS=1")
	id := c.volume(map[string]string{"readIOPS": "500"})
	c.wantLimits("readIOPS=500", "readIOPS=500")
	for range 2 {
		c.must(c.modify(id, map[string]string{"readIOPS": "1k", "writeBytesPerSecond": "1Mi"}))
		c.wantLimits("readIOPS=1000 writeBytesPerSecond=1048576", "readIOPS=1000 writeBytesPerSecond=1048576")
	}
	for range 2 {
		err := c.modify(id, map[string]string{"writeIOPS": "1"})
		wantCode(t, "refused", err, codes.InvalidArgument)
		if text := status.Convert(err).Message(); text != "node node1 cannot apply writeIOPS=1 to volume pvc-1: no io "+
			"controller" {
			t.Errorf("got %q", text)
		}
		c.wantLimits("readIOPS=1000 writeBytesPerSecond=1048576", "readIOPS=1000 writeBytesPerSecond=1048576")
		if text := c.get("pvc-1").Annotations[wellknown.IOLimitsErrorAnnotation]; text != "" {
			t.Errorf("the error remains: %q", text)
		}
	}
	for range 2 {
		c.must(c.modify(id, nil))
		c.wantLimits("none", "none")
	}
}

func TestAVolumeThatNeverHadLimits(t *testing.T) {
	c := newCluster(t)
	c.agent = c.limiting("readIOPS")
	id := c.volume(nil)
	for range 2 {
		c.must(c.modify(id, nil))
		c.wantLimits("", "")
		wantCode(t, "refused", c.modify(id, map[string]string{"readIOPS": "1"}), codes.InvalidArgument)
		c.wantLimits("", "")
	}
}

func TestRequestsToModifyThatAreNotValid(t *testing.T) {
	c := newCluster(t)
	id := c.volume(nil)
	wantCode(t, "no ID", c.modify("", nil), codes.InvalidArgument)
	wantCode(t, "no volume", c.modify("none", nil), codes.NotFound)
	wantCode(t, "unknown", c.modify(id, map[string]string{"iops": "1"}), codes.InvalidArgument)
	c.must(c.server.locks.Enter(id))
	wantCode(t, "busy", c.modify(id, nil), codes.Aborted)
	c.server.locks.Leave(id)
	request := wanted("pvc-2", 40*mebi, "node1")
	request.MutableParameters = map[string]string{"readIOPS": "0"}
	_, err := c.server.CreateVolume(t.Context(), request)
	wantCode(t, "not valid", err, codes.InvalidArgument)
	if lv := c.get("pvc-2"); lv != nil {
		t.Errorf("a volume was created: %+v", lv)
	}
	c.fail["list"] = errors.New("away")
	wantCode(t, "the read failed", c.modify("none", nil), codes.Unavailable)
}

// TestANodeThatDoesNotAnswerForLimits checks that the request remains, so that the next call completes it.
func TestANodeThatDoesNotAnswerForLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.agent = c.limiting("")
		id := c.volume(map[string]string{"readIOPS": "500"})
		c.agent = func(*topolvmv1.LogicalVolume) {}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.server.ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{VolumeId: id,
			MutableParameters: map[string]string{"readIOPS": "9"}})
		wantCode(t, "silent", err, codes.DeadlineExceeded)
		if !strings.Contains(err.Error(), "node node1 has not answered") {
			t.Errorf("got %v", err)
		}
		c.wantLimits("readIOPS=9", "readIOPS=500")
		c.agent = c.limiting("")
		c.changed("pvc-1")
		c.must(c.modify(id, map[string]string{"readIOPS": "9"}))
		c.wantLimits("readIOPS=9", "readIOPS=9")
	})
}

// TestTheRefusalOfACallThatEnded checks that the refusal for a controller that ended before it reverted the request is
// not the answer to a later call.
func TestTheRefusalOfACallThatEnded(t *testing.T) {
	c := newCluster(t)
	c.agent = c.limiting("")
	id := c.volume(map[string]string{"readIOPS": "500"})
	lv := c.get("pvc-1")
	lv.Annotations[wellknown.IOLimitsAnnotation] = "readIOPS=9"
	lv.Annotations[wellknown.IOLimitsErrorAnnotation] = "readIOPS=9: why"
	c.must(c.api.Update(t.Context(), lv))
	c.must(c.modify(id, map[string]string{"readIOPS": "9"}))
	c.wantLimits("readIOPS=9", "readIOPS=9")
}

// TestTheClassOfAClaimChangesBeforeItsVolumeExists checks a repeated request with another class.
func TestTheClassOfAClaimChangesBeforeItsVolumeExists(t *testing.T) {
	c := newCluster(t)
	c.agent = c.limiting("")
	for _, value := range []string{"500", "600", "600"} {
		c.volume(map[string]string{"readIOPS": value})
		c.wantLimits("readIOPS="+value, "readIOPS="+value)
	}
	c.volume(nil)
	c.wantLimits("none", "none")
	c.agent = c.limiting("readIOPS=700")
	request := wanted("pvc-1", 40*mebi, "node1")
	request.MutableParameters = map[string]string{"readIOPS": "700"}
	_, err := c.server.CreateVolume(t.Context(), request)
	wantCode(t, "refused", err, codes.InvalidArgument)
	if lv := c.get("pvc-1"); lv == nil || lv.Status.VolumeID == "" {
		t.Errorf("the volume was deleted: %+v", lv)
	}
}

// TestCopiesDoNotInheritLimits checks a clone of a volume with limits.
func TestCopiesDoNotInheritLimits(t *testing.T) {
	c := newCluster(t)
	c.agent = c.limiting("")
	id := c.volume(map[string]string{"readIOPS": "500"})
	_, err := c.server.CreateVolume(t.Context(), copyOf("pvc-2", id, 40*mebi, "node1"))
	c.must(err)
	if limits, has := c.get("pvc-2").Annotations[wellknown.IOLimitsAnnotation]; has {
		t.Errorf("the copy has the limits %s", limits)
	}
}

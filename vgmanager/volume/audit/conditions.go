package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/health"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// FileSystems checks the mounted file systems of this node. mountedfs.FileSystems implements it.
type FileSystems interface {
	// Problems returns what is wrong with the file systems of devices, by "MAJOR:MINOR". The argument has their
	// volumes.
	Problems(ctx context.Context, volumes map[string]service.Volume) (map[string]health.Condition, error)
}

// lookAtFileSystems adds the problems of its file system to the condition of each volume, and stores them for the
// metric.
func (a *Auditor) lookAtFileSystems(ctx context.Context, volumes []engine.VolumeState) error {
	if a.FileSystems == nil {
		return nil
	}
	named := map[string]service.Volume{}
	for _, v := range volumes {
		if v.Device != "" {
			named[v.Device] = service.Volume{Class: v.Class, Name: v.Name, Claim: identity.ClaimOf(v.Tags)}
		}
	}
	problems, err := a.FileSystems.Problems(ctx, named)
	if err != nil {
		return err
	}
	var broken []engine.VolumeState
	for i := range volumes {
		v := &volumes[i]
		problem, found := problems[v.Device]
		if !found {
			continue
		}
		broken = append(broken, *v)
		v.Problems = append([]health.Condition{problem}, v.Problems...)
	}
	_, list := newVolumeMetrics(broken, maxBroken)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = list
	return nil
}

// lookAtPods adds to the condition of each volume why its Pod cannot end.
func (a *Auditor) lookAtPods(ctx context.Context, volumes []engine.VolumeState) error {
	if a.Detained == nil {
		return nil
	}
	detained, err := a.Detained(ctx)
	if err != nil {
		return err
	}
	for i := range volumes {
		if problem := detained[volumes[i].Device]; problem != "" {
			v := &volumes[i]
			v.Problems = append([]health.Condition{health.Degraded(health.DeviceInUse, problem)}, v.Problems...)
		}
	}
	return nil
}

// conditions returns the problems of the logical volume of each object, by the name of the object.
func conditions(volumes []engine.VolumeState, classes map[string]error,
	objects []topolvmv1.LogicalVolume) map[string][]health.Condition {
	states := map[string]engine.VolumeState{}
	for _, v := range volumes {
		states[v.Name] = v
	}
	wrong := map[string][]health.Condition{}
	for i := range objects {
		lv := &objects[i]
		if lv.Status.VolumeID == "" || !lv.DeletionTimestamp.IsZero() {
			continue
		}
		problem, known := classes[lv.Spec.DeviceClass]
		state, there := states[lv.Status.VolumeID]
		of := func(reason, message string) []health.Condition {
			return []health.Condition{health.Inaccessible(reason, message)}
		}
		switch {
		case !known:
			wrong[lv.Name] = of(health.DeviceClassUnavailable,
				fmt.Sprintf("device class %s is not set up on node %s", lv.Spec.DeviceClass, lv.Spec.NodeName))
		case problem != nil:
			wrong[lv.Name] = of(health.DeviceClassUnavailable, status.Convert(problem).Message())
		case !there:
			wrong[lv.Name] = of(health.LogicalVolumeMissing, view.MissingVolume(lv.Spec.NodeName, lv.Status.VolumeID))
		case isClosed(lv):
			wrong[lv.Name] = of(health.Fenced, fence.Problem(lv))
		case len(state.Problems) > 0:
			wrong[lv.Name] = state.Problems
		}
	}
	return wrong
}

// isClosed returns true if the logical volume of an object has a fence that nothing requests.
func isClosed(lv *topolvmv1.LogicalVolume) bool {
	return fence.Holder(lv) == "" && fence.Problem(lv) != ""
}

// isMissing returns true if the agent of an object's node reports that the node does not have its logical volume.
func isMissing(lv *topolvmv1.LogicalVolume) bool {
	return lv.Status.VolumeID != "" && view.Condition(lv) == view.MissingVolume(lv.Spec.NodeName, lv.Status.VolumeID)
}

// suspensions returns the suspended devices of the logical volume of each object, by the name of the object. If the
// device class is not available, they are unknown, and the object keeps its last known ones.
func suspensions(volumes []engine.VolumeState, classes map[string]error,
	objects []topolvmv1.LogicalVolume) map[string]string {
	devices := map[string]string{}
	for _, v := range volumes {
		devices[v.Name] = strings.Join(v.SuspendedDevices, ", ")
	}
	suspended := map[string]string{}
	for i := range objects {
		lv := &objects[i]
		if problem, known := classes[lv.Spec.DeviceClass]; !known || problem != nil {
			suspended[lv.Name] = view.SuspendedDevices(lv)
		} else {
			suspended[lv.Name] = devices[lv.Status.VolumeID]
		}
	}
	return suspended
}

// mark writes the problems and the suspended devices of its logical volume to each object, if they changed.
func (a *Auditor) mark(ctx context.Context, objects []topolvmv1.LogicalVolume,
	wrong map[string][]health.Condition, suspended map[string]string) error {
	var errs []error
	for i := range objects {
		lv := &objects[i]
		conditions, err := view.EncodeHealth(wrong[lv.Name])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		want := map[string]string{wellknown.ConditionAnnotation: health.Text(wrong[lv.Name]),
			wellknown.HealthAnnotation: conditions, wellknown.SuspendedDevicesAnnotation: suspended[lv.Name]}
		if isAnnotated(lv, want) {
			continue
		}
		before := lv.DeepCopy()
		if lv.Annotations == nil {
			lv.Annotations = map[string]string{}
		}
		for key, text := range want {
			lv.Annotations[key] = text
			if text == "" {
				delete(lv.Annotations, key)
			}
		}
		errs = append(errs, client.IgnoreNotFound(a.Client.Patch(ctx, lv, client.MergeFrom(before))))
	}
	return errors.Join(errs...)
}

// isAnnotated returns true if an object has the wanted annotations, and none of those that are wanted to be empty.
func isAnnotated(lv *topolvmv1.LogicalVolume, want map[string]string) bool {
	for key, text := range want {
		if present, isSet := lv.Annotations[key]; present != text || isSet != (text != "") {
			return false
		}
	}
	return true
}

package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
	volumeview "github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// volumeFilter selects volumes. An empty field selects all.
type volumeFilter struct {
	namespace, claim string
	node, class      string
	// places are the device classes that have a device. If it is nil, it selects all.
	places []objects.Place
}

func (f volumeFilter) matches(v output.Volume) bool {
	namespace, name, _ := strings.Cut(v.Claim, "/")
	isAt := f.places == nil || slices.ContainsFunc(f.places, func(p objects.Place) bool {
		// A LogicalVolume without a device class is in the default one, which may be any.
		return p.Node == v.Node && (v.DeviceClass == "" || p.Class == v.DeviceClass)
	})
	return isAt && (f.namespace == "" || f.namespace == namespace) && (f.claim == "" || f.claim == name) &&
		(f.node == "" || f.node == v.Node) && (f.class == "" || f.class == v.DeviceClass)
}

// newVolumes returns the volumes that a filter selects.
func newVolumes(volumes []topolvmv1.LogicalVolume, filter volumeFilter) output.VolumeList {
	all := output.VolumeList{TypeMeta: output.TypeMeta("VolumeList"), Items: []output.Volume{}}
	for i := range volumes {
		if v := newVolume(&volumes[i]); filter.matches(v) {
			all.Items = append(all.Items, v)
		}
	}
	slices.SortStableFunc(all.Items, func(a, b output.Volume) int {
		return cmp.Or(cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.LogicalVolume, b.LogicalVolume))
	})
	return all
}

func newVolume(lv *topolvmv1.LogicalVolume) output.Volume {
	state, message := stateOf(lv)
	inForce, requested := limitsOf(lv)
	return output.Volume{Claim: volumeview.Claim(lv), Node: lv.Spec.NodeName,
		PartOfMove:  volumeview.Move(lv) != "",
		DeviceClass: lv.Spec.DeviceClass, State: state, Message: output.OneLine(message), Size: lv.Spec.Size,
		CurrentSize: lv.Status.CurrentSize, LogicalVolume: lv.Name, VolumeID: lv.Status.VolumeID,
		Suspended: suspensionText(lv), Source: lv.Spec.Source,
		Encryption: output.OneLine(volumeview.Encryption(lv)), IOLimits: inForce,
		IOLimitsRequested: requested, IOLimitsError: output.OneLine(volumeview.IOLimitsOf(lv).Failed)}
}

// limitsOf returns the I/O limits of a volume that are in force, and those that are requested but not in force.
func limitsOf(lv *topolvmv1.LogicalVolume) (inForce, requested string) {
	limits := volumeview.IOLimitsOf(lv)
	if limits.Requested == limits.InForce {
		limits.Requested = ""
	}
	if limits.InForce == iolimits.None {
		limits.InForce = ""
	}
	return limits.InForce, limits.Requested
}

// suspensionText says why new Pods do not get a volume, or returns "" if they do.
func suspensionText(lv *topolvmv1.LogicalVolume) string {
	var reasons []string
	if text, suspended := volumeview.Suspended(lv); suspended {
		reasons = append(reasons, "suspended "+cmp.Or(output.OneLine(text), "by an unknown user"))
	}
	if devices := volumeview.SuspendedDevices(lv); devices != "" {
		reasons = append(reasons, "has data on the suspended device "+devices)
	}
	return strings.Join(reasons, output.Separator)
}

func stateOf(lv *topolvmv1.LogicalVolume) (output.VolumeState, string) {
	condition := volumeview.Condition(lv)
	switch {
	case lv.DeletionTimestamp != nil:
		return output.VolumeDeleting, cmp.Or(lv.Status.Message, condition)
	case verdict.IsCopying(lv):
		return output.VolumeCopying, lv.Status.Message
	case lv.Status.Code != codes.OK:
		return output.VolumeFailed, cmp.Or(lv.Status.Message, lv.Status.Code.String())
	case condition != "":
		return output.VolumeAbnormal, condition
	case suspensionText(lv) != "":
		return output.VolumeSuspended, suspensionText(lv)
	case lv.Status.VolumeID == "":
		return output.VolumePending, ""
	case lv.Status.CurrentSize != nil && lv.Status.CurrentSize.Cmp(lv.Spec.Size) < 0:
		return output.VolumeExpanding, fmt.Sprintf("The size is %s now.", output.SizeOf(lv.Status.CurrentSize))
	case volumeview.IsUnclaimed(lv):
		return output.VolumeUnclaimed, "No PersistentVolume, snapshot or claim refers to the volume."
	}
	return output.VolumeReady, ""
}

// Package volumespec builds the LogicalVolumes for CSI requests, and compares them with those that exist.
package volumespec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// FromRequest returns the LogicalVolume for a request, without a source.
func FromRequest(request *csi.CreateVolumeRequest) (*topolvmv1.LogicalVolume, error) {
	if request.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "name is required")
	}
	if err := CheckCapabilities(request.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	parameters := request.GetParameters()
	encryption, err := service.EncryptionOf(parameters)
	if err != nil {
		return nil, err
	}
	size, err := requestedSize(request.GetCapacityRange(), request.GetVolumeCapabilities(), encryption.Method)
	if err != nil {
		return nil, err
	}
	for _, c := range request.GetVolumeCapabilities() {
		kind := cmp.Or(c.GetMount().GetFsType(), service.DefaultFileSystem)
		if _, err := service.MkfsOptions(kind, parameters[wellknown.MkfsOptionsParameter]); err != nil {
			return nil, err
		}
	}
	if err := checkSourcePlacement(parameters); err != nil {
		return nil, err
	}
	limits, err := LimitsOf(request.GetMutableParameters())
	if err != nil {
		return nil, err
	}
	desired := New(strings.ToLower(request.GetName()), size, service.ClaimOf(parameters))
	if limits != iolimits.None {
		view.IOLimits{Requested: limits}.Set(desired)
	}
	view.SetEncryption(desired, encryption.Method)
	view.SetRequestedSize(desired, request.GetCapacityRange().GetRequiredBytes())
	desired.Spec.DeviceClass = parameters[wellknown.DeviceClassParameter]
	desired.Spec.LvcreateOptionClass = parameters[wellknown.OptionClassParameter]
	return desired, nil
}

// New returns a LogicalVolume with a size in bytes, for a claim if it is not "".
func New(name string, size int64, claim string) *topolvmv1.LogicalVolume {
	desired := &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       topolvmv1.LogicalVolumeSpec{Name: name, Size: *resource.NewQuantity(size, resource.BinarySI)},
	}
	if claim != "" {
		desired.Annotations = map[string]string{wellknown.ClaimAnnotation: claim}
	}
	return desired
}

// CheckCapabilities returns an error for capabilities that a volume on one node cannot have.
func CheckCapabilities(list []*csi.VolumeCapability) error {
	if len(list) == 0 {
		return status.Error(codes.InvalidArgument, "volume_capabilities are required")
	}
	var errs []error
	for _, capability := range list {
		errs = append(errs, service.CheckRequest("-", "-", "", capability))
		kind := capability.GetMount().GetFsType()
		if _, known := service.FileSystems[kind]; kind != "" && !known {
			errs = append(errs, status.Errorf(codes.InvalidArgument, "file system %s is not supported: use %s",
				kind, service.Supported()))
		}
	}
	at := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if at < 0 {
		return nil
	}
	return errs[at]
}

// SizeOf returns the size of a volume in bytes. If an older version wrote no current size, it returns the size in the
// spec.
func SizeOf(lv *topolvmv1.LogicalVolume) int64 {
	if lv.Status.CurrentSize == nil {
		return lv.Spec.Size.Value()
	}
	return lv.Status.CurrentSize.Value()
}

// LimitsOf returns the limits for the parameters of a VolumeAttributesClass, as in IOLimitsAnnotation.
func LimitsOf(parameters map[string]string) (string, error) {
	limits, err := iolimits.New(parameters)
	if err != nil {
		return "", status.Error(codes.InvalidArgument, err.Error())
	}
	return limits.String(), nil
}

// LimitsRequested returns the limits that a LogicalVolume requests.
func LimitsRequested(lv *topolvmv1.LogicalVolume) string {
	return cmp.Or(view.IOLimitsOf(lv).Requested, iolimits.None)
}

// AccessSnapshot is the access type of a snapshot, which is read-only.
const AccessSnapshot = "ro"

// SnapshotMessage returns a snapshot for CSI. Its size is what was requested for its source, so that a claim with the
// same request can be restored from it. The restored volume is as large as the snapshot.
func SnapshotMessage(lv *topolvmv1.LogicalVolume, source string) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: lv.Status.VolumeID, SourceVolumeId: source, SizeBytes: RequestedOf(lv),
		CreationTime: timestamppb.New(lv.CreationTimestamp.Time), ReadyToUse: true,
	}
}

// Differences describes how two volumes of the same name differ, or returns "". It ignores the size of a snapshot, and
// of a copy for the same request, which is that of its source and may have grown since.
func Differences(desired, present *topolvmv1.LogicalVolume) string {
	var list []string
	add := func(what, want, have string) {
		if want != have {
			list = append(list, fmt.Sprintf("%s %q instead of %q", what, have, want))
		}
	}
	add("source", originOf(desired), originOf(present))
	if desired.Spec.DeviceClass != "" {
		add("device class", desired.Spec.DeviceClass, present.Spec.DeviceClass)
	}
	add("encryption", view.Encryption(desired), view.Encryption(present))
	// An earlier version recorded no file system.
	if kind := view.FileSystem(present); kind != "" {
		add("file system", cmp.Or(view.FileSystem(desired), kind), kind)
	}
	add("access", desired.Spec.AccessType, present.Spec.AccessType)
	add("lvcreate option class", desired.Spec.LvcreateOptionClass, present.Spec.LvcreateOptionClass)
	if desired.Spec.AccessType != AccessSnapshot && !isSameCopy(desired, present) {
		add("size", desired.Spec.Size.String(), present.Spec.Size.String())
	}
	return strings.Join(list, ", ")
}

// Snapshot returns the LogicalVolume for a snapshot of a volume, on the node of the volume.
func Snapshot(name string, source *topolvmv1.LogicalVolume, claim string) *topolvmv1.LogicalVolume {
	desired := New(name, SizeOf(source), claim)
	view.SetEncryption(desired, view.Encryption(source))
	view.SetRequestedSize(desired, RequestedOf(source))
	view.SetFileSystem(desired, view.FileSystem(source))
	desired.Spec.Source = source.Name
	desired.Spec.AccessType = AccessSnapshot
	desired.Spec.DeviceClass = source.Spec.DeviceClass
	desired.Spec.NodeName = source.Spec.NodeName
	return desired
}

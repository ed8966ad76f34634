// Package groupsnapshot is the CSI group controller service of the driver topolvm.io.
package groupsnapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/volume/groupprotocol"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// Server is the CSI group controller service (CSI specification v1.12, "Group Controller Service RPC"). A group
// snapshot is a set of LogicalVolumes with the same GroupLabel, one for each snapshot. Nothing else records it.
type Server struct {
	csi.UnimplementedGroupControllerServer
	volumes *objects.Volumes
	locks   *service.Locks
	// failures delays the responses of calls that fail again, by the ID of the group.
	failures *flowcontrol.Backoff
}

// The delays of the responses of calls for a group that fail again.
const (
	failureDelay    = time.Second
	maxFailureDelay = 30 * time.Second
)

// New returns the group controller service. locks are those of the CSI controller service.
func New(volumes *objects.Volumes, locks *service.Locks) *Server {
	return &Server{volumes: volumes, locks: locks, failures: flowcontrol.NewBackOff(failureDelay, maxFailureDelay)}
}

// GroupControllerGetCapabilities returns the capabilities of this service.
func (s *Server) GroupControllerGetCapabilities(context.Context,
	*csi.GroupControllerGetCapabilitiesRequest) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	const kind = csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT
	return &csi.GroupControllerGetCapabilitiesResponse{Capabilities: []*csi.GroupControllerServiceCapability{{
		Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{Type: kind}},
	}}}, nil
}

// groupPattern matches the IDs of group snapshots, which are values of GroupLabel.
var groupPattern = regexp.MustCompile(`^group-[0-9a-f]{32}$`)

// ID returns the ID of the group snapshot with a name.
func ID(name string) string { return "group-" + digest(strings.ToLower(name)) }

// MemberName returns the name of the LogicalVolume for the snapshot of a source in a group.
func MemberName(group, source string) string {
	return wellknown.SnapshotPrefix + digest(group+"/"+source)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// CreateVolumeGroupSnapshot creates snapshots of several thin volumes at one instant, on one or several nodes. Either
// all of them exist when it returns, or none is usable: pending snapshots of a failed call are removed by this call or
// the next one. A repeated call continues the work of an earlier one.
func (s *Server) CreateVolumeGroupSnapshot(ctx context.Context,
	request *csi.CreateVolumeGroupSnapshotRequest) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	if request.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "name is required")
	}
	if err := checkSources(request.GetSourceVolumeIds()); err != nil {
		return nil, err
	}
	id := ID(request.GetName())
	if err := s.locks.Enter(id); err != nil {
		return nil, err
	}
	defer s.locks.Leave(id)
	response, err := s.createGroup(ctx, id, request)
	if err != nil {
		s.delay(ctx, id, err)
		return nil, err
	}
	s.failures.Reset(id)
	return response, nil
}

// delay waits before a call for a group fails again, unless its caller repeats it with a delay anyway.
// external-snapshotter writes to the VolumeGroupSnapshotContent after each other error, and repeats the call at once
// because of this write.
func (s *Server) delay(ctx context.Context, id string, err error) {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		return
	}
	waiting, cancel := objects.WithResponseMargin(ctx)
	defer cancel()
	defer liveness.Busy(ctx)()
	select {
	case <-time.After(s.failures.Get(id)):
	case <-waiting.Done():
	}
	s.failures.Next(id, time.Now())
	s.failures.GC()
}

func (s *Server) createGroup(ctx context.Context, id string,
	request *csi.CreateVolumeGroupSnapshotRequest) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	present, err := s.Members(ctx, id)
	if err != nil {
		return nil, err
	}
	if other := otherSource(present, request.GetSourceVolumeIds()); other != "" {
		return nil, status.Errorf(codes.AlreadyExists,
			"group snapshot %s already exists, and has a snapshot of volume %s, which is not requested",
			request.GetName(), other)
	}
	g := &group{id: id, name: request.GetName(), members: present}
	if g.isKept() {
		if len(present) != len(request.GetSourceVolumeIds()) {
			return nil, status.Errorf(codes.Internal, "group snapshot %s had a snapshot of each of the %d volumes, "+
				"but only %d are left: delete it, and create another one", g.name, len(request.GetSourceVolumeIds()),
				len(present))
		}
	} else if err := s.ensureMembers(ctx, g, request); err != nil {
		return nil, err
	}
	if err := s.complete(ctx, g); err != nil {
		return nil, err
	}
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: g.message()}, nil
}

func checkSources(ids []string) error {
	if len(ids) == 0 || len(ids) > groupprotocol.MaxVolumes {
		return status.Errorf(codes.InvalidArgument, "source_volume_ids has %d volumes, want 1 to %d", len(ids),
			groupprotocol.MaxVolumes)
	}
	for i, id := range ids {
		if id == "" || slices.Contains(ids[:i], id) {
			return status.Errorf(codes.InvalidArgument, "source_volume_ids has the volume %q twice, or an empty ID", id)
		}
	}
	return nil
}

// otherSource returns the source of a member that is not one of the IDs, or "".
func otherSource(members []*topolvmv1.LogicalVolume, ids []string) string {
	for _, lv := range members {
		if source := view.GroupSource(lv); !slices.Contains(ids, source) {
			return source
		}
	}
	return ""
}

// Members reads the LogicalVolumes of a group from the API server, sorted by name.
func (s *Server) Members(ctx context.Context, id string) ([]*topolvmv1.LogicalVolume, error) {
	var members []*topolvmv1.LogicalVolume
	err := paging.Each(ctx, s.volumes.Live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			members = append(members, &list.Items[i])
		}
	}, client.MatchingLabels{wellknown.GroupLabel: id})
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "group snapshot %s: %v", id, err)
	}
	slices.SortFunc(members, func(a, b *topolvmv1.LogicalVolume) int { return strings.Compare(a.Name, b.Name) })
	return members, nil
}

// DeleteVolumeGroupSnapshot deletes all snapshots of a group. It succeeds if none exists.
func (s *Server) DeleteVolumeGroupSnapshot(ctx context.Context,
	request *csi.DeleteVolumeGroupSnapshotRequest) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	id := request.GetGroupSnapshotId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "group_snapshot_id is required")
	}
	if err := s.locks.Enter(id); err != nil {
		return nil, err
	}
	defer s.locks.Leave(id)
	members, err := s.known(ctx, id, request.GetSnapshotIds())
	if err != nil {
		return nil, err
	}
	waiting, cancel := objects.WithResponseMargin(ctx)
	defer cancel()
	if err := s.withdrawAll(waiting, members); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
}

// known returns the members of a group. It returns an error if the IDs of snapshots, unless there are none, are not
// those of the group. A snapshot that no longer exists is not an error.
func (s *Server) known(ctx context.Context, id string, snapshots []string) ([]*topolvmv1.LogicalVolume, error) {
	var members []*topolvmv1.LogicalVolume
	if groupPattern.MatchString(id) {
		var err error
		if members, err = s.Members(ctx, id); err != nil {
			return nil, err
		}
	}
	for _, lv := range members {
		if len(snapshots) > 0 && lv.Status.VolumeID != "" && !slices.Contains(snapshots, lv.Status.VolumeID) {
			return nil, status.Errorf(codes.InvalidArgument, "snapshot_ids does not have snapshot %s of group "+
				"snapshot %s", lv.Status.VolumeID, id)
		}
	}
	for _, snapshot := range snapshots {
		if slices.ContainsFunc(members,
			func(lv *topolvmv1.LogicalVolume) bool { return lv.Status.VolumeID == snapshot }) {
			continue
		}
		other, err := s.volumes.Find(ctx, snapshot)
		if err != nil {
			return nil, err
		}
		if other != nil {
			return nil, status.Errorf(codes.InvalidArgument, "snapshot %s does not belong to group snapshot %s",
				snapshot, id)
		}
	}
	return members, nil
}

// GetVolumeGroupSnapshot returns a complete group snapshot.
func (s *Server) GetVolumeGroupSnapshot(ctx context.Context,
	request *csi.GetVolumeGroupSnapshotRequest) (*csi.GetVolumeGroupSnapshotResponse, error) {
	id := request.GetGroupSnapshotId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "group_snapshot_id is required")
	}
	members, err := s.known(ctx, id, request.GetSnapshotIds())
	if err != nil {
		return nil, err
	}
	g := &group{id: id, members: members}
	if !g.isComplete() {
		return nil, status.Errorf(codes.NotFound, "group snapshot %s does not exist, or is not complete", id)
	}
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: g.message()}, nil
}

// group is a group snapshot.
type group struct {
	id, name string
	// members are its LogicalVolumes, sorted by name.
	members []*topolvmv1.LogicalVolume
}

// isKept reports whether a snapshot of the group is usable. Then the snapshots of all nodes were taken together, and
// the others become usable, too.
func (g *group) isKept() bool {
	return slices.ContainsFunc(g.members, func(lv *topolvmv1.LogicalVolume) bool { return lv.Status.VolumeID != "" })
}

// isComplete reports whether all snapshots of the group are usable.
func (g *group) isComplete() bool {
	return len(g.members) > 0 && !slices.ContainsFunc(g.members,
		func(lv *topolvmv1.LogicalVolume) bool { return lv.Status.VolumeID == "" })
}

func (g *group) String() string { return fmt.Sprintf("group snapshot %s (%s)", g.name, g.id) }

// message returns the group for CSI. Its creation time is that of its first LogicalVolume.
func (g *group) message() *csi.VolumeGroupSnapshot {
	created := timestamppb.New(g.members[0].CreationTimestamp.Time)
	answer := &csi.VolumeGroupSnapshot{GroupSnapshotId: g.id, CreationTime: created, ReadyToUse: true}
	for _, lv := range g.members {
		snapshot := volumespec.SnapshotMessage(lv, view.GroupSource(lv))
		snapshot.GroupSnapshotId, snapshot.CreationTime = g.id, created
		answer.Snapshots = append(answer.Snapshots, snapshot)
	}
	return answer
}

// desiredMembers returns the LogicalVolumes of a new group, sorted by name.
func (s *Server) desiredMembers(ctx context.Context, g *group,
	request *csi.CreateVolumeGroupSnapshotRequest) ([]*topolvmv1.LogicalVolume, error) {
	thick, err := supply.ThickClasses(ctx, s.volumes.Client)
	if err != nil {
		return nil, err
	}
	var desired []*topolvmv1.LogicalVolume
	for _, id := range request.GetSourceVolumeIds() {
		source, err := s.volumes.Find(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case source == nil:
			return nil, status.Errorf(codes.NotFound, "volume %s does not exist, or is not a volume of driver %s: a "+
				"group snapshot can only have volumes of one driver", id, wellknown.DriverName)
		case thick[source.Spec.DeviceClass]:
			return nil, status.Errorf(codes.InvalidArgument, "volume %s (LogicalVolume %s) is in device class %s, "+
				"which is thick: a group snapshot can only have thin volumes", id, source.Name, source.Spec.DeviceClass)
		case s.volumes.NodeNotReady(ctx, source.Spec.NodeName):
			return nil, status.Errorf(codes.Unavailable, "volume %s is on node %s, which is not ready", id,
				source.Spec.NodeName)
		}
		desired = append(desired, NewMember(g.id, source, id, service.ClaimOf(request.GetParameters())))
	}
	slices.SortFunc(desired, func(a, b *topolvmv1.LogicalVolume) int { return strings.Compare(a.Name, b.Name) })
	return desired, nil
}

// NewMember returns the LogicalVolume for the snapshot of a source. It has no finalizer: the agent sets it before it
// creates anything, so the object of a node whose agent has no group snapshots is simply deleted.
func NewMember(group string, source *topolvmv1.LogicalVolume, id, claim string) *topolvmv1.LogicalVolume {
	lv := volumespec.Snapshot(MemberName(group, source.Name), source, claim)
	lv.Labels = map[string]string{wellknown.GroupLabel: group}
	if lv.Annotations == nil {
		lv.Annotations = map[string]string{}
	}
	lv.Annotations[wellknown.GroupSourceAnnotation] = id
	lv.Annotations[wellknown.GroupPendingAnnotation] = group
	lv.Annotations[wellknown.PendingDeletionAnnotation] = "group snapshot"
	return lv
}

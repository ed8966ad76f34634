package driver

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

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/groupprotocol"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/snapshotref"
)

// GroupServer is the CSI group controller service (CSI specification v1.12, "Group Controller Service RPC"). A group
// snapshot is a set of LogicalVolumes with the same GroupLabel, one for each snapshot. Nothing else records it.
type GroupServer struct {
	csi.UnimplementedGroupControllerServer
	*ControllerServer
	// failures delays the responses of calls that fail again, by the ID of the group.
	failures *flowcontrol.Backoff
}

// The delays of the responses of calls for a group that fail again.
const (
	failureDelay    = time.Second
	maxFailureDelay = 30 * time.Second
)

// NewGroupServer returns the group controller service of a driver.
func NewGroupServer(s *ControllerServer) *GroupServer {
	return &GroupServer{ControllerServer: s, failures: flowcontrol.NewBackOff(failureDelay, maxFailureDelay)}
}

// GroupControllerGetCapabilities returns the capabilities of this service.
func (s *GroupServer) GroupControllerGetCapabilities(context.Context,
	*csi.GroupControllerGetCapabilitiesRequest) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	const kind = csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT
	return &csi.GroupControllerGetCapabilitiesResponse{Capabilities: []*csi.GroupControllerServiceCapability{{
		Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{Type: kind}},
	}}}, nil
}

// groupPattern matches the IDs of group snapshots, which are values of GroupLabel.
var groupPattern = regexp.MustCompile(`^group-[0-9a-f]{32}$`)

// groupID returns the ID of the group snapshot with a name.
func groupID(name string) string { return "group-" + digest(strings.ToLower(name)) }

// memberName returns the name of the LogicalVolume for the snapshot of a source in a group.
func memberName(group, source string) string {
	return snapshotref.NamePrefix + digest(group+"/"+source)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// CreateVolumeGroupSnapshot creates snapshots of several thin volumes at one instant, on one or several nodes. Either
// all of them exist when it returns, or none is usable: pending snapshots of a failed call are removed by this call or
// the next one. A repeated call continues the work of an earlier one.
func (s *GroupServer) CreateVolumeGroupSnapshot(ctx context.Context,
	request *csi.CreateVolumeGroupSnapshotRequest) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	if request.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "name is required")
	}
	if err := checkSources(request.GetSourceVolumeIds()); err != nil {
		return nil, err
	}
	id := groupID(request.GetName())
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
func (s *GroupServer) delay(ctx context.Context, id string, err error) {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		return
	}
	waiting, cancel := withResponseMargin(ctx)
	defer cancel()
	select {
	case <-time.After(s.failures.Get(id)):
	case <-waiting.Done():
	}
	s.failures.Next(id, time.Now())
	s.failures.GC()
}

func (s *GroupServer) createGroup(ctx context.Context, id string,
	request *csi.CreateVolumeGroupSnapshotRequest) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	present, err := s.membersOf(ctx, id)
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
		if source := lv.Annotations[v1alpha1.GroupSourceAnnotation]; !slices.Contains(ids, source) {
			return source
		}
	}
	return ""
}

// membersOf reads the LogicalVolumes of a group from the API server, sorted by name.
func (s *GroupServer) membersOf(ctx context.Context, id string) ([]*topolvmv1.LogicalVolume, error) {
	var members []*topolvmv1.LogicalVolume
	err := paging.Each(ctx, s.Live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			members = append(members, &list.Items[i])
		}
	}, client.MatchingLabels{v1alpha1.GroupLabel: id})
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "group snapshot %s: %v", id, err)
	}
	slices.SortFunc(members, func(a, b *topolvmv1.LogicalVolume) int { return strings.Compare(a.Name, b.Name) })
	return members, nil
}

// DeleteVolumeGroupSnapshot deletes all snapshots of a group. It succeeds if none exists.
func (s *GroupServer) DeleteVolumeGroupSnapshot(ctx context.Context,
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
	waiting, cancel := withResponseMargin(ctx)
	defer cancel()
	if err := s.withdrawAll(waiting, members); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
}

// known returns the members of a group. It returns an error if the IDs of snapshots, unless there are none, are not
// those of the group. A snapshot that no longer exists is not an error.
func (s *GroupServer) known(ctx context.Context, id string, snapshots []string) ([]*topolvmv1.LogicalVolume, error) {
	var members []*topolvmv1.LogicalVolume
	if groupPattern.MatchString(id) {
		var err error
		if members, err = s.membersOf(ctx, id); err != nil {
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
		other, err := s.find(ctx, snapshot)
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
func (s *GroupServer) GetVolumeGroupSnapshot(ctx context.Context,
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
		snapshot := snapshotOf(lv, lv.Annotations[v1alpha1.GroupSourceAnnotation])
		snapshot.GroupSnapshotId, snapshot.CreationTime = g.id, created
		answer.Snapshots = append(answer.Snapshots, snapshot)
	}
	return answer
}

// desiredMembers returns the LogicalVolumes of a new group, sorted by name.
func (s *GroupServer) desiredMembers(ctx context.Context, g *group,
	request *csi.CreateVolumeGroupSnapshotRequest) ([]*topolvmv1.LogicalVolume, error) {
	thick, err := s.thickClasses(ctx)
	if err != nil {
		return nil, err
	}
	var desired []*topolvmv1.LogicalVolume
	for _, id := range request.GetSourceVolumeIds() {
		source, err := s.find(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case source == nil:
			return nil, status.Errorf(codes.NotFound, "volume %s does not exist, or is not a volume of driver %s: a "+
				"group snapshot can only have volumes of one driver", id, v1alpha1.DriverName)
		case thick[source.Spec.DeviceClass]:
			return nil, status.Errorf(codes.InvalidArgument, "volume %s (LogicalVolume %s) is in device class %s, "+
				"which is thick: a group snapshot can only have thin volumes", id, source.Name, source.Spec.DeviceClass)
		case s.nodeNotReady(ctx, source.Spec.NodeName):
			return nil, status.Errorf(codes.Unavailable, "volume %s is on node %s, which is not ready", id,
				source.Spec.NodeName)
		}
		desired = append(desired, newMember(g, source, id, service.ClaimOf(request.GetParameters())))
	}
	slices.SortFunc(desired, func(a, b *topolvmv1.LogicalVolume) int { return strings.Compare(a.Name, b.Name) })
	return desired, nil
}

// newMember returns the LogicalVolume for the snapshot of a source. It has no finalizer: the agent sets it before it
// creates anything, so the object of a node whose agent has no group snapshots is simply deleted.
func newMember(g *group, source *topolvmv1.LogicalVolume, id, claim string) *topolvmv1.LogicalVolume {
	lv := newDesiredVolume(memberName(g.id, source.Name), sizeOfVolume(source), claim)
	setEncryption(lv, source.Annotations[v1alpha1.EncryptionAnnotation])
	setRequested(lv, requestedOf(source))
	setFileSystem(lv, source.Annotations[v1alpha1.FileSystemAnnotation])
	lv.Spec.Source = source.Name
	lv.Spec.AccessType = accessSnapshot
	lv.Spec.DeviceClass = source.Spec.DeviceClass
	lv.Spec.NodeName = source.Spec.NodeName
	lv.Labels = map[string]string{v1alpha1.GroupLabel: g.id}
	if lv.Annotations == nil {
		lv.Annotations = map[string]string{}
	}
	lv.Annotations[v1alpha1.GroupSourceAnnotation] = id
	lv.Annotations[v1alpha1.GroupPendingAnnotation] = g.id
	lv.Annotations[v1alpha1.PendingDeletionAnnotation] = "group snapshot"
	return lv
}

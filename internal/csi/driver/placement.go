package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/room"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// place selects the node of a volume. If the scheduler has selected a node for the claim, place selects that one.
// Otherwise place selects the node with the most capacity among the nodes in the request, or among all nodes. The node
// of the source of a copy (nil if the volume is empty) precedes others as copySource says. If an earlier call has
// already requested the volume from a node (present, nil if none), that node remains selected if it is still allowed,
// because it may create the volume at any moment. claim is nil if the request has none, or if it was deleted.
func (s *ControllerServer) place(ctx context.Context, desired, present *topolvmv1.LogicalVolume, source *copySource,
	request *csi.CreateVolumeRequest, claim *corev1.PersistentVolumeClaim) error {
	allowed, err := allowedNodes(source, request.GetAccessibilityRequirements())
	if err != nil {
		return err
	}
	spread := spreadOf(cmp.Or(present, desired))
	if spread.Group == "" {
		return s.selectNode(ctx, desired, present, source, allowed, claim, neighbors{})
	}
	if err := s.groups.enter(ctx, spread.Group); err != nil {
		return err
	}
	defer s.groups.leave(spread.Group)
	others, err := s.neighborsOf(ctx, desired, spread)
	if err != nil {
		return err
	}
	if err := s.selectNode(ctx, desired, present, source, allowed, claim, others); err != nil {
		return err
	}
	s.placed.Store(desired.Name, desired.DeepCopy())
	return nil
}

// selectNode selects the node as described at place. It returns an error if the volume must not be on the node of its
// source, or on the node that the scheduler has selected, because others are there.
func (s *ControllerServer) selectNode(ctx context.Context, desired, present *topolvmv1.LogicalVolume,
	source *copySource, allowed []string, claim *corev1.PersistentVolumeClaim, others neighbors) error {
	node := ""
	remains := present != nil && (len(allowed) == 0 || slices.Contains(allowed, present.Spec.NodeName))
	switch {
	case source.mustStay(), claim == nil && source.prefers(allowed) && !remains:
		node = source.node()
	case claim == nil && source != nil && remains:
		node = present.Spec.NodeName
	case isScheduled(claim) && len(allowed) > 0:
		node = allowed[0]
	case remains:
		node = present.Spec.NodeName
	default:
		if source.prefers(allowed) && others.nodes[source.node()] == "" {
			if err := s.reserve(ctx, desired, source, []string{source.node()}, others); err == nil {
				return nil
			}
		}
		return s.reserve(ctx, desired, source, allowed, others)
	}
	// The node of an earlier call was checked then.
	if present == nil || present.Spec.NodeName != node {
		only := ""
		if source.mustStay() {
			only = source.lv.Name
		}
		if err := others.refusal(node, only); err != nil {
			return err
		}
	}
	desired.Spec.NodeName = node
	return nil
}

// allowedNodes returns the nodes on which a volume may be, the preferred ones first; none if every node is allowed. It
// returns an error if no node is possible, or if a copy must be on the node of its source and may not.
func allowedNodes(source *copySource, requirement *csi.TopologyRequirement) ([]string, error) {
	requisite := nodesOf(requirement.GetRequisite())
	if source.mustStay() {
		if len(requisite) > 0 && !slices.Contains(requisite, source.node()) {
			return nil, status.Errorf(codes.ResourceExhausted, "the volume is a copy of %s, and its StorageClass has "+
				"%s %s, so it can only be on node %s", source.lv.Name, v1alpha1.SourcePlacementParameter,
				v1alpha1.SourceNodeOnly, source.node())
		}
		return []string{source.node()}, nil
	}
	allowed := append(nodesOf(requirement.GetPreferred()), requisite...)
	if requirement != nil && len(allowed) == 0 {
		return nil, status.Errorf(codes.InvalidArgument, "accessibility_requirements have no node (topology key %s)",
			v1alpha1.TopologyNodeKey)
	}
	return allowed, nil
}

// reserve selects the node with the most capacity among the allowed ones, and counts the volume there until the cache
// has it. It is serialized, so that concurrent claims do not all select the same node. A node with one of the others is
// selected only if no other node has enough capacity, and if the volume does not have to be apart.
func (s *ControllerServer) reserve(ctx context.Context, desired *topolvmv1.LogicalVolume, source *copySource,
	allowed []string, others neighbors) error {
	s.placing.Lock()
	defer s.placing.Unlock()
	s.placed.Delete(desired.Name)
	choice, err := s.bestNode(ctx, desired, source, allowed, others.nodes)
	if err == nil && choice.node == "" && len(others.nodes) > 0 && !others.spread.Required() {
		choice, err = s.bestNode(ctx, desired, source, allowed, nil)
		others = neighbors{}
	}
	if err != nil {
		return err
	}
	if choice.node == "" {
		return choice.refusal(desired, others)
	}
	desired.Spec.NodeName = choice.node
	s.placed.Store(desired.Name, desired.DeepCopy())
	return nil
}

// selectedNode is the annotation with which the scheduler sets the node of a claim's first Pod.
const selectedNode = "volume.kubernetes.io/selected-node"

// volumePrefix precedes the UID of the claim in the name of its volume.
const volumePrefix = "pvc-"

// claimOf returns the claim for which a volume is created, or nil if the request names none or it no longer exists. A
// claim with the same name and another UID is another claim.
func (s *ControllerServer) claimOf(ctx context.Context,
	request *csi.CreateVolumeRequest) (*corev1.PersistentVolumeClaim, error) {
	if request.GetParameters()[service.ClaimNameKey] == "" {
		return nil, nil
	}
	claim, err := readClaim(ctx, s.Client, request)
	if err == nil && isOther(claim, request) {
		claim, err = readClaim(ctx, s.Live, request) // The cache may be outdated.
	}
	if err != nil || isOther(claim, request) {
		return nil, err
	}
	return claim, nil
}

// readClaim returns the claim with the name in a request, or nil if there is none.
func readClaim(ctx context.Context, reader client.Reader,
	request *csi.CreateVolumeRequest) (*corev1.PersistentVolumeClaim, error) {
	parameters := request.GetParameters()
	claim := &corev1.PersistentVolumeClaim{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: parameters[service.ClaimNamespaceKey],
		Name: parameters[service.ClaimNameKey]}, claim)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "read claim %s: %v", service.ClaimOf(parameters), err)
	}
	return claim, nil
}

// isOther reports whether a claim, which can be nil, is not the one whose UID is in the name of a volume.
func isOther(claim *corev1.PersistentVolumeClaim, request *csi.CreateVolumeRequest) bool {
	uid, has := strings.CutPrefix(strings.ToLower(request.GetName()), volumePrefix)
	return has && claim != nil && uid != string(claim.UID)
}

// isScheduled reports whether the scheduler has selected a node for the claim, which is then the first one that is
// allowed. Without a claim, it is assumed to have.
func isScheduled(claim *corev1.PersistentVolumeClaim) bool {
	return claim == nil || claim.Annotations[selectedNode] != ""
}

func nodesOf(terms []*csi.Topology) []string {
	var nodes []string
	for _, term := range terms {
		if node := term.GetSegments()[v1alpha1.TopologyNodeKey]; node != "" {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// choice is the node that was selected for a volume, or "". most is the most capacity of a node in bytes, and full says
// which nodes have the capacity, and a thin pool that is too full for the data of a copy.
type choice struct {
	node string
	most int64
	full []string
}

// maxFull is the maximum number of nodes with a full pool in a message.
const maxFull = 8

func (c choice) refusal(desired *topolvmv1.LogicalVolume, others neighbors) error {
	if len(c.full) > 0 {
		return status.Errorf(codes.ResourceExhausted, "no node has room for a copy of %s in device class %q: %s%s",
			desired.Spec.Size.String(), desired.Spec.DeviceClass,
			strings.Join(c.full[:min(len(c.full), maxFull)], "; "), others.excluded())
	}
	return status.Errorf(codes.ResourceExhausted,
		"no node has enough capacity for %s in device class %q: the maximum is %s%s", desired.Spec.Size.String(),
		desired.Spec.DeviceClass, resource.NewQuantity(c.most, resource.BinarySI), others.excluded())
}

// bestNode returns the node that has room for a volume, for a copy also for its data, and of several the one with the
// most free capacity. It selects among the allowed nodes, or among all nodes if allowed is empty, without those in
// avoided.
func (s *ControllerServer) bestNode(ctx context.Context, desired *topolvmv1.LogicalVolume, source *copySource,
	allowed []string, avoided map[string]string) (choice, error) {
	nodes := &corev1.NodeList{}
	if err := s.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return choice{}, status.Errorf(codes.Unavailable, "list Nodes: %v", err)
	}
	pending, err := s.pending(ctx, desired.Spec.DeviceClass)
	if err != nil {
		return choice{}, err
	}
	registered, err := s.registeredNodes(ctx)
	if err != nil {
		return choice{}, err
	}
	needs, pools, err := s.needsOf(ctx, desired, source)
	if err != nil {
		return choice{}, err
	}
	var c choice
	usable := map[string]room.Node{}
	for _, each := range Candidates(nodes.Items, registered, pending, desired.Spec.DeviceClass) {
		if each.Problem != "" || len(allowed) > 0 && !slices.Contains(allowed, each.Node) || avoided[each.Node] != "" {
			continue
		}
		node := room.Node{Free: each.Room}
		if source.isCopiedTo(each.Node, desired.Spec.DeviceClass) {
			node.Pool = pools[each.Node]
		}
		c.most = max(c.most, each.Room)
		usable[each.Node] = node
		if why := node.Refusal(needs); why != "" && each.Room >= needs.Size {
			c.full = append(c.full, fmt.Sprintf("node %s %s", each.Node, why))
		}
	}
	c.node = room.Best(usable, needs)
	return c, nil
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroupnodestatuses,namespace=openshift-lvm-storage,verbs=list;watch

// needsOf returns what a volume needs on a node, and the thin pools of its device class by node. If the volume is
// empty, there are no pools: the node agents publish no capacity if a pool is too full for a new volume.
func (s *ControllerServer) needsOf(ctx context.Context, desired *topolvmv1.LogicalVolume,
	source *copySource) (room.Volume, map[string]*v1alpha1.ThinPoolStatus, error) {
	needs := room.Volume{Size: desired.Spec.Size.Value()}
	if source == nil {
		return needs, nil, nil
	}
	statuses := &v1alpha1.LVMVolumeGroupNodeStatusList{}
	if err := s.Client.List(ctx, statuses, client.UnsafeDisableDeepCopy); err != nil {
		return needs, nil, status.Errorf(codes.Unavailable, "list LVMVolumeGroupNodeStatuses: %v", err)
	}
	fallback, err := DefaultClass(ctx, s.Client)
	if err != nil {
		return needs, nil, err
	}
	now := time.Now()
	from := room.Pools(statuses.Items, cmp.Or(source.lv.Spec.DeviceClass, fallback), now)[source.node()]
	needs.Data = min(source.lv.Spec.Size.Value(), room.Copy(needs.Size, from).Data)
	return needs, room.Pools(statuses.Items, cmp.Or(desired.Spec.DeviceClass, fallback), now), nil
}

// Candidate is a node with its free capacity for a device class in bytes. Problem says why no volume is created there
// now, whatever its size; "" if volumes can be created.
type Candidate struct {
	Node    string
	Room    int64
	Problem string
}

// Candidates returns the candidates for a device class, one for each node. registered has the nodes on which a node
// agent runs, and pending the volumes that are requested and that the capacity of a node does not include yet.
func Candidates(nodes []corev1.Node, registered map[string]bool, pending Requests, class string) []Candidate {
	candidates := make([]Candidate, 0, len(nodes))
	for i := range nodes {
		node := &nodes[i]
		c := Candidate{Node: node.Name, Room: pending.Room(node, class)}
		switch {
		case node.Spec.Unschedulable:
			c.Problem = "is cordoned"
		case isNotReady(node):
			c.Problem = "is not ready"
		case !registered[node.Name]:
			c.Problem = "has no running node agent"
		case !Offers(node, class):
			c.Problem = fmt.Sprintf("does not offer device class %q", class)
		}
		candidates = append(candidates, c)
	}
	return candidates
}

// isNotReady reports whether a node is not ready, so that its capacity may be outdated, and it is unlikely to answer
// soon. A node without the condition Ready counts as ready.
func isNotReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status != corev1.ConditionTrue
		}
	}
	return false
}

// defaultClassKey is the suffix of the annotation for the default device class on Nodes.
const defaultClassKey = "00default"

// CapacityOf returns the capacity that a node offers for a device class, in bytes; 0 if it offers none. An empty class
// is the default one.
func CapacityOf(node client.Object, class string) int64 {
	if class == "" {
		class = defaultClassKey
	}
	room, err := strconv.ParseInt(node.GetAnnotations()[v1alpha1.CapacityAnnotationPrefix+class], 10, 64)
	if err != nil || room < 0 {
		return 0
	}
	return room
}

// Offers reports whether a node offers a device class.
func Offers(node client.Object, class string) bool {
	if class == "" {
		class = defaultClassKey
	}
	_, ok := node.GetAnnotations()[v1alpha1.CapacityAnnotationPrefix+class]
	return ok
}

// Requests are the sizes, in bytes, of the volumes of a class that are requested on a node and neither created nor
// refused yet. The capacity that the node reports does not include them.
type Requests map[string][]int64

// Room returns the capacity of a node for another volume of the class, in bytes. A request for more than the whole
// capacity of the node is not counted: the node will refuse it, and until then, it takes nothing from others.
func (r Requests) Room(node client.Object, class string) int64 {
	capacity := CapacityOf(node, class)
	room := capacity
	for _, size := range r[node.GetName()] {
		if size > 0 && size <= capacity {
			room = max(0, room-size)
		}
	}
	return room
}

// Add counts one more request.
func (r Requests) Add(node string, size int64) { r[node] = append(r[node], size) }

func (s *ControllerServer) pending(ctx context.Context, class string) (Requests, error) {
	list := &topolvmv1.LogicalVolumeList{}
	if err := s.Active.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, status.Errorf(codes.Unavailable, "list LogicalVolumes: %v", err)
	}
	pending := Pending(list.Items, class)
	known := map[string]bool{}
	for i := range list.Items {
		known[list.Items[i].Name] = true
	}
	// The cache does not have the volumes yet for which this process has just selected a node.
	s.placed.Range(func(name, desired any) bool {
		if lv, ok := desired.(*topolvmv1.LogicalVolume); ok && !known[lv.Name] && lv.Spec.DeviceClass == class {
			pending.Add(lv.Spec.NodeName, lv.Spec.Size.Value())
		}
		return true
	})
	return pending, nil
}

// Pending returns the requests of a class among all volumes.
func Pending(volumes []topolvmv1.LogicalVolume, class string) Requests {
	pending := Requests{}
	for i := range volumes {
		lv := &volumes[i]
		if lv.Spec.DeviceClass == class && IsPending(lv) {
			pending.Add(lv.Spec.NodeName, lv.Spec.Size.Value())
		}
	}
	return pending
}

// IsPending reports whether a volume is requested and neither created nor refused yet.
func IsPending(lv *topolvmv1.LogicalVolume) bool {
	return lv.Status.VolumeID == "" && lv.DeletionTimestamp.IsZero() && !service.IsRefusal(lv.Status.Code) &&
		!isMoveWithVolume(lv)
}

// isMoveWithVolume reports whether a LogicalVolume without a volume ID was created for a VolumeMove, and its node has
// its logical volume nevertheless: the target of a copy that has begun, and the owner of the volume on the earlier
// node.
func isMoveWithVolume(lv *topolvmv1.LogicalVolume) bool {
	return lv.Annotations[v1alpha1.RetireAnnotation] != "" ||
		lv.Annotations[v1alpha1.MoveVolumeAnnotation] != "" && lv.Annotations[v1alpha1.CopiedAnnotation] != ""
}

// IsRefused reports whether the node refused to create a volume.
func IsRefused(lv *topolvmv1.LogicalVolume) bool {
	return lv.Status.VolumeID == "" && lv.DeletionTimestamp.IsZero() && service.IsRefusal(lv.Status.Code)
}

// GetCapacity returns the free capacity for new volumes of a class, on one node or on all, and the maximum size of one
// volume.
func (s *ControllerServer) GetCapacity(ctx context.Context,
	request *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	class := request.GetParameters()[v1alpha1.DeviceClassParameter]
	if class == "" {
		var err error
		if class, err = DefaultClass(ctx, s.Client); err != nil {
			return nil, err
		}
	}
	pending, err := s.pending(ctx, class)
	if err != nil {
		return nil, err
	}
	nodes := &corev1.NodeList{}
	if topology := request.GetAccessibleTopology(); topology != nil {
		node := &corev1.Node{}
		err := s.Client.Get(ctx, client.ObjectKey{Name: topology.GetSegments()[v1alpha1.TopologyNodeKey]}, node)
		if client.IgnoreNotFound(err) != nil && !apierrors.IsInvalid(err) {
			return nil, status.Errorf(codes.Unavailable, "read the Node: %v", err)
		}
		if err == nil {
			nodes.Items = append(nodes.Items, *node)
		}
	} else if err := s.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, status.Errorf(codes.Unavailable, "list Nodes: %v", err)
	}
	registered, err := s.registeredNodes(ctx)
	if err != nil {
		return nil, err
	}
	var sum, most int64
	for i := range nodes.Items {
		if !registered[nodes.Items[i].Name] {
			continue
		}
		room := pending.Room(&nodes.Items[i], class)
		sum = add(sum, room)
		most = max(most, room)
	}
	return &csi.GetCapacityResponse{AvailableCapacity: sum, MaximumVolumeSize: wrapperspb.Int64(most)}, nil
}

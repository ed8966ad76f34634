// Package placement selects the nodes of volumes.
package placement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/internal/volume/room"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// Placer selects the nodes of volumes.
type Placer struct {
	Volumes *objects.Volumes
	// placing is locked while a node is selected. placed has the LogicalVolumes, by name, for which a call has selected
	// a node.
	placing sync.Mutex
	placed  sync.Map
	// groups are the spread groups for which a call selects a node.
	groups groupLocks
}

// Place selects the node of a volume. If the scheduler has selected a node for the claim, Place selects that one.
// Otherwise Place selects the node with the most capacity among the nodes in the request, or among all nodes. The node
// of the source of a copy (nil if the volume is empty) precedes others as volumespec.Source says. If an earlier call
// has already requested the volume from a node (present, nil if none), that node remains selected if it is still
// allowed, because it may create the volume at any moment. claim is nil if the request has none, or if it was deleted.
func (p *Placer) Place(ctx context.Context, desired, present *topolvmv1.LogicalVolume, source *volumespec.Source,
	request *csi.CreateVolumeRequest, claim *corev1.PersistentVolumeClaim) error {
	allowed, err := allowedNodes(source, request.GetAccessibilityRequirements())
	if err != nil {
		return err
	}
	spread := view.SpreadOf(cmp.Or(present, desired))
	if spread.Group == "" {
		return p.selectNode(ctx, desired, present, source, allowed, claim, neighbors{})
	}
	if err := p.groups.enter(ctx, spread.Group); err != nil {
		return err
	}
	defer p.groups.leave(spread.Group)
	others, err := p.neighborsOf(ctx, desired, spread)
	if err != nil {
		return err
	}
	if err := p.selectNode(ctx, desired, present, source, allowed, claim, others); err != nil {
		return err
	}
	p.placed.Store(desired.Name, desired.DeepCopy())
	return nil
}

// selectNode selects the node as described at Place. It returns an error if the volume must not be on the node of its
// source, or on the node that the scheduler has selected, because others are there.
func (p *Placer) selectNode(ctx context.Context, desired, present *topolvmv1.LogicalVolume,
	source *volumespec.Source, allowed []string, claim *corev1.PersistentVolumeClaim, others neighbors) error {
	node, given := givenNode(present, source, allowed, claim)
	if !given {
		if source.Prefers(allowed) && others.nodes[source.Node()] == "" {
			if err := p.reserve(ctx, desired, source, []string{source.Node()}, others); err == nil {
				return nil
			}
		}
		return p.reserve(ctx, desired, source, allowed, others)
	}
	// The node of an earlier call was checked then.
	if present == nil || present.Spec.NodeName != node {
		only := ""
		if source.MustStay() {
			only = source.LV.Name
		}
		if err := others.refusal(node, only); err != nil {
			return err
		}
	}
	desired.Spec.NodeName = node
	return nil
}

// givenNode returns the node that a volume must be on, or false if it can be selected.
func givenNode(present *topolvmv1.LogicalVolume, source *volumespec.Source, allowed []string,
	claim *corev1.PersistentVolumeClaim) (node string, given bool) {
	remains := present != nil && (len(allowed) == 0 || slices.Contains(allowed, present.Spec.NodeName))
	switch {
	case source.MustStay(), claim == nil && source.Prefers(allowed) && !remains:
		return source.Node(), true
	case claim == nil && source != nil && remains:
		return present.Spec.NodeName, true
	case isScheduled(claim) && len(allowed) > 0:
		return allowed[0], true
	case remains:
		return present.Spec.NodeName, true
	}
	return "", false
}

// allowedNodes returns the nodes on which a volume may be, the preferred ones first; none if every node is allowed. It
// returns an error if no node is possible, or if a copy must be on the node of its source and may not.
func allowedNodes(source *volumespec.Source, requirement *csi.TopologyRequirement) ([]string, error) {
	requisite := nodesOf(requirement.GetRequisite())
	if source.MustStay() {
		if len(requisite) > 0 && !slices.Contains(requisite, source.Node()) {
			return nil, status.Errorf(codes.ResourceExhausted, "the volume is a copy of %s, and its StorageClass has "+
				"%s %s, so it can only be on node %s", source.LV.Name, wellknown.SourcePlacementParameter,
				wellknown.SourceNodeOnly, source.Node())
		}
		return []string{source.Node()}, nil
	}
	allowed := append(nodesOf(requirement.GetPreferred()), requisite...)
	if requirement != nil && len(allowed) == 0 {
		return nil, status.Errorf(codes.InvalidArgument, "accessibility_requirements have no node (topology key %s)",
			wellknown.TopologyNodeKey)
	}
	return allowed, nil
}

// reserve selects the node with the most capacity among the allowed ones, and counts the volume there until the cache
// has it. It is serialized, so that concurrent claims do not all select the same node. A node with one of the others is
// selected only if no other node has enough capacity, and if the volume does not have to be apart.
func (p *Placer) reserve(ctx context.Context, desired *topolvmv1.LogicalVolume, source *volumespec.Source,
	allowed []string, others neighbors) error {
	p.placing.Lock()
	defer p.placing.Unlock()
	p.placed.Delete(desired.Name)
	choice, err := p.bestNode(ctx, desired, source, allowed, others.nodes)
	if err == nil && choice.node == "" && len(others.nodes) > 0 && !others.spread.Required() {
		choice, err = p.bestNode(ctx, desired, source, allowed, nil)
		others = neighbors{}
	}
	if err != nil {
		return err
	}
	if choice.node == "" {
		return choice.refusal(desired, others)
	}
	desired.Spec.NodeName = choice.node
	p.placed.Store(desired.Name, desired.DeepCopy())
	return nil
}

// selectedNode is the annotation with which the scheduler sets the node of a claim's first Pod.
const selectedNode = "volume.kubernetes.io/selected-node"

// ClaimOf returns the claim for which a volume is created, or nil if the request names none or it no longer exists. A
// claim with the same name and another UID is another claim.
func (p *Placer) ClaimOf(ctx context.Context,
	request *csi.CreateVolumeRequest) (*corev1.PersistentVolumeClaim, error) {
	if request.GetParameters()[service.ClaimNameKey] == "" {
		return nil, nil
	}
	claim, err := readClaim(ctx, p.Volumes.Client, request)
	if err == nil && isOther(claim, request) {
		claim, err = readClaim(ctx, p.Volumes.Live, request) // The cache may be outdated.
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
	uid, has := strings.CutPrefix(strings.ToLower(request.GetName()), wellknown.ClaimVolumePrefix)
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
		if node := term.GetSegments()[wellknown.TopologyNodeKey]; node != "" {
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
func (p *Placer) bestNode(ctx context.Context, desired *topolvmv1.LogicalVolume, source *volumespec.Source,
	allowed []string, avoided map[string]string) (choice, error) {
	nodes := &corev1.NodeList{}
	if err := p.Volumes.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return choice{}, status.Errorf(codes.Unavailable, "list Nodes: %v", err)
	}
	pending, err := p.Pending(ctx, desired.Spec.DeviceClass)
	if err != nil {
		return choice{}, err
	}
	registered, err := supply.RegisteredNodes(ctx, p.Volumes.Client)
	if err != nil {
		return choice{}, err
	}
	needs, pools, err := p.needsOf(ctx, desired, source)
	if err != nil {
		return choice{}, err
	}
	var c choice
	usable := map[string]room.Node{}
	for _, each := range supply.Candidates(nodes.Items, registered, pending, desired.Spec.DeviceClass) {
		if each.Problem != "" || len(allowed) > 0 && !slices.Contains(allowed, each.Node) || avoided[each.Node] != "" {
			continue
		}
		node := room.Node{Free: each.Room}
		if source.IsCopiedTo(each.Node, desired.Spec.DeviceClass) {
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
func (p *Placer) needsOf(ctx context.Context, desired *topolvmv1.LogicalVolume,
	source *volumespec.Source) (room.Volume, map[string]*v1alpha1.ThinPoolStatus, error) {
	needs := room.Volume{Size: desired.Spec.Size.Value()}
	if source == nil {
		return needs, nil, nil
	}
	statuses := &v1alpha1.LVMVolumeGroupNodeStatusList{}
	if err := p.Volumes.Client.List(ctx, statuses, client.UnsafeDisableDeepCopy); err != nil {
		return needs, nil, status.Errorf(codes.Unavailable, "list LVMVolumeGroupNodeStatuses: %v", err)
	}
	fallback, err := supply.DefaultClass(ctx, p.Volumes.Client)
	if err != nil {
		return needs, nil, err
	}
	now := time.Now()
	from := room.Pools(statuses.Items, cmp.Or(source.LV.Spec.DeviceClass, fallback), now)[source.Node()]
	needs.Data = min(source.LV.Spec.Size.Value(), room.Copy(needs.Size, from).Data)
	return needs, room.Pools(statuses.Items, cmp.Or(desired.Spec.DeviceClass, fallback), now), nil
}

// Pending returns the requests of a class, also those for which a call of this process has just selected a node.
func (p *Placer) Pending(ctx context.Context, class string) (supply.Requests, error) {
	list := &topolvmv1.LogicalVolumeList{}
	if err := p.Volumes.Active.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, status.Errorf(codes.Unavailable, "list LogicalVolumes: %v", err)
	}
	pending := supply.Pending(list.Items, class)
	known := map[string]bool{}
	for i := range list.Items {
		known[list.Items[i].Name] = true
	}
	// The cache does not have the volumes yet for which this process has just selected a node.
	p.placed.Range(func(name, desired any) bool {
		if lv, ok := desired.(*topolvmv1.LogicalVolume); ok && !known[lv.Name] && lv.Spec.DeviceClass == class {
			pending.Add(lv.Spec.NodeName, lv.Spec.Size.Value())
		}
		return true
	})
	return pending, nil
}

// Forget ends the reservation of a call for a LogicalVolume, which exists or is not created.
func (p *Placer) Forget(name string) { p.placed.Delete(name) }

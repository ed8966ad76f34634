// Package supply says what nodes offer: their capacity for each device class, what volumes that are requested take of
// it, and which nodes can have another volume.
package supply

import (
	"context"
	"fmt"
	"strconv"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

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
		case IsNotReady(node):
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

// IsNotReady reports whether a node is not ready, so that its capacity may be outdated, and it is unlikely to answer
// soon. A node without the condition Ready counts as ready.
func IsNotReady(node *corev1.Node) bool {
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
	room, err := strconv.ParseInt(node.GetAnnotations()[wellknown.CapacityAnnotationPrefix+class], 10, 64)
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
	_, ok := node.GetAnnotations()[wellknown.CapacityAnnotationPrefix+class]
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
	return view.IsRetired(lv) || view.MoveVolume(lv) != "" && view.HasCopied(lv)
}

// IsRefused reports whether the node refused to create a volume.
func IsRefused(lv *topolvmv1.LogicalVolume) bool {
	return lv.Status.VolumeID == "" && lv.DeletionTimestamp.IsZero() && service.IsRefusal(lv.Status.Code)
}

// DefaultClass returns the default device class of the LVMCluster, or "" if there is none.
func DefaultClass(ctx context.Context, reader client.Reader) (string, error) {
	clusters := &v1alpha1.LVMClusterList{}
	if err := reader.List(ctx, clusters); err != nil {
		return "", status.Errorf(codes.Unavailable, "list LVMClusters: %v", err)
	}
	for i := range clusters.Items {
		if class := classspec.Default(clusters.Items[i].Spec.Storage); class != "" {
			return class, nil
		}
	}
	return "", nil
}

// ThickClasses returns for each device class of the LVMClusters whether it is thick.
func ThickClasses(ctx context.Context, reader client.Reader) (map[string]bool, error) {
	clusters := &v1alpha1.LVMClusterList{}
	if err := reader.List(ctx, clusters); err != nil {
		return nil, status.Errorf(codes.Unavailable, "list LVMClusters: %v", err)
	}
	thick := map[string]bool{}
	for i := range clusters.Items {
		for _, class := range clusters.Items[i].Spec.Storage.DeviceClasses {
			thick[class.Name] = class.ThinPoolConfig == nil
		}
	}
	return thick, nil
}

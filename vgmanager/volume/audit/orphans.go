package audit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/topolvm/legacy"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// settleTime is how long something must be an orphan before it is reported. Volumes that are being created or
// removed are not orphans.
const settleTime = 30 * time.Second

// missingTime is how long an object must lack its logical volume before an event says so. Until then, the agent of a
// node that has it finds and reports it: it reads the condition of the object at most firstAge later.
const missingTime = 2*settleTime + firstAge + 30*time.Second

// orphan is an orphan with its device class.
type orphan struct {
	class string
	// object is the name of the LogicalVolume for which the logical volume was created, according to its tags.
	object string
	// owner is this LogicalVolume, if it names another node.
	owner *topolvmv1.LogicalVolume
	// place says where the data of an object without a logical volume is, or is "".
	place string
	// moving: it is fenced for a VolumeMove or a clone, or does not have all data.
	moving bool
	// existingGroup: an administrator created the volume group, so LVMRecoveries have no effect.
	existingGroup bool
	v1alpha1.OrphanStatus
}

func (o orphan) key() string { return o.class + "/" + string(o.Kind) + "/" + o.Name }

// compare returns logical volumes and objects without a counterpart, and objects that the operator marked as
// unclaimed.
func compare(volumes []engine.VolumeState, classes map[string]error, objects []topolvmv1.LogicalVolume) []orphan {
	wanted := map[string]bool{}
	there := map[string]bool{}
	for i := range objects {
		wanted[identity.Name(&objects[i])] = true
	}
	var found []orphan
	for _, v := range volumes {
		there[v.Name] = true
		if wanted[v.Name] {
			continue
		}
		o := orphan{class: v.Class, OrphanStatus: v1alpha1.OrphanStatus{
			Kind: v1alpha1.OrphanLogicalVolume, Name: v.VolumeGroup + "/" + v.Name,
			Size: resource.NewQuantity(v.Size, resource.BinarySI), Claim: identity.ClaimOf(v.Tags),
		}}
		o.object = identity.ObjectOf(v.Tags)
		o.moving = isCopy(v.Tags)
		o.existingGroup = v.ExistingVolumeGroup
		if !v.Created.IsZero() {
			o.Created = &metav1.Time{Time: v.Created}
		}
		found = append(found, o)
	}
	for i := range objects {
		lv := &objects[i]
		problem, known := classes[lv.Spec.DeviceClass]
		if lv.Status.VolumeID == "" || problem != nil || !known || !lv.DeletionTimestamp.IsZero() {
			continue
		}
		kind := v1alpha1.OrphanObject
		if there[lv.Status.VolumeID] {
			if !view.IsUnclaimed(lv) {
				continue
			}
			kind = v1alpha1.OrphanUnclaimed
		}
		size := lv.Spec.Size.DeepCopy()
		found = append(found, orphan{class: lv.Spec.DeviceClass, OrphanStatus: v1alpha1.OrphanStatus{
			Kind: kind, Name: lv.Name, Size: &size, Created: &lv.CreationTimestamp,
			Claim: view.Claim(lv),
		}})
	}
	slices.SortFunc(found, func(a, b orphan) int { return strings.Compare(a.key(), b.key()) })
	return found
}

// firstAge and othersAge are how long the result of a lookup is used that found the object on another node: the first
// one, because the agent of that node may not have reported yet that it lacks the volume, and later ones. A volume
// group that was moved can have many volumes.
const (
	firstAge  = time.Minute
	othersAge = 10 * time.Minute
)

// lookup is the result of the lookup of a logical volume whose object names another node.
type lookup struct {
	// until is when to look it up again.
	until time.Time
	// owner is the object if its node does not have the logical volume. Otherwise, or if it is an object of TopoLVM
	// before 0.15, owner is nil, and the logical volume is not reported.
	owner *topolvmv1.LogicalVolume
}

// lookUpOthers looks up the logical volumes for which this node has no object. If the object of one names another node,
// the volume group was moved to this node with its disks and may have been adopted, or the other node has the volume:
// then the logical volume is omitted, because it holds the data of a PersistentVolume. If the agent of the other node
// reports that it lacks the volume, the kind becomes OtherNode. If a lookup fails, the result before it is used;
// without one, the logical volume is omitted.
func (a *Auditor) lookUpOthers(ctx context.Context, found []orphan) []orphan {
	others := map[string]lookup{}
	// They are read once for all orphans.
	earlierVolumes := sync.OnceValues(func() (map[string]bool, error) { return a.earlierVolumes(ctx) })
	var orphans []orphan
	for _, o := range found {
		if o.Kind != v1alpha1.OrphanLogicalVolume {
			orphans = append(orphans, o)
			continue
		}
		key := o.key()
		last, known := a.others[key]
		if !known || !a.Now().Before(last.until) {
			owner, belongs, err := a.otherOwner(ctx, o, earlierVolumes)
			switch {
			case err != nil:
				log.FromContext(ctx).Error(err, "cannot look up the owner of a logical volume", "lv", o.Name)
				if !known {
					continue
				}
			case !belongs:
				orphans = append(orphans, o)
				continue
			default:
				last = lookup{until: a.Now().Add(firstAge), owner: owner}
				if known && owner == nil {
					last.until = a.Now().Add(othersAge)
				}
			}
		}
		others[key] = last
		if last.owner != nil {
			orphans = append(orphans, o.onOtherNode(last.owner))
		}
	}
	a.others = others
	return orphans
}

// onOtherNode returns the orphan as one whose object names another node.
func (o orphan) onOtherNode(owner *topolvmv1.LogicalVolume) orphan {
	o.Kind = v1alpha1.OrphanOtherNode
	o.owner = owner
	o.Object = owner.Name
	o.ObjectNode = owner.Spec.NodeName
	return o
}

// isCopy returns true for the tags of a logical volume that is or was moved or copied to another one, or does not have
// all data of its source: it is not the volume of its object, or not the only one.
func isCopy(tags []string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool {
		return tag == wellknown.CopyingTag || strings.HasPrefix(tag, wellknown.FencedTagPrefix) ||
			strings.HasPrefix(tag, wellknown.CopyOfTagPrefix) || strings.HasPrefix(tag, wellknown.BaseTagPrefix)
	})
}

// otherOwner returns in belongs whether the object of a logical volume exists and names another node, or is one of
// TopoLVM before 0.15. It returns the object if that node does not have the logical volume, and no move of the volume
// is in progress. A volume without tags is identified by its name, which is the UID of its object.
func (a *Auditor) otherOwner(ctx context.Context, o orphan,
	earlierVolumes func() (map[string]bool, error)) (owner *topolvmv1.LogicalVolume, belongs bool, err error) {
	object, err := a.objectElsewhere(ctx, o)
	if err != nil {
		return nil, false, err
	}
	if object == nil {
		_, volume, _ := strings.Cut(o.Name, "/")
		if o.object != "" || !uidPattern.MatchString(volume) {
			return nil, false, nil
		}
		volumes, err := earlierVolumes()
		return nil, volumes[volume], err
	}
	if !isMissing(object) || o.moving || !object.DeletionTimestamp.IsZero() || identity.IsMoved(object) ||
		fence.Holder(object) != "" || view.MovedVolume(object) != "" {
		return nil, true, nil
	}
	return object, true, nil
}

// objectElsewhere returns the object of a logical volume that names another node, or nil.
func (a *Auditor) objectElsewhere(ctx context.Context, o orphan) (*topolvmv1.LogicalVolume, error) {
	_, volume, _ := strings.Cut(o.Name, "/")
	elsewhere := func(lv *topolvmv1.LogicalVolume) bool {
		return lv.Spec.NodeName != a.Node && identity.Name(lv) == volume
	}
	if o.object != "" {
		lv := &topolvmv1.LogicalVolume{}
		err := a.Live.Get(ctx, client.ObjectKey{Name: o.object}, lv)
		if err != nil || !elsewhere(lv) {
			return nil, client.IgnoreNotFound(err)
		}
		return lv, nil
	}
	if !uidPattern.MatchString(volume) {
		return nil, nil // not a name of this product
	}
	list := &topolvmv1.LogicalVolumeList{}
	if err := a.Live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list LogicalVolumes: %w", err)
	}
	for i := range list.Items {
		if elsewhere(&list.Items[i]) {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// +kubebuilder:rbac:groups=topolvm.cybozu.com,resources=logicalvolumes,verbs=list

// earlierVolumes returns the logical volumes that LogicalVolumes or PersistentVolumes of TopoLVM before 0.15 have.
func (a *Auditor) earlierVolumes(ctx context.Context) (map[string]bool, error) {
	volumes := map[string]bool{}
	err := legacy.Each(ctx, a.Live, func(lv *earlierv1.LogicalVolume) {
		volumes[string(lv.UID)], volumes[lv.Status.VolumeID] = true, true
	})
	if err != nil {
		return nil, err
	}
	err = paging.Each(ctx, a.Live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			if source := list.Items[i].Spec.CSI; source != nil && source.Driver == wellknown.EarlierDriverName {
				volumes[source.VolumeHandle] = true
			}
		}
	})
	return volumes, err
}

// uidPattern matches a Kubernetes UID.
var uidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// settle keeps the orphans that were found for at least settleTime.
func (a *Auditor) settle(found []orphan, classes map[string]error) {
	since := map[string]time.Time{}
	orphans := map[string][]v1alpha1.OrphanStatus{}
	for class, problem := range classes {
		if class != "" && problem == nil {
			orphans[class] = nil
		}
	}
	for _, o := range found {
		first, known := a.since[o.key()]
		if !known {
			first = a.Now()
			// Run the next audit when the orphan is old enough.
			time.AfterFunc(settleTime+auditGap, a.Wake)
		}
		since[o.key()] = first
		if a.Now().Sub(first) >= settleTime {
			orphans[o.class] = append(orphans[o.class], o.OrphanStatus)
		}
	}
	a.since = since
	a.mu.Lock()
	same := maps.EqualFunc(a.orphans, orphans, func(x, y []v1alpha1.OrphanStatus) bool {
		return equality.Semantic.DeepEqual(x, y)
	})
	a.orphans = orphans
	a.mu.Unlock()
	if same {
		return
	}
	for _, changed := range a.changed {
		changed()
	}
}

// Events about orphans.
var (
	// orphanVolume is a Warning event on the Node: a logical volume of this cluster has no LogicalVolume object, and
	// takes up space.
	// What to do: if its data is not needed, create an LVMRecovery with `action: DeleteOrphans`, or in an
	// `existingVolumeGroup` run the command in the note; see [how to remove orphans](../how-to/orphans.md).
	orphanVolume = event.Warning("OrphanLogicalVolume", "Audit",
		"logical volume %s on node %s (%s%s) has no LogicalVolume object: it takes up space, and nothing in this "+
			"cluster uses it: if its data is not needed, %s")
	// orphanObject is a Warning event on the LogicalVolume: the node does not have its logical volume. It is on another
	// node, it was removed manually, or its disks were replaced.
	// What to do: if the note names another node, import the volume there, see
	// [how to remove orphans](../how-to/orphans.md#a-volume-whose-object-names-another-node). Otherwise, restore the
	// data from a backup into a new claim, then delete this one.
	orphanObject = event.Warning("LogicalVolumeMissing", "Audit",
		"node %s does not have the logical volume of this object: %s")
	// orphanOtherNode is a Warning event on the LogicalVolume: its data is on another node than the LogicalVolume
	// names, and that node does not have it. This happens if etcd is restored from a backup that is older than a
	// VolumeMove.
	// What to do: create an LVMRecovery with `action: ImportVolumes` for the node in the note; see
	// [how to restore etcd](../how-to/restore-etcd.md). Do not delete the claim.
	orphanOtherNode = event.Warning("VolumeOnOtherNode", "Audit",
		"node %s does not have the logical volume of this object: %s")
)

// onNode says where the data of a LogicalVolume is, and how its objects get there.
func onNode(node, class, volume string) string {
	_, name, _ := strings.Cut(volume, "/")
	return fmt.Sprintf("the data is on node %s, logical volume %s: do not delete the claim; create an LVMRecovery "+
		"{nodeName: %s, deviceClassName: %s, action: %s, volumes: [%s]}, which moves the objects to that node and "+
		"changes no data", node, volume, node, class, v1alpha1.RecoveryImportVolumes, name)
}

// elsewhere returns where other nodes have the data of LogicalVolumes that their nodes lack, by the name of the
// LogicalVolume.
func (a *Auditor) elsewhere(ctx context.Context) (map[string]string, error) {
	places := map[string]string{}
	err := paging.Each(ctx, a.Live, &v1alpha1.LVMVolumeGroupNodeStatusList{},
		func(list *v1alpha1.LVMVolumeGroupNodeStatusList) {
			for i := range list.Items {
				for _, class := range list.Items[i].Status.NodeStatus {
					for _, o := range class.Orphans {
						if o.Kind == v1alpha1.OrphanOtherNode && o.ObjectNode == a.Node {
							places[o.Object] = onNode(list.Items[i].Name, class.Name, o.Name)
						}
					}
				}
			}
		}, client.InNamespace(a.Namespace))
	return places, err
}

// reportOrphans emits one event for each orphan.
func (a *Auditor) reportOrphans(ctx context.Context, found []orphan, objects []topolvmv1.LogicalVolume) {
	told := map[string]bool{}
	// They are read once for all orphans.
	elsewhere := sync.OnceValues(func() (map[string]string, error) { return a.elsewhere(ctx) })
	for _, o := range found {
		age := a.Now().Sub(a.since[o.key()])
		if age < settleTime || o.Kind == v1alpha1.OrphanObject && age < missingTime {
			continue
		}
		if a.told[o.key()] {
			told[o.key()] = true
			continue
		}
		if o.Kind == v1alpha1.OrphanObject {
			places, err := elsewhere()
			if err != nil {
				log.FromContext(ctx).Error(err, "cannot look for a volume on other nodes", "logicalVolume", o.Name)
				continue // Its event would say that the data is lost.
			}
			o.place = places[o.Name]
		}
		told[o.key()] = true
		log.FromContext(ctx).Info("found an orphan", "deviceClass", o.class, "kind", o.Kind, "name", o.Name,
			"claim", o.Claim)
		a.send(ctx, o, objects)
	}
	a.told = told
}

func (a *Auditor) send(ctx context.Context, o orphan, objects []topolvmv1.LogicalVolume) {
	if o.Kind == v1alpha1.OrphanUnclaimed {
		return // The operator found it and reports it.
	}
	if o.Kind == v1alpha1.OrphanObject {
		at := slices.IndexFunc(objects, func(lv topolvmv1.LogicalVolume) bool { return lv.Name == o.Name })
		why := cmp.Or(o.place, "it was removed manually, or its disks were replaced. Restore the data from a backup "+
			"into a new claim, then delete this one")
		a.Recorder.Eventf(&objects[at], nil, orphanObject.Type, orphanObject.Reason, orphanObject.Action,
			orphanObject.Text, a.Node, why)
		return
	}
	if o.Kind == v1alpha1.OrphanOtherNode {
		a.Recorder.Eventf(o.owner, nil, orphanOtherNode.Type, orphanOtherNode.Reason, orphanOtherNode.Action,
			orphanOtherNode.Text, o.ObjectNode, onNode(a.Node, o.class, o.Name))
		return
	}
	node := &corev1.Node{}
	if err := a.Client.Get(ctx, client.ObjectKey{Name: a.Node}, node); err != nil {
		log.FromContext(ctx).Error(err, "cannot send an event about an orphan", "node", a.Node)
		return
	}
	_, name, _ := strings.Cut(o.Name, "/")
	claim := ""
	if o.Claim != "" {
		claim = ", created for " + o.Claim
	}
	remedy := fmt.Sprintf("create an LVMRecovery {nodeName: %s, deviceClassName: %s, action: %s, volumes: [%s]}, "+
		"which lists what it deletes, and deletes nothing until it is approved", a.Node, o.class,
		v1alpha1.RecoveryDeleteOrphans, name)
	if o.existingGroup {
		remedy = "run on the node: lvremove " + o.Name
	}
	a.Recorder.Eventf(node, nil, orphanVolume.Type, orphanVolume.Reason, orphanVolume.Action, orphanVolume.Text, o.Name,
		a.Node, o.Size, claim, remedy)
}

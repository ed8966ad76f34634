package logicalvolume

import (
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
	"github.com/lvm-storage/lvm-operator/internal/earlier"
	"github.com/lvm-storage/lvm-operator/internal/event"
	"github.com/lvm-storage/lvm-operator/internal/paging"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
)

// settleTime is how long something must be an orphan before it is reported. Volumes that are being created or
// removed are not orphans.
const settleTime = 30 * time.Second

// orphan is an orphan with its device class.
type orphan struct {
	class string
	// object is the name of the LogicalVolume for which the logical volume was created, according to its tags.
	object string
	// existingGroup: an administrator created the volume group, so LVMRecoveries have no effect.
	existingGroup bool
	v1alpha1.OrphanStatus
}

func (o orphan) key() string { return o.class + "/" + string(o.Kind) + "/" + o.Name }

// compare returns logical volumes and objects without a counterpart, and objects that the operator marked as
// unclaimed.
func compare(volumes []lvmd.VolumeState, classes map[string]error, objects []topolvmv1.LogicalVolume) []orphan {
	wanted := map[string]bool{}
	there := map[string]bool{}
	for i := range objects {
		wanted[name(&objects[i])] = true
	}
	var found []orphan
	for _, v := range volumes {
		there[v.Name] = true
		if wanted[v.Name] {
			continue
		}
		o := orphan{class: v.Class, OrphanStatus: v1alpha1.OrphanStatus{
			Kind: v1alpha1.OrphanLogicalVolume, Name: v.VolumeGroup + "/" + v.Name,
			Size: resource.NewQuantity(v.Size, resource.BinarySI), Claim: claimOf(v.Tags),
		}}
		o.object = objectOf(v.Tags)
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
			if _, unclaimed := lv.Annotations[v1alpha1.UnclaimedAnnotation]; !unclaimed {
				continue
			}
			kind = v1alpha1.OrphanUnclaimed
		}
		size := lv.Spec.Size.DeepCopy()
		found = append(found, orphan{class: lv.Spec.DeviceClass, OrphanStatus: v1alpha1.OrphanStatus{
			Kind: kind, Name: lv.Name, Size: &size, Created: &lv.CreationTimestamp,
			Claim: lv.Annotations[v1alpha1.ClaimAnnotation],
		}})
	}
	slices.SortFunc(found, func(a, b orphan) int { return strings.Compare(a.key(), b.key()) })
	return found
}

// othersAge is how long the result of a lookup is used that found the object on another node, because a volume group
// that was moved can have many volumes.
const othersAge = 10 * time.Minute

// withoutOthers omits the logical volumes of objects of other nodes. Their volume group was moved to this node with
// its disks and may have been adopted, and they hold the data of a PersistentVolume. It also omits volumes whose
// lookup fails.
func (a *Auditor) withoutOthers(ctx context.Context, found []orphan) []orphan {
	others := map[string]time.Time{}
	// They are read once for all orphans.
	earlierVolumes := sync.OnceValues(func() (map[string]bool, error) { return a.earlierVolumes(ctx) })
	orphans := slices.DeleteFunc(found, func(o orphan) bool {
		if o.Kind != v1alpha1.OrphanLogicalVolume {
			return false
		}
		at, known := a.others[o.key()]
		if known && a.now().Sub(at) < othersAge {
			others[o.key()] = at
			return true
		}
		belongs, err := a.belongsToOther(ctx, o, earlierVolumes)
		if err != nil {
			log.FromContext(ctx).Error(err, "cannot look up the owner of a logical volume", "lv", o.Name)
			return true
		}
		if belongs {
			others[o.key()] = a.now()
		}
		return belongs
	})
	a.others = others
	return orphans
}

// belongsToOther returns true if the object of a logical volume exists and is on another node, or is one of TopoLVM
// before 0.15. A volume without tags is identified by its name, which is the UID of its object.
func (a *Auditor) belongsToOther(ctx context.Context, o orphan,
	earlierVolumes func() (map[string]bool, error)) (bool, error) {
	_, volume, _ := strings.Cut(o.Name, "/")
	if o.object != "" {
		lv := &topolvmv1.LogicalVolume{}
		err := a.Live.Get(ctx, client.ObjectKey{Name: o.object}, lv)
		if err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return lv.Spec.NodeName != a.Node && name(lv) == volume, nil
	}
	if !uidPattern.MatchString(volume) {
		return false, nil // not a name of this product
	}
	list := &topolvmv1.LogicalVolumeList{}
	if err := a.Live.List(ctx, list); err != nil {
		return false, fmt.Errorf("list LogicalVolumes: %w", err)
	}
	if slices.ContainsFunc(list.Items, func(lv topolvmv1.LogicalVolume) bool {
		return lv.Spec.NodeName != a.Node && name(&lv) == volume
	}) {
		return true, nil
	}
	volumes, err := earlierVolumes()
	return volumes[volume], err
}

// +kubebuilder:rbac:groups=topolvm.cybozu.com,resources=logicalvolumes,verbs=list

// earlierVolumes returns the logical volumes that LogicalVolumes or PersistentVolumes of TopoLVM before 0.15 have.
func (a *Auditor) earlierVolumes(ctx context.Context) (map[string]bool, error) {
	volumes := map[string]bool{}
	err := earlier.Each(ctx, a.Live, func(lv *earlierv1.LogicalVolume) {
		volumes[string(lv.UID)], volumes[lv.Status.VolumeID] = true, true
	})
	if err != nil {
		return nil, err
	}
	err = paging.Each(ctx, a.Live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			if source := list.Items[i].Spec.CSI; source != nil && source.Driver == v1alpha1.EarlierDriverName {
				volumes[source.VolumeHandle] = true
			}
		}
	})
	return volumes, err
}

// uidPattern matches a Kubernetes UID.
var uidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// objectOf returns the name of the LogicalVolume for which a logical volume was created. It returns "" for a volume
// of an older version.
func objectOf(tags []string) string {
	for _, tag := range tags {
		if object, ok := strings.CutPrefix(tag, v1alpha1.VolumeNameTagPrefix); ok {
			return object
		}
	}
	return ""
}

func claimOf(tags []string) string {
	for _, tag := range tags {
		if claim, ok := strings.CutPrefix(tag, v1alpha1.VolumeClaimTagPrefix); ok {
			return claim
		}
	}
	return ""
}

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
			first = a.now()
			// Run the next audit when the orphan is old enough.
			time.AfterFunc(settleTime+auditGap, a.Wake)
		}
		since[o.key()] = first
		if a.now().Sub(first) >= settleTime {
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
	// orphanObject is a Warning event on the LogicalVolume: the node does not have its logical volume. It was removed
	// manually, or its disks were replaced.
	// What to do: restore the data from a backup into a new claim, then delete this one.
	orphanObject = event.Warning("LogicalVolumeMissing", "Audit",
		"node %s does not have the logical volume of this object: it was removed manually, or its disks were "+
			"replaced. Restore the data from a backup into a new claim, then delete this one")
)

// reportOrphans emits one event for each orphan.
func (a *Auditor) reportOrphans(ctx context.Context, found []orphan, objects []topolvmv1.LogicalVolume) {
	told := map[string]bool{}
	for _, o := range found {
		if a.now().Sub(a.since[o.key()]) < settleTime {
			continue
		}
		told[o.key()] = true
		if a.told[o.key()] {
			continue
		}
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
		a.Recorder.Eventf(&objects[at], nil, orphanObject.Type, orphanObject.Reason, orphanObject.Action,
			orphanObject.Text, a.Node)
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

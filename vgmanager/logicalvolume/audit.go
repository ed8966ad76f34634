package logicalvolume

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/event"
	"github.com/lvm-storage/lvm-operator/internal/metric"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
)

const (
	// auditInterval is the interval of audits without a change. An audit starts no process.
	auditInterval = time.Minute
	// auditGap is the minimum time between two audits.
	auditGap = 2 * time.Second
	// settleTime is how long something must be an orphan before it is reported. Volumes that are being created or
	// removed are not orphans.
	settleTime = 30 * time.Second
	// blindAudits is the number of consecutive audits that cannot read the volumes after which their metrics end.
	blindAudits = 3
)

// States returns the state of the logical volumes of this node. lvmd.Engine implements it.
type States interface {
	// Volumes returns the volumes of all classes. It also returns every class, with an error if the class is not
	// available.
	Volumes(ctx context.Context) (volumes []lvmd.VolumeState, classes map[string]error, err error)
	Subscribe(changed func())
	TagLV(ctx context.Context, class, name string, add, remove []string) error
}

// FileSystems checks the mounted file systems of this node. driver.FileSystems implements it.
type FileSystems interface {
	// Problems returns what is wrong with the file systems of devices, by "MAJOR:MINOR". The argument has the names
	// of their volumes.
	Problems(ctx context.Context, volumes map[string]string) (map[string]string, error)
}

// Auditor compares LogicalVolume objects with logical volumes. It reports orphans, writes the problems of a logical
// volume to its object, and tags the logical volumes that an older version created. It removes nothing. It implements
// prometheus.Collector.
type Auditor struct {
	AuditorOptions
	now     func() time.Time
	notices chan struct{}

	// since is when an orphan was first found. told has the orphans with an event. Only audit uses them.
	since map[string]time.Time
	told  map[string]bool
	// others are the logical volumes of objects of other nodes, with the time of the last lookup.
	others map[string]time.Time

	mu      sync.Mutex
	orphans map[string][]v1alpha1.OrphanStatus // by device class
	count   map[string]int                     // logical volumes by device class
	volumes []volumeMetrics                    // at most MaxVolumes
	broken  []volumeMetrics                    // volumes with a broken file system, at most maxBroken
	blind   int                                // consecutive audits that could not read the volumes
}

// AuditorOptions configures an Auditor.
type AuditorOptions struct {
	// Client reads LogicalVolumes and the Node from a cache. Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Node is the name of this node. Cluster is the identity of the Kubernetes cluster.
	Node, Cluster string
	States        States
	// FileSystems can be nil. Then file systems are not checked.
	FileSystems FileSystems
	Recorder    event.Recorder
	// MaxVolumes is the maximum number of volumes with their own metrics. 0 disables them.
	MaxVolumes int
}

// NewAuditor returns an Auditor.
func NewAuditor(o AuditorOptions) *Auditor {
	a := &Auditor{
		AuditorOptions: o, now: time.Now, notices: make(chan struct{}, 1),
		since: map[string]time.Time{}, told: map[string]bool{}, others: map[string]time.Time{},
		orphans: map[string][]v1alpha1.OrphanStatus{},
	}
	o.States.Subscribe(a.Wake)
	return a
}

// Wake requests an audit. It never blocks.
func (a *Auditor) Wake() {
	select {
	case a.notices <- struct{}{}:
	default:
	}
}

// Orphans returns the sorted orphans of a device class.
func (a *Auditor) Orphans(class string) []v1alpha1.OrphanStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.orphans[class])
}

// NeedLeaderElection returns false, because every node has an Auditor.
func (a *Auditor) NeedLeaderElection() bool { return false }

// Start audits until ctx ends. It implements manager.Runnable.
func (a *Auditor) Start(ctx context.Context) error {
	for {
		if err := a.audit(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot compare logical volumes with their objects", "node", a.Node)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(auditGap):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(auditInterval):
		case <-a.notices:
		}
	}
}

// audit runs one audit. A volume in a class that is not available does not count as missing.
func (a *Auditor) audit(ctx context.Context) error {
	// The objects are read last, because an object is created before its logical volume and deleted after it.
	volumes, classes, err := a.States.Volumes(ctx)
	a.noteRead(err)
	if err != nil {
		return err
	}
	if err := a.lookAtFileSystems(ctx, volumes); err != nil {
		return err
	}
	list := &topolvmv1.LogicalVolumeList{}
	if err := a.Client.List(ctx, list); err != nil {
		return fmt.Errorf("list LogicalVolumes: %w", err)
	}
	objects := slices.DeleteFunc(list.Items,
		func(lv topolvmv1.LogicalVolume) bool { return lv.Spec.NodeName != a.Node })
	found := a.withoutOthers(ctx, compare(volumes, classes, objects))
	a.settle(found, classes)
	a.measure(volumes)
	a.tell(ctx, found, objects)
	return errors.Join(a.mark(ctx, objects, conditions(volumes, classes, objects)), a.adopt(ctx, volumes, objects))
}

// lookAtFileSystems adds the problems of its file system to the condition of each volume, and stores them for the
// metric.
func (a *Auditor) lookAtFileSystems(ctx context.Context, volumes []lvmd.VolumeState) error {
	if a.FileSystems == nil {
		return nil
	}
	names := map[string]string{}
	for _, v := range volumes {
		if v.Device != "" {
			names[v.Device] = v.VolumeGroup + "/" + v.Name
		}
	}
	problems, err := a.FileSystems.Problems(ctx, names)
	if err != nil {
		return err
	}
	var broken []lvmd.VolumeState
	for i := range volumes {
		v := &volumes[i]
		problem := problems[v.Device]
		if problem == "" {
			continue
		}
		broken = append(broken, *v)
		if v.Condition != "" {
			problem += "; " + v.Condition
		}
		v.Condition = problem
	}
	_, list := newVolumeMetrics(broken, maxBroken)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = list
	return nil
}

func (a *Auditor) noteRead(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.blind++; err == nil {
		a.blind = 0
	}
}

// orphan is an orphan with its device class.
type orphan struct {
	class string
	// object is the name of the LogicalVolume for which the logical volume was created, according to its tags.
	object string
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
	orphans := slices.DeleteFunc(found, func(o orphan) bool {
		if o.Kind != v1alpha1.OrphanLogicalVolume {
			return false
		}
		at, known := a.others[o.key()]
		if known && a.now().Sub(at) < othersAge {
			others[o.key()] = at
			return true
		}
		belongs, err := a.belongsToOther(ctx, o)
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

// belongsToOther returns true if the object of a logical volume exists and is on another node. A volume without tags
// is identified by its name, which is the UID of its object.
func (a *Auditor) belongsToOther(ctx context.Context, o orphan) (bool, error) {
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
	return slices.ContainsFunc(list.Items, func(lv topolvmv1.LogicalVolume) bool {
		return lv.Spec.NodeName != a.Node && name(&lv) == volume
	}), nil
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
	a.orphans = orphans
	a.mu.Unlock()
}

// Events about orphans.
var (
	// orphanVolume is a Warning event on the Node: a logical volume of this cluster has no LogicalVolume object, and
	// takes up space.
	// What to do: if its data is not needed, run `lvremove` on the node; see [how to find
	// orphans](../how-to/orphans.md).
	orphanVolume = event.Warning("OrphanLogicalVolume", "Audit",
		"logical volume %s on node %s (%s bytes%s) has no LogicalVolume object: it takes room and is used by nobody "+
			"of this cluster; nothing removes it but you: if its data is not needed, run on the node: lvremove %s")
	// orphanObject is a Warning event on the LogicalVolume: the node does not have its logical volume. It was removed
	// by hand, or its disks were replaced.
	// What to do: restore the data from a backup into a new claim, then delete this one.
	orphanObject = event.Warning("LogicalVolumeMissing", "Audit",
		"node %s does not have the logical volume of this object: was it removed by hand, or its disks replaced? "+
			"Restore the data from a backup into a new claim, then delete this one")
)

// tell emits one event for each orphan.
func (a *Auditor) tell(ctx context.Context, found []orphan, objects []topolvmv1.LogicalVolume) {
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
	claim := ""
	if o.Claim != "" {
		claim = ", made for " + o.Claim
	}
	a.Recorder.Eventf(node, nil, orphanVolume.Type, orphanVolume.Reason, orphanVolume.Action, orphanVolume.Text, o.Name,
		a.Node, o.Size, claim, o.Name)
}

// conditions returns the problems of the logical volume of each object, by the name of the object.
func conditions(volumes []lvmd.VolumeState, classes map[string]error,
	objects []topolvmv1.LogicalVolume) map[string]string {
	states := map[string]lvmd.VolumeState{}
	for _, v := range volumes {
		states[v.Name] = v
	}
	wrong := map[string]string{}
	for i := range objects {
		lv := &objects[i]
		problem, known := classes[lv.Spec.DeviceClass]
		if lv.Status.VolumeID == "" || !lv.DeletionTimestamp.IsZero() {
			continue
		}
		state, there := states[lv.Status.VolumeID]
		switch {
		case !known:
			wrong[lv.Name] = fmt.Sprintf("device class %s is not set up on node %s", lv.Spec.DeviceClass,
				lv.Spec.NodeName)
		case problem != nil:
			wrong[lv.Name] = status.Convert(problem).Message()
		case !there:
			wrong[lv.Name] = fmt.Sprintf("node %s has no logical volume %s", lv.Spec.NodeName, lv.Status.VolumeID)
		case state.Condition != "":
			wrong[lv.Name] = state.Condition
		}
	}
	return wrong
}

// mark writes the problems of its logical volume to each object, if they changed.
func (a *Auditor) mark(ctx context.Context, objects []topolvmv1.LogicalVolume, wrong map[string]string) error {
	var errs []error
	for i := range objects {
		lv := &objects[i]
		text, marked := lv.Annotations[v1alpha1.ConditionAnnotation]
		want := wrong[lv.Name]
		if text == want && marked == (want != "") {
			continue
		}
		before := lv.DeepCopy()
		delete(lv.Annotations, v1alpha1.ConditionAnnotation)
		if want != "" {
			if lv.Annotations == nil {
				lv.Annotations = map[string]string{}
			}
			lv.Annotations[v1alpha1.ConditionAnnotation] = want
		}
		errs = append(errs, client.IgnoreNotFound(a.Client.Patch(ctx, lv, client.MergeFrom(before))))
	}
	return errors.Join(errs...)
}

var orphanFamily = metric.NewGauge("lvms_orphan_logical_volumes",
	"Number of logical volumes without a LogicalVolume object (kind=LogicalVolume), of LogicalVolume objects without "+
		"a logical volume (kind=Object), and of volumes that no PersistentVolume, no snapshot and no claim knows "+
		"(kind=Unclaimed).",
	"node", "device_class", "kind")

// Families are all metrics of the Auditor.
var Families = []metric.Family{orphanFamily, countFamily, sizeFamily, writtenFamily, readOnlyFamily, brokenFamily}

// Describe implements prometheus.Collector.
func (a *Auditor) Describe(to chan<- *prometheus.Desc) { metric.Describe(to, Families) }

// Collect implements prometheus.Collector. It reports nothing for a device class that is not available, and no
// volumes at all after blindAudits failed audits, because the values would be outdated.
func (a *Auditor) Collect(to chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.blind >= blindAudits {
		return
	}
	for class, orphans := range a.orphans {
		count := map[v1alpha1.OrphanKind]int{v1alpha1.OrphanLogicalVolume: 0, v1alpha1.OrphanObject: 0,
			v1alpha1.OrphanUnclaimed: 0}
		for _, o := range orphans {
			count[o.Kind]++
		}
		for kind, n := range count {
			orphanFamily.Send(to, float64(n), a.Node, class, string(kind))
		}
		countFamily.Send(to, float64(a.count[class]), a.Node, class)
	}
	for _, v := range a.volumes {
		v.collect(to, a.Node)
	}
	for _, v := range a.broken {
		brokenFamily.Send(to, 1, v.labels(a.Node)...)
	}
}

// maxAdopted is the maximum number of volumes to tag in one audit. Each one requires a command.
const maxAdopted = 10

// adopt tags the logical volumes that an older version created without tags.
func (a *Auditor) adopt(ctx context.Context, volumes []lvmd.VolumeState, objects []topolvmv1.LogicalVolume) error {
	owners := map[string]*topolvmv1.LogicalVolume{}
	for i := range objects {
		if lv := &objects[i]; lv.Status.VolumeID != "" && lv.DeletionTimestamp.IsZero() {
			owners[lv.Status.VolumeID] = lv
		}
	}
	adopted := 0
	for _, v := range volumes {
		owner := owners[v.Name]
		tagged := slices.ContainsFunc(v.Tags,
			func(tag string) bool { return strings.HasPrefix(tag, v1alpha1.VolumeUIDTagPrefix) })
		if owner == nil || tagged {
			continue
		}
		if adopted++; adopted > maxAdopted {
			a.Wake()
			return nil
		}
		claim, err := a.claim(ctx, owner)
		if err != nil {
			return err
		}
		if err := a.States.TagLV(ctx, v.Class, v.Name, tagsOf(owner, a.Cluster, claim), nil); err != nil {
			return fmt.Errorf("tag logical volume %s: %w", v.Name, err)
		}
		log.FromContext(ctx).Info("tagged a logical volume of an older version", "deviceClass", v.Class, "lv",
			v.Name, "claim", claim)
	}
	return nil
}

// claim returns the claim of a volume. If the object does not have it, claim reads the PersistentVolume with the same
// name.
func (a *Auditor) claim(ctx context.Context, lv *topolvmv1.LogicalVolume) (string, error) {
	if claim := lv.Annotations[v1alpha1.ClaimAnnotation]; claim != "" {
		return claim, nil
	}
	volume := &corev1.PersistentVolume{}
	err := a.Live.Get(ctx, client.ObjectKey{Name: lv.Name}, volume)
	if err != nil || volume.Spec.ClaimRef == nil {
		return "", client.IgnoreNotFound(err)
	}
	return volume.Spec.ClaimRef.Namespace + "/" + volume.Spec.ClaimRef.Name, nil
}

package volumeimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/topolvm/legacy"
)

const (
	// earlierInterval is the interval at which volumes of the earlier driver are looked for, and earlierWaiting the
	// shortest one while a node agent must act.
	earlierInterval = time.Minute
	earlierWaiting  = 5 * time.Second
)

// managedByLabel with the value managedBy marks a CSIDriver that this operator created.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "lvms-operator"
)

// earlierVolumeNotServed is a Warning event on the PersistentVolume: its driver is topolvm.cybozu.com, and the node
// agent does not serve it, so no Pod can mount it.
// What to do: see the note; [how to migrate volumes](../how-to/migrate-earlier-topolvm.md) explains what is required.
var earlierVolumeNotServed = event.Warning("EarlierVolumeNotServed", "Serve", "the volume is not served: %s")

// earlierVolumes lets node agents serve the volumes of TopoLVM before 0.15 before they are migrated. For each bound
// PersistentVolume of the earlier driver, it creates a LogicalVolume of this driver for the same logical volume, like
// the first step of a migration, and sets EarlierDriverAnnotation. It does nothing for a node on which TopoLVM runs.
//
// While the controller of TopoLVM does not run either, it does what a provisioner and a snapshotter of the earlier
// driver must do: it deletes released volumes and deleted snapshots, and says which StorageClass new claims need. It
// deletes a logical volume only through the LogicalVolume of this driver. It also removes what TopoLVM wrote to Nodes.
type earlierVolumes struct {
	*Controller
	emitter *event.Emitter
	// active has at least the claims that are not settled.
	active client.Reader
	// told has the nodes and Pods that were logged because TopoLVM runs there.
	told map[string]bool
	// refused are the claims with the event EarlierStorageClass.
	refused map[types.UID]client.Object
	// isServing is true if EarlierServed was called.
	isServing bool
}

func newEarlierVolumes(c *Controller, active client.Reader) *earlierVolumes {
	return &earlierVolumes{Controller: c, emitter: event.NewEmitter(c.recorder), active: active,
		told: map[string]bool{}, refused: map[types.UID]client.Object{}}
}

// NeedLeaderElection returns true: only one process may create objects.
func (e *earlierVolumes) NeedLeaderElection() bool { return true }

// Start looks for volumes until the context ends. Errors are logged, and tried again after a minute.
func (e *earlierVolumes) Start(ctx context.Context) error {
	interval := earlierWaiting
	for {
		waits, err := e.pass(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot provide the volumes of an earlier TopoLVM to the node agents")
		}
		interval = nextInterval(interval, waits)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// nextInterval returns the time until the next pass. It doubles while node agents do not act.
func nextInterval(last time.Duration, waits bool) time.Duration {
	switch {
	case !waits:
		return earlierInterval
	case last >= earlierInterval:
		return earlierWaiting
	}
	return min(2*last, earlierInterval-1)
}

// earlierState is what a pass reads, by name.
type earlierState struct {
	olds map[string]*earlierv1.LogicalVolume
	pvs  map[string]*corev1.PersistentVolume
	// lvs has the LogicalVolumes of this driver that are for pvs, or have EarlierDriverAnnotation.
	lvs map[string]*topolvmv1.LogicalVolume
	// driver is the CSIDriver of the earlier driver, or nil.
	driver *storagev1.CSIDriver
	// contents are the VolumeSnapshotContents of the earlier driver that are being deleted.
	contents []*unstructured.Unstructured
	// references is the number of PersistentVolumes and VolumeSnapshotContents with a volume handle.
	references map[string]int
	topolvm    *topolvmController
}

// pass makes the LogicalVolumes match the PersistentVolumes, and deletes what must be deleted. waits is true if a node
// agent must act first.
func (e *earlierVolumes) pass(ctx context.Context) (waits bool, err error) {
	topolvm := &topolvmController{earlierVolumes: e}
	errs := []error{e.refuseClaims(ctx, topolvm), e.releaseNodes(ctx, topolvm)}
	s, err := e.read(ctx)
	if err != nil || s == nil {
		return false, errors.Join(append(errs, err)...)
	}
	s.topolvm = topolvm
	for _, pv := range s.pvs {
		waiting, err := e.provide(ctx, s, pv)
		waits = waits || waiting
		errs = append(errs, err)
	}
	for _, content := range s.contents {
		waiting, err := e.report(content, contentKind, earlierSnapshotNotDeleted,
			e.deleteSnapshot(ctx, s, content))
		waits = waits || waiting
		errs = append(errs, err)
	}
	return waits, errors.Join(append(errs, e.withdraw(ctx, s), e.beginExpansions(ctx, s))...)
}

// provide performs the next step for a PersistentVolume: it lets a node agent serve the volume, or deletes it.
func (e *earlierVolumes) provide(ctx context.Context, s *earlierState, pv *corev1.PersistentVolume) (bool, error) {
	const kind = "PersistentVolume"
	if isReleased(pv) {
		return e.report(pv, kind, earlierVolumeNotDeleted, e.deleteVolume(ctx, s, pv))
	}
	return e.report(pv, kind, earlierVolumeNotServed, e.serve(ctx, s, pv))
}

// report sends an event if a step is blocked. It returns whether the step waits for a node agent, and other errors.
func (e *earlierVolumes) report(object client.Object, kind string, problem event.Event,
	err error) (waits bool, _ error) {
	var blocked blockedError
	var waiting waitingError
	switch {
	case errors.As(err, &waiting):
		return true, nil
	case errors.As(err, &blocked):
		e.emitter.Emit(object, problem, blocked.Error())
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s %s: %w", kind, object.GetName(), err)
	}
	e.emitter.Clear(object, problem.Reason)
	return false, nil
}

// withdraw removes EarlierDriverAnnotation where no PersistentVolume of the earlier driver is left, and then the
// CSIDriver.
func (e *earlierVolumes) withdraw(ctx context.Context, s *earlierState) error {
	var errs []error
	left := len(s.pvs)
	for _, lv := range s.lvs {
		if lv.Annotations[v1alpha1.EarlierDriverAnnotation] == "" || isFor(lv, s.pvs[lv.Name]) {
			continue
		}
		left++
		errs = append(errs, e.annotate(ctx, lv, ""))
	}
	if left == 0 {
		errs = append(errs, e.deleteDriver(ctx, s.driver))
	}
	return errors.Join(errs...)
}

// beginExpansions calls EarlierServed if a volume is served.
func (e *earlierVolumes) beginExpansions(ctx context.Context, s *earlierState) error {
	if e.isServing || e.EarlierServed == nil {
		return nil
	}
	for _, lv := range s.lvs {
		if lv.Annotations[v1alpha1.EarlierDriverAnnotation] == "" || !isFor(lv, s.pvs[lv.Name]) {
			continue
		}
		if runs, err := s.topolvm.runs(ctx); runs || err != nil {
			return err
		}
		e.isServing = true
		e.EarlierServed()
		return nil
	}
	return nil
}

// isFor reports whether a LogicalVolume is for the volume of a PersistentVolume, also before the node agent has found
// it.
func isFor(lv *topolvmv1.LogicalVolume, pv *corev1.PersistentVolume) bool {
	volume := cmp.Or(lv.Status.VolumeID, lv.Annotations[v1alpha1.ImportAnnotation])
	return pv != nil && volume == pv.Spec.CSI.VolumeHandle
}

// +kubebuilder:rbac:groups=topolvm.cybozu.com,resources=logicalvolumes,verbs=list
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers,verbs=get;create;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=list
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=list

// read returns the state, or nil if the cluster has nothing of the earlier driver. Then it lists nothing else.
func (e *earlierVolumes) read(ctx context.Context) (*earlierState, error) {
	s := &earlierState{olds: map[string]*earlierv1.LogicalVolume{}, pvs: map[string]*corev1.PersistentVolume{},
		lvs: map[string]*topolvmv1.LogicalVolume{}, references: map[string]int{}}
	if err := legacy.Each(ctx, e.live, func(lv *earlierv1.LogicalVolume) { s.olds[lv.Name] = lv }); err != nil {
		return nil, fmt.Errorf("list the LogicalVolumes of the API group %s: %w", earlierv1.GroupVersion.Group, err)
	}
	var err error
	if s.driver, err = e.driver(ctx); err != nil || s.driver == nil && len(s.olds) == 0 {
		return nil, err
	}
	err = paging.Each(ctx, e.live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			pv := &list.Items[i]
			if pv.Spec.CSI == nil || !v1alpha1.IsDriver(pv.Spec.CSI.Driver) {
				continue
			}
			s.references[pv.Spec.CSI.VolumeHandle]++
			if pv.Spec.CSI.Driver == v1alpha1.EarlierDriverName {
				s.pvs[pv.Name] = pv.DeepCopy()
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list PersistentVolumes: %w", err)
	}
	err = paging.Each(ctx, e.live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			lv := &list.Items[i]
			if s.pvs[lv.Name] != nil || lv.Annotations[v1alpha1.EarlierDriverAnnotation] != "" {
				s.lvs[lv.Name] = lv.DeepCopy()
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list LogicalVolumes: %w", err)
	}
	return s, e.readContents(ctx, s)
}

// serve performs the next step for a PersistentVolume. It returns nil if nothing is left to do.
func (e *earlierVolumes) serve(ctx context.Context, s *earlierState, pv *corev1.PersistentVolume) error {
	lv := s.lvs[pv.Name]
	isServed := lv != nil && lv.Annotations[v1alpha1.EarlierDriverAnnotation] != "" && isOfEarlier(pv, lv)
	if isServed {
		return e.ensureDriver(ctx, s)
	}
	if pv.Status.Phase != corev1.VolumeBound || !pv.DeletionTimestamp.IsZero() || lv != nil && isMoving(lv) {
		return nil
	}
	facts := migrationFacts{pv: pv, old: s.olds[pv.Name]}
	var err error
	if facts.drivers, err = e.driversOf(ctx, v1alpha1.NodeOfEarlierVolume(pv)); err != nil {
		return err
	}
	if slices.Contains(facts.drivers, v1alpha1.EarlierDriverName) {
		e.tellThatItRuns(ctx, v1alpha1.NodeOfEarlierVolume(pv))
		return nil
	}
	if problem := servingProblem(facts); problem != "" {
		return blockedError(problem)
	}
	if err := e.ensureDriver(ctx, s); err != nil {
		return err
	}
	j := &job{Controller: e.Controller, node: facts.old.Spec.NodeName, class: facts.old.Spec.DeviceClass,
		forEarlier: true}
	if err := j.logicalVolume(ctx, volumeOfEarlier(pv, facts.old)); err != nil {
		return err
	}
	// A migration that is blocked created it.
	return e.annotate(ctx, lv, v1alpha1.EarlierDriverName)
}

// servingProblem returns why no LogicalVolume can be created for a volume of the earlier driver, or "".
func servingProblem(f migrationFacts) string {
	node := v1alpha1.NodeOfEarlierVolume(f.pv)
	switch {
	case node == "":
		return withoutNode(f.pv)
	case earlierProblem(f) != "":
		return earlierProblem(f)
	case !f.old.DeletionTimestamp.IsZero():
		return fmt.Sprintf("LogicalVolume %s of the API group %s is being deleted: migrate the volume", f.old.Name,
			v1alpha1.EarlierDriverName)
	case !slices.Contains(f.drivers, v1alpha1.DriverName):
		return withoutDriver(f.pv)
	}
	return ""
}

// volumeOfEarlier returns the import of the logical volume of a PersistentVolume of the earlier driver.
func volumeOfEarlier(pv *corev1.PersistentVolume, old *earlierv1.LogicalVolume) v1alpha1.RecoveryVolume {
	return v1alpha1.RecoveryVolume{Name: pv.Spec.CSI.VolumeHandle, PersistentVolume: pv.Name, Claim: claimOf(pv),
		Size: old.Spec.Size.Value()}
}

// tellThatItRuns logs once for each node that TopoLVM serves its volumes itself. This is not a problem.
func (e *earlierVolumes) tellThatItRuns(ctx context.Context, node string) {
	if e.told[node] {
		return
	}
	e.told[node] = true
	log.FromContext(ctx).Info("the volumes of an earlier TopoLVM are left to it", "driver", v1alpha1.EarlierDriverName,
		"node", node, "cause", stillRuns(node))
}

// annotate sets or removes EarlierDriverAnnotation of a LogicalVolume, unless the LogicalVolume has changed.
func (e *earlierVolumes) annotate(ctx context.Context, lv *topolvmv1.LogicalVolume, driver string) error {
	if lv == nil || lv.Annotations[v1alpha1.EarlierDriverAnnotation] == driver || !lv.DeletionTimestamp.IsZero() {
		return nil
	}
	before := lv.DeepCopy()
	if driver == "" {
		delete(lv.Annotations, v1alpha1.EarlierDriverAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, v1alpha1.EarlierDriverAnnotation, driver)
	}
	err := e.client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsConflict(err) {
		return waiting("LogicalVolume %s has just changed", lv.Name)
	}
	if err != nil {
		return fmt.Errorf("set annotation %s of LogicalVolume %s: %w", v1alpha1.EarlierDriverAnnotation, lv.Name, err)
	}
	return nil
}

// driver returns the CSIDriver of the earlier driver, or nil.
func (e *earlierVolumes) driver(ctx context.Context) (*storagev1.CSIDriver, error) {
	driver := &storagev1.CSIDriver{}
	err := e.live.Get(ctx, client.ObjectKey{Name: v1alpha1.EarlierDriverName}, driver)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read CSIDriver %s: %w", v1alpha1.EarlierDriverName, err)
	}
	return driver, nil
}

// ensureDriver creates the CSIDriver if it does not exist, for example because TopoLVM was uninstalled. Without it,
// Kubernetes would wait for volumes to be attached. TopoLVM's own is not changed.
func (e *earlierVolumes) ensureDriver(ctx context.Context, s *earlierState) error {
	if s.driver != nil {
		return nil
	}
	driver := &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.EarlierDriverName,
			Labels: map[string]string{managedByLabel: managedBy}},
		Spec: storagev1.CSIDriverSpec{AttachRequired: ptr.To(false), PodInfoOnMount: ptr.To(true),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}},
	}
	if err := e.client.Create(ctx, driver); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create CSIDriver %s: %w", driver.Name, err)
	}
	s.driver = driver
	return nil
}

// deleteDriver deletes the CSIDriver if this operator created it.
func (e *earlierVolumes) deleteDriver(ctx context.Context, driver *storagev1.CSIDriver) error {
	if driver == nil || driver.Labels[managedByLabel] != managedBy {
		return nil
	}
	err := e.client.Delete(ctx, driver, client.Preconditions{UID: &driver.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete CSIDriver %s: %w", driver.Name, err)
	}
	return nil
}

package volumeimport

import (
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

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumeimport/legacypv"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/topolvm/legacy"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

const (
	// legacyInterval is the interval at which volumes of the earlier driver are looked for, and legacyWaiting the
	// shortest one while a node agent must act.
	legacyInterval = time.Minute
	legacyWaiting  = 5 * time.Second
)

// managedByLabel with the value managedBy marks a CSIDriver that this operator created.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "lvms-operator"
)

// legacyVolumeNotServed is a Warning event on the PersistentVolume: its driver is topolvm.cybozu.com, and the node
// agent does not serve it, so no Pod can mount it.
// What to do: see the note; [how to migrate volumes](../how-to/migrate-earlier-topolvm.md) explains what is required.
var legacyVolumeNotServed = event.Warning("EarlierVolumeNotServed", "Serve", "the volume is not served: %s")

// legacyVolumes lets node agents serve the volumes of TopoLVM before 0.15 before they are migrated. For each bound
// PersistentVolume of the earlier driver, it creates a LogicalVolume of this driver for the same logical volume, like
// the first step of a migration, and sets EarlierDriverAnnotation. It does nothing for a node on which TopoLVM runs.
//
// While the controller of TopoLVM does not run either, it does what a provisioner and a snapshotter of the earlier
// driver must do: it deletes released volumes and deleted snapshots, and says which StorageClass new claims need. It
// deletes a logical volume only through the LogicalVolume of this driver. It also removes what TopoLVM wrote to Nodes.
type legacyVolumes struct {
	*Controller
	emitter *event.Emitter
	claims  *refusedClaims
	// told has the nodes and Pods that were logged because TopoLVM runs there.
	told map[string]bool
	// isServing is true if LegacyServed was called.
	isServing bool
}

func newLegacyVolumes(c *Controller, active client.Reader) *legacyVolumes {
	emitter := event.NewEmitter(c.recorder)
	return &legacyVolumes{Controller: c, emitter: emitter, told: map[string]bool{},
		claims: &refusedClaims{client: c.client, active: active, namespace: c.namespace, emitter: emitter,
			refused: map[types.UID]client.Object{}}}
}

// NeedLeaderElection returns true: only one process may create objects.
func (l *legacyVolumes) NeedLeaderElection() bool { return true }

// Start looks for volumes until the context ends. Errors are logged, and tried again after a minute.
func (l *legacyVolumes) Start(ctx context.Context) error {
	interval := legacyWaiting
	for {
		waits, err := l.pass(ctx)
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
		return legacyInterval
	case last >= legacyInterval:
		return legacyWaiting
	}
	return min(2*last, legacyInterval-1)
}

// legacyState is what a pass reads, by name.
type legacyState struct {
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
	topolvm    *runningTopoLVM
}

// pass makes the LogicalVolumes match the PersistentVolumes, and deletes what must be deleted. waits is true if a node
// agent must act first.
func (l *legacyVolumes) pass(ctx context.Context) (waits bool, err error) {
	ctx, end := liveness.Begin(ctx, "volumes of an earlier TopoLVM")
	defer end()
	topolvm := &runningTopoLVM{Controller: l.Controller, told: l.told}
	errs := []error{l.claims.refuse(ctx, topolvm), l.releaseNodes(ctx, topolvm)}
	s, err := l.read(ctx)
	if err != nil || s == nil {
		return false, errors.Join(append(errs, err)...)
	}
	s.topolvm = topolvm
	for _, pv := range s.pvs {
		waiting, err := l.provide(ctx, s, pv)
		waits = waits || waiting
		errs = append(errs, err)
	}
	for _, content := range s.contents {
		waiting, err := l.report(content, contentKind, legacySnapshotNotDeleted,
			deletions{l.Controller}.deleteSnapshot(ctx, s, content))
		waits = waits || waiting
		errs = append(errs, err)
	}
	return waits, errors.Join(append(errs, l.withdraw(ctx, s), l.beginExpansions(ctx, s))...)
}

// provide performs the next step for a PersistentVolume: it lets a node agent serve the volume, or deletes it.
func (l *legacyVolumes) provide(ctx context.Context, s *legacyState, pv *corev1.PersistentVolume) (bool, error) {
	const kind = "PersistentVolume"
	if legacypv.IsReleased(pv) {
		return l.report(pv, kind, legacyVolumeNotDeleted, deletions{l.Controller}.deleteVolume(ctx, s, pv))
	}
	return l.report(pv, kind, legacyVolumeNotServed, l.serve(ctx, s, pv))
}

// report sends an event if a step is blocked. It returns whether the step waits for a node agent, and other errors.
func (l *legacyVolumes) report(object client.Object, kind string, problem event.Event,
	err error) (waits bool, _ error) {
	var blocked blockedError
	var waiting waitingError
	switch {
	case errors.As(err, &waiting):
		return true, nil
	case errors.As(err, &blocked):
		l.emitter.Emit(object, problem, blocked.Error())
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s %s: %w", kind, object.GetName(), err)
	}
	l.emitter.Clear(object, problem.Reason)
	return false, nil
}

// withdraw removes EarlierDriverAnnotation where no PersistentVolume of the earlier driver is left, and then the
// CSIDriver.
func (l *legacyVolumes) withdraw(ctx context.Context, s *legacyState) error {
	var errs []error
	left := len(s.pvs)
	for _, lv := range s.lvs {
		if view.EarlierDriver(lv) == "" || legacypv.IsFor(lv, s.pvs[lv.Name]) {
			continue
		}
		left++
		errs = append(errs, l.annotate(ctx, lv, ""))
	}
	if left == 0 {
		errs = append(errs, l.deleteDriver(ctx, s.driver))
	}
	return errors.Join(errs...)
}

// beginExpansions calls LegacyServed if a volume is served.
func (l *legacyVolumes) beginExpansions(ctx context.Context, s *legacyState) error {
	if l.isServing || l.LegacyServed == nil {
		return nil
	}
	for _, lv := range s.lvs {
		if view.EarlierDriver(lv) == "" || !legacypv.IsFor(lv, s.pvs[lv.Name]) {
			continue
		}
		if runs, err := s.topolvm.runs(ctx); runs || err != nil {
			return err
		}
		l.isServing = true
		l.LegacyServed()
		return nil
	}
	return nil
}

// +kubebuilder:rbac:groups=topolvm.cybozu.com,resources=logicalvolumes,verbs=list
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers,verbs=get;create;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=list
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=list

// read returns the state, or nil if the cluster has nothing of the earlier driver. Then it lists nothing else.
func (l *legacyVolumes) read(ctx context.Context) (*legacyState, error) {
	s := &legacyState{olds: map[string]*earlierv1.LogicalVolume{}, pvs: map[string]*corev1.PersistentVolume{},
		lvs: map[string]*topolvmv1.LogicalVolume{}, references: map[string]int{}}
	if err := legacy.Each(ctx, l.live, func(lv *earlierv1.LogicalVolume) { s.olds[lv.Name] = lv }); err != nil {
		return nil, fmt.Errorf("list the LogicalVolumes of the API group %s: %w", earlierv1.GroupVersion.Group, err)
	}
	var err error
	if s.driver, err = l.driver(ctx); err != nil || s.driver == nil && len(s.olds) == 0 {
		return nil, err
	}
	err = paging.Each(ctx, l.live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			pv := &list.Items[i]
			if pv.Spec.CSI == nil || !view.IsDriver(pv.Spec.CSI.Driver) {
				continue
			}
			s.references[pv.Spec.CSI.VolumeHandle]++
			if pv.Spec.CSI.Driver == wellknown.EarlierDriverName {
				s.pvs[pv.Name] = pv.DeepCopy()
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list PersistentVolumes: %w", err)
	}
	err = paging.Each(ctx, l.live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			lv := &list.Items[i]
			if s.pvs[lv.Name] != nil || view.EarlierDriver(lv) != "" {
				s.lvs[lv.Name] = lv.DeepCopy()
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list LogicalVolumes: %w", err)
	}
	return s, l.readContents(ctx, s)
}

// serve performs the next step for a PersistentVolume. It returns nil if nothing is left to do.
func (l *legacyVolumes) serve(ctx context.Context, s *legacyState, pv *corev1.PersistentVolume) error {
	lv := s.lvs[pv.Name]
	isServed := lv != nil && view.EarlierDriver(lv) != "" && legacypv.IsOf(pv, lv)
	if isServed {
		return l.ensureDriver(ctx, s)
	}
	if pv.Status.Phase != corev1.VolumeBound || !pv.DeletionTimestamp.IsZero() || lv != nil && isMoving(lv) {
		return nil
	}
	facts := legacypv.Facts{PV: pv, Old: s.olds[pv.Name]}
	var err error
	if facts.Drivers, err = l.driversOf(ctx, view.NodeOfEarlierVolume(pv)); err != nil {
		return err
	}
	if slices.Contains(facts.Drivers, wellknown.EarlierDriverName) {
		s.topolvm.tellOfNode(ctx, view.NodeOfEarlierVolume(pv))
		return nil
	}
	if problem := facts.ServingProblem(); problem != "" {
		return blockedError(problem)
	}
	if err := l.ensureDriver(ctx, s); err != nil {
		return err
	}
	j := &job{Controller: l.Controller, node: facts.Old.Spec.NodeName, class: facts.Old.Spec.DeviceClass,
		forLegacy: true}
	if err := j.logicalVolume(ctx, legacypv.Import(pv, facts.Old)); err != nil {
		return err
	}
	// A migration that is blocked created it.
	return l.annotate(ctx, lv, wellknown.EarlierDriverName)
}

// annotate sets or removes EarlierDriverAnnotation of a LogicalVolume, unless the LogicalVolume has changed.
func (l *legacyVolumes) annotate(ctx context.Context, lv *topolvmv1.LogicalVolume, driver string) error {
	if lv == nil || view.EarlierDriver(lv) == driver || !lv.DeletionTimestamp.IsZero() {
		return nil
	}
	before := lv.DeepCopy()
	if driver == "" {
		delete(lv.Annotations, wellknown.EarlierDriverAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.EarlierDriverAnnotation, driver)
	}
	err := l.client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsConflict(err) {
		return waiting("LogicalVolume %s has just changed", lv.Name)
	}
	if err != nil {
		return fmt.Errorf("set annotation %s of LogicalVolume %s: %w", wellknown.EarlierDriverAnnotation, lv.Name, err)
	}
	return nil
}

// driver returns the CSIDriver of the earlier driver, or nil.
func (l *legacyVolumes) driver(ctx context.Context) (*storagev1.CSIDriver, error) {
	driver := &storagev1.CSIDriver{}
	err := l.live.Get(ctx, client.ObjectKey{Name: wellknown.EarlierDriverName}, driver)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read CSIDriver %s: %w", wellknown.EarlierDriverName, err)
	}
	return driver, nil
}

// ensureDriver creates the CSIDriver if it does not exist, for example because TopoLVM was uninstalled. Without it,
// Kubernetes would wait for volumes to be attached. TopoLVM's own is not changed.
func (l *legacyVolumes) ensureDriver(ctx context.Context, s *legacyState) error {
	if s.driver != nil {
		return nil
	}
	driver := &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: wellknown.EarlierDriverName,
			Labels: map[string]string{managedByLabel: managedBy}},
		Spec: storagev1.CSIDriverSpec{AttachRequired: ptr.To(false), PodInfoOnMount: ptr.To(true),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}},
	}
	if err := l.client.Create(ctx, driver); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create CSIDriver %s: %w", driver.Name, err)
	}
	s.driver = driver
	return nil
}

// deleteDriver deletes the CSIDriver if this operator created it.
func (l *legacyVolumes) deleteDriver(ctx context.Context, driver *storagev1.CSIDriver) error {
	if driver == nil || driver.Labels[managedByLabel] != managedBy {
		return nil
	}
	err := l.client.Delete(ctx, driver, client.Preconditions{UID: &driver.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete CSIDriver %s: %w", driver.Name, err)
	}
	return nil
}

package activecache

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/limit"
)

func of(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func boundClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", UID: "u",
			Finalizers: []string{"kubernetes.io/pvc-protection"}},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v", StorageClassName: ptr.To("s"),
			Resources: corev1.VolumeResourceRequirements{Requests: of("1Gi")}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: of("1Gi")},
	}
}

func boundVolume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name,
			Finalizers: []string{"kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer"}},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

func provisioned(volume *corev1.PersistentVolume) {
	volume.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": wellknown.DriverName}
}

func TestWhatRests(t *testing.T) {
	if !IsSettled(boundClaim("c")) || !IsSettled(boundVolume("v")) || IsSettled(&corev1.Node{}) {
		t.Error("a bound claim and its PersistentVolume rest")
	}
	used := boundClaim("c")
	used.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimUnused}}
	if !IsSettled(used) {
		t.Error("the condition that each claim has keeps it from settling")
	}
	now := metav1.Now()
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"is pending":    func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending },
		"is lost":       func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost },
		"asks for more": func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = of("2Gi") },
		"says something": func(c *corev1.PersistentVolumeClaim) {
			c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: "Resizing"}}
		},
		"is not healthy": func(c *corev1.PersistentVolumeClaim) {
			c.Status.HealthStatus = &corev1.VolumeHealthStatus{}
		},
		"is being deleted": func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &now },
		"is waited for": func(c *corev1.PersistentVolumeClaim) {
			c.Finalizers = append(c.Finalizers,
				"topolvm.io/pvc")
		},
		"is the source of copy": func(c *corev1.PersistentVolumeClaim) {
			c.Finalizers = append(c.Finalizers, "provisioner.storage.kubernetes.io/cloning-protection")
		},
		"is being grown": func(c *corev1.PersistentVolumeClaim) {
			c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
				"storage": corev1.PersistentVolumeClaimNodeResizePending}
		},
		"asks for another class": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeAttributesClassName = ptr.To("gold")
			c.Status.CurrentVolumeAttributesClassName = ptr.To("silver")
		},
		"asks for its first class": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeAttributesClassName = ptr.To("gold")
		},
		"is being modified": func(
			c *corev1.PersistentVolumeClaim) {
			c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{}
		},
	} {
		claim := boundClaim("c")
		if change(claim); IsSettled(claim) {
			t.Errorf("a claim that %s rests", name)
		}
	}
	classified := boundClaim("c")
	classified.Spec.VolumeAttributesClassName = ptr.To("gold")
	classified.Status.CurrentVolumeAttributesClassName = ptr.To("gold")
	if !IsSettled(classified) {
		t.Error("a claim that has its class rests")
	}
	retained := boundVolume("v")
	provisioned(retained)
	retained.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	retained.Finalizers = []string{"kubernetes.io/pv-protection"}
	if !IsSettled(retained) {
		t.Error("a PersistentVolume that is kept needs no finalizer of the provisioner")
	}
	for name, change := range map[string]func(*corev1.PersistentVolume){
		"lacks the finalizer of the provisioner": func(v *corev1.PersistentVolume) {
			provisioned(v)
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			v.Finalizers = []string{"kubernetes.io/pv-protection"}
		},
		"is kept, and has the finalizer of the provisioner": func(v *corev1.PersistentVolume) {
			provisioned(v)
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		},
		"has a requested migration": func(v *corev1.PersistentVolume) {
			v.Annotations = map[string]string{wellknown.MigrateAnnotation: "true"}
			v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: wellknown.EarlierDriverName, VolumeHandle: "v"}
		},
		"is released":      func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased },
		"is not bound yet": func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumePending },
		"is being deleted": func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &now },
		"is waited for":    func(v *corev1.PersistentVolume) { v.Finalizers = append(v.Finalizers, "x/y") },
	} {
		volume := boundVolume("v")
		if change(volume); IsSettled(volume) {
			t.Errorf("a PersistentVolume that %s rests", name)
		}
	}
}

// source simulates an API server with one list and one watch.
type source struct {
	list  runtime.Object
	watch *watch.FakeWatcher
}

func (s source) List(metav1.ListOptions) (runtime.Object, error)   { return s.list.DeepCopyObject(), nil }
func (s source) Watch(metav1.ListOptions) (watch.Interface, error) { return s.watch, nil }
func (s source) IsWatchListSemanticsUnSupported() bool             { return true }
func pendingClaim(name string) *corev1.PersistentVolumeClaim {
	c := boundClaim(name)
	c.Status.Phase = corev1.ClaimPending
	return c
}
func releasedVolume(name string) *corev1.PersistentVolume {
	v := boundVolume(name)
	v.Status.Phase = corev1.VolumeReleased
	return v
}
func runUntilSynced(t *testing.T, i toolscache.SharedIndexInformer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { i.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); ended.Wait() })
	if !toolscache.WaitForCacheSync(ctx.Done(), i.HasSynced) {
		t.Fatal("it does not begin")
	}
}

// An informer holds an object that is not settled, whether it comes from the list or an event, and drops it when it
// settles.
func TestAnInformerHoldsWhatMoves(t *testing.T) {
	s := source{&corev1.PersistentVolumeClaimList{ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items: []corev1.PersistentVolumeClaim{*boundClaim("rests"), *pendingClaim("moves")}}, watch.NewFake()}
	informer := new(Volumes).NewInformer(s, &corev1.PersistentVolumeClaim{}, 0, toolscache.Indexers{})
	runUntilSynced(t, informer)
	holds := func(want ...string) {
		t.Helper()
		limit.Wait(t, "the informer holds "+strings.Join(want, " "), func() bool {
			got := informer.GetStore().ListKeys()
			slices.Sort(got)
			return slices.Equal(got, want)
		})
	}
	holds("n/moves")
	s.watch.Add(boundClaim("another"))
	s.watch.Add(pendingClaim("third"))
	holds("n/moves", "n/third")
	s.watch.Modify(boundClaim("moves"))
	holds("n/third")
	grows := boundClaim("rests")
	grows.Spec.Resources.Requests = of("2Gi")
	s.watch.Modify(grows)
	holds("n/rests", "n/third")
	s.watch.Modify(boundClaim("rests"))
	s.watch.Modify(boundClaim("rests"))
	s.watch.Delete(pendingClaim("third"))
	holds()
}

func TestAnInformerOfVolumesAndOneOfNodes(t *testing.T) {
	volumes := source{&corev1.PersistentVolumeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items: []corev1.PersistentVolume{*boundVolume("rests"), *releasedVolume("moves")}}, watch.NewFake()}
	nodes := source{&corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}, watch.NewFake()}
	for want, informer := range map[string]toolscache.SharedIndexInformer{
		"moves": new(Volumes).NewInformer(volumes, &corev1.PersistentVolume{}, 0, toolscache.Indexers{}),
		"a":     new(Volumes).NewInformer(nodes, &corev1.Node{}, 0, toolscache.Indexers{}),
	} {
		runUntilSynced(t, informer)
		if got := informer.GetStore().ListKeys(); !slices.Equal(got, []string{want}) {
			t.Errorf("it holds %v, want %s", got, want)
		}
	}
}

func logicalVolume(name string) *topolvmv1.LogicalVolume {
	size := resource.MustParse("1Gi")
	return &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{wellknown.LogicalVolumeFinalizer}},
		Spec:       topolvmv1.LogicalVolumeSpec{Name: name, Size: size},
		Status:     topolvmv1.LogicalVolumeStatus{VolumeID: "id-" + name, CurrentSize: &size},
	}
}

func TestWhichLogicalVolumesRest(t *testing.T) {
	larger := logicalVolume("v")
	larger.Status.CurrentSize = ptr.To(resource.MustParse("2Gi"))
	if !IsSettled(logicalVolume("v")) || !IsSettled(larger) {
		t.Error("one that was made rests")
	}
	used := boundClaim("c")
	used.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimUnused}}
	if !IsSettled(used) {
		t.Error("the condition that each claim has keeps it from settling")
	}
	now := metav1.Now()
	for name, change := range map[string]func(*topolvmv1.LogicalVolume){
		"is not healthy": func(v *topolvmv1.LogicalVolume) {
			v.Annotations = map[string]string{wellknown.HealthAnnotation: "[]"}
		},
		"is being made":    func(v *topolvmv1.LogicalVolume) { v.Status.VolumeID = "" },
		"is being deleted": func(v *topolvmv1.LogicalVolume) { v.DeletionTimestamp = &now },
		"is to grow":       func(v *topolvmv1.LogicalVolume) { v.Spec.Size = resource.MustParse("2Gi") },
		"was refused":      func(v *topolvmv1.LogicalVolume) { v.Status.Code = codes.ResourceExhausted },
		"has no size":      func(v *topolvmv1.LogicalVolume) { v.Status.CurrentSize = nil },
		"waits for its limits": func(v *topolvmv1.LogicalVolume) {
			v.Annotations = map[string]string{wellknown.IOLimitsAnnotation: "readIOPS=1"}
		},
		"is being moved": func(v *topolvmv1.LogicalVolume) {
			v.Annotations = map[string]string{wellknown.MovedVolumeAnnotation: "{}"}
		},
		"is to be fenced": func(v *topolvmv1.LogicalVolume) {
			v.Annotations = map[string]string{wellknown.FenceAnnotation: "uid"}
		},
		"is fenced": func(v *topolvmv1.LogicalVolume) {
			v.Annotations = map[string]string{wellknown.FencedAnnotation: "uid"}
		},
		"is adopted": func(v *topolvmv1.LogicalVolume) {
			v.Annotations = map[string]string{wellknown.AdoptAnnotation: "uid"}
		},
		"belongs to a group that is not complete": func(v *topolvmv1.LogicalVolume) {
			v.Annotations = map[string]string{wellknown.GroupPendingAnnotation: "g"}
		},
	} {
		v := logicalVolume("v")
		if change(v); IsSettled(v) {
			t.Errorf("a LogicalVolume that %s rests", name)
		}
	}
}

// The IDs of settled LogicalVolumes are known until they are deleted.
func TestLogicalVolumesAreKnownByTheirIDs(t *testing.T) {
	s := source{&topolvmv1.LogicalVolumeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items: []topolvmv1.LogicalVolume{*logicalVolume("listed")}}, watch.NewFake()}
	volumes := &Volumes{}
	informer := volumes.NewInformer(s, &topolvmv1.LogicalVolume{}, 0, toolscache.Indexers{})
	runUntilSynced(t, informer)
	knows := func(id, want string) {
		t.Helper()
		limit.Wait(t, fmt.Sprintf("the name of %s is %q", id, want), func() bool { return volumes.Name(id) == want })
	}
	knows("id-listed", "listed")
	knows("id-made", "")
	unmade := logicalVolume("made")
	unmade.Status.VolumeID = ""
	s.watch.Add(unmade)
	s.watch.Modify(logicalVolume("made"))
	knows("id-made", "made")
	if held := informer.GetStore().ListKeys(); len(held) != 0 {
		t.Errorf("it holds %v", held)
	}
	s.watch.Delete(logicalVolume("made"))
	s.watch.Delete(logicalVolume("listed"))
	knows("id-made", "")
	knows("id-listed", "")
}

// A watch ends when it is stopped, even if nothing reads its events.
func TestAWatchEndsWhenItIsStopped(t *testing.T) {
	s := source{&corev1.PersistentVolumeClaimList{}, watch.NewFake()}
	w, err := activeObjects{s, &Volumes{}}.Watch(metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.watch.Add(pendingClaim("a")) // It is in progress.
	w.Stop()
	w.Stop()
	select {
	case _, open := <-w.ResultChan():
		for open {
			_, open = <-w.ResultChan()
		}
	case <-time.After(limit.Hang):
		t.Error("it goes on")
	}
}

// A reader that never releases the lock keeps the events of all volumes from the cache.
func TestTheNamesAnswerOnlyWhileNoLockIsHeld(t *testing.T) {
	v := &Volumes{}
	v.mu.RLock()
	answered := make(chan error, 1)
	go func() { answered <- v.Answers(t.Context()) }()
	select {
	case <-answered:
		t.Error("answered while the lock is held")
	case <-time.After(20 * time.Millisecond):
	}
	v.mu.RUnlock()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

//go:build env

package sidecar

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	snapshotinformers "github.com/kubernetes-csi/external-snapshotter/client/v8/informers/externalversions"
	snapshotcontroller "github.com/kubernetes-csi/external-snapshotter/v8/pkg/common-controller"
	snapshotmetrics "github.com/kubernetes-csi/external-snapshotter/v8/pkg/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/internal/volume/activecache"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// recordedSnapshots is a CSI controller that records the calls for snapshots.
type recordedSnapshots struct {
	driverController
	mu    sync.Mutex
	calls []string
}

func (r *recordedSnapshots) record(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

func (r *recordedSnapshots) recorded() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

func (r *recordedSnapshots) CreateSnapshot(ctx context.Context,
	request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	r.record("create " + request.GetName())
	return r.driverController.CreateSnapshot(ctx, request)
}

func (r *recordedSnapshots) DeleteSnapshot(_ context.Context,
	request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	r.record("delete " + request.GetSnapshotId())
	return &csi.DeleteSnapshotResponse{}, nil
}

// manifestsOf returns the objects of the YAML block of docs/how-to/backup.md that contains a text.
func manifestsOf(t *testing.T, text string, values ...string) []client.Object {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "how-to", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(block[1], text) {
			continue
		}
		for _, document := range strings.Split(strings.NewReplacer(values...).Replace(block[1]), "---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatal(err)
			}
			objects = append(objects, object)
		}
	}
	if len(objects) == 0 {
		t.Fatalf("the page has no manifest with %s", text)
	}
	return objects
}

// startSnapshotController runs the snapshot controller of the cluster, which binds VolumeSnapshots, until ctx ends.
func startSnapshotController(ctx context.Context, t *testing.T, config *rest.Config, ended *sync.WaitGroup) {
	t.Helper()
	snapshots, err := snapshotclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	of := snapshotinformers.NewSharedInformerFactory(snapshots, time.Minute)
	core := informers.NewSharedInformerFactory(kube, time.Minute)
	v1, groups := of.Snapshot().V1(), of.Groupsnapshot().V1()
	const distributed, preventConversion, groupSnapshots = false, true, false
	controller := snapshotcontroller.NewCSISnapshotCommonController(snapshots, kube, v1.VolumeSnapshots(),
		v1.VolumeSnapshotContents(), v1.VolumeSnapshotClasses(), groups.VolumeGroupSnapshots(),
		groups.VolumeGroupSnapshotContents(), groups.VolumeGroupSnapshotClasses(),
		core.Core().V1().PersistentVolumeClaims(), core.Core().V1().PersistentVolumes(), nil,
		snapshotmetrics.NewMetricsManager(), time.Minute, limiter[string](), limiter[string](), limiter[string](),
		limiter[string](), distributed, preventConversion, groupSnapshots)
	of.Start(ctx.Done())
	core.Start(ctx.Done())
	ended.Go(func() {
		workers := &sync.WaitGroup{}
		controller.Run(1, ctx.Done(), workers)
		workers.Wait()
	})
}

// startSnapshotter runs our sidecars with a CSI controller until ctx ends.
func startSnapshotter(ctx context.Context, t *testing.T, apiServer *env.Env, service csi.ControllerServer,
	ended *sync.WaitGroup) {
	t.Helper()
	operator, err := apiServer.AsOperator(namespace)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "csi.sock")
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, driverIdentity{})
	csi.RegisterControllerServer(server, service)
	objects, err := cache.New(operator, cache.Options{Scheme: clientgoscheme.Scheme, DefaultTransform: activecache.Any,
		NewInformer: new(activecache.Volumes).NewInformer})
	if err != nil {
		t.Fatal(err)
	}
	sidecars, err := New(ctx, Options{Config: operator, Cache: objects, Driver: driver, Socket: socket,
		PodName: "operator", Snapshots: true, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sidecars.Close() })
	ended.Go(func() { _ = objects.Start(ctx) })
	for _, runnable := range append(sidecars.Runnables(), NewGRPCServer(server, socket)) {
		ended.Go(func() {
			if err := runnable.Start(ctx); err != nil {
				t.Errorf("%T: %v", runnable, err)
			}
		})
	}
}

// TestARestoredVolumeSnapshotUsesTheExistingSnapshot creates the objects of docs/how-to/backup.md. No snapshot is
// created, and that with the handle is deleted with the VolumeSnapshot.
func TestARestoredVolumeSnapshotUsesTheExistingSnapshot(t *testing.T) {
	apiServer, err := env.Start(env.OptionalCRDs()...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = apiServer.Stop() }()
	if err := snapshotv1.AddToScheme(clientgoscheme.Scheme); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(apiServer.Config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	api = client.WithFieldValidation(api, metav1.FieldValidationStrict)
	create := func(objects ...client.Object) {
		t.Helper()
		for _, object := range objects {
			if err := api.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	makeCluster(create)
	class := &snapshotv1.VolumeSnapshotClass{Driver: driver, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete}
	class.Name = "lvms-vg1"
	create(class)
	service := &recordedSnapshots{driverController: driverController{requisites: &sync.Map{}}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := &sync.WaitGroup{}
	// The provisioner adds types to the scheme of client-go when it is created, so nothing may read them before.
	startSnapshotter(ctx, t, apiServer, service, ended)
	startSnapshotController(ctx, t, apiServer.Config, ended)

	const handle = "2f0c8f6e-7d5f-4b0e-a8d3-3a4c7e0c7c11"
	values := []string{"NAMESPACE", namespace, "NAME", "nightly", "HANDLE", handle, "UID", string(class.UID), "NODE", "a"}
	create(manifestsOf(t, "lvm.topolvm.io/import:", values...)...)
	create(manifestsOf(t, "snapshotHandle:", values...)...)
	snapshot := &snapshotv1.VolumeSnapshot{}
	key := client.ObjectKey{Namespace: namespace, Name: "nightly"}
	eventually(t, "VolumeSnapshot that is ready", func() bool {
		return api.Get(t.Context(), key, snapshot) == nil && snapshot.Status != nil &&
			ptr.Deref(snapshot.Status.ReadyToUse, false)
	})
	contents := &snapshotv1.VolumeSnapshotContentList{}
	if err := api.List(t.Context(), contents); err != nil {
		t.Fatal(err)
	}
	if len(contents.Items) != 1 {
		t.Fatalf("contents %+v, VolumeSnapshot %+v", contents.Items, snapshot.Status)
	}
	if contents.Items[0].Status == nil {
		t.Fatalf("contents %+v, VolumeSnapshot %+v", contents.Items, snapshot.Status)
	}
	expect.Equal(t, `Deref(contents.Items[0].Status.SnapshotHandle, "")`,
		ptr.Deref(contents.Items[0].Status.SnapshotHandle, ""), handle)
	expect.Equal(t, "Items[0].Spec.VolumeSnapshotRef.UID", contents.Items[0].Spec.VolumeSnapshotRef.UID, snapshot.UID)
	expect.Equal(t, `Deref(snapshot.Status.BoundVolumeSnapshotContentName, "")`,
		ptr.Deref(snapshot.Status.BoundVolumeSnapshotContentName, ""), contents.Items[0].Name)
	if size := snapshot.Status.RestoreSize; size != nil && !size.IsZero() {
		t.Errorf("the page says that the restore size is 0, got %s", size)
	}
	if calls := service.recorded(); len(calls) > 0 {
		t.Errorf("the driver was asked to %q", calls)
	}

	// The snapshot controller adds the finalizer after the VolumeSnapshot is ready. Without it, the content is deleted
	// at once, and nobody deletes its snapshot.
	eventually(t, "finalizer of the VolumeSnapshotContent", func() bool {
		return api.Get(t.Context(), client.ObjectKeyFromObject(&contents.Items[0]), &contents.Items[0]) == nil &&
			len(contents.Items[0].Finalizers) > 0
	})
	if err := api.Delete(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deletion of the VolumeSnapshot and its content", func() bool {
		return apierrors.IsNotFound(api.Get(t.Context(), key, snapshot)) &&
			api.List(t.Context(), contents) == nil && len(contents.Items) == 0
	})
	if calls := service.recorded(); !slices.Equal(slices.Compact(calls), []string{"delete " + handle}) {
		t.Errorf("the driver was asked to %q", calls)
	}
	cancel()
	select {
	case <-closedAfter(ended):
	case <-time.After(env.Patience):
		t.Error("a sidecar does not end")
	}
}

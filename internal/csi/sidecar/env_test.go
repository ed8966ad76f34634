//go:build env

package sidecar

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/activecache"
	"github.com/lvm-storage/lvm-operator/test/env"
)

const (
	driver      = "topolvm.io"
	topologyKey = "topology.topolvm.io/node"
	namespace   = "sidecars"
)

// driverIdentity is an identity service with topology.
type driverIdentity struct{ identity }

func (driverIdentity) GetPluginCapabilities(context.Context,
	*csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := func(kind csi.PluginCapability_Service_Type) *csi.PluginCapability {
		return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: kind}}}
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		service(csi.PluginCapability_Service_CONTROLLER_SERVICE),
		service(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)}}, nil
}

func (driverIdentity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driver, VendorVersion: "1"}, nil
}

// driverController is a CSI controller that creates every volume on the requested node.
type driverController struct {
	controllerService
	// requisites has the number of nodes in the request, for copies and other volumes; and the limits in requests.
	requisites *sync.Map
}

func (driverController) ControllerGetCapabilities(context.Context,
	*csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
	} {
		response.Capabilities = append(response.Capabilities,
			&csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{
				Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}}})
	}
	return response, nil
}

// ControllerModifyVolume refuses a limit of 1.
func (d driverController) ControllerModifyVolume(_ context.Context,
	r *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	if r.GetMutableParameters()["readIOPS"] == "1" {
		return nil, status.Error(codes.InvalidArgument, "node a cannot apply readIOPS=1")
	}
	d.requisites.Store("modified "+r.GetVolumeId(), r.GetMutableParameters()["readIOPS"])
	return &csi.ControllerModifyVolumeResponse{}, nil
}

func (d driverController) CreateVolume(_ context.Context,
	r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d.requisites.Store("limits of "+r.GetName(), r.GetMutableParameters()["readIOPS"])
	d.requisites.Store(r.GetVolumeContentSource() != nil, len(r.GetAccessibilityRequirements().GetRequisite()))
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: r.GetName(),
		CapacityBytes: r.GetCapacityRange().GetRequiredBytes(), ContentSource: r.GetVolumeContentSource(),
		AccessibleTopology: r.GetAccessibilityRequirements().GetPreferred()[:1]}}, nil
}

func (driverController) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	return &csi.GetCapacityResponse{AvailableCapacity: 7 << 30}, nil
}

func (driverController) CreateSnapshot(_ context.Context,
	r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{SnapshotId: r.GetName(),
		SourceVolumeId: r.GetSourceVolumeId(),
		SizeBytes:      1 << 30, CreationTime: timestamppb.Now(), ReadyToUse: true}}, nil
}

// TestSidecarsServeVolumesCapacityExpansionAndSnapshots runs and ends all sidecars as the operator does.
func TestSidecarsServeVolumesCapacityExpansionAndSnapshots(t *testing.T) {
	apiServer, err := env.Start(env.OptionalCRDs()...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = apiServer.Stop() }()
	config := apiServer.Config
	scheme := clientgoscheme.Scheme
	if err := snapshotv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	create := func(objects ...client.Object) {
		t.Helper()
		for _, object := range objects {
			if err := api.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	makeCluster(create)

	socket := filepath.Join(t.TempDir(), "csi.sock")
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, driverIdentity{})
	requisites := &sync.Map{}
	csi.RegisterControllerServer(server, driverController{requisites: requisites})
	operator, err := apiServer.AsOperator(namespace)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	objects, err := cache.New(operator, cache.Options{Scheme: scheme, DefaultTransform: activecache.Any,
		NewInformer: new(activecache.Volumes).NewInformer, ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}: {Transform: activecache.Node},
		}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	_, err = api.RESTMapper().RESTMapping(schema.GroupKind{Group: storagev1.GroupName, Kind: "VolumeAttributesClass"},
		"v1")
	if err != nil && !meta.IsNoMatchError(err) {
		t.Fatal(err)
	}
	modifies := err == nil // Kubernetes 1.34
	sidecars, err := New(ctx, Options{Config: operator, Cache: objects, Driver: driver, Socket: socket,
		PodName: "operator", Earlier: served,
		Snapshots: true, VolumeAttributes: modifies, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	ended := &sync.WaitGroup{}
	ended.Go(func() { _ = objects.Start(ctx) })
	for _, runnable := range append(sidecars.Runnables(), NewGRPCServer(server, socket)) {
		ended.Go(func() {
			if err := runnable.Start(ctx); err != nil {
				t.Errorf("%T: %v", runnable, err)
			}
		})
	}

	attributes, limits := map[string]string{}, ""
	if modifies {
		attributes, limits = map[string]string{"bronze": "1", "silver": "500", "gold": "900"}, "500"
	}
	for name, limit := range attributes {
		create(&storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: driver,
			Parameters: map[string]string{"readIOPS": limit}})
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: namespace, Annotations: map[string]string{
			"volume.kubernetes.io/storage-provisioner": driver, "volume.kubernetes.io/selected-node": "a"}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("lvms-vg1"),
			VolumeAttributesClassName: ptr.To("silver"),
			AccessModes:               []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
	create(claim)
	volume := &corev1.PersistentVolume{}
	eventually(t, "a PersistentVolume", func() bool {
		return api.Get(t.Context(), client.ObjectKey{Name: "pvc-" + string(claim.UID)}, volume) == nil
	})
	if terms := volume.Spec.NodeAffinity.Required.NodeSelectorTerms; terms[0].MatchExpressions[0].Key != topologyKey ||
		terms[0].MatchExpressions[0].Values[0] != "a" {
		t.Errorf("node affinity %v", terms)
	}
	// The expansion of a volume of the earlier driver begins when such volumes are served, and not before.
	size := expandEarlier(t, api, create)
	expand(t, api, claim, volume)
	eventually(t, "the expansion", func() bool {
		return api.Get(t.Context(), client.ObjectKeyFromObject(volume), volume) == nil &&
			volume.Spec.Capacity.Storage().Cmp(resource.MustParse("2Gi")) == 0
	})
	if got := size(); got != "1Gi" {
		t.Errorf("a volume that is not served has %s, after a later request of another one was served", got)
	}
	close(served)
	eventually(t, "the expansion of a volume of the earlier driver", func() bool { return size() == "2Gi" })

	if limit, _ := requisites.Load("limits of " + volume.Name); limit != limits ||
		modifies != (ptr.Deref(volume.Spec.VolumeAttributesClassName, "") == "silver") {
		t.Errorf("the volume was requested with the limit %v of class %v", limit, volume.Spec.VolumeAttributesClassName)
	}
	copyOf(t, api, create, claim, volume)
	restoreOf(t, api, create, claim)
	if modifies {
		modify(t, api, claim)
	}
	if limit, _ := requisites.Load("modified " + volume.Spec.CSI.VolumeHandle); modifies && limit != "900" ||
		!modifies && limit != nil {
		t.Errorf("the volume was modified to the limit %v", limit)
	}
	for isCopy, want := range map[bool]int{false: 1, true: 2} {
		if got, _ := requisites.Load(isCopy); got != want {
			t.Errorf("a volume (copy: %v) is asked for with %v nodes, want %d", isCopy, got, want)
		}
	}

	// A bound PersistentVolume of an older provisioner has no finalizer, and gets it. Without it, deleting the
	// PersistentVolume before its claim would leave the logical volume.
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const finalizer = "external-provisioner.volume.kubernetes.io/finalizer"
	must(api.Get(t.Context(), client.ObjectKeyFromObject(volume), volume))
	before := volume.DeepCopy()
	volume.Finalizers = []string{"kubernetes.io/pv-protection"}
	must(api.Patch(t.Context(), volume, client.MergeFrom(before)))
	eventually(t, "finalizer of the provisioner", func() bool {
		return api.Get(t.Context(), client.ObjectKeyFromObject(volume), volume) == nil &&
			slices.Contains(volume.Finalizers, finalizer)
	})

	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "snapcontent-1"},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: driver, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			VolumeSnapshotClassName: ptr.To("lvms-vg1"),
			VolumeSnapshotRef: corev1.ObjectReference{Name: "s", Namespace: namespace,
				UID: "6d2c9bd5-0000-4000-8000-1234567890ab"},
			Source: snapshotv1.VolumeSnapshotContentSource{VolumeHandle: ptr.To(volume.Spec.CSI.VolumeHandle)}}}
	create(&snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "lvms-vg1"}, Driver: driver,
		DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete}, content)
	eventually(t, "the snapshot", func() bool {
		return api.Get(t.Context(), client.ObjectKeyFromObject(content), content) == nil && content.Status != nil &&
			ptr.Deref(content.Status.ReadyToUse, false)
	})

	cancel()
	done := closedAfter(ended)
	select {
	case <-done:
	case <-time.After(env.Patience):
		t.Error("a side-car does not end")
	}
	if err := sidecars.Close(); err != nil {
		t.Error(err)
	}
}

// closedAfter returns a channel that is closed when a group has ended.
func closedAfter(group *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	return done
}

// makeCluster creates two nodes with the driver, a StorageClass, and the operator's Pod with its owners.
func makeCluster(create func(...client.Object)) {
	labels := map[string]string{"app": "operator"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	meta := func(owner client.Object, kind string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Name: "operator", Namespace: namespace, Labels: labels}
		if owner != nil {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner.GetName(),
				UID: owner.GetUID(), Controller: ptr.To(true)}}
		}
		return m
	}
	for _, name := range []string{"a", "b"} {
		create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{topologyKey: name}}},
			&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
				Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: name, TopologyKeys: []string{topologyKey}}}}})
	}
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "lvms-vg1"}, Provisioner: driver,
			AllowVolumeExpansion: ptr.To(true),
			VolumeBindingMode:    ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)})
	selector := &metav1.LabelSelector{MatchLabels: labels}
	deployment := &appsv1.Deployment{ObjectMeta: meta(nil, ""),
		Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
	create(deployment)
	replicas := &appsv1.ReplicaSet{ObjectMeta: meta(deployment, "Deployment"),
		Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}
	create(replicas)
	create(&corev1.Pod{ObjectMeta: meta(replicas, "ReplicaSet"), Spec: template.Spec})
}

// expand binds a claim, as the PersistentVolume controller does, and requests a larger size.
func expand(t *testing.T, api client.Client, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key := client.ObjectKeyFromObject(claim)
	must(api.Get(t.Context(), key, claim))
	before := claim.DeepCopy()
	claim.Spec.VolumeName = volume.Name
	must(api.Patch(t.Context(), claim, client.MergeFrom(before)))
	before = claim.DeepCopy()
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.CurrentVolumeAttributesClassName = claim.Spec.VolumeAttributesClassName
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	must(api.Status().Patch(t.Context(), claim, client.MergeFrom(before)))
	before = claim.DeepCopy()
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	must(api.Patch(t.Context(), claim, client.MergeFrom(before)))
}

// expandEarlier requests the expansion of a volume of the earlier driver from 1Gi to 2Gi. It returns a function that
// returns its size.
func expandEarlier(t *testing.T, api client.Client, create func(...client.Object)) func() string {
	t.Helper()
	sizes := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "earlier", Namespace: namespace},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("earlier"), AccessModes: modes,
			Resources: corev1.VolumeResourceRequirements{Requests: sizes.DeepCopy()}}}
	create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "earlier"},
		Provisioner: wellknown.EarlierDriverName, AllowVolumeExpansion: ptr.To(true)}, claim)
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-earlier"},
		Spec: corev1.PersistentVolumeSpec{Capacity: sizes, AccessModes: modes, StorageClassName: "earlier",
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace,
				Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: wellknown.EarlierDriverName, VolumeHandle: "id-earlier"}}}}
	create(volume)
	expand(t, api, claim, volume)
	return func() string {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(volume), volume); err != nil {
			t.Fatal(err)
		}
		return volume.Spec.Capacity.Storage().String()
	}
}

// modify requests another class for a settled claim, whose PersistentVolume is not in the cache, and then one that the
// driver refuses.
func modify(t *testing.T, api client.Client, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	key := client.ObjectKeyFromObject(claim)
	request := func(class string) {
		t.Helper()
		if err := api.Get(t.Context(), key, claim); err != nil {
			t.Fatal(err)
		}
		before := claim.DeepCopy()
		claim.Spec.VolumeAttributesClassName = ptr.To(class)
		if err := api.Patch(t.Context(), claim, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	request("gold")
	volume := &corev1.PersistentVolume{}
	eventually(t, "class gold", func() bool {
		return api.Get(t.Context(), key, claim) == nil && claim.Status.ModifyVolumeStatus == nil &&
			ptr.Deref(claim.Status.CurrentVolumeAttributesClassName, "") == "gold" &&
			api.Get(t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume) == nil &&
			ptr.Deref(volume.Spec.VolumeAttributesClassName, "") == "gold"
	})
	request("bronze")
	eventually(t, "reason in the status of the claim", func() bool {
		if err := api.Get(t.Context(), key, claim); err != nil {
			return false
		}
		s := claim.Status.ModifyVolumeStatus
		return s != nil && s.Status == corev1.PersistentVolumeClaimModifyVolumeInfeasible &&
			ptr.Deref(claim.Status.CurrentVolumeAttributesClassName, "") == "gold" &&
			slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
				return c.Type == corev1.PersistentVolumeClaimVolumeModifyVolumeError &&
					c.Message == "node a cannot apply readIOPS=1"
			})
	})
	request("gold")
	eventually(t, "end of the request", func() bool {
		return api.Get(t.Context(), key, claim) == nil && claim.Status.ModifyVolumeStatus == nil &&
			len(claim.Status.Conditions) == 0
	})
}

// copyOf creates a claim for a copy of a settled claim, of which the cache has only a part.
func copyOf(t *testing.T, api client.Client, create func(...client.Object), source *corev1.PersistentVolumeClaim,
	volume *corev1.PersistentVolume) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(api.Get(t.Context(), client.ObjectKeyFromObject(source), source))
	before := source.DeepCopy()
	source.Labels = map[string]string{"mine": "yes"}
	must(api.Patch(t.Context(), source, client.MergeFrom(before)))
	before = source.DeepCopy()
	source.Status.Capacity = source.Spec.Resources.Requests
	source.Status.Conditions = nil
	source.Status.AllocatedResourceStatuses = nil
	must(api.Status().Patch(t.Context(), source, client.MergeFrom(before)))
	must(api.Get(t.Context(), client.ObjectKeyFromObject(volume), volume))
	beforeVolume := volume.DeepCopy()
	volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1",
		Namespace: source.Namespace, Name: source.Name, UID: source.UID}
	must(api.Patch(t.Context(), volume, client.MergeFrom(beforeVolume)))
	beforeVolume = volume.DeepCopy()
	volume.Status.Phase = corev1.VolumeBound
	must(api.Status().Patch(t.Context(), volume, client.MergeFrom(beforeVolume)))

	smaller := source.DeepCopy()
	smaller.ObjectMeta = metav1.ObjectMeta{Name: "smaller", Namespace: source.Namespace, Annotations: map[string]string{
		"volume.kubernetes.io/storage-provisioner": driver, "volume.kubernetes.io/selected-node": "a"}}
	smaller.Spec.VolumeName = ""
	smaller.Status = corev1.PersistentVolumeClaimStatus{}
	smaller.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: source.Name}
	smaller.Spec.DataSourceRef = nil
	smaller.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	clone := smaller.DeepCopy()
	clone.Name = "clone"
	clone.Spec.Resources.Requests = source.Spec.Resources.Requests
	create(smaller, clone)
	eventually(t, "a PersistentVolume of the copy", func() bool {
		return api.Get(t.Context(), client.ObjectKey{Name: "pvc-" + string(clone.UID)},
			&corev1.PersistentVolume{}) == nil
	})
	must(api.Get(t.Context(), client.ObjectKeyFromObject(source), source))
	if source.Labels["mine"] != "yes" || len(source.Spec.AccessModes) != 1 {
		t.Errorf("the source of the copy has lost something: %+v", source)
	}
	if err := api.Get(t.Context(), client.ObjectKey{Name: "pvc-" + string(smaller.UID)},
		&corev1.PersistentVolume{}); err == nil {
		t.Error("a copy that is smaller than its source was made")
	}
}

// restoreOf creates a claim from a VolumeSnapshot whose restoreSize is more than the claim requests, as an earlier
// version has set it: the size of a volume is that of its request rounded up. The driver decides whether it is enough.
func restoreOf(t *testing.T, api client.Client, create func(...client.Object), source *corev1.PersistentVolumeClaim) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	snapshot := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "restored", Namespace: source.Namespace},
		Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{
			VolumeSnapshotContentName: ptr.To("snapcontent-restored")}}}
	create(snapshot)
	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "snapcontent-restored"},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: driver, DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain,
			VolumeSnapshotRef: corev1.ObjectReference{Name: snapshot.Name, Namespace: snapshot.Namespace,
				UID: snapshot.UID},
			Source: snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: ptr.To("id-restored")}}}
	create(content)
	before := content.DeepCopy()
	content.Status = &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: ptr.To("id-restored"),
		ReadyToUse: ptr.To(true)}
	must(api.Status().Patch(t.Context(), content, client.MergeFrom(before)))
	size := resource.MustParse("956Mi")
	beforeSnapshot := snapshot.DeepCopy()
	snapshot.Status = &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: ptr.To(content.Name),
		ReadyToUse: ptr.To(true), RestoreSize: &size}
	must(api.Status().Patch(t.Context(), snapshot, client.MergeFrom(beforeSnapshot)))

	restored := source.DeepCopy()
	restored.ObjectMeta = metav1.ObjectMeta{Name: "restored", Namespace: source.Namespace, Annotations: map[string]string{
		"volume.kubernetes.io/storage-provisioner": driver, "volume.kubernetes.io/selected-node": "a"}}
	restored.Spec.VolumeName = ""
	restored.Status = corev1.PersistentVolumeClaimStatus{}
	restored.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ptr.To(snapshotv1.GroupName),
		Kind: "VolumeSnapshot", Name: snapshot.Name}
	restored.Spec.DataSourceRef = nil
	restored.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1G")}
	create(restored)
	volume := &corev1.PersistentVolume{}
	eventually(t, "a PersistentVolume for a claim with the request of the source", func() bool {
		return api.Get(t.Context(), client.ObjectKey{Name: "pvc-" + string(restored.UID)}, volume) == nil
	})
	must(api.Get(t.Context(), client.ObjectKeyFromObject(snapshot), snapshot))
	if got := snapshot.Status.RestoreSize; got == nil || got.Cmp(size) != 0 {
		t.Errorf("the restoreSize of the VolumeSnapshot was changed to %v", got)
	}
}

// eventually waits for the sidecars, which run asynchronously.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(env.Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("no %s", what)
}

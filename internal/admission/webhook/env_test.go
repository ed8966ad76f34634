//go:build env

package webhook

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/env"
)

const testNamespace = env.Namespace

var (
	testClient client.Client
	testConfig *rest.Config
	testCache  client.Reader // the reader of the webhook
	heard      = &warningsHeard{}
)

// warningsHeard records the warnings that kubectl would print.
type warningsHeard struct{ texts []string }

func (w *warningsHeard) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.texts = append(w.texts, text)
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run serves the validators for a real API server.
func run(m *testing.M) (int, error) {
	server, err := env.Start()
	if err != nil {
		return 1, err
	}
	defer func() { _ = server.Stop() }()
	testConfig = server.Config
	stop, err := server.ServeAdmission(func(mgr ctrl.Manager) error {
		testCache = mgr.GetCache()
		return Setup(mgr, testNamespace)
	})
	if err != nil {
		return 1, err
	}
	defer func() { _ = stop() }()
	hearing := rest.CopyConfig(testConfig)
	hearing.WarningHandlerWithContext = heard
	if testClient, err = client.New(hearing, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return 1, err
	}
	elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}
	if err := testClient.Create(context.Background(), elsewhere); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func newCluster(classes ...lvmv1alpha1.DeviceClass) *lvmv1alpha1.LVMCluster {
	return &lvmv1alpha1.LVMCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "lvmcluster", Namespace: testNamespace},
		Spec:       lvmv1alpha1.LVMClusterSpec{Storage: lvmv1alpha1.Storage{DeviceClasses: classes}},
	}
}

func class(name string, paths ...lvmv1alpha1.DevicePath) lvmv1alpha1.DeviceClass {
	return lvmv1alpha1.DeviceClass{Name: name, DeviceSelector: &lvmv1alpha1.DeviceSelector{Paths: paths}}
}

func asDefault(class lvmv1alpha1.DeviceClass) lvmv1alpha1.DeviceClass {
	class.Default = true
	return class
}

func withPool(class lvmv1alpha1.DeviceClass, change func(*lvmv1alpha1.ThinPoolConfig)) lvmv1alpha1.DeviceClass {
	class.ThinPoolConfig = &lvmv1alpha1.ThinPoolConfig{Name: "pool", OverprovisionRatio: 10}
	change(class.ThinPoolConfig)
	return class
}

func withOptions(class lvmv1alpha1.DeviceClass, options lvmv1alpha1.StorageClassOptions) lvmv1alpha1.DeviceClass {
	class.StorageClassOptions = &options
	return class
}

// TestRefusals checks the messages that a user gets from the schema and from the webhook.
func TestRefusals(t *testing.T) {
	elsewhere := newCluster(asDefault(class("vg1", "/dev/sda")))
	elsewhere.Namespace = "elsewhere"
	two := newCluster(asDefault(lvmv1alpha1.DeviceClass{Name: "vg1"}), class("vg2"))
	two.Spec.Storage.DeviceClasses[1].DeviceSelector = &lvmv1alpha1.DeviceSelector{
		Paths: []lvmv1alpha1.DevicePath{"/dev/sdb"}, OptionalPaths: []lvmv1alpha1.DevicePath{"/dev/sdb"}}
	for name, test := range map[string]struct {
		cluster *lvmv1alpha1.LVMCluster
		want    []string
	}{
		"wrong namespace": {elsewhere, []string{
			`metadata.namespace: Invalid value: "elsewhere": an LVMCluster must be created in namespace "openshift-lvm-storage", where the operator runs`}},
		"several violations in one answer": {two, []string{
			`spec.storage.deviceClasses[0].deviceSelector: Required value: device class "vg1" would use every unused device, including those for other device classes: select its devices by paths, optionalPaths or properties`,
			`spec.storage.deviceClasses[1].deviceSelector.optionalPaths[0]: Invalid value: "/dev/sdb": optional device path /dev/sdb is specified at multiple places in deviceClass "vg2", also at spec.storage.deviceClasses[1].deviceSelector.paths[0]: keep one of them`}},
		"one device in two classes": {newCluster(asDefault(class("vg1", "/dev/sda")),
			class("vg2", "/dev/sda")), []string{
			`spec.storage.deviceClasses[1].deviceSelector.paths[0]: Invalid value: "/dev/sda": device classes "vg1" and "vg2" name the same device on the same nodes, also at spec.storage.deviceClasses[0].deviceSelector.paths[0]: a device can belong to only one device class; remove it from one of them`}},
		"schema: path outside /dev": {newCluster(class("vg1", "sda")), []string{
			`spec.storage.deviceClasses[0].deviceSelector.paths[0]: Invalid value: "sda": spec.storage.deviceClasses[0].deviceSelector.paths[0] in body should match '^/dev(/+[^/.][^/]*)+$'`}},
		"schema: path that leaves /dev": {newCluster(class("vg1", "/dev/../etc/passwd")), []string{
			`spec.storage.deviceClasses[0].deviceSelector.paths[0]: Invalid value: "/dev/../etc/passwd": spec.storage.deviceClasses[0].deviceSelector.paths[0] in body should match '^/dev(/+[^/.][^/]*)+$'`}},
		"schema: two defaults": {newCluster(asDefault(class("vg1", "/dev/sda")),
			asDefault(class("vg2", "/dev/sdb"))), []string{
			// Kubernetes 1.30 inserts the type of the value.
			`spec.storage.deviceClasses: Invalid value: `,
			`only one device class can be the default: set default to true in one device class only`}},
		"schema: no device named": {newCluster(class("vg1")), []string{
			`set paths, optionalPaths or at least one property of devices, or remove deviceSelector to use every unused device`}},
		"sizes that LVM does not make": {newCluster(withPool(class("vg1", "/dev/sda"),
			func(p *lvmv1alpha1.ThinPoolConfig) {
				p.ChunkSize, p.MetadataSize = ptr.To(resource.MustParse("100Ki")), ptr.To(resource.MustParse("100Gi"))
				p.MetadataSizeCalculationPolicy = lvmv1alpha1.SizeCalculationStatic
			})), []string{
			`spec.storage.deviceClasses[0].thinPoolConfig.chunkSize: Invalid value: "100Ki": must be a multiple of 64Ki from 64Ki to 1Gi; remove it for a default that depends on the size of the thin pool`,
			`spec.storage.deviceClasses[0].thinPoolConfig.metadataSize: Invalid value: "100Gi": must be from 2Mi to 16Gi; remove it for the default of 1Gi`}},
		"metadata size without its policy": {newCluster(withPool(class("vg1", "/dev/sda"),
			func(p *lvmv1alpha1.ThinPoolConfig) { p.MetadataSize = ptr.To(resource.MustParse("1Gi")) })), []string{
			`spec.storage.deviceClasses[0].thinPoolConfig.metadataSize: Invalid value: "1Gi": metadataSize requires metadataSizeCalculationPolicy Static: with Host, LVM chooses the size`}},
	} {
		t.Run(name, func(t *testing.T) {
			err := testClient.Create(t.Context(), test.cluster)
			if err == nil {
				_ = testClient.Delete(t.Context(), test.cluster)
				t.Fatal("was admitted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("message\n%s\ndoes not have\n%s", err, want)
				}
			}
		})
	}
}

func TestSecondClusterIsRefusedByName(t *testing.T) {
	first := newCluster(asDefault(class("vg1", "/dev/sda")))
	create(t, first)
	second := newCluster(asDefault(class("vg1", "/dev/sda")))
	second.Name = "second"
	err := testClient.Create(t.Context(), second)
	want := `metadata.name: Forbidden: LVMCluster "openshift-lvm-storage/lvmcluster" already exists, and a cluster can have only one: add your device classes to it, or delete it first`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

func TestImmutableFieldsNameTheRemedy(t *testing.T) {
	for name, test := range map[string]struct {
		before lvmv1alpha1.DeviceClass
		change func(*lvmv1alpha1.DeviceClass)
		want   string
	}{
		"thin pool added": {class("vg1", "/dev/sda"),
			func(c *lvmv1alpha1.DeviceClass) {
				c.ThinPoolConfig = &lvmv1alpha1.ThinPoolConfig{Name: "pool", OverprovisionRatio: 10}
			},
			"thinPoolConfig cannot be added to or removed from an existing device class"},
		"file system": {class("vg1", "/dev/sda"),
			func(c *lvmv1alpha1.DeviceClass) { c.FilesystemType = lvmv1alpha1.FilesystemTypeExt4 },
			"fstype is immutable, because StorageClass parameters are: create a new device class"},
		"reclaim policy": {withOptions(class("vg1", "/dev/sda"),
			lvmv1alpha1.StorageClassOptions{ReclaimPolicy: corev1.PersistentVolumeReclaimDelete}),
			func(c *lvmv1alpha1.DeviceClass) {
				c.StorageClassOptions.ReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			},
			"reclaimPolicy is immutable, because StorageClasses are: create a new device class"},
		"binding mode": {withOptions(class("vg1", "/dev/sda"),
			lvmv1alpha1.StorageClassOptions{VolumeBindingMode: storagev1.VolumeBindingImmediate}),
			func(c *lvmv1alpha1.DeviceClass) { c.StorageClassOptions = nil },
			"storageClassOptions.volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": was Immediate, and " +
				"StorageClass lvms-vg1 is immutable"},
		"parameters": {withOptions(class("vg1", "/dev/sda"),
			lvmv1alpha1.StorageClassOptions{AdditionalParameters: map[string]string{"a": "b"}}),
			func(c *lvmv1alpha1.DeviceClass) { c.StorageClassOptions.AdditionalParameters["a"] = "c" },
			"additionalParameters is immutable"},
		"the last device class": {class("vg1", "/dev/sda"),
			func(c *lvmv1alpha1.DeviceClass) { c.Name = "" }, // so the field is omitted
			"at least one device class must remain: delete the LVMCluster instead"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(asDefault(test.before))
			create(t, cluster)
			test.change(&cluster.Spec.Storage.DeviceClasses[0])
			cluster.Spec.Storage.DeviceClasses = slices.DeleteFunc(cluster.Spec.Storage.DeviceClasses,
				func(c lvmv1alpha1.DeviceClass) bool { return c.Name == "" })
			if err := testClient.Update(t.Context(), cluster); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("message %v\ndoes not have %s", err, test.want)
			}
		})
	}
}

func TestClassAddedByUpdateIsJudgedLikeANewOne(t *testing.T) {
	cluster := newCluster(asDefault(class("vg1", "/dev/sda")))
	create(t, cluster)
	added := withPool(class("vg2", "/dev/sda"),
		func(p *lvmv1alpha1.ThinPoolConfig) { p.ChunkSize = ptr.To(resource.MustParse("1Ki")) })
	cluster.Spec.Storage.DeviceClasses = append(cluster.Spec.Storage.DeviceClasses, added)
	err := testClient.Update(t.Context(), cluster)
	for _, want := range []string{`chunkSize: Invalid value: "1Ki"`, `"vg1" and "vg2" name the same device`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("message %v\ndoes not have %s", err, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	heard.texts = nil
	all := lvmv1alpha1.DeviceClass{Name: "vg1",
		ThinPoolConfig: &lvmv1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 95, OverprovisionRatio: 10}}
	create(t, newCluster(all))
	want := []string{
		"no device class is the default: every PersistentVolumeClaim must set storageClassName",
		`device class "vg1" has no deviceSelector: it will use every unused device of its nodes`,
		`device class "vg1": thinPoolConfig.sizePercent 95 leaves little free space in the volume group: above 90, there may be no space to extend the metadata of the thin pool, which fails if its metadata is full`,
	}
	if diff := cmp.Diff(want, heard.texts); diff != "" {
		t.Error(diff)
	}
}

func TestObjectThatRulesNoLongerAllowCanBeDeleted(t *testing.T) {
	cluster := newCluster(asDefault(class("vg1", "/dev/sda")))
	cluster.Finalizers = []string{wellknown.LVMClusterFinalizer}
	create(t, cluster)
	if err := testClient.Delete(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if err := testClient.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Finalizers = nil
	if err := testClient.Update(t.Context(), cluster); err != nil {
		t.Error(err)
	}
}

// listDevices creates a node with a list of devices, and waits until the webhook can read it.
func listDevices(t *testing.T, name string, devices ...lvmv1alpha1.DeviceStatus) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: testNamespace}}
	for _, object := range []client.Object{node, status} {
		if err := testClient.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := testClient.Delete(context.Background(), object); err != nil {
				t.Error(err)
			}
		})
	}
	status.Status.Devices = devices
	if err := testClient.Status().Update(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	for range 600 {
		seen := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
		nodeSeen := testCache.Get(t.Context(), client.ObjectKeyFromObject(node), &corev1.Node{}) == nil
		if nodeSeen && testCache.Get(t.Context(), client.ObjectKeyFromObject(status), seen) == nil &&
			len(seen.Status.Devices) == len(devices) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the webhook does not see the devices")
}

func TestAChunkSizeCanBeChangedUntilThePoolExists(t *testing.T) {
	listDevices(t, "worker-1")
	cluster := newCluster(asDefault(withPool(class("vg1", "/dev/sda"), func(*lvmv1alpha1.ThinPoolConfig) {})))
	create(t, cluster)
	set := func(size string) error {
		cluster.Spec.Storage.DeviceClasses[0].ThinPoolConfig.ChunkSize = ptr.To(resource.MustParse(size))
		return testClient.Update(t.Context(), cluster)
	}
	if err := set("256Ki"); err != nil {
		t.Fatal(err)
	}
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	if err := testClient.Get(t.Context(), client.ObjectKey{Namespace: testNamespace, Name: "worker-1"},
		status); err != nil {
		t.Fatal(err)
	}
	status.Status.NodeStatus = []lvmv1alpha1.VGStatus{{Name: "vg1", Status: lvmv1alpha1.VGStatusReady,
		ThinPool: &lvmv1alpha1.ThinPoolStatus{
			Name: "pool", Size: resource.MustParse("1Gi"), MetadataSize: resource.MustParse("4Mi"),
			ChunkSize: ptr.To(resource.MustParse("256Ki")),
		}}}
	if err := testClient.Status().Update(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	const want = `chunkSize: Forbidden: device class "vg1" already has a thin pool on node worker-1, and the chunk size of a thin pool cannot be changed`
	if err := set("512Ki"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if err := set("256Ki"); err != nil {
		t.Error(err)
	}
}

func TestDevicesThatTheNodesKnow(t *testing.T) {
	listDevices(t, "worker-1",
		lvmv1alpha1.DeviceStatus{Name: "/dev/sda", State: lvmv1alpha1.DeviceInUse,
			Reasons: []lvmv1alpha1.DeviceReason{{Code: "IsOSDisk", Message: "contains the operating system of the node, or a part of it"}}},
		lvmv1alpha1.DeviceStatus{Name: "/dev/sdb", ID: "wwn:1", ByID: []string{"wwn-1"},
			State: lvmv1alpha1.DeviceAvailable})
	twice := []string{
		`spec.storage.deviceClasses[1].deviceSelectors[0].paths[0]: Invalid value: "/dev/disk/by-id/wwn-1": resolves to the same device on node worker-1 (/dev/sdb wwn:1) as /dev/sdb at spec.storage.deviceClasses[0].deviceSelector.paths[0], in device class "vg1": a device can belong to only one device class; remove it from one of them`,
		`spec.storage.deviceClasses[1].deviceSelectors[0].minSize: Invalid value: "1Mi": must be at least 16Mi`,
		`spec.storage.deviceClasses[1].deviceSelectors[0].transports[0]: Unsupported value: "pigeon"`,
		`spec.storage.deviceClasses[1].deviceSelectors: Invalid value: 1: raid5 requires at least 3 devices on each node, but paths and optionalPaths name 1`,
	}
	other := lvmv1alpha1.DeviceClass{Name: "vg2", RAIDConfig: &lvmv1alpha1.RAIDConfig{Type: lvmv1alpha1.RAIDType5},
		DeviceSelectors: []lvmv1alpha1.NodeDeviceSelector{
			{DeviceSelector: lvmv1alpha1.DeviceSelector{Paths: []lvmv1alpha1.DevicePath{"/dev/disk/by-id/wwn-1"},
				MinSize: ptr.To(resource.MustParse("1Mi")), Transports: []lvmv1alpha1.DeviceProperty{"pigeon"}}}}}
	refused := func(err error) {
		t.Helper()
		for _, want := range twice {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("message\n%v\ndoes not have\n%s", err, want)
			}
		}
	}
	refused(testClient.Create(t.Context(), newCluster(asDefault(class("vg1", "/dev/sdb")), other)))

	cluster := newCluster(asDefault(class("vg1", "/dev/sdb")))
	create(t, cluster)
	changed := cluster.DeepCopy()
	changed.Spec.Storage.DeviceClasses = append(changed.Spec.Storage.DeviceClasses, other)
	refused(testClient.Update(t.Context(), changed))

	heard.texts = nil
	changed = cluster.DeepCopy()
	changed.Spec.Storage.DeviceClasses[0].DeviceSelector.Paths = []lvmv1alpha1.DevicePath{"/dev/sda"}
	changed.Spec.Storage.DeviceClasses[0].DeviceRequests = []lvmv1alpha1.DeviceRequest{{Node: "worker-9",
		Device: "/dev/sdb", Action: lvmv1alpha1.DeviceActionDrain}}
	if err := testClient.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`spec.storage.deviceClasses[0].deviceSelector.paths[0]: device class "vg1": /dev/sda cannot be used on node worker-1: /dev/sda IsOSDisk: contains the operating system of the node, or a part of it`,
		`spec.storage.deviceClasses[0].deviceRequests[0].node: device class "vg1": node "worker-9" does not exist: the request to drain /dev/sdb remains pending until it does; correct the name or delete the request`,
		`device class "vg1": /dev/sdb is no longer selected on node worker-1: unless another path or property selects the device, its data is moved to the other devices of the volume group and the device is removed; to stop this, restore the path`,
	}
	if diff := cmp.Diff(want, heard.texts); diff != "" {
		t.Error(diff)
	}
}

func TestConsentToWipeOnUpdate(t *testing.T) {
	wiping := func(cluster *lvmv1alpha1.LVMCluster, paths ...lvmv1alpha1.DevicePath) *lvmv1alpha1.LVMCluster {
		changed := cluster.DeepCopy()
		changed.Spec.Storage.DeviceClasses[0].DeviceSelector = &lvmv1alpha1.DeviceSelector{Paths: paths,
			ForceWipeDevicesAndDestroyAllData: ptr.To(true)}
		return changed
	}
	cluster := newCluster(asDefault(class("vg1", "/dev/sda")))
	create(t, cluster)
	heard.texts = nil
	if err := testClient.Update(t.Context(), wiping(cluster, "/dev/sda"), client.DryRunAll); err != nil {
		t.Errorf("nothing was done yet: %v", err)
	}
	if want := []string{
		`device class "vg1": all data on /dev/sda will be destroyed, once for each disk, unless the disk is in use`,
		`device class "vg1": /dev/sda can lead to another disk after a restart: once the volume group exists, no disk is wiped by such a name; use links in /dev/disk/by-id or /dev/disk/by-path`}; !cmp.Equal(want, heard.texts) {
		t.Errorf("warnings %q", heard.texts)
	}
	group := &lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Namespace: testNamespace}}
	if err := testClient.Create(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = testClient.Delete(context.Background(), group) })
	want := `spec.storage.deviceClasses[0].deviceSelector.forceWipeDevicesAndDestroyAllData: Forbidden: /dev/sda was already in device class "vg1" without being wiped, and may contain data: wipe it manually, or set this field only in a deviceSelectors entry for new devices`
	if err := testClient.Update(t.Context(), wiping(cluster, "/dev/sda", "/dev/sdb"), client.DryRunAll); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("message\n%v\ndoes not have\n%s", err, want)
	}
	if err := testClient.Update(t.Context(), wiping(cluster, "/dev/disk/by-id/b"), client.DryRunAll); err != nil {
		t.Errorf("for a new device only: %v", err)
	}
	want = `deviceSelector.paths[0]: Invalid value: "/dev/sdb": is a name of the kernel`
	if err := testClient.Update(t.Context(), wiping(cluster, "/dev/sdb"), client.DryRunAll); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("message\n%v\ndoes not have\n%s", err, want)
	}
}

// create creates an object and deletes it when the test ends.
func create(t *testing.T, cluster *lvmv1alpha1.LVMCluster) {
	t.Helper()
	if err := testClient.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := testClient.Delete(context.Background(), cluster); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

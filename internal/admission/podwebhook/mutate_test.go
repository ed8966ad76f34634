package podwebhook

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

const (
	testNamespace = "apps"
	mib           = int64(1) << 20
	gib           = int64(1) << 30
)

// storageClasses are those of the tests of TopoLVM v0.41 (internal/hook/suite_test.go), and one without a device class.
func storageClasses() []client.Object {
	class := func(name, provisioner string, parameters map[string]string) client.Object {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), Parameters: parameters}
	}
	return []client.Object{
		class("topolvm-provisioner", "topolvm.io", map[string]string{"topolvm.io/device-class": "dc1"}),
		class("topolvm-provisioner2", "topolvm.io", map[string]string{"topolvm.io/device-class": "dc2"}),
		class("topolvm-provisioner3", "topolvm.io", map[string]string{"topolvm.io/device-class": "dc3"}),
		class("topolvm-default", "topolvm.io", nil),
		class("host-local", "kubernetes.io/no-provisioner", nil),
	}
}

// claims are those of the tests of TopoLVM v0.41 (internal/hook/mutate_pod_test.go), and a few more. Their phase is in
// phases.
func claims() []*corev1.PersistentVolumeClaim {
	claim := func(name, class string, size int64) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name},
			Spec:   claimSpec(class, size),
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
		return c
	}
	return []*corev1.PersistentVolumeClaim{
		claim("local-pvc", "host-local", 10*gib),
		claim("bound-pvc", "topolvm-provisioner", 100*gib),
		claim("pvc1", "topolvm-provisioner", 100*gib),
		claim("pvc2", "topolvm-provisioner", 2*gib-1),
		claim("pvc3", "topolvm-provisioner2", 3*gib),
		claim("pvc4", "topolvm-provisioner3", 4*gib),
		claim("pvc5", "topolvm-provisioner", 500*mib),
		claim("default-pvc", "", 3*gib),
		claim("default-class", "topolvm-default", gib),
		claim("missing-class", "missing", gib),
		claim("bound-local", "host-local", gib),
	}
}

// phases are the phases of claims that are not Pending.
var phases = map[string]corev1.PersistentVolumeClaimPhase{"bound-pvc": corev1.ClaimBound,
	"bound-local": corev1.ClaimBound}

func claimSpec(class string, size int64) corev1.PersistentVolumeClaimSpec {
	spec := corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}
	if class != "" {
		spec.StorageClassName = &class
	}
	if size > 0 {
		spec.Resources.Requests = corev1.ResourceList{"storage": *resource.NewQuantity(size, resource.BinarySI)}
	}
	return spec
}

// usesClaims returns volumes of claims.
func usesClaims(names ...string) []corev1.Volume {
	var volumes []corev1.Volume
	for _, name := range names {
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	return volumes
}

func ephemeral(class string, size int64) corev1.Volume {
	return corev1.Volume{Name: "ephemeral", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimSpec(class, size)}}}}
}

// marks are the annotations that a Pod gets, by device class. A nil map means that the Pod is not changed.
type marks map[string]int64

// cases run in a unit test, and on an API server.
var cases = map[string]struct {
	volumes []corev1.Volume
	want    marks
}{
	// These are the cases of TopoLVM v0.41.
	"a Pod without claims":   {},
	"a Pod before its claim": {usesClaims("non-existent"), nil},
	"a claim":                {usesClaims("pvc1"), marks{"dc1": 100 * gib}},
	"claims of three device classes": {usesClaims("pvc1", "pvc3", "pvc4"), marks{"dc1": 100 * gib, "dc2": 3 * gib,
		"dc3": 4 * gib}},
	"a generic ephemeral volume": {[]corev1.Volume{ephemeral("topolvm-provisioner", 100*gib)},
		marks{"dc1": 100 * gib}},
	"a bound claim":                  {usesClaims("pvc1", "bound-pvc"), nil},
	"a sum of sizes":                 {usesClaims("local-pvc", "pvc1", "pvc2"), marks{"dc1": 102*gib - 1}},
	"a claim without a StorageClass": {usesClaims("default-pvc"), nil},
	"a claim of less than 1Gi":       {usesClaims("pvc5"), marks{"dc1": 500 * mib}},
	// These are more.
	"a StorageClass without a device class":      {usesClaims("default-class"), marks{"00default": gib}},
	"a StorageClass that does not exist":         {usesClaims("missing-class", "pvc5"), marks{"dc1": 500 * mib}},
	"a bound claim of another driver":            {usesClaims("bound-local", "pvc5"), marks{"dc1": 500 * mib}},
	"a bound claim before another one":           {usesClaims("bound-pvc", "pvc1"), nil},
	"an ephemeral volume of another driver":      {[]corev1.Volume{ephemeral("host-local", gib)}, nil},
	"an ephemeral volume without a StorageClass": {[]corev1.Volume{ephemeral("", gib)}, nil},
	"other volumes": {[]corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{}}}}, nil},
}

// podOf returns a Pod with volumes.
func podOf(volumes []corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "pod"},
		Spec: corev1.PodSpec{Volumes: volumes, Containers: []corev1.Container{
			{Name: "container1", Image: "ubuntu"}, {Name: "container2", Image: "ubuntu"}}},
	}
}

// mutator returns a webhook with the objects. fail may return an error for a read.
func mutator(t *testing.T, fail func(client.Object) error) *Mutator {
	t.Helper()
	objects := storageClasses()
	for _, claim := range claims() {
		if phase, other := phases[claim.Name]; other {
			claim.Status.Phase = phase
		}
		objects = append(objects, claim)
	}
	get := func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
		options ...client.GetOption) error {
		if fail != nil {
			if err := fail(o); err != nil {
				return err
			}
		}
		return c.Get(ctx, key, o, options...)
	}
	live := memory.Builder().WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{Get: get}).Build()
	behind := memory.Builder().Build() // a cache that has nothing yet
	return New(behind, live)
}

func handle(t *testing.T, m *Mutator, pod *corev1.Pod) admission.Response {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return m.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: testNamespace, Object: runtime.RawExtension{Raw: raw}}})
}

// added returns the values that a response adds, by path.
func added(t *testing.T, response admission.Response) map[string]any {
	t.Helper()
	if !response.Allowed {
		t.Fatalf("refused: %v", response.Result)
	}
	all := map[string]any{}
	for _, operation := range response.Patches {
		if operation.Operation != "add" {
			t.Errorf("operation %s", operation.Json())
		}
		all[operation.Path] = operation.Value
	}
	return all
}

func TestPodsAreMarked(t *testing.T) {
	m := mutator(t, nil)
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			got := added(t, handle(t, m, podOf(test.volumes)))
			for class, size := range test.want {
				path := "/metadata/annotations/capacity.topolvm.io~1" + class
				if got[path] != resource.NewQuantity(size, resource.DecimalSI).AsDec().String() {
					t.Errorf("%s is %v, want %d", path, got[path], size)
				}
			}
			annotations := 0
			for path := range got {
				if strings.HasPrefix(path, "/metadata/annotations/") {
					annotations++
				}
			}
			if annotations != len(test.want) {
				t.Errorf("added %v", got)
			}
			for _, list := range []string{"requests", "limits"} {
				value, marked := got["/spec/containers/0/resources/"+list+"/topolvm.io~1capacity"]
				if marked != (test.want != nil) || marked && value != "1" {
					t.Errorf("%s: %v", list, value)
				}
			}
		})
	}
}

// A JSON patch can only add to what exists, and must not replace what the Pod has.
func TestOnlyMissingFieldsAreCreated(t *testing.T) {
	always := []string{"/metadata/annotations/capacity.topolvm.io~1dc1",
		"/spec/containers/0/resources/limits/topolvm.io~1capacity",
		"/spec/containers/0/resources/requests/topolvm.io~1capacity"}
	memory := corev1.ResourceList{"memory": resource.MustParse("100Mi")}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		more   []string
	}{
		"nothing": {func(*corev1.Pod) {}, []string{"/metadata/annotations", "/spec/containers/0/resources",
			"/spec/containers/0/resources/limits", "/spec/containers/0/resources/requests"}},
		"annotations": {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, []string{
			"/spec/containers/0/resources", "/spec/containers/0/resources/limits",
			"/spec/containers/0/resources/requests"}},
		"requests": {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = memory },
			[]string{"/metadata/annotations", "/spec/containers/0/resources/limits"}},
		"both": {func(p *corev1.Pod) {
			p.Annotations = map[string]string{"a": "b"}
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: memory, Limits: memory}
		}, nil},
		"resource claims": {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}} },
			[]string{"/metadata/annotations", "/spec/containers/0/resources/limits",
				"/spec/containers/0/resources/requests"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(usesClaims("pvc1"))
			test.change(pod)
			got := slices.Sorted(maps.Keys(added(t, handle(t, mutator(t, nil), pod))))
			if want := slices.Sorted(slices.Values(slices.Concat(always, test.more))); !slices.Equal(got, want) {
				t.Errorf("added %q, want %q", got, want)
			}
		})
	}
}

// A Pod never waits for the webhook.
func TestAFailedReadLeavesThePodUnmarked(t *testing.T) {
	for name, test := range map[string]struct {
		fails client.Object
		says  string
	}{
		"a claim":        {&corev1.PersistentVolumeClaim{}, "read PersistentVolumeClaim apps/pvc3: no answer"},
		"a StorageClass": {&storagev1.StorageClass{}, "read StorageClass topolvm-provisioner2: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			m := mutator(t, func(o client.Object) error {
				if reflect.TypeOf(o) == reflect.TypeOf(test.fails) {
					return errors.New("no answer")
				}
				return nil
			})
			response := handle(t, m, podOf(usesClaims("pvc3")))
			if len(added(t, response)) > 0 || len(response.Warnings) != 1 ||
				!strings.Contains(response.Warnings[0], test.says) {
				t.Errorf("got %v", response)
			}
		})
	}
}

func TestARequestThatIsNotAPodIsRefused(t *testing.T) {
	response := mutator(t, nil).Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Object: runtime.RawExtension{Raw: []byte("[]")}}})
	if response.Allowed {
		t.Error("allowed")
	}
}

func TestSizes(t *testing.T) {
	if got := sizeOf(&corev1.PersistentVolumeClaim{}); got != gib {
		t.Errorf("a claim without a size requests %d", got)
	}
	for _, test := range []struct{ a, b, want int64 }{
		{1, 2, 3}, {math.MaxInt64, 1, math.MaxInt64}, {math.MaxInt64 - 1, 1, math.MaxInt64},
		{math.MaxInt64, 0, math.MaxInt64},
	} {
		if got := sum(test.a, test.b); got != test.want {
			t.Errorf("%d + %d: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

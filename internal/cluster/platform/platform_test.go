package platform

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

// apis serves group versions with the kinds that Detect looks up, or fails.
type apis struct {
	discovery.DiscoveryInterface
	served map[string]string // kinds, separated by spaces
	err    error
}

func (a apis) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	if a.err != nil {
		return nil, a.err
	}
	kind, ok := a.served[groupVersion]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
	}
	list := &metav1.APIResourceList{}
	for _, k := range strings.Fields(kind) {
		list.APIResources = append(list.APIResources, metav1.APIResource{Kind: k})
	}
	return list, nil
}

var (
	openShiftAPIs = apis{served: map[string]string{
		"config.openshift.io/v1": "Infrastructure", "security.openshift.io/v1": "SecurityContextConstraints",
		"snapshot.storage.k8s.io/v1": "VolumeSnapshot", "groupsnapshot.storage.k8s.io/v1": "VolumeGroupSnapshot",
		"storage.k8s.io/v1":        "StorageClass VolumeAttributesClass",
		"console.openshift.io/v1":  "ConsolePlugin ConsoleQuickStart",
		"monitoring.coreos.com/v1": "ServiceMonitor PrometheusRule"}}
	microShiftAPIs = apis{served: map[string]string{"security.openshift.io/v1": "SecurityContextConstraints"}}
)

func reader(objects ...client.Object) client.Client {
	return memory.Builder().WithObjects(objects...).Build()
}

func TestDetect(t *testing.T) {
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	microShift := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "microshift-version"}}
	for name, test := range map[string]struct {
		apis    apis
		objects []client.Object
		want    Platform
	}{
		"OpenShift": {openShiftAPIs, []client.Object{infrastructure},
			Platform{Kind: OpenShift, SCC: true, Snapshots: true, GroupSnapshots: true,
				VolumeAttributes: true, Console: true, ServiceMonitors: true}},
		"MicroShift": {microShiftAPIs, []client.Object{microShift}, Platform{Kind: MicroShift, SCC: true}},
		"Kubernetes": {apis{}, nil, Platform{Kind: Kubernetes}},
		"API without its data": {openShiftAPIs, nil,
			Platform{Kind: Kubernetes, SCC: true, Snapshots: true, GroupSnapshots: true,
				VolumeAttributes: true, Console: true, ServiceMonitors: true}},
		"half of the console": {apis{served: map[string]string{"console.openshift.io/v1": "ConsoleQuickStart"}}, nil,
			Platform{Kind: Kubernetes}},
		"kind missing in API": {apis{served: map[string]string{"snapshot.storage.k8s.io/v1": "VolumeSnapshotClass"}},
			nil, Platform{Kind: Kubernetes}},
		"Kubernetes before 1.34": {apis{served: map[string]string{"storage.k8s.io/v1": "StorageClass",
			"storage.k8s.io/v1beta1": "VolumeAttributesClass"}}, nil, Platform{Kind: Kubernetes}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Detect(t.Context(), test.apis, reader(test.objects...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFailedQuestionIsNotNo(t *testing.T) {
	away := errors.New("away")
	if _, err := Detect(t.Context(), apis{err: away}, reader()); !errors.Is(err, away) {
		t.Errorf("discovery: %v", err)
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "cluster", nil)
	broken := interceptor.NewClient(reader().(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return forbidden
		},
	})
	if _, err := Detect(t.Context(), openShiftAPIs, broken); !apierrors.IsForbidden(err) {
		t.Errorf("read: %v", err)
	}
}

func TestAPIsThatAppearEndTheProcessAndAFailedLookDoesNot(t *testing.T) {
	all := Platform{Snapshots: true, GroupSnapshots: true, VolumeAttributes: true, Console: true, ServiceMonitors: true}
	without := func(forget func(*Platform)) Platform {
		found := all
		forget(&found)
		return found
	}
	for name, tt := range map[string]struct {
		served apis
		found  Platform
		says   string
	}{
		"a failed look": {apis{err: errors.New("away")}, Platform{}, ""},
		"nothing new":   {openShiftAPIs, all, ""},
		"snapshots": {openShiftAPIs, without(func(p *Platform) { p.Snapshots = false }),
			"VolumeSnapshot API"},
		"group snapshots": {openShiftAPIs, without(func(p *Platform) { p.GroupSnapshots = false }),
			"VolumeGroupSnapshot API"},
		"classes of volumes": {openShiftAPIs, without(func(p *Platform) { p.VolumeAttributes = false }),
			"VolumeAttributesClass API"},
		"a console": {openShiftAPIs, without(func(p *Platform) { p.Console = false }),
			"OpenShift's console"},
		"the Prometheus Operator": {openShiftAPIs, without(func(p *Platform) { p.ServiceMonitors = false }),
			"Prometheus Operator"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if tt.says != "" {
			ctx = t.Context()
		}
		err := (&apiWatch{tt.served, tt.found, time.Millisecond}).Start(ctx)
		cancel()
		var appeared *AppearedError
		if errors.As(err, &appeared) != (tt.says != "") || tt.says != "" && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Permissions for APIs that the cluster lacks are not missing.
func TestAbsentGroupsAreThoseOfOptionalAPIs(t *testing.T) {
	for name, tt := range map[string]struct {
		found Platform
		want  []string
	}{
		"Kubernetes": {Platform{Kind: Kubernetes},
			[]string{"config.openshift.io", "console.openshift.io", "groupsnapshot.storage.k8s.io",
				"monitoring.coreos.com", "security.openshift.io", "snapshot.storage.k8s.io"}},
		"Kubernetes with snapshots": {Platform{Kind: Kubernetes, Snapshots: true, ServiceMonitors: true},
			[]string{"config.openshift.io", "console.openshift.io", "groupsnapshot.storage.k8s.io",
				"security.openshift.io"}},
		"OpenShift": {Platform{Kind: OpenShift, SCC: true, Snapshots: true, GroupSnapshots: true, TLSProfile: true,
			Console: true, ServiceMonitors: true}, nil},
		"MicroShift": {Platform{Kind: MicroShift, SCC: true},
			[]string{"config.openshift.io", "console.openshift.io", "groupsnapshot.storage.k8s.io",
				"monitoring.coreos.com", "snapshot.storage.k8s.io"}},
	} {
		got := tt.found.Absent()
		if slices.Sort(got); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

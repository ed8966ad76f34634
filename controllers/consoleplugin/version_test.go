package consoleplugin

import (
	"context"
	"errors"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	consolev1 "github.com/openshift/api/console/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

func TestTheBuildIsThatOfTheConsole(t *testing.T) {
	for openShift, want := range map[string]string{
		"4.18.30": legacyPath, "4.19.0": legacyPath, "4.19.0-rc.3": legacyPath, "4.21.99": legacyPath,
		"4.21.0-0.okd-scos-2026-01-12-101010": legacyPath,
		"4.22.0-ec.1":                         currentPath, "4.22.0-rc.1": currentPath, "4.22.0": currentPath,
		"4.23.1": currentPath, "4.100.0": currentPath, "5.0.0": currentPath,
		"5.0.0-0.nightly-2026-10-01-000000": currentPath,
		"":                                  "", "4": "", "4.21": "", "latest": "", "v": "", "4.x.1": "",
	} {
		path, err := pathFor(openShift)
		if path != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", openShift, path, err, want)
		}
	}
}

func update(state configv1.UpdateState, version string) configv1.UpdateHistory {
	return configv1.UpdateHistory{State: state, Version: version}
}

func clusterVersion(desired string, history ...configv1.UpdateHistory) *configv1.ClusterVersion {
	return &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: versionName},
		Status: configv1.ClusterVersionStatus{Desired: configv1.Release{Version: desired}, History: history}}
}

func offering(path string) *consolev1.ConsolePlugin {
	return &consolev1.ConsolePlugin{ObjectMeta: metav1.ObjectMeta{Name: PluginName},
		Spec: consolev1.ConsolePluginSpec{Backend: consolev1.ConsolePluginBackend{
			Service: &consolev1.ConsolePluginService{BasePath: path}}}}
}

func TestThePathFollowsTheVersionThatTheClusterHas(t *testing.T) {
	noKind := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "config.openshift.io", Kind: "ClusterVersion"}}
	away := errors.New("no answer")
	for name, tt := range map[string]struct {
		objects []client.Object
		// versionErr and pluginErr are the errors of the reads of the two objects.
		versionErr, pluginErr error
		want, says            string
	}{
		"installed": {objects: []client.Object{clusterVersion("4.20.1", update(configv1.CompletedUpdate, "4.20.1"))},
			want: legacyPath},
		"being installed": {objects: []client.Object{
			clusterVersion("4.21.0", update(configv1.PartialUpdate, "4.21.0"))}, want: legacyPath},
		"being upgraded": {objects: []client.Object{clusterVersion("4.22.0", update(configv1.PartialUpdate, "4.22.0"),
			update(configv1.CompletedUpdate, "4.21.7")), offering("/")}, want: legacyPath},
		"upgraded": {objects: []client.Object{clusterVersion("4.22.0", update(configv1.CompletedUpdate, "4.22.0"),
			update(configv1.CompletedUpdate, "4.21.7")), offering(legacyPath)}, want: currentPath},
		"an upgrade that was replaced by another": {objects: []client.Object{clusterVersion("4.22.1",
			update(configv1.PartialUpdate, "4.22.1"), update(configv1.PartialUpdate, "4.22.0"),
			update(configv1.CompletedUpdate, "4.21.7"))}, want: legacyPath},
		"not OpenShift":   {want: currentPath},
		"without the API": {versionErr: noKind, want: currentPath},
		"without the API, before": {versionErr: noKind, objects: []client.Object{offering(legacyPath)},
			want: currentPath},
		"unreadable, and it has the older one": {versionErr: away, objects: []client.Object{offering(legacyPath)},
			want: legacyPath, says: "no answer"},
		"unreadable, and it has the current one": {versionErr: away, objects: []client.Object{offering(currentPath)},
			want: currentPath, says: "no answer"},
		"unreadable, and there is no plugin": {versionErr: away, says: "no answer"},
		"nothing can be read": {versionErr: away, pluginErr: errors.New("nor that"), says: "nor that",
			objects: []client.Object{offering(legacyPath)}},
		"no version yet": {objects: []client.Object{clusterVersion("")}, want: currentPath},
		"no version, and it has the older one": {objects: []client.Object{clusterVersion(""), offering(legacyPath)},
			want: legacyPath},
		"no version, and the plugin is unreadable": {objects: []client.Object{clusterVersion("")},
			pluginErr: errors.New("nor that"), says: "nor that"},
		"no version that can be compared": {objects: []client.Object{clusterVersion("latest"), offering(legacyPath)},
			want: legacyPath, says: `invalid version "latest"`},
	} {
		t.Run(name, func(t *testing.T) {
			get := func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				options ...client.GetOption) error {
				_, isVersion := o.(*configv1.ClusterVersion)
				if isVersion && tt.versionErr != nil {
					return tt.versionErr
				}
				if !isVersion && tt.pluginErr != nil {
					return tt.pluginErr
				}
				return c.Get(ctx, key, o, options...)
			}
			c := &Controller{live: memory.Builder().WithObjects(tt.objects...).
				WithInterceptorFuncs(interceptor.Funcs{Get: get}).Build()}
			for range 2 {
				path, err := c.basePath(t.Context())
				if path != tt.want || (err != nil) != (tt.says != "") ||
					err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got %q, %v, want %q, %s", path, err, tt.want, tt.says)
				}
			}
		})
	}
}

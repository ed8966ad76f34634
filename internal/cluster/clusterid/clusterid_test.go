package clusterid

import (
	"context"
	"errors"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

func TestIdentity(t *testing.T) {
	kubeSystem := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "ns"}}
	version := func(id configv1.ClusterID) *configv1.ClusterVersion {
		return &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"},
			Spec: configv1.ClusterVersionSpec{ClusterID: id}}
	}
	noKind := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "config.openshift.io", Kind: "ClusterVersion"}}
	for name, test := range map[string]struct {
		objects  []client.Object
		declared string
		// versionErr is the error for the ClusterVersion, and namespaceErr that for the namespace.
		versionErr, namespaceErr error
		want                     Identity
		says                     string
	}{
		"Kubernetes":               {objects: []client.Object{kubeSystem}, versionErr: noKind, want: Identity{ID: "ns"}},
		"without a ClusterVersion": {objects: []client.Object{kubeSystem}, want: Identity{ID: "ns"}},
		"a declared identity": {objects: []client.Object{kubeSystem}, versionErr: noKind, declared: "site-7",
			want: Identity{ID: "site-7", Former: "ns"}},
		"the UID is declared": {objects: []client.Object{kubeSystem}, declared: "ns", want: Identity{ID: "ns"}},
		"declared on OpenShift": {objects: []client.Object{kubeSystem, version("id")}, declared: "site-7",
			says: "clusterID of ClusterVersion version: remove the setting"},
		"declared, and kube-system unreadable": {declared: "site-7", namespaceErr: errors.New("no answer"), says: "no answer"},
		"OpenShift":                            {objects: []client.Object{kubeSystem, version("id")}, want: Identity{ID: "id", Former: "ns"}},
		"no cluster ID":                        {objects: []client.Object{kubeSystem, version("")}, says: "no clusterID"},
		"ClusterVersion unreadable":            {objects: []client.Object{kubeSystem}, versionErr: errors.New("no answer"), says: "no answer"},
		"kube-system unreadable":               {objects: []client.Object{version("id")}, namespaceErr: errors.New("no answer"), says: "kube-system"},
		"kube-system does not exist":           {objects: []client.Object{version("id")}, says: "kube-system"},
		"kube-system without a UID": {objects: []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}}, says: "has no UID"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := memory.Builder().WithObjects(test.objects...).WithInterceptorFuncs(
				interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
					o client.Object, options ...client.GetOption) error {
					_, isVersion := o.(*configv1.ClusterVersion)
					if err := test.versionErr; isVersion && err != nil {
						return err
					}
					if err := test.namespaceErr; !isVersion && err != nil {
						return err
					}
					return c.Get(ctx, key, o, options...)
				}}).Build()
			got, err := Read(t.Context(), reader, test.declared)
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) || got != test.want {
				t.Errorf("got %+v, %v, want %+v, %q", got, err, test.want, test.says)
			}
		})
	}
}

func TestDeclared(t *testing.T) {
	for name, test := range map[string]struct {
		flag, variable, want string
		wrong                bool
	}{
		"nothing":                       {},
		"a flag":                        {flag: "site-7", want: "site-7"},
		"the variable overrides it":     {flag: "site-7", variable: "A.b_8", want: "A.b_8"},
		"the longest":                   {flag: strings.Repeat("a", 63), want: strings.Repeat("a", 63)},
		"too long":                      {flag: strings.Repeat("a", 64), wrong: true},
		"a character that LVM refuses":  {variable: "site 7", wrong: true},
		"a dash at the beginning":       {variable: "-site", wrong: true},
		"a wrong flag that is not used": {flag: "-", variable: "b", want: "b"},
	} {
		got, err := Declared(test.flag, func(string) string { return test.variable })
		if got != test.want || (err != nil) != test.wrong {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

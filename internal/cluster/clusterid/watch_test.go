package clusterid

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answers is a reader whose n-th ClusterVersion has the n-th cluster ID. For an empty one, the read fails. The last one
// is repeated.
type answers struct {
	client.Reader
	ids []configv1.ClusterID
}

func (a *answers) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch o := object.(type) {
	case *corev1.Namespace:
		o.ObjectMeta = metav1.ObjectMeta{UID: types.UID("ns")}
	case *configv1.ClusterVersion:
		o.Spec.ClusterID = a.ids[0]
		if len(a.ids) > 1 {
			a.ids = a.ids[1:]
		}
		if o.Spec.ClusterID == "" {
			return errors.New("no answer")
		}
	}
	return nil
}

func TestRestartWhenChanged(t *testing.T) {
	for name, test := range map[string]struct {
		ids  []configv1.ClusterID
		want *ChangedError
		// minutes is when it ends. Without an error, the context ends it then.
		minutes int
	}{
		"the same":                     {ids: []configv1.ClusterID{"cluster"}, minutes: 60},
		"unreadable, then the same":    {ids: []configv1.ClusterID{"", "", "cluster"}, minutes: 60},
		"another one":                  {ids: []configv1.ClusterID{"cluster", "cluster", "seed"}, minutes: 3, want: &ChangedError{"cluster", "seed"}},
		"unreadable, then another one": {ids: []configv1.ClusterID{"", "seed"}, minutes: 2, want: &ChangedError{"cluster", "seed"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour+time.Second)
				defer cancel()
				start := time.Now()
				err := RestartWhenChanged(&answers{ids: test.ids}, "", Identity{ID: "cluster", Former: "ns"}).Start(ctx)
				if took := time.Since(start).Truncate(time.Minute); took != time.Duration(test.minutes)*time.Minute {
					t.Errorf("ended after %s, want %d minutes", took, test.minutes)
				}
				var got *ChangedError
				_ = errors.As(err, &got)
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

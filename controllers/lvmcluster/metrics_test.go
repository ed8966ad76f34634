package lvmcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

func collector(t *testing.T, broken bool, objects ...client.Object) *Collector {
	t.Helper()
	c := memory.Builder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			if broken {
				return errors.New("the cache is not synced")
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	return NewCollector(c, "ns")
}

// ones returns the series whose value is not 0, as NAME VALUES... VALUE, sorted.
func ones(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetGauge().GetValue() == 0 {
				continue
			}
			words := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				words = append(words, l.GetValue())
			}
			list = append(list, fmt.Sprintf("%s %g", strings.Join(words, " "), m.GetGauge().GetValue()))
		}
	}
	slices.Sort(list)
	return list
}

func TestMetricsTellTheStateOfTheClusterAndWhichNodesTakePart(t *testing.T) {
	c := collector(t, false,
		&v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
			Status: v1alpha1.LVMClusterStatus{
				State: v1alpha1.LVMStatusDegraded,
				Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse},
					{Type: "ResourcesAvailable", Status: metav1.ConditionTrue}},
			}},
		&v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "not ours"}},
		&v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "node1"},
			Status: v1alpha1.LVMVolumeGroupNodeStatusStatus{
				NodeStatus: []v1alpha1.VGStatus{{Name: "a"}, {Name: "b"}},
			}},
		&v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "node2"}},
	)
	want := []string{
		"lvms_lvmcluster_condition Ready c False 1", "lvms_lvmcluster_condition ResourcesAvailable c True 1",
		"lvms_lvmcluster_state c Degraded 1", "lvms_node_volume_groups node1 2",
	}
	if got := ones(t, c); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := testutil.CollectAndCount(c); n != 5+2*3+2 {
		t.Errorf("%d series", n)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestANewClusterIsUnknown(t *testing.T) {
	c := collector(t, false, &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})
	if got, want := ones(t, c), []string{"lvms_lvmcluster_state c Unknown 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhatCannotBeReadHasNoSeries(t *testing.T) {
	if n := testutil.CollectAndCount(collector(t, true)); n != 0 {
		t.Errorf("%d series", n)
	}
	if n := testutil.CollectAndCount(collector(t, false)); n != 0 {
		t.Errorf("%d series without an LVMCluster", n)
	}
}

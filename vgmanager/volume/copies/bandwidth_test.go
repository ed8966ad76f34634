package copies

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// limited is an LVMVolumeGroup with a bandwidth limit, which is none if it is "".
func limited(name, limit string) *v1alpha1.LVMVolumeGroup {
	group := &v1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
	if limit != "" {
		quantity := resource.MustParse(limit)
		group.Spec.VolumeCopy = &v1alpha1.VolumeCopyConfig{BandwidthLimit: &quantity}
	}
	return group
}

func groups(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	return memory.Builder().WithObjects(objects...).Build()
}

func TestTheLowestBandwidthLimitApplies(t *testing.T) {
	other := limited("vg9", "1Mi")
	other.Namespace = "other"
	for name, tt := range map[string]struct {
		objects []client.Object
		want    rate.Limit
	}{
		"no group": {want: rate.Inf},
		"no limit": {objects: []client.Object{limited("vg1", ""), other}, want: rate.Inf},
		"being changed": {objects: []client.Object{limited("vg1", "20Mi"), limited("vg2", "10Mi"), other},
			want: 10 << 20},
		"being set":           {objects: []client.Object{limited("vg1", ""), limited("vg2", "10Mi")}, want: 10 << 20},
		"below the minimum":   {objects: []client.Object{limited("vg1", "0")}, want: 1 << 20},
		"below zero":          {objects: []client.Object{limited("vg1", "-5Gi")}, want: 1 << 20},
		"a fraction of bytes": {objects: []client.Object{limited("vg1", "2097151500m")}, want: 2 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBandwidth(groups(t, tt.objects...), "ns")
			got, err := b.limit(t.Context())
			if err != nil || got != tt.want {
				t.Errorf("limit %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// TestAChangedLimitAppliesToTheNextPiece, in both directions, without a restart.
func TestAChangedLimitAppliesToTheNextPiece(t *testing.T) {
	api := groups(t, limited("vg1", ""))
	b := NewBandwidth(api, "ns")
	for range 1000 {
		if err := b.Wait(t.Context(), maxData); err != nil {
			t.Fatal(err)
		}
	}
	changed := limited("vg1", "1Mi")
	changed.ResourceVersion = "999"
	if err := api.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Wait(ended, maxData); !errors.Is(err, context.Canceled) {
		t.Errorf("the copy has ended: %v", err)
	}
	if got := b.limiter.Limit(); got != 1<<20 {
		t.Errorf("limit %v", got)
	}
	if err := b.Wait(t.Context(), maxData+1); err == nil {
		t.Error("more than a piece at once")
	}
	changed.Spec.VolumeCopy = nil
	if err := api.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if err := b.Wait(t.Context(), maxData); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnUnknownLimitEndsTheStream: it is not taken for none.
func TestAnUnknownLimitEndsTheStream(t *testing.T) {
	b := NewBandwidth(fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build(), "ns")
	for range 2 {
		if err := b.Wait(t.Context(), 1); err == nil {
			t.Error("no error")
		}
	}
}

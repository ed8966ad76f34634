package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

// TestWhatCannotBeReadIsNotEmpty checks that nothing is admitted if the rules cannot read an object, and that the
// message names it.
func TestWhatCannotBeReadIsNotEmpty(t *testing.T) {
	before := &lvmv1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: "my-lvmcluster", Namespace: "ns"}}
	after := before.DeepCopy()
	after.Spec.Storage.DeviceClasses = classesOf(t, "[{name: a, deviceSelector: {paths: [/dev/a]}}]")
	for _, tt := range []struct {
		list           client.ObjectList
		create, update bool
		says           string
	}{
		{list: &lvmv1alpha1.LVMClusterList{}, create: true, says: "list LVMClusters in namespace ns"},
		{list: &corev1.NodeList{}, create: true, update: true, says: "list Nodes"},
		{list: &lvmv1alpha1.LVMVolumeGroupNodeStatusList{}, create: true, update: true, says: "read the devices of the nodes"},
		{list: &lvmv1alpha1.LVMVolumeGroupList{}, update: true, says: "list LVMVolumeGroups"},
		{list: &storagev1.StorageClassList{}, update: true, says: "list StorageClasses"},
	} {
		reader := memory.Builder().WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption) error {
				if fmt.Sprintf("%T", list) == fmt.Sprintf("%T", tt.list) {
					return errors.New("the API server is away")
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
		v := &Validator{Live: reader, Cached: reader, Namespace: "ns"}
		_, onCreate := v.ValidateCreate(t.Context(), after)
		_, onUpdate := v.ValidateUpdate(t.Context(), before, after)
		for verb, got := range map[string]struct {
			err    error
			refuse bool
		}{"create": {onCreate, tt.create}, "update": {onUpdate, tt.update}} {
			switch {
			case !got.refuse && got.err != nil:
				t.Errorf("%T, %s: %v", tt.list, verb, got.err)
			case got.refuse && (!apierrors.IsInternalError(got.err) || !strings.Contains(got.err.Error(), tt.says) ||
				!strings.Contains(got.err.Error(), "the API server is away")):
				t.Errorf("%T, %s: got %v, want %q", tt.list, verb, got.err, tt.says)
			}
		}
		if _, err := v.ValidateUpdate(t.Context(), before, before); err != nil {
			t.Errorf("%T: a change of something else than the spec is asked about: %v", tt.list, err)
		}
	}
}

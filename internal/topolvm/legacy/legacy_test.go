package legacy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

// readerOf returns a reader of an API server that has the LogicalVolume a, and whose requests fail with an error.
func readerOf(t *testing.T, err error) client.Reader {
	t.Helper()
	return memory.Builder().
		WithObjects(&earlierv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				options ...client.GetOption) error {
				return errors.Join(err, c.Get(ctx, key, o, options...))
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList,
				options ...client.ListOption) error {
				return errors.Join(err, c.List(ctx, l, options...))
			}}).Build()
}

func TestLogicalVolumesAreRead(t *testing.T) {
	noAPI := &meta.NoKindMatchError{GroupKind: earlierv1.GroupVersion.WithKind("LogicalVolume").GroupKind()}
	for name, test := range map[string]struct {
		err, want error
		names     string
	}{
		"read":        {names: "a"},
		"no API":      {err: fmt.Errorf("wrapped: %w", noAPI)},
		"read failed": {err: errors.New("no answer"), want: errors.New("no answer")},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			err := Each(t.Context(), readerOf(t, test.err),
				func(lv *earlierv1.LogicalVolume) { names = append(names, lv.Name) })
			if !says(err, test.want) || test.err == nil && strings.Join(names, " ") != test.names {
				t.Errorf("got %v, %v", names, err)
			}
			lv, err := Get(t.Context(), readerOf(t, test.err), "a")
			if !says(err, test.want) || (lv != nil) != (test.names != "") {
				t.Errorf("got %v, %v", lv, err)
			}
		})
	}
	if lv, err := Get(t.Context(), readerOf(t, nil), "b"); lv != nil || err != nil {
		t.Errorf("got %v, %v for one that does not exist", lv, err)
	}
}

func says(got, want error) bool {
	return (got == nil) == (want == nil) && (want == nil || strings.Contains(got.Error(), want.Error()))
}

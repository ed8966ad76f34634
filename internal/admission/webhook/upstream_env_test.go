//go:build env

package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tryCreate creates an object without storing it. On a busy machine the API server can stop waiting for the webhook:
// then tryCreate repeats the call.
func tryCreate(t *testing.T, object client.Object) error {
	const tries = 6
	var err error
	for range tries {
		// Strict refuses unknown fields.
		err = testClient.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))
		if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "context deadline exceeded") {
			return err
		}
	}
	return err
}

// TestSamplesOfUpstream creates the LVMClusters of upstream's documentation, tests and installers.
func TestSamplesOfUpstream(t *testing.T) {
	for file, source := range upstreamSources(t) {
		for _, sample := range source.Samples {
			t.Run(file+": "+sample.Name, func(t *testing.T) {
				object := &unstructured.Unstructured{}
				object.SetAPIVersion("lvm.topolvm.io/v1alpha1")
				object.SetKind("LVMCluster")
				object.SetName("upstream")
				object.SetNamespace(testNamespace)
				object.SetAnnotations(sample.Annotations)
				var spec map[string]any
				if err := json.Unmarshal(sample.Spec, &spec); err != nil {
					t.Fatal(err)
				}
				object.Object["spec"] = spec
				err := tryCreate(t, object)
				switch {
				case sample.Refused == "" && err != nil:
					t.Errorf("refused: %v", err)
				case sample.Refused != "" && err == nil:
					t.Errorf("accepted, want a refusal with %q", sample.Refused)
				case sample.Refused != "" && !strings.Contains(err.Error(), sample.Refused):
					t.Errorf("refused with\n%v\nwant\n%s", err, sample.Refused)
				}
			})
		}
	}
}

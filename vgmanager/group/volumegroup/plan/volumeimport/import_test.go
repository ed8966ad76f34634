package volumeimport

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestImportName(t *testing.T) {
	names := map[string]bool{}
	for _, volume := range []string{"0f8bc5e1-3c55-4f0a-9c39-5bd7f1c5c6d2", "Data_1", "data_1"} {
		name := importName(volume)
		if len(validation.IsDNS1123Subdomain(name)) > 0 || names[name] || name != importName(volume) {
			t.Errorf("%s: got %s", volume, name)
		}
		names[name] = true
	}
}

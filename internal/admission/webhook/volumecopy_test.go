package webhook

import (
	"testing"

	"sigs.k8s.io/yaml"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func TestRulesAboutTheBandwidthOfCopies(t *testing.T) {
	const wrong = "spec.volumeCopy.bandwidthLimit: Invalid value: "
	for name, tt := range map[string]struct {
		spec string
		want []string
	}{
		"none":       {"{}", nil},
		"no limit":   {"{volumeCopy: {}}", nil},
		"the lowest": {"{volumeCopy: {bandwidthLimit: 1Mi}}", nil},
		"decimal":    {"{volumeCopy: {bandwidthLimit: 100M}}", nil},
		"too low":    {"{volumeCopy: {bandwidthLimit: 1000k}}", []string{wrong + `"1M": must be a number of bytes`}},
		"zero":       {"{volumeCopy: {bandwidthLimit: 0}}", []string{wrong + `"0"`}},
		"negative":   {`{volumeCopy: {bandwidthLimit: "-1Gi"}}`, []string{wrong + `"-1Gi"`}},
		"not whole":  {"{volumeCopy: {bandwidthLimit: 10000000500m}}", []string{wrong}},
	} {
		spec := lvmv1alpha1.LVMClusterSpec{}
		if err := yaml.UnmarshalStrict([]byte(tt.spec), &spec); err != nil {
			t.Fatal(err)
		}
		check(t, name, validateSpec(spec), tt.want...)
	}
}

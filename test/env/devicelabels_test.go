//go:build env

package env

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// labelsOf returns a node status with labels of devices.
func labelsOf(t *testing.T, text string) *lvmv1alpha1.LVMVolumeGroupNodeStatus {
	t.Helper()
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	status.Name, status.Namespace = "labels", Namespace
	if err := yaml.UnmarshalStrict([]byte(text), &status.Spec.DeviceLabels); err != nil {
		t.Fatal(err)
	}
	return status
}

func TestLabelsOfDevicesHaveTheSyntaxOfLabels(t *testing.T) {
	long := strings.Repeat("a", 64)
	for name, tt := range map[string]struct{ labels, want string }{
		"none":             {`[]`, ""},
		"a label":          {`[{id: "wwn:0x1", labels: {tier: fast}}]`, ""},
		"an empty value":   {`[{id: "dm:mpath-1", labels: {tier: ""}}]`, ""},
		"a prefix":         {`[{id: "serial:S 1", labels: {example.com/tier_1.a-B: A.b-c_1}}]`, ""},
		"the longest":      {`[{id: "md:1", labels: {` + long[1:] + `: ` + long[1:] + `}}]`, ""},
		"two devices":      {`[{id: "wwn:0x1", labels: {a: b}}, {id: "wwn:0x2", labels: {a: b}}]`, ""},
		"one device twice": {`[{id: "wwn:0x1", labels: {a: b}}, {id: "wwn:0x1", labels: {a: c}}]`, "Duplicate value"},
		"no label":         {`[{id: "wwn:0x1", labels: {}}]`, "should have at least 1 properties"},
		"no id":            {`[{id: "", labels: {a: b}}]`, "deviceLabels[0].id"},
		"a file system":    {`[{id: "fs:u", labels: {a: b}}]`, "that does not depend on its content"},
		"a physical volume": {`[{id: "pv:u", labels: {a: b}}]`,
			"must not begin with pv: or fs:"},
		"a long key":        {`[{id: "wwn:0x1", labels: {` + long + `: b}}]`, "must be a key of a label of Kubernetes"},
		"a key with spaces": {`[{id: "wwn:0x1", labels: {a b: c}}]`, "must be a key of a label of Kubernetes"},
		"an empty key":      {`[{id: "wwn:0x1", labels: {"": c}}]`, "must be a key of a label of Kubernetes"},
		"a key that ends with a hyphen": {`[{id: "wwn:0x1", labels: {a-: c}}]`,
			"must be a key of a label of Kubernetes"},
		"a prefix in capitals": {`[{id: "wwn:0x1", labels: {A.b/c: c}}]`, "must be a key of a label of Kubernetes"},
		"a value with spaces":  {`[{id: "wwn:0x1", labels: {a: b c}}]`, "labels.a: Invalid value"},
		"a long value":         {`[{id: "wwn:0x1", labels: {a: ` + long + `}}]`, "labels.a: Too long"},
		"seventeen labels": {`[{id: "wwn:0x1", labels: {a: "", b: "", c: "", d: "", e: "", f: "", g: "", h: "", i: "",
			j: "", k: "", l: "", m: "", n: "", o: "", p: "", q: ""}}]`, "labels: Too many: 17"},
	} {
		err := server.Client.Create(t.Context(), labelsOf(t, tt.labels), client.DryRunAll)
		expect.Error(t, name, err, tt.want)
	}
}

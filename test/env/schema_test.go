//go:build env

package env

import (
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

var server *Env

func TestMain(m *testing.M) { Main(m, func(e *Env) { server = e }) }

func cluster(t *testing.T, storage string) *lvmv1alpha1.LVMCluster {
	t.Helper()
	c := &lvmv1alpha1.LVMCluster{}
	c.Name, c.Namespace = "my-lvmcluster", Namespace
	if err := yaml.UnmarshalStrict([]byte(storage), &c.Spec.Storage); err != nil {
		t.Fatal(err)
	}
	return c
}

func wantRefusal(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want a refusal with %q", want)
	}
	if !strings.Contains(err.Error(), want) {
		t.Fatalf("refused with\n  %v\nwant\n  %q", err, want)
	}
}

func TestCreateIsRefusedWith(t *testing.T) {
	tests := map[string]struct{ storage, want string }{
		"path not under /dev": {
			`{deviceClasses: [{name: vg1, deviceSelector: {paths: [/tmp/disk]}}]}`,
			`spec.storage.deviceClasses[0].deviceSelector.paths[0]: Invalid value: "/tmp/disk": must be the absolute path of a device, under /dev/`},
		"path that leaves /dev": {
			`{deviceClasses: [{name: vg1, deviceSelector: {optionalPaths: [/dev/../tmp/disk]}}]}`,
			`optionalPaths[0]: Invalid value: "/dev/../tmp/disk": must be the absolute path of a device, under /dev/`},
		"two defaults": {
			`{deviceClasses: [{name: vg1, default: true}, {name: vg2, default: true}]}`,
			`at most one device class can be the default: set default: true on one only`},
		"empty device selector": {
			`{deviceClasses: [{name: vg1, deviceSelector: {}}]}`,
			`name at least one device in paths or optionalPaths`},
		"name with a capital":        {`{deviceClasses: [{name: VG1}]}`, `spec.storage.deviceClasses[0].name: Invalid value: "VG1"`},
		"name beyond an annotation":  {`{deviceClasses: [{name: ` + strings.Repeat("a", 64) + `}]}`, `Too long: may not be more than 63`},
		"unknown file system":        {`{deviceClasses: [{name: vg1, fstype: btrfs}]}`, `supported values: "xfs", "ext4"`},
		"no overprovision ratio":     {`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 0}}]}`, `should be greater than or equal to 1`},
		"overprovision ratio of 101": {`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 101}}]}`, `should be less than or equal to 100`},
		"size percent of 5":          {`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, sizePercent: 5}}]}`, `should be greater than or equal to 10`},
		"metadata size with Host":    {`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, metadataSize: 1Gi}}]}`, `metadataSize needs metadataSizeCalculationPolicy: Static`},
		"chunk size with Host":       {`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, chunkSizeCalculationPolicy: Host, chunkSize: 64Ki}}]}`, `chunkSize needs chunkSizeCalculationPolicy: Static`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, server.Client.Create(context.Background(), cluster(t, tt.storage), client.DryRunAll), tt.want)
		})
	}
}

func TestDefaultsAreInTheSchema(t *testing.T) {
	c := cluster(t, `{deviceClasses: [{name: vg1, thinPoolConfig: {name: pool, overprovisionRatio: 10}}]}`)
	if err := server.Client.Create(context.Background(), c, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	class := c.Spec.Storage.DeviceClasses[0]
	pool := class.ThinPoolConfig
	if class.FilesystemType != lvmv1alpha1.FilesystemTypeXFS || class.DeviceDiscoveryPolicy != lvmv1alpha1.DeviceDiscoveryStatic {
		t.Errorf("class defaults: %+v", class)
	}
	if pool.SizePercent != 90 || pool.ChunkSizeCalculationPolicy != lvmv1alpha1.SizeCalculationStatic ||
		pool.MetadataSizeCalculationPolicy != lvmv1alpha1.SizeCalculationHost {
		t.Errorf("pool defaults: %+v", pool)
	}
}

func TestUpdateIsRefusedWith(t *testing.T) {
	const before = `{deviceClasses: [{name: vg1, fstype: xfs, nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]},
	  thinPoolConfig: {name: pool, overprovisionRatio: 10, sizePercent: 50, chunkSize: 128Ki, metadataSizeCalculationPolicy: Static, metadataSize: 1Gi}},
	  {name: vg2}]}`
	tests := map[string]struct {
		change func(*lvmv1alpha1.DeviceClass)
		want   string
	}{
		"another file system":   {func(c *lvmv1alpha1.DeviceClass) { c.FilesystemType = "ext4" }, "fstype cannot be changed"},
		"no thin pool any more": {func(c *lvmv1alpha1.DeviceClass) { c.ThinPoolConfig = nil }, "thinPoolConfig cannot be added to or removed from"},
		"no node selector":      {func(c *lvmv1alpha1.DeviceClass) { c.NodeSelector = nil }, "nodeSelector cannot be changed"},
		"another pool name":     {func(c *lvmv1alpha1.DeviceClass) { c.ThinPoolConfig.Name = "x" }, "name of the thin pool cannot be changed"},
		"another size percent":  {func(c *lvmv1alpha1.DeviceClass) { c.ThinPoolConfig.SizePercent = 60 }, "sizePercent cannot be changed"},
		"no chunk size":         {func(c *lvmv1alpha1.DeviceClass) { c.ThinPoolConfig.ChunkSize = nil }, "the chunk size cannot be changed"},
		"another metadata policy": {func(c *lvmv1alpha1.DeviceClass) {
			c.ThinPoolConfig.MetadataSizeCalculationPolicy = "Host"
			c.ThinPoolConfig.MetadataSize = nil
		}, "the metadata size cannot be changed"},
	}
	ctx := context.Background()
	c := cluster(t, before)
	if err := server.Client.Create(ctx, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Client.Delete(ctx, c) })
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			changed := c.DeepCopy()
			tt.change(&changed.Spec.Storage.DeviceClasses[0])
			wantRefusal(t, server.Client.Update(ctx, changed, client.DryRunAll), tt.want)
		})
	}
	t.Run("but the overprovision ratio may change", func(t *testing.T) {
		changed := c.DeepCopy()
		changed.Spec.Storage.DeviceClasses[0].ThinPoolConfig.OverprovisionRatio = 20
		if err := server.Client.Update(ctx, changed, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
	})
}

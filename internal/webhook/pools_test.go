package webhook

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func TestPoolsThatAChangeCloses(t *testing.T) {
	pool := func(class, size, virtual string, data, metadata int32) lvmv1alpha1.LVMVolumeGroupNodeStatus {
		entry := lvmv1alpha1.VGStatus{Name: class,
			ThinPool: &lvmv1alpha1.ThinPoolStatus{Name: "p", Size: resource.MustParse(size), DataPercent: data,
				MetadataPercent: metadata}}
		if virtual != "" {
			q := resource.MustParse(virtual)
			entry.ThinPool.VirtualSize = &q
		}
		status := lvmv1alpha1.LVMVolumeGroupNodeStatus{}
		status.Status.NodeStatus = []lvmv1alpha1.VGStatus{{Name: "thick"}, entry}
		return status
	}
	known := inventory{statuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{
		"n3": pool("a", "10Gi", "21Gi", 80, 10), "n1": pool("a", "10Gi", "50Gi", 10, 70),
		"n2": pool("a", "10Gi", "20Gi", 69, 69),
		"n4": pool("b", "10Gi", "99Gi", 99, 99), "n5": pool("a", "8Ei", "", 0, 0), "n6": {},
	}}
	const before = "[{name: a, thinPoolConfig: {name: p, overprovisionRatio: 10, highWaterMarkPercent: 95}}]"
	for name, tt := range map[string]struct {
		before, after string
		want          []string
	}{
		"nothing changes": {before, before, nil},
		"a lower ratio": {before,
			"[{name: x}, {name: a, thinPoolConfig: {name: p, overprovisionRatio: 2, highWaterMarkPercent: 95}}]",
			[]string{
				`spec.storage.deviceClasses[1].thinPoolConfig.overprovisionRatio: device class "a": the provisioned size of the volumes on nodes n1, n3 exceeds 2 times`}},
		"still enough": {before,
			"[{name: a, thinPoolConfig: {name: p, overprovisionRatio: 5, highWaterMarkPercent: 95}}]", nil},
		"a higher ratio": {"[{name: a, thinPoolConfig: {name: p, overprovisionRatio: 1}}]",
			"[{name: a, thinPoolConfig: {name: p, overprovisionRatio: 2}}]", nil},
		"a lower mark": {before,
			"[{name: a, thinPoolConfig: {name: p, overprovisionRatio: 10, highWaterMarkPercent: 70}}]",
			[]string{"highWaterMarkPercent: device class \"a\": thin pools already use 70% or more on nodes n1, n3"}},
		"both": {before,
			"[{name: a, thinPoolConfig: {name: p, overprovisionRatio: 4, highWaterMarkPercent: 75}}]",
			[]string{"on node n1 exceeds", "75% or more on node n3"}},
		"a new class":   {"[]", "[{name: a, thinPoolConfig: {name: p, overprovisionRatio: 1}}]", nil},
		"a thick class": {"[{name: a}]", "[{name: a}]", nil},
	} {
		got := known.poolsClosed(classesOf(t, tt.before), classesOf(t, tt.after))
		if len(got) != len(tt.want) {
			t.Errorf("%s: got %q", name, got)
			continue
		}
		for i, want := range tt.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: got\n%s\nwant\n%s", name, got[i], want)
			}
		}
	}
}

func TestNodesThatAChangeLeaves(t *testing.T) {
	known := twoNodes()
	entry := lvmv1alpha1.VGStatus{Name: "a", Devices: []string{"/dev/sdc"}}
	for _, name := range []string{"n1", "n2"} {
		status := known.statuses[name]
		status.Status.NodeStatus = []lvmv1alpha1.VGStatus{{Name: "b"}, entry}
		known.statuses[name] = status
	}
	for name, tt := range map[string]struct {
		before, after string
		want          string
	}{
		"one leaves": {"[{name: a}]", "[{name: x}, {name: a, " + onRack("a") + "}]",
			`spec.storage.deviceClasses[1].nodeSelector: device class "a" no longer selects node n2`},
		"all leave":         {"[{name: a}]", "[{name: a, " + onRack("z") + "}]", "no longer selects nodes n1, n2"},
		"more come":         {"[{name: a, " + onRack("a") + "}]", "[{name: a}]", ""},
		"one that has none": {"[{name: b}]", "[{name: b, " + onRack("a") + "}]", ""},
		"a new class":       {"[]", "[{name: a, " + onRack("a") + "}]", ""},
		"the same":          {"[{name: a, " + onRack("a") + "}]", "[{name: a, " + onRack("a") + "}]", ""},
	} {
		got := strings.Join(known.nodesLeft(classesOf(t, tt.before), classesOf(t, tt.after)), "\n")
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestAChunkSizeIsKeptWithItsPool(t *testing.T) {
	status := func(class string, pool *lvmv1alpha1.ThinPoolStatus) lvmv1alpha1.LVMVolumeGroupNodeStatus {
		status := lvmv1alpha1.LVMVolumeGroupNodeStatus{}
		status.Status.NodeStatus = []lvmv1alpha1.VGStatus{{Name: class, ThinPool: pool}}
		return status
	}
	pool := &lvmv1alpha1.ThinPoolStatus{Name: "p"}
	without := inventory{statuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{"n1": status("b", pool),
		"n2": status("a", nil)}}
	with := inventory{statuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{"n1": status("b", pool),
		"n2": status("a", pool)}}
	of := func(config string) string {
		return "[{name: x}, {name: a, thinPoolConfig: {name: p, overprovisionRatio: 1" + config + "}}]"
	}
	const refused = `spec.storage.deviceClasses[1].thinPoolConfig.chunkSize: Forbidden: device class "a" already has a thin pool on node n2`
	for name, tt := range map[string]struct{ before, after, want string }{
		"set":                     {"", ", chunkSize: 256Ki", refused},
		"changed":                 {", chunkSize: 64Ki", ", chunkSize: 256Ki", refused},
		"taken away":              {", chunkSize: 256Ki", "", refused},
		"left to LVM":             {"", ", chunkSizeCalculationPolicy: Host", refused},
		"the policy said":         {"", ", chunkSizeCalculationPolicy: Static", ""},
		"the same in other words": {", chunkSize: 1Mi", ", chunkSize: 1024Ki", ""},
	} {
		var want []string
		if tt.want != "" {
			want = []string{tt.want}
		}
		check(t, name, with.chunksKept(classesOf(t, of(tt.before)), classesOf(t, of(tt.after))), want...)
		check(t, name+", no pool", without.chunksKept(classesOf(t, of(tt.before)), classesOf(t, of(tt.after))))
	}
}

func TestMetadataOnlyGrows(t *testing.T) {
	of := func(config string) string {
		return "[{name: a, thinPoolConfig: {name: p, overprovisionRatio: 1" + config + "}}]"
	}
	const static = ", metadataSizeCalculationPolicy: Static"
	tests := map[string]struct {
		before, after string
		want          []string
	}{
		"grows": {static + ", metadataSize: 1Gi", static + ", metadataSize: 2Gi", nil},
		"shrinks": {static + ", metadataSize: 2Gi", static + ", metadataSize: 1Gi",
			[]string{
				"thinPoolConfig.metadataSize: Invalid value: \"1Gi\": was 2Gi: the metadata of a thin " +
					"pool cannot be reduced"}},
		"shrinks to the default":  {static + ", metadataSize: 2Gi", static, []string{"was 2Gi"}},
		"below the default":       {static, static + ", metadataSize: 512Mi", []string{"was 1Gi"}},
		"left to LVM":             {static + ", metadataSize: 2Gi", "", nil},
		"not left to LVM":         {"", static + ", metadataSize: 2Mi", nil},
		"the same in other words": {static + ", metadataSize: 1Gi", static + ", metadataSize: 1024Mi", nil},
	}
	for name, tt := range tests {
		check(t, name, metadataKept(classesOf(t, of(tt.before)), classesOf(t, of(tt.after))), tt.want...)
	}
}

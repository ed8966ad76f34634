package webhook

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
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

// TestASizeThatIsNotUsedIsRefusedIfItIsNew: upstream checks the calculation policy only on creation, so that stored
// objects can have a size with Host.
func TestASizeThatIsNotUsedIsRefusedIfItIsNew(t *testing.T) {
	const static, host = "[{name: a, thinPoolConfig: {name: p, overprovisionRatio: 10, metadataSize: 1Gi, " +
		"metadataSizeCalculationPolicy: Static, chunkSize: 64Ki}}]",
		"[{name: a, thinPoolConfig: {name: p, overprovisionRatio: 10, metadataSize: 1Gi, " +
			"metadataSizeCalculationPolicy: Host, chunkSize: 64Ki, chunkSizeCalculationPolicy: Host}}]"
	const chunk, metadata = "deviceClasses[0].thinPoolConfig.chunkSize: Invalid value: \"64Ki\": chunkSize requires",
		"deviceClasses[0].thinPoolConfig.metadataSize: Invalid value: \"1Gi\": metadataSize requires"
	for name, test := range map[string]struct {
		before, after string
		want          []string
	}{
		"created":                 {"[]", host, []string{chunk, metadata}},
		"another device class":    {strings.Replace(host, "name: a", "name: b", 1), host, []string{chunk, metadata}},
		"only the policy changes": {static, host, nil},
		"kept":                    {host, strings.Replace(host, "Ratio: 10", "Ratio: 11", 1), nil},
		"another size": {host, strings.Replace(host, "metadataSize: 1Gi", "metadataSize: 2Gi", 1),
			[]string{strings.Replace(metadata, "1Gi", "2Gi", 1)}},
		"the size of the other field": {strings.Replace(host, "chunkSize: 64Ki", "chunkSize: 1Gi", 1),
			strings.Replace(host, "chunkSize: 64Ki, ", "", 1), nil},
		"used": {"[]", static, nil},
	} {
		check(t, name, sizesUsed(classesOf(t, test.before), classesOf(t, test.after)), test.want...)
	}
	want := []string{
		`device class "a": thinPoolConfig.chunkSize 64Ki has no effect, because chunkSizeCalculationPolicy is Host`,
		`device class "a": thinPoolConfig.metadataSize 1Gi has no effect, because metadataSizeCalculationPolicy is Host`,
	}
	if diff := cmp.Diff(want, sizesIgnored(classesOf(t, host))); diff != "" {
		t.Error(diff)
	}
	if got := sizesIgnored(classesOf(t, static)); len(got) > 0 {
		t.Error(got)
	}
}

func TestStripesOfThinPools(t *testing.T) {
	const at = "spec.storage.deviceClasses[0]."
	invalid := func(size string) string {
		return at + `thinPoolConfig.stripeSize: Invalid value: "` + size + `": must be `
	}
	for text, want := range map[string][]string{
		"thinPoolConfig: {stripes: 2, stripeSize: 4Mi}":                           nil,
		"thinPoolConfig: {stripes: 2, stripeSize: 4Ki}":                           nil,
		"thinPoolConfig: {stripes: 2, stripeSize: 8Mi}":                           {invalid("8Mi") + "at most 4Mi"},
		"thinPoolConfig: {stripes: 2, stripeSize: 96Ki}":                          {invalid("96Ki") + "a power of two"},
		"thinPoolConfig: {stripes: 2, stripeSize: 2Ki}":                           {invalid("2Ki") + "a power of two"},
		"deviceSelector: {paths: [/dev/a, /dev/b]}, thinPoolConfig: {stripes: 2}": nil,
		"deviceSelector: {paths: [/dev/a, /dev/b]}, thinPoolConfig: {stripes: 3}": {
			at + "deviceSelector: Invalid value: 2: a striped thin pool requires at least 3 devices on each node"},
		"thinPoolConfig: {stripes: 3}": nil,
	} {
		classes := classesOf(t, "[{name: a, "+text+"}]")
		check(t, text, append(stripeSizesPossible(classes), devicesSufficient(classes)...), want...)
	}
}

func TestStripesOfThickVolumes(t *testing.T) {
	const at = "spec.storage.deviceClasses[0]."
	invalid := func(size string) string {
		return at + `thickConfig.stripeSize: Invalid value: "` + size + `": must be `
	}
	for text, want := range map[string][]string{
		"thickConfig: {stripes: 2, stripeSize: 4Mi}":                           nil,
		"thickConfig: {stripes: 2, stripeSize: 8Mi}":                           {invalid("8Mi") + "at most 4Mi"},
		"thickConfig: {stripes: 2, stripeSize: 96Ki}":                          {invalid("96Ki") + "a power of two"},
		"thickConfig: {allocation: SingleDevice}":                              nil,
		"deviceSelector: {paths: [/dev/a]}, thickConfig: {}":                   nil,
		"deviceSelector: {paths: [/dev/a, /dev/b]}, thickConfig: {stripes: 2}": nil,
		"deviceSelector: {paths: [/dev/a, /dev/b]}, thickConfig: {stripes: 3}": {
			at + "deviceSelector: Invalid value: 2: a striped volume requires at least 3 devices on each node"},
	} {
		classes := classesOf(t, "[{name: a, "+text+"}]")
		check(t, text, append(stripeSizesPossible(classes), devicesSufficient(classes)...), want...)
	}
}

func TestStripesLargerThanAnExtentAreReduced(t *testing.T) {
	classes := classesOf(t, "[{name: a, raidConfig: {type: raid5, stripeSize: 8Mi}}, "+
		"{name: b, raidConfig: {type: raid5, stripeSize: 4Mi}}, {name: c, raidConfig: {type: raid5}}, {name: d}]")
	check(t, "sizes", stripeSizesPossible(classes))
	want := []string{
		`device class "a": raidConfig.stripeSize 8Mi is larger than an extent: stripes of 4Mi are used`}
	if diff := cmp.Diff(want, stripesReduced(classes)); diff != "" {
		t.Error(diff)
	}
	for i, want := range []int64{4 << 20, 4 << 20, 64 << 10} {
		if got := classspec.RAIDStripeBytes(classes[i].RAIDConfig); got != want {
			t.Errorf("device class %s: stripes of %d bytes, want %d", classes[i].Name, got, want)
		}
	}
}

func TestNamesOfThinPoolsFitTheDeviceMapper(t *testing.T) {
	pool := func(class string, length int) []lvmv1alpha1.DeviceClass {
		return []lvmv1alpha1.DeviceClass{{Name: class,
			ThinPoolConfig: &lvmv1alpha1.ThinPoolConfig{Name: strings.Repeat("p", length)}}, {Name: "thick"}}
	}
	// 127 characters: vg1, a hyphen, the name of the thin pool, and "-tpool".
	check(t, "the longest name", poolNamesPossible(pool("vg1", 117)))
	check(t, "too long", poolNamesPossible(pool("vg1", 118)),
		"deviceClasses[0].thinPoolConfig.name: Invalid value: \""+strings.Repeat("p", 118)+"\": is too long: with the "+
			"name of the device class, the device of the thin pool would have a name of 128 characters")
	check(t, "LVM doubles hyphens", poolNamesPossible(pool("v-1", 117)), "128 characters")
	check(t, "and no longer", poolNamesPossible(pool("v-1", 116)))
}

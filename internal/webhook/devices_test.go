package webhook

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func classesOf(t *testing.T, text string) []lvmv1alpha1.DeviceClass {
	t.Helper()
	var classes []lvmv1alpha1.DeviceClass
	if err := yaml.UnmarshalStrict([]byte(text), &classes); err != nil {
		t.Fatal(err)
	}
	return classes
}

// check compares violations with what each one has to say.
func check(t *testing.T, name string, got field.ErrorList, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %d violations %v, want %d", name, len(got), got, len(want))
		return
	}
	for i := range want {
		if !strings.Contains(got[i].Error(), want[i]) {
			t.Errorf("%s: got %q, want %q", name, got[i].Error(), want[i])
		}
	}
}

func TestRulesAboutDevices(t *testing.T) {
	const inRack = "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: rack, operator: In, values: [a]}]}]}"
	tests := map[string]struct {
		classes string
		want    []string
	}{
		"properties":             {"[{name: a, deviceSelector: {minSize: 1Gi, maxSize: 1Gi, transports: [NVMe, sata]}}]", nil},
		"a size that is no disk": {"[{name: a, deviceSelector: {minSize: 1Ki, maxSize: 2Ki}}]", []string{"deviceSelector.minSize", "at least 16Mi"}},
		"sizes crossed":          {"[{name: a, deviceSelector: {minSize: 2Gi, maxSize: 1Gi}}]", []string{"must not be below minSize, which is 2Gi"}},
		"unknown transport":      {"[{name: a, deviceSelectors: [{transports: [nvme, pigeon]}]}]", []string{`deviceSelectors[0].transports[1]: Unsupported value: "pigeon"`}},
		"the same properties twice": {
			"[{name: a, deviceSelector: {minSize: 1Gi}}, {name: b, deviceSelector: {minSize: 1024Mi}}]",
			[]string{`device class "a" looks for the same devices on the same nodes, at spec.storage.deviceClasses[0].deviceSelector`},
		},
		"other nodes":              {"[{name: a, " + inRack + ", deviceSelector: {minSize: 1Gi}}, {name: b, " + strings.Replace(inRack, "[a]", "[b]", 1) + ", deviceSelector: {minSize: 1Gi}}]", nil},
		"enough devices":           {"[{name: a, raidConfig: {type: raid5}, deviceSelector: {paths: [/dev/a, /dev/b], optionalPaths: [/dev/c]}}]", nil},
		"too few devices":          {"[{name: a, raidConfig: {type: raid6}, deviceSelector: {paths: [/dev/a, /dev/b]}}]", []string{"raid6 needs at least 5 devices on each node, and 2 are named"}},
		"too few in all entries":   {"[{name: a, raidConfig: {type: raid6}, deviceSelectors: [{paths: [/dev/a]}, {paths: [/dev/b]}]}]", []string{"raid6 needs at least 5 devices"}},
		"devices nobody can count": {"[{name: a, raidConfig: {type: raid6}, deviceSelector: {minSize: 1Gi}}]", nil},
		"a crooked stripe":         {"[{name: a, raidConfig: {type: raid5, stripeSize: 100Ki}}]", []string{"must be a power of two from 4Ki to 4Mi"}},
		"several without devices":  {"[{name: a}, {name: b, deviceSelectors: [{minSize: 1Gi}]}]", []string{`deviceClasses[0].deviceSelector: Required value: device class "a" would take every unused device`}},
		"a path on two kinds of nodes": {
			"[{name: a, deviceSelectors: [{" + inRack + ", paths: [/dev/a]}, {" + strings.Replace(inRack, "[a]", "[b]", 1) + ", paths: [/dev/a]}]}]", nil,
		},
		"a path twice on a node": {
			"[{name: a, deviceSelectors: [{paths: [/dev/a]}, {" + inRack + ", paths: [/dev/a]}]}]",
			[]string{`deviceSelectors[1].paths[0]: Invalid value: "/dev/a": the device is named twice in device class "a"`},
		},
	}
	for name, tt := range tests {
		got := validateSpec(lvmv1alpha1.LVMClusterSpec{Storage: lvmv1alpha1.Storage{DeviceClasses: classesOf(t, tt.classes)}})
		if name == "a size that is no disk" {
			tt.want = []string{"deviceSelector.minSize", "deviceSelector.maxSize"}
		}
		check(t, name, got, tt.want...)
	}
}

func TestConsentToWipeIsForNewDevices(t *testing.T) {
	before := classesOf(t, "[{name: a, deviceSelector: {paths: [/dev/a]}}, {name: w, deviceSelector: {paths: [/dev/w], forceWipeDevicesAndDestroyAllData: true}}]")
	tests := map[string]struct {
		after string
		want  []string
	}{
		"for a device that is there": {"[{name: a, deviceSelector: {paths: [/dev/a], forceWipeDevicesAndDestroyAllData: true}}]", []string{"/dev/a was in device class"}},
		"by another entry":           {"[{name: a, deviceSelectors: [{paths: [/dev/b], forceWipeDevicesAndDestroyAllData: true}, {paths: [/dev/a]}]}]", nil},
		"it was there all the time":  {"[{name: w, deviceSelector: {paths: [/dev/w, /dev/x], forceWipeDevicesAndDestroyAllData: true}}]", nil},
		"a new device class":         {"[{name: n, deviceSelector: {paths: [/dev/a], forceWipeDevicesAndDestroyAllData: true}}]", nil},
		"taken back":                 {"[{name: w, deviceSelector: {paths: [/dev/w]}}]", nil},
	}
	for name, tt := range tests {
		check(t, name, wipesNew(before, classesOf(t, tt.after)), tt.want...)
	}
}

func TestPathsThatAreOneDevice(t *testing.T) {
	known := inventory{
		nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "n2"}}},
		statuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{"n1": {Status: lvmv1alpha1.LVMVolumeGroupNodeStatusStatus{Devices: []lvmv1alpha1.DeviceStatus{
			{Name: "/dev/sda", ID: "wwn:1", ByID: []string{"wwn-1", "ata-x"}, ByPath: []string{"pci-1"}, State: lvmv1alpha1.DeviceAvailable},
			{Name: "/dev/sdb", ID: "wwn:2", ByID: []string{"wwn-2"}, State: lvmv1alpha1.DeviceAvailable},
		}}}},
	}
	tests := map[string]struct {
		classes string
		want    []string
	}{
		"two devices":               {"[{name: a, deviceSelector: {paths: [/dev/sda, /dev/disk/by-id/wwn-2]}}]", nil},
		"two names of one":          {"[{name: a, deviceSelector: {paths: [/dev/sda, /dev/disk/by-id/wwn-1]}}]", []string{"paths[1]: Invalid value: \"/dev/disk/by-id/wwn-1\": leads to the same device on node n1 (/dev/sda wwn:1) as /dev/sda"}},
		"in two device classes":     {"[{name: a, deviceSelector: {paths: [/dev/disk/by-path/pci-1]}}, {name: b, deviceSelector: {optionalPaths: [/dev/disk/by-id/ata-x]}}]", []string{"deviceClasses[1].deviceSelector.optionalPaths[0]"}},
		"devices that nobody knows": {"[{name: a, deviceSelector: {paths: [/dev/sdx, /dev/sdy]}}]", nil},
	}
	for name, tt := range tests {
		check(t, name, known.onceEach(classesOf(t, tt.classes)), tt.want...)
		check(t, name+", without an inventory", inventory{}.onceEach(classesOf(t, tt.classes)))
	}
}

func TestWarningsAboutDevices(t *testing.T) {
	before := classesOf(t, "[{name: a, deviceSelector: {paths: [/dev/a, /dev/b]}}]")
	after := classesOf(t, "[{name: a, deviceSelector: {paths: [/dev/a, /dev/c], forceWipeDevicesAndDestroyAllData: true}, deviceRequests: [{node: n, device: /dev/a, action: Remove}]}]")
	after[0].ThinPoolConfig = &lvmv1alpha1.ThinPoolConfig{SizePercent: 100, AutoExtend: &lvmv1alpha1.AutoExtend{}, ChunkSize: ptr.To(resource.MustParse("64Ki"))}
	got := strings.Join(deviceWarnings(before, after), "\n")
	for _, want := range []string{
		"everything on /dev/a, /dev/c will be destroyed", "autoExtend has nothing to take", "/dev/a is to be removed and is still named", "what is on /dev/b will be moved to the other devices",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %q", got, want)
		}
	}
	if got := deviceWarnings(before, before); len(got) != 0 {
		t.Errorf("no change: %v", got)
	}
}

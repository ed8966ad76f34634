package classes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/topolvm/topolvm/cmd/lvmd/app"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// upstream is the file of a node that ran LVMS with a RAID class, a thin class and a thick class.
const upstream = `device-classes:
- default: false
  lvcreate-options: ["--type", "raid1", "-m", "1"]
  name: raid
  spare-gb: 0
  stripe: null
  stripe-size: ""
  thin-pool: null
  type: thick
  volume-group: raid
- default: true
  lvcreate-options: null
  name: vg1
  spare-gb: null
  stripe: null
  stripe-size: ""
  thin-pool:
    name: thin-pool-1
    overprovision-ratio: 10
  type: thin
  volume-group: vg1
lvcreate-option-classes:
- name: ssd
  options: ["--type=raid1"]
lvm-command-prefix: null
socket-name: /run/topolvm/lvmd.sock
`

func thickClass(name string) deviceclass.Class {
	return deviceclass.Class{Name: name, VolumeGroup: name, Type: types.TypeThick}
}

func thinClass(name string, ratio float64) deviceclass.Class {
	return deviceclass.Class{Name: name, VolumeGroup: name, Type: types.TypeThin,
		ThinPoolConfig: &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: ratio}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReadConfigOfUpstream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lvmd.yaml")
	must(t, os.WriteFile(path, []byte(upstream), 0o600))
	config, _, err := readConfig(path)
	must(t, err)
	var zero uint64
	want := Config{
		SocketName: "/run/topolvm/lvmd.sock",
		DeviceClasses: []deviceclass.Class{
			{Name: "raid", VolumeGroup: "raid", Type: types.TypeThick, SpareGB: &zero,
				LVCreateOptions: []string{"--type", "raid1", "-m", "1"}},
			{Name: "vg1", VolumeGroup: "vg1", Default: true, Type: types.TypeThin,
				ThinPoolConfig: &deviceclass.ThinPool{Name: "thin-pool-1", OverprovisionRatio: 10}},
		},
		OptionClasses: []OptionClass{{Name: "ssd", Options: []string{"--type=raid1"}}},
	}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Error(diff)
	}
}

func TestWriteConfigCanBeReadByTopoLVM(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lvmd.yaml")
	config := Config{SocketName: "/run/x.sock", DeviceClasses: []deviceclass.Class{thickClass("a"), thinClass("b", 2.5)}}
	mustWrite(t, path, config)
	data, err := os.ReadFile(path)
	must(t, err)
	theirs := app.Config{}
	must(t, yaml.UnmarshalStrict(data, &theirs))
	if len(theirs.DeviceClasses) != 2 || theirs.DeviceClasses[1].ThinPoolConfig.OverprovisionRatio != 2.5 ||
		theirs.SocketName != "/run/x.sock" {
		t.Errorf("TopoLVM reads %+v", theirs)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got the mode %v, %v", info.Mode(), err)
	}
}

func TestWriteConfigLeavesAnUnchangedFileAndNoOtherFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lvmd.yaml")
	config := Config{DeviceClasses: []deviceclass.Class{thickClass("a")}}
	mustWrite(t, path, config)
	before, err := os.Stat(path)
	must(t, err)
	mustWrite(t, path, config)
	after, err := os.Stat(path)
	must(t, err)
	if !os.SameFile(before, after) {
		t.Error("an unchanged file was written")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v", entries, err)
	}
	for range 2 {
		mustWrite(t, path, Config{})
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a configuration without classes left %v", err)
		}
	}
}

func TestPublishThatCannotWriteChangesNothingAndIsTriedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "topolvm")
	e, err := Open(filepath.Join(dir, "lvmd.yaml"), func() {})
	must(t, err)
	if err := e.Publish(thickClass("a")); err == nil {
		t.Fatal("want an error while the directory is missing")
	}
	if _, ok := e.Class("a"); ok {
		t.Error("the class is there though the file is not")
	}
	must(t, os.Mkdir(dir, 0o755))
	must(t, e.Publish(thickClass("a")))
	if _, ok := e.Class("a"); !ok {
		t.Error("the class is missing after the second try")
	}
}

func TestPublishAndWithdraw(t *testing.T) {
	e, err := Open("", func() {})
	must(t, err)
	first := thickClass("b")
	second := thickClass("a")
	first.Default = true
	second.Default = true
	must(t, e.Publish(first))
	must(t, e.Publish(second))
	if got := names(e.Current().Classes); !cmp.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %v", got)
	}
	if c, _ := e.Class("b"); c.Default {
		t.Error("two classes are the default")
	}
	if c, ok := e.Current().Find(""); !ok || c.Name != "a" {
		t.Error("the class that was published last should be the default")
	}
	for range 2 {
		must(t, e.Withdraw("a"))
	}
	if _, ok := e.Class("a"); ok {
		t.Error("the class is still there")
	}
	if _, ok := e.Class(""); ok {
		t.Error("the empty name is no class")
	}
}

func TestValidate(t *testing.T) {
	bad := func(edit func(*deviceclass.Class)) []deviceclass.Class {
		c := thinClass("a", 1)
		edit(&c)
		return []deviceclass.Class{c}
	}
	tests := map[string]struct {
		classes []deviceclass.Class
		ok      bool
	}{
		"none": {nil, true},
		"one thick and two thin pools": {[]deviceclass.Class{{Name: "a", VolumeGroup: "vg"}, thinClass("vg", 1),
			{Name: "c", VolumeGroup: "vg", Type: types.TypeThin,
				ThinPoolConfig: &deviceclass.ThinPool{Name: "p2", OverprovisionRatio: 1}}}, true},
		"two thick in one group": {[]deviceclass.Class{{Name: "a", VolumeGroup: "vg"},
			{Name: "b", VolumeGroup: "vg"}}, false},
		"one pool twice": {[]deviceclass.Class{thinClass("a", 1),
			{Name: "b", VolumeGroup: "a", Type: types.TypeThin,
				ThinPoolConfig: &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: 1}}}, false},
		"one name twice": {[]deviceclass.Class{{Name: "a", VolumeGroup: "x"}, {Name: "a", VolumeGroup: "y"}}, false},
		"two defaults": {[]deviceclass.Class{{Name: "a", VolumeGroup: "x", Default: true},
			{Name: "b", VolumeGroup: "y", Default: true}}, false},
		"no name":               {bad(func(c *deviceclass.Class) { c.Name = "" }), false},
		"a name that is no key": {bad(func(c *deviceclass.Class) { c.Name = "a/b" }), false},
		"no volume group":       {bad(func(c *deviceclass.Class) { c.VolumeGroup = "" }), false},
		"an unknown type":       {bad(func(c *deviceclass.Class) { c.Type = "fat" }), false},
		"no pool":               {bad(func(c *deviceclass.Class) { c.ThinPoolConfig = nil }), false},
		"a ratio below 1":       {bad(func(c *deviceclass.Class) { c.ThinPoolConfig.OverprovisionRatio = 0.5 }), false},
	}
	for name, tt := range tests {
		if err := validate(tt.classes); (err == nil) != tt.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func names(classes []deviceclass.Class) []string {
	var list []string
	for i := range classes {
		list = append(list, classes[i].Name)
	}
	return list
}

func mustWrite(t *testing.T, path string, config Config) {
	t.Helper()
	if _, err := writeConfig(path, config); err != nil {
		t.Fatal(err)
	}
}

// TestAFileOfAnotherProgramIsReadAgain: MicroShift writes the device classes.
func TestAFileOfAnotherProgramIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lvmd.yaml")
	write := func(classes string) {
		t.Helper()
		must(t, os.WriteFile(path, []byte("device-classes:\n"+classes), 0o600))
	}
	names := func(e *Registry) (all []string) {
		for _, c := range e.Current().Classes {
			all = append(all, fmt.Sprint(c.Name, " ", c.ExistingVolumeGroup))
		}
		return all
	}
	write("- {name: a, volume-group: rhel, default: true, spare-gb: 0}\n")
	e, err := Open(path, func() {})
	must(t, err)
	write("- {name: b, volume-group: rhel}\n")
	if must(t, e.Reload()); !slices.Equal(names(e), []string{"a false"}) {
		t.Errorf("a file that is not shared: got %v", names(e))
	}
	write("- {name: a, volume-group: rhel, default: true, spare-gb: 0}\n")
	e.ShareFile()
	if !slices.Equal(names(e), []string{"a true"}) {
		t.Errorf("shared: got %v", names(e))
	}
	write("- {name: a, volume-group: rhel}\n- {name: b, volume-group: data, volume-group-uuid: u}\n")
	for range 2 {
		must(t, e.Reload())
	}
	if !slices.Equal(names(e), []string{"a true", "b false"}) {
		t.Errorf("changed: got %v", names(e))
	}

	write("- {name: a}\n")
	if err := e.Reload(); err == nil || !strings.Contains(err.Error(), "has no volume group") {
		t.Errorf("not valid: got %v", err)
	}
	if err := e.Reload(); err != nil || !slices.Equal(names(e), []string{"a true", "b false"}) {
		t.Errorf("the second time: got %v, %v", names(e), err)
	}
	for range 2 {
		for _, change := range []func() error{
			func() error { return e.Publish(thickClass("d")) }, func() error { return e.Withdraw("b") },
		} {
			if err := change(); err == nil || !strings.Contains(err.Error(), "has no volume group") {
				t.Errorf("a change while the file is not valid: got %v", err)
			}
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "device-classes:\n- {name: a}\n" || len(names(e)) != 2 {
		t.Errorf("the file that is not valid: got %q, %v, classes %v", data, err, names(e))
	}
	write("- {name: a, volume-group: rhel}\n- {name: b, volume-group: data, volume-group-uuid: u}\n- {name: e, volume-group: e}\n")
	must(t, e.Withdraw("b"))
	if !slices.Equal(names(e), []string{"a true", "e true"}) {
		t.Errorf("a class of another program, before the file is read again: got %v", names(e))
	}
	write("- {name: a, volume-group: rhel}\n- {name: b, volume-group: data, volume-group-uuid: u}\n")
	must(t, e.Reload())
	write("- {name: a}\n")
	if err := e.Reload(); err == nil {
		t.Error("not valid again: got no error")
	}
	must(t, os.Remove(path))
	if err := e.Reload(); err != nil || len(names(e)) != 2 {
		t.Errorf("removed: got %v, %v", names(e), err)
	}
	must(t, os.Mkdir(path, 0o700))
	if err := e.Reload(); err == nil || len(names(e)) != 2 {
		t.Errorf("unreadable: got %v, %v", names(e), err)
	}
	must(t, os.Remove(path))
	published := thickClass("c")
	published.VolumeGroupUUID = "c"
	must(t, e.Publish(published))
	if must(t, e.Reload()); !slices.Equal(names(e), []string{"a true", "b false", "c false"}) {
		t.Errorf("published: got %v", names(e))
	}
	if must(t, e.Withdraw("c")); len(names(e)) != 2 {
		t.Errorf("withdrawn: got %v", names(e))
	}
}

func TestNamespaceLimitsInTheFile(t *testing.T) {
	class := thickClass("a")
	class.NamespaceLimits = []deviceclass.NamespaceLimit{{Namespace: "shop", PerNodeBytes: 1 << 40}, {}}
	path := filepath.Join(t.TempDir(), "lvmd.yaml")
	mustWrite(t, path, Config{DeviceClasses: []deviceclass.Class{class}})
	config, err := ReadConfig(path)
	must(t, err)
	if diff := cmp.Diff(class, config.DeviceClasses[0]); diff != "" {
		t.Error(diff)
	}
	class.NamespaceLimits = append(class.NamespaceLimits, deviceclass.NamespaceLimit{Namespace: "shop"})
	if err := validate([]deviceclass.Class{class}); err == nil || !strings.Contains(err.Error(),
		`device-classes[0].namespace-limits[2].namespace: device class "a": has two limits for namespace "shop"`) {
		t.Errorf("two limits for one namespace: got %v", err)
	}
	class.NamespaceLimits = nil
	for i := range maxNamespaceLimits + 1 {
		class.NamespaceLimits = append(class.NamespaceLimits, deviceclass.NamespaceLimit{Namespace: fmt.Sprint("n", i)})
	}
	if err := validate([]deviceclass.Class{class}); err == nil || !strings.Contains(err.Error(), "at most 32") {
		t.Errorf("too many limits: got %v", err)
	}
	class.NamespaceLimits = class.NamespaceLimits[:maxNamespaceLimits]
	must(t, validate([]deviceclass.Class{class}))
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(upstream))
	f.Add(
		[]byte(
			"device-classes: [{name: a, volume-group: b, type: thin, thin-pool: {name: p, overprovision-ratio: 1e999}}]"))
	f.Add([]byte("device-classes: [{name: a, volume-group: b, spare-gb: 18446744073709551615, stripe: 4294967295}]"))
	f.Add([]byte("{}"))
	f.Add([]byte("device-classes: {"))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := parseConfig("lvmd.yaml", data)
		if err != nil {
			return
		}
		if err := validate(config.DeviceClasses); err != nil {
			t.Errorf("what was read is not valid: %v", err)
		}
		for i := range config.DeviceClasses {
			c := &config.DeviceClasses[i]
			layout, err := lvm.NewLayout(c.CreateOptions())
			if err == nil && (layout.Images < 1 || layout.Data < 1) {
				t.Errorf("got %+v", layout)
			}
			if c.Spare() < 0 || c.SpareGB != nil && *c.SpareGB > 0 && c.Spare() == 0 {
				t.Errorf("the spare of %v is %d", *c.SpareGB, c.Spare())
			}
		}
	})
}

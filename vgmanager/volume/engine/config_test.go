package engine

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

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
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

func TestReadConfigOfUpstream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lvmd.yaml")
	must(t, os.WriteFile(path, []byte(upstream), 0o600))
	config, _, err := readConfig(path)
	must(t, err)
	var zero uint64
	want := Config{
		SocketName: "/run/topolvm/lvmd.sock",
		DeviceClasses: []DeviceClass{
			{Name: "raid", VolumeGroup: "raid", Type: types.TypeThick, SpareGB: &zero,
				LVCreateOptions: []string{"--type", "raid1", "-m", "1"}},
			{Name: "vg1", VolumeGroup: "vg1", Default: true, Type: types.TypeThin,
				ThinPoolConfig: &ThinPoolConfig{Name: "thin-pool-1", OverprovisionRatio: 10}},
		},
		OptionClasses: []OptionClass{{Name: "ssd", Options: []string{"--type=raid1"}}},
	}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Error(diff)
	}
}

func TestWriteConfigCanBeReadByTopoLVM(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lvmd.yaml")
	config := Config{SocketName: "/run/x.sock", DeviceClasses: []DeviceClass{thickClass("a"), thinClass("b", 2.5)}}
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
	config := Config{DeviceClasses: []DeviceClass{thickClass("a")}}
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
	e, err := New(lvmtest.New(), nil, filepath.Join(dir, "lvmd.yaml"))
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
	e, err := New(lvmtest.New(), nil, "")
	must(t, err)
	first := thickClass("b")
	second := thickClass("a")
	first.Default = true
	second.Default = true
	must(t, e.Publish(first))
	must(t, e.Publish(second))
	if got := names(e.classes.Load().classes); !cmp.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %v", got)
	}
	if c, _ := e.Class("b"); c.Default {
		t.Error("two classes are the default")
	}
	if c, ok := e.classes.Load().find(""); !ok || c.Name != "a" {
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
	bad := func(edit func(*DeviceClass)) []DeviceClass {
		c := thinClass("a", 1)
		edit(&c)
		return []DeviceClass{c}
	}
	tests := map[string]struct {
		classes []DeviceClass
		ok      bool
	}{
		"none": {nil, true},
		"one thick and two thin pools": {[]DeviceClass{{Name: "a", VolumeGroup: "vg"}, thinClass("vg", 1),
			{Name: "c", VolumeGroup: "vg", Type: types.TypeThin,
				ThinPoolConfig: &ThinPoolConfig{Name: "p2", OverprovisionRatio: 1}}}, true},
		"two thick in one group": {[]DeviceClass{{Name: "a", VolumeGroup: "vg"},
			{Name: "b", VolumeGroup: "vg"}}, false},
		"one pool twice": {[]DeviceClass{thinClass("a", 1),
			{Name: "b", VolumeGroup: "a", Type: types.TypeThin,
				ThinPoolConfig: &ThinPoolConfig{Name: "pool", OverprovisionRatio: 1}}}, false},
		"one name twice": {[]DeviceClass{{Name: "a", VolumeGroup: "x"}, {Name: "a", VolumeGroup: "y"}}, false},
		"two defaults": {[]DeviceClass{{Name: "a", VolumeGroup: "x", Default: true},
			{Name: "b", VolumeGroup: "y", Default: true}}, false},
		"no name":               {bad(func(c *DeviceClass) { c.Name = "" }), false},
		"a name that is no key": {bad(func(c *DeviceClass) { c.Name = "a/b" }), false},
		"no volume group":       {bad(func(c *DeviceClass) { c.VolumeGroup = "" }), false},
		"an unknown type":       {bad(func(c *DeviceClass) { c.Type = "fat" }), false},
		"no pool":               {bad(func(c *DeviceClass) { c.ThinPoolConfig = nil }), false},
		"a ratio below 1":       {bad(func(c *DeviceClass) { c.ThinPoolConfig.OverprovisionRatio = 0.5 }), false},
	}
	for name, tt := range tests {
		if err := validate(tt.classes); (err == nil) != tt.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func names(classes []DeviceClass) []string {
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
	names := func(e *Engine) (all []string) {
		for _, c := range e.classes.Load().classes {
			all = append(all, fmt.Sprint(c.Name, " ", c.ExistingVolumeGroup))
		}
		return all
	}
	write("- {name: a, volume-group: rhel, default: true, spare-gb: 0}\n")
	e, err := New(nil, nil, path)
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

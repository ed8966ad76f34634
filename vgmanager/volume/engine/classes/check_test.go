package classes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestErrorsOfTheConfigurationNameLineAndKey(t *testing.T) {
	class := func(lines ...string) string {
		return "socket-name: /run/x.sock\ndevice-classes:\n- name: a\n  volume-group: vg\n  " +
			strings.Join(lines, "\n  ") + "\n"
	}
	for name, tt := range map[string]struct{ data, says string }{
		"no YAML":            {"device-classes: [", "line 1"},
		"not an object":      {"- a", "is a list, want an object"},
		"unknown key":        {class("spare: 5"), "line 5: device-classes[0].spare: is not a key"},
		"unknown key on top": {"socket-path: /x\n", "line 1: socket-path: is not a key"},
		"twice": {class("type: thick", "type: thin"),
			"line 6: device-classes[0].type: is a duplicate of line 5"},
		"spare in words": {class("spare-gb: ten"),
			`line 5: device-classes[0].spare-gb: is "ten", want a whole number of GiB`},
		"spare below zero": {class("spare-gb: -1"), "line 5: device-classes[0].spare-gb"},
		"stripe":           {class("stripe: 1.5"), "line 5: device-classes[0].stripe: is"},
		"stripe size": {class("stripe-size: 64 kilo"),
			"line 5: device-classes[0].stripe-size: device class \"a\": has the stripe size"},
		"default": {class("default: sometimes"),
			"line 5: device-classes[0].default: is \"sometimes\", want true or false"},
		"options": {class("lvcreate-options: --type raid1"),
			"line 5: device-classes[0].lvcreate-options: is \"--type raid1\", want a list of strings"},
		"an option": {class("lvcreate-options: [--mirrors, 1]"),
			"line 5: device-classes[0].lvcreate-options[1]: is \"1\", want a string"},
		"type": {class("type: fat"),
			"line 5: device-classes[0].type: device class \"a\": has the unknown type"},
		"no pool": {class("type: thin"),
			"line 3: device-classes[0].thin-pool: device class \"a\": is thin but names no thin pool"},
		"ratio": {class("type: thin", "thin-pool:", "  name: p", "  overprovision-ratio: 0.5"),
			"line 8: device-classes[0].thin-pool.overprovision-ratio: "},
		"ratio in words": {class("type: thin", "thin-pool: {name: p, overprovision-ratio: x}"),
			"line 6: device-classes[0].thin-pool.overprovision-ratio: is \"x\", want a number"},
		"no group": {"device-classes:\n- name: a\n",
			"line 2: device-classes[0].volume-group: device class \"a\": has no volume group"},
		"name": {"device-classes:\n- name: -a\n  volume-group: v\n",
			"line 2: device-classes[0].name: device class \"-a\": is not a valid name"},
		"same name": {class("stripe: 0") + "- name: a\n  volume-group: w\n",
			"line 6: device-classes[1].name: device class \"a\": is listed twice"},
		"same group": {class("stripe: 0") + "- name: b\n  volume-group: vg\n",
			"line 7: device-classes[1].volume-group: device class \"b\": has the same volume group"},
		"two defaults": {class("default: true") + "- name: b\n  volume-group: w\n  default: true\n",
			"line 8: device-classes[1].default: device class \"b\": a is already the default"},
		"a limit": {class("namespace-limits:", "- {namespace: a, per-node-bytes: 1Gi}"),
			"line 6: device-classes[0].namespace-limits[0].per-node-bytes: is \"1Gi\", want a whole number of bytes"},
		"a limit below zero": {class("namespace-limits: [{per-node-bytes: -1}]"),
			"line 5: device-classes[0].namespace-limits[0].per-node-bytes: is \"-1\""},
		"two limits": {class("namespace-limits: [{namespace: b}, {namespace: b}]"),
			"line 5: device-classes[0].namespace-limits[1].namespace: device class \"a\": has two limits"},
		"option class": {class("stripe: 0") + "lvcreate-option-classes:\n- options: [x]\n",
			"line 7: lvcreate-option-classes[0].name: is missing"},
		"prefix": {class("stripe: 0") + "lvm-command-prefix: /sbin/lvm\n",
			"line 6: lvm-command-prefix: is \"/sbin/lvm\", want a list"},
		"no classes":          {"socket-name: /run/x.sock\n", "device-classes: the list is empty"},
		"a very long scalar":  {"socket-name: [" + strings.Repeat("x", 100) + "]\n", "socket-name: is a list"},
		"a very long text":    {class("spare-gb: " + strings.Repeat("x", 100)), "…"},
		"an object as a text": {"socket-name: {a: b}\n", "line 1: socket-name: is an object, want a string"},
	} {
		path := filepath.Join(t.TempDir(), "lvmd.yaml")
		must(t, os.WriteFile(path, []byte(tt.data), 0o600))
		_, err := ReadConfig(path)
		if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want it to say %q", name, err, tt.says)
		}
	}
	if _, err := ReadConfig(filepath.Join(t.TempDir(), "nosuch")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestReadConfigTakesWhatTopoLVMTakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lvmd.yaml")
	must(t, os.WriteFile(path, []byte(upstream), 0o600))
	config, err := ReadConfig(path)
	if err != nil || len(config.DeviceClasses) != 2 {
		t.Errorf("got %+v, %v", config, err)
	}
	// The file on a node may have keys of a later version. Its volumes must still be listed.
	must(t, os.WriteFile(path, []byte(upstream+"new-key: 5\n"), 0o600))
	if config, _, err := readConfig(path); err != nil || len(config.DeviceClasses) != 2 {
		t.Errorf("got %+v, %v", config, err)
	}
}

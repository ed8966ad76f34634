package classes

import (
	"os"
	"path/filepath"
	"testing"
)

func FuzzReadConfig(f *testing.F) {
	f.Add([]byte("socket-name: /run/topolvm/lvmd.sock\ndevice-classes:\n- name: vg1\n  volume-group: vg1\n  default: " +
		"true\n  type: thin\n  thin-pool: {name: pool, overprovision-ratio: 10}\n"))
	f.Add([]byte("device-classes: [{name: a, volume-group: v, spare-gb: 0, lvcreate-options: [--type, raid1, -m, " +
		"\"1\"]}]\nlvcreate-option-classes: [{name: o, options: [--wipesignatures=n]}]\n"))
	f.Add([]byte("device-classes: 7"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "lvmd.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		config, _, err := readConfig(path)
		if err != nil {
			return
		}
		if err := validate(config.DeviceClasses); err != nil {
			t.Errorf("a configuration that was read is not valid: %v", err)
		}
		for i := range config.DeviceClasses {
			config.DeviceClasses[i].CreateOptions()
			target(&config.DeviceClasses[i])
		}
	})
}

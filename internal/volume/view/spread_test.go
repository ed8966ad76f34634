package view

import (
	"testing"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

func TestSpread(t *testing.T) {
	for name, test := range map[string]struct {
		labels map[string]string
		text   string
		fails  bool
	}{
		"no group": {map[string]string{wellknown.SpreadLabel: wellknown.SpreadNode}, "", false},
		"defaults": {map[string]string{wellknown.SpreadGroupLabel: "db"}, "device:preferred:shop/db", false},
		"nodes, required": {map[string]string{wellknown.SpreadGroupLabel: "db", wellknown.SpreadLabel: "node",
			wellknown.SpreadPolicyLabel: "required"}, "node:required:shop/db", false},
		"unknown scope":  {map[string]string{wellknown.SpreadGroupLabel: "db", wellknown.SpreadLabel: "rack"}, "", true},
		"unknown policy": {map[string]string{wellknown.SpreadGroupLabel: "db", wellknown.SpreadPolicyLabel: "Required"}, "", true},
	} {
		spread, err := NewSpread("shop", test.labels)
		if (err != nil) != test.fails {
			t.Errorf("%s: error %v", name, err)
			continue
		}
		if err != nil {
			continue
		}
		if spread.String() != test.text {
			t.Errorf("%s: %q, want %q", name, spread, test.text)
		}
		if again, ok := ParseSpread(spread.String()); test.text != "" && (!ok || again != spread) {
			t.Errorf("%s: %q is read as %v, %v", name, spread, again, ok)
		}
	}
	for _, text := range []string{"", "x", "device:preferred:", "rack:preferred:shop/db", "device:never:shop/db"} {
		if _, ok := ParseSpread(text); ok {
			t.Errorf("%q is accepted", text)
		}
	}
}

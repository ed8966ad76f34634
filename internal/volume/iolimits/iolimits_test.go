package iolimits

import (
	"strings"
	"testing"
)

func TestParametersOfAVolumeAttributesClass(t *testing.T) {
	for name, test := range map[string]struct {
		parameters map[string]string
		want, says string
	}{
		"none":     {nil, "none", ""},
		"max":      {map[string]string{"readIOPS": "max", "writeIOPS": "5"}, "writeIOPS=5", ""},
		"only max": {map[string]string{"readIOPS": "max"}, "none", ""},
		"all": {map[string]string{"readIOPS": "500", "writeIOPS": "1k", "readBytesPerSecond": "50Mi",
			"writeBytesPerSecond": "4096"}, "readIOPS=500 writeIOPS=1000 readBytesPerSecond=52428800 " +
			"writeBytesPerSecond=4096", ""},
		"the greatest":     {map[string]string{"readIOPS": "4294967294"}, "readIOPS=4294967294", ""},
		"unlimited IOPS":   {map[string]string{"readIOPS": "4294967295"}, "", "from 1 to 4294967294"},
		"zero":             {map[string]string{"writeIOPS": "0"}, "", "writeIOPS"},
		"negative":         {map[string]string{"writeIOPS": "-1"}, "", "writeIOPS"},
		"too few bytes":    {map[string]string{"readBytesPerSecond": "4095"}, "", "from 4096"},
		"too many bytes":   {map[string]string{"readBytesPerSecond": "8Ei"}, "", "readBytesPerSecond"},
		"a fraction":       {map[string]string{"readIOPS": "1500m"}, "", "integer"},
		"empty":            {map[string]string{"readIOPS": ""}, "", "a number or a quantity"},
		"words":            {map[string]string{"readIOPS": "many"}, "", `"many"`},
		"another name":     {map[string]string{"iops": "5"}, "", "iops, which is not supported: use readIOPS, "},
		"one is not valid": {map[string]string{"readIOPS": "5", "type": "gp3"}, "", "type"},
	} {
		t.Run(name, func(t *testing.T) {
			limits, err := New(test.parameters)
			if test.says != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) || limits != (Limits{}) {
					t.Errorf("got %s, %v, want an error with %q", limits, err, test.says)
				}
				return
			}
			if err != nil || limits.String() != test.want {
				t.Errorf("got %s, %v, want %s", limits, err, test.want)
			}
			if again, err := Parse(limits.String()); err != nil || again != limits {
				t.Errorf("the annotation has %s, %v", again, err)
			}
		})
	}
}

func TestTextsThatAreNoLimits(t *testing.T) {
	if limits, err := Parse(""); err != nil || limits != (Limits{}) {
		t.Errorf("got %s, %v", limits, err)
	}
	for _, text := range []string{"readIOPS", "readIOPS=1 readIOPS=2", "readIOPS=1,writeIOPS=2", "none readIOPS=1"} {
		if limits, err := Parse(text); err == nil {
			t.Errorf("%q is %s", text, limits)
		}
	}
}

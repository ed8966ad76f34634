package extender

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestConfiguration(t *testing.T) {
	for name, test := range map[string]struct {
		text, refused string
		want          Config
	}{
		"empty": {want: Config{Address: "127.0.0.1:9251", Divisors: Divisors{Default: 1}}},
		"of TopoLVM's chart": {
			text: "listen: \"localhost:9251\"\ndefault-divisor: 1\n",
			want: Config{Address: "localhost:9251", Divisors: Divisors{Default: 1}},
		},
		"of TopoLVM's documentation": {
			text: "listen: \"0.0.0.0:8000\"\ndefault-divisor: 10\ndivisors:\n  ssd: 5\n  hdd: 0.5\n",
			want: Config{Address: "0.0.0.0:8000",
				Divisors: Divisors{Default: 10, Classes: map[string]float64{"ssd": 5, "hdd": 0.5}}},
		},
		"empty key": {text: "profiling-bind-address: ''", want: Config{Address: "127.0.0.1:9251",
			Divisors: Divisors{Default: 1}}},
		"profiling": {text: "profiling-bind-address: :6060",
			refused: "profiling-bind-address: profiling is not supported"},
		"divisor 0":         {text: "divisors: {ssd: 1, hdd: 0}", refused: "divisors: hdd: is 0"},
		"default 0":         {text: "default-divisor: 0", refused: "default-divisor: is 0"},
		"negative":          {text: "default-divisor: -1", refused: "must be greater than 0"},
		"a typing error":    {text: "divisor: {ssd: 1}", refused: `unknown field "divisor"`},
		"another type":      {text: "divisors: {ssd: fast}", refused: "not a configuration"},
		"a key twice":       {text: "listen: a:1\nlisten: b:2", refused: "listen"},
		"not a number":      {text: "default-divisor: .nan", refused: "not a configuration"},
		"not YAML":          {text: "{", refused: "not a configuration"},
		"more than allowed": {text: strings.Repeat("#", maxConfig+1), refused: "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "scheduler-options.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := ReadConfig(path)
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) || !strings.Contains(err.Error(), path) {
					t.Errorf("error %v, want %q and the path", err, test.refused)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestWithoutAFileTheDefaultsApplyAndAMissingFileIsAnError(t *testing.T) {
	got, err := ReadConfig("")
	want := Config{Address: DefaultAddress, Divisors: Divisors{Default: 1}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := ReadConfig(filepath.Join(t.TempDir(), "missing")); err == nil || !strings.Contains(err.Error(),
		"missing") {
		t.Errorf("error %v", err)
	}
}

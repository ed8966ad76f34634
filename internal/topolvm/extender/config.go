package extender

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

// DefaultAddress has the port of TopoLVM's Helm chart. The default of TopoLVM's program is :8000, which is every
// address of the node.
const DefaultAddress = "127.0.0.1:9251"

// maxConfig is the maximum size of a configuration file in bytes.
const maxConfig = 1 << 20

// Config is the configuration file of topolvm-scheduler.
type Config struct {
	// Address is the address to listen on.
	Address string `json:"listen"`
	Divisors
	// Profiling is the address for profiles. It is not supported.
	Profiling string `json:"profiling-bind-address"`
}

// Divisors are the GiB of capacity that count as one when a node is scored.
type Divisors struct {
	// Default is the divisor of device classes without their own.
	Default float64 `json:"default-divisor"`
	// Classes are the divisors of device classes, by name.
	Classes map[string]float64 `json:"divisors"`
}

func (d Divisors) of(class string) float64 {
	if divisor, found := d.Classes[class]; found {
		return divisor
	}
	return d.Default
}

// ReadConfig reads a configuration file, or returns the defaults if the path is empty. It returns an error if a key is
// unknown or has an invalid value.
func ReadConfig(path string) (Config, error) {
	if path == "" {
		return parseConfig(nil)
	}
	data, err := readLimited(path)
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration of the scheduler extender: %w", err)
	}
	config, err := parseConfig(data)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return config, nil
}

func readLimited(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxConfig {
		return nil, fmt.Errorf("%s has more than the limit of %d bytes", path, maxConfig)
	}
	return data, nil
}

func parseConfig(data []byte) (Config, error) {
	config := Config{Divisors: Divisors{Default: 1}}
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return Config{}, fmt.Errorf("is not a configuration of a scheduler extender: %w", err)
	}
	config.Address = cmp.Or(config.Address, DefaultAddress)
	return config, config.validate()
}

func (c Config) validate() error {
	if c.Profiling != "" {
		return fmt.Errorf("profiling-bind-address: profiling is not supported: remove this key")
	}
	if c.Default <= 0 {
		return fmt.Errorf("default-divisor: is %v: must be greater than 0", c.Default)
	}
	for _, class := range slices.Sorted(maps.Keys(c.Classes)) {
		if c.Classes[class] <= 0 {
			return fmt.Errorf("divisors: %s: is %v: must be greater than 0", class, c.Classes[class])
		}
	}
	return nil
}

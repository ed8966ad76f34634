package classes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/topolvm/topolvm"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// Config is lvmd.yaml in TopoLVM's format. Nodes that ran another engine already have such a file, and TopoLVM's lvmd
// can read ours.
type Config struct {
	// SocketName is the socket of `lvms lvmd`. The node agent ignores it and preserves it for TopoLVM's lvmd.
	SocketName    string              `json:"socket-name"`
	DeviceClasses []deviceclass.Class `json:"device-classes"`
	OptionClasses []OptionClass       `json:"lvcreate-option-classes,omitempty"`
	CommandPrefix []string            `json:"lvm-command-prefix,omitempty"`
}

// maxConfig is the maximum size of a configuration file in bytes.
const maxConfig = 2 << 20

// readConfig reads a configuration, and returns also the content of the file. If the file does not exist, it returns an
// empty configuration.
func readConfig(path string) (Config, []byte, error) {
	data, err := readLimited(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{SocketName: topolvm.DefaultLVMdSocket}, nil, nil
	}
	if err != nil {
		return Config{}, nil, err
	}
	config, err := parseConfig(path, data)
	return config, data, err
}

// readLimited reads a file of at most maxConfig bytes.
func readLimited(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the device classes of the node: %w", err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("read the device classes of the node: %w", err)
	}
	if len(data) > maxConfig {
		return nil, fmt.Errorf("%s: has more than the limit of %d bytes", path, maxConfig)
	}
	return data, nil
}

// ReadConfig reads a configuration that a user wrote. It returns an error with line and key if a key is unknown or
// invalid, and an error if the file does not exist.
func ReadConfig(path string) (Config, error) {
	if _, err := os.Stat(path); err != nil {
		return Config{}, fmt.Errorf("read the configuration of lvmd: %w", err)
	}
	data, err := readLimited(path)
	if err != nil {
		return Config{}, err
	}
	const strict = true
	config, err := decodeConfig(path, data, strict)
	if err == nil && len(config.DeviceClasses) == 0 {
		err = fmt.Errorf("%s: device-classes: the list is empty", path)
	}
	return config, err
}

// parseConfig parses the content of the file at path.
func parseConfig(path string, data []byte) (Config, error) {
	const strict = false
	return decodeConfig(path, data, strict)
}

func decodeConfig(path string, data []byte, strict bool) (Config, error) {
	empty := Config{SocketName: topolvm.DefaultLVMdSocket}
	config := empty
	found, err := checkForm(data, strict)
	if err != nil {
		return empty, fmt.Errorf("%s: %w", path, err)
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return empty, fmt.Errorf("%s: is not a configuration of lvmd: %w", path, err)
	}
	if err := validate(config.DeviceClasses); err != nil {
		return empty, fmt.Errorf("%s: %w", path, found.at(err))
	}
	for i := range config.OptionClasses {
		if config.OptionClasses[i].Name == "" {
			err := &configError{key: fmt.Sprintf("lvcreate-option-classes[%d].name", i), problem: "is missing"}
			return empty, fmt.Errorf("%s: %w", path, found.at(err))
		}
	}
	return config, nil
}

// writeConfig replaces a configuration atomically: a reader, and the node after a power failure, finds the complete
// old or new file. It removes the file if there are no classes. It does not write a file that already has the
// content. It returns the content, or nil if it removed the file.
func writeConfig(path string, config Config) ([]byte, error) {
	if len(config.DeviceClasses) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove the device classes of the node: %w", err)
		}
		return nil, nil
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, data) {
		return data, nil
	}
	if err := ReplaceFile(path, data); err != nil {
		return nil, fmt.Errorf("write the device classes of the node: %w", err)
	}
	return data, nil
}

// ReplaceFile replaces a file atomically, with mode 0600. It writes a temporary file in the same directory, syncs it
// to the disk and renames it, so that a reader never sees a partial file.
func ReplaceFile(path string, data []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	// CreateTemp already sets mode 0600.
	if _, err = tmp.Write(data); err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

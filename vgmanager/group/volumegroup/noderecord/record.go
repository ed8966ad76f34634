// Package noderecord keeps small records in files on the node, which outlive the agent and the API server.
package noderecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/classes"
)

// Records keeps values in JSON files on the node, one for each volume group or device class. They are on the node and
// not in the API, because they must be correct between two commands even if the API server is unreachable.
type Records[T any] struct {
	dir, prefix, what string
}

// New returns the records in a directory, in files that begin with a prefix. what describes a record in errors, before
// the name of its volume group or device class.
func New[T any](dir, prefix, what string) Records[T] { return Records[T]{dir, prefix, what} }

func (r Records[T]) path(name string) string { return filepath.Join(r.dir, r.prefix+"-"+name+".json") }

// Read returns the zero value if there is no record. A record that cannot be Read is an error.
func (r Records[T]) Read(name string) (T, error) {
	var value T
	data, err := os.ReadFile(r.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return value, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &value)
	}
	if err != nil {
		return value, fmt.Errorf("read the record of %s %s: %w", r.what, name, err)
	}
	return value, nil
}

// Write replaces the record atomically.
func (r Records[T]) Write(name string, value T) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := classes.ReplaceFile(r.path(name), data); err != nil {
		return fmt.Errorf("write the record of %s %s: %w", r.what, name, err)
	}
	return nil
}

// Forget deletes the record, if there is one.
func (r Records[T]) Forget(name string) error {
	if err := os.Remove(r.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete the record of %s %s: %w", r.what, name, err)
	}
	return nil
}

// Package classes keeps the device classes of a node, and their file, lvmd.yaml, in TopoLVM's format.
//
// In contrast to TopoLVM's lvmd, it accepts new classes at run time. It checks the file with its own code (check.go),
// because no strict decoder reports both line and key of an error.
package classes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
)

// Set is one consistent set of classes. It is immutable: a new set replaces it.
type Set struct {
	Classes []deviceclass.Class
	// Options are the lvcreate options of the option classes, by name.
	Options map[string][]string
}

// Find returns a class by name. The empty name selects the default class.
func (s *Set) Find(name string) (*deviceclass.Class, bool) {
	for i := range s.Classes {
		c := &s.Classes[i]
		if c.Name == name || name == "" && c.Default {
			return c, true
		}
	}
	return nil, false
}

// with returns a copy of the set with other classes.
func (s *Set) with(classes []deviceclass.Class) *Set {
	return &Set{Classes: classes, Options: s.Options}
}

// Registry has the published device classes. It is safe for concurrent use.
type Registry struct {
	path string
	// changed is called after each change of the classes.
	changed func()

	// current is read by every request and replaced as a whole.
	current atomic.Pointer[Set]
	// publishing is held while the classes and their file change.
	publishing sync.Mutex
	file       Config
	// content is the file's content that was read or written last, or nil.
	content []byte
	// invalid is why the shared file is not valid, or nil.
	invalid error
	// shared: see ShareFile.
	shared bool
}

// Open returns the device classes of the file at path. The file does not have to exist. With an empty path, the classes
// are only in memory. changed is called after each change; it must not block.
func Open(path string, changed func()) (*Registry, error) {
	r := &Registry{path: path, changed: changed}
	if path != "" {
		config, data, err := readConfig(path)
		if err != nil {
			return nil, err
		}
		r.file = config
		r.content = data
	}
	r.current.Store(r.loaded())
	return r, nil
}

// Current returns the published classes.
func (r *Registry) Current() *Set { return r.current.Load() }

// loaded returns the classes of the file.
func (r *Registry) loaded() *Set {
	set := &Set{Classes: slices.Clone(r.file.DeviceClasses), Options: map[string][]string{}}
	for i := range set.Classes {
		c := &set.Classes[i]
		c.ExistingVolumeGroup = c.ExistingVolumeGroup || r.shared && c.VolumeGroupUUID == ""
	}
	for _, o := range r.file.OptionClasses {
		set.Options[o.Name] = o.Options
	}
	return set
}

// ShareFile tells the registry that other programs, such as MicroShift, write the file too. Until a class of them,
// which has no UUID of the volume group, is published, only the logical volumes of claims in its volume group are used.
// Reload reads the file again after it has changed.
func (r *Registry) ShareFile() {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	r.shared = true
	r.current.Store(r.loaded())
}

// Reload reads the file again if another program has changed it. If it cannot be read, or is not valid, the classes
// stay, and Reload returns an error once for each content. A file that does not exist changes nothing.
func (r *Registry) Reload() error {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	before := r.content
	err := r.readAgain()
	if err != nil && errors.Is(err, r.invalid) && bytes.Equal(before, r.content) {
		return nil
	}
	return err
}

// readAgain reads the shared file again if another program has changed it. While the file is not valid, each call
// returns an error, and the classes stay.
func (r *Registry) readAgain() error {
	if r.path == "" || !r.shared {
		return nil
	}
	data, err := readLimited(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if bytes.Equal(data, r.content) {
		return r.invalid
	}
	r.content = data
	config, err := parseConfig(r.path, data)
	if err != nil {
		r.invalid = fmt.Errorf("the device classes that were read before stay, and the file is not changed until it "+
			"is valid: %w", err)
		return r.invalid
	}
	r.file = config
	r.invalid = nil
	r.current.Store(r.loaded())
	r.changed()
	return nil
}

// Class returns a published class by name.
func (r *Registry) Class(name string) (deviceclass.Class, bool) {
	c, ok := r.Current().Find(name)
	if !ok || name == "" {
		return deviceclass.Class{}, false
	}
	return *c, true
}

// VolumeGroups returns the names of the volume groups of all classes.
func (r *Registry) VolumeGroups() []string {
	var names []string
	for _, c := range r.Current().Classes {
		names = append(names, c.VolumeGroup)
	}
	return names
}

// UsesExisting returns true if a published class uses a volume group with this name that an administrator created.
func (r *Registry) UsesExisting(vg string) bool {
	return slices.ContainsFunc(r.Current().Classes,
		func(c deviceclass.Class) bool { return c.ExistingVolumeGroup && c.VolumeGroup == vg })
}

// Publish adds or replaces a class, in the file and for all requests that start afterwards. If the class is the
// default, the other classes lose that flag: while the default changes, two classes may request it. A shared file that
// is not valid is not overwritten: Publish returns why.
func (r *Registry) Publish(class deviceclass.Class) error {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	if err := r.readAgain(); err != nil {
		return err
	}
	classes := slices.Clone(r.Current().Classes)
	at := slices.IndexFunc(classes, func(c deviceclass.Class) bool { return c.Name == class.Name })
	if at < 0 {
		classes, at = append(classes, class), len(classes)
	}
	classes[at] = class
	for i := range classes {
		classes[i].Default = classes[i].Default && (!class.Default || i == at)
	}
	return r.setClasses(classes)
}

// Withdraw removes a class. Later requests for it return NotFound. If the class does not exist, it is not an error.
// Like Publish, it does not overwrite a shared file that is not valid.
func (r *Registry) Withdraw(name string) error {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	if err := r.readAgain(); err != nil {
		return err
	}
	classes := slices.DeleteFunc(slices.Clone(r.Current().Classes),
		func(c deviceclass.Class) bool { return c.Name == name })
	return r.setClasses(classes)
}

// setClasses replaces all classes. It writes the file first. If that fails, nothing has changed and the caller can
// retry.
func (r *Registry) setClasses(classes []deviceclass.Class) error {
	if err := validate(classes); err != nil {
		return err
	}
	slices.SortFunc(classes, func(a, b deviceclass.Class) int { return strings.Compare(a.Name, b.Name) })
	if r.path != "" {
		config := r.file
		config.DeviceClasses = classes
		data, err := writeConfig(r.path, config)
		if err != nil {
			return err
		}
		r.file = config
		r.content = data
		r.invalid = nil
	}
	r.current.Store(r.Current().with(classes))
	r.changed()
	return nil
}

// Default returns the published default class.
func (r *Registry) Default() (deviceclass.Class, bool) {
	c, ok := r.Current().Find("")
	if !ok {
		return deviceclass.Class{}, false
	}
	return *c, true
}

// VolumeGroup returns the volume group of a device class. It returns NotFound if the node does not have the class.
func (r *Registry) VolumeGroup(class string) (string, error) {
	c, known := r.Current().Find(class)
	if !known {
		return "", fault.New(fault.NotFound, "device class %q is not set up on this node", class)
	}
	return c.VolumeGroup, nil
}

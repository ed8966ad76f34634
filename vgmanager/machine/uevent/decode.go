// Package uevent receives the kernel's messages about block devices, and notifies subscribers after changes have
// settled.
//
// It starts no process and reads no device.
package uevent

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Event is a message of the kernel about a device (Linux, lib/kobject_uevent.c).
type Event struct {
	// Action is add, remove, change, move, online, offline, bind or unbind.
	Action string
	// Subsystem is the subsystem, for example "block".
	Subsystem string
	// Name is the kernel's name of the device, for example "sdb".
	Name string
	// Number is "MAJOR:MINOR". It is empty if the object is not a device.
	Number string
	// Properties has all properties of the message.
	Properties map[string]string
}

// Decode decodes a message: "ACTION@DEVPATH" followed by KEY=VALUE pairs, each ended by a zero byte. Messages of
// udev, which start with "libudev", are not from the kernel and return an error.
func Decode(message []byte) (Event, error) {
	e := Event{Properties: map[string]string{}}
	parts := bytes.Split(message, []byte{0})
	action, path, ok := strings.Cut(string(parts[0]), "@")
	if !ok || action == "" || !strings.HasPrefix(path, "/") {
		return e, fmt.Errorf("a uevent begins with %q, want ACTION@DEVPATH", cut(parts[0]))
	}
	for _, part := range parts[1:] {
		if len(part) == 0 {
			continue
		}
		key, value, ok := strings.Cut(string(part), "=")
		if !ok || key == "" {
			return e, fmt.Errorf("a uevent of %s has %q, want KEY=VALUE", cut([]byte(path)), cut(part))
		}
		e.Properties[key] = value
	}
	e.Action = action
	e.Subsystem = e.Properties["SUBSYSTEM"]
	e.Name = e.Properties["DEVNAME"]
	if e.Properties["ACTION"] != action {
		return e, errors.New("a uevent has two different actions")
	}
	if major, minor := e.Properties["MAJOR"], e.Properties["MINOR"]; major != "" && minor != "" {
		e.Number = major + ":" + minor
	}
	return e, nil
}

// cut returns at most 64 bytes of text, for error messages.
func cut(text []byte) []byte { return text[:min(len(text), 64)] }

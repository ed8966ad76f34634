// Package event has events as values: a catalog entry has type, reason, action and text, and an Emitter sends an event
// only if its text has changed.
package event

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/kube/text"
)

// maxNote is the API server's limit for the text of an event, in bytes (events.k8s.io/v1, field note).
const maxNote = 1024

// Event is an entry of a catalog.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is a CamelCase word with which events are searched.
	Reason string
	// Action is the operation of the controller.
	Action string
	// Text is a format for package fmt.
	Text string
}

// Normal returns an event for an intended change.
func Normal(reason, action, text string) Event {
	return Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Text: text}
}

// Warning returns an event that requires attention.
func Warning(reason, action, text string) Event {
	return Event{Type: corev1.EventTypeWarning, Reason: reason, Action: action, Text: text}
}

// Recorder sends events. The recorders of client-go's tools/events, and thus of a manager, implement it.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Emitter sends events for objects. It sends a text again only after another text for the same object and reason. It
// keeps this in memory, so a new process sends the current events again.
type Emitter struct {
	recorder Recorder

	mu   sync.Mutex
	said map[types.UID]map[string]string
}

// NewEmitter returns an Emitter that sends through a recorder.
func NewEmitter(recorder Recorder) *Emitter {
	return &Emitter{recorder: recorder, said: map[types.UID]map[string]string{}}
}

// Emit sends an event for an object, unless it is the same as the last one for this reason.
func (e *Emitter) Emit(about client.Object, event Event, args ...any) {
	note := text.Truncate(fmt.Sprintf(event.Text, args...), maxNote)
	if !e.remember(about.GetUID(), event.Reason, note) {
		return
	}
	e.recorder.Eventf(about, nil, event.Type, event.Reason, event.Action, "%s", note)
}

// remember reports whether a note is new, and stores it.
func (e *Emitter) remember(uid types.UID, reason, note string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.said[uid] == nil {
		e.said[uid] = map[string]string{}
	}
	if e.said[uid][reason] == note {
		return false
	}
	e.said[uid][reason] = note
	return true
}

// Clear removes the stored texts of an object for some reasons: the problem is solved, and if it occurs again, Emit
// sends the event again.
func (e *Emitter) Clear(about client.Object, reasons ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, reason := range reasons {
		delete(e.said[about.GetUID()], reason)
	}
}

// Forget removes all stored texts of an object that no longer exists.
func (e *Emitter) Forget(about client.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.said, about.GetUID())
}

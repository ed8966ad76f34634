// Package event has events as values: a catalog entry has type, reason, action and text, and an Emitter sends it
// once, when what it says has changed.
package event

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/text"
)

// maxNote is the limit that the API server puts on the text of an event (events.k8s.io/v1, field note).
const maxNote = 1024

// Event is an entry of a catalog.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is one CamelCase word by which events are searched.
	Reason string
	// Action is what the controller was doing.
	Action string
	// Text is a format of package fmt.
	Text string
}

// Normal returns an event that tells of a change that was wanted.
func Normal(reason, action, text string) Event {
	return Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Text: text}
}

// Warning returns an event that asks for attention.
func Warning(reason, action, text string) Event {
	return Event{Type: corev1.EventTypeWarning, Reason: reason, Action: action, Text: text}
}

// Recorder sends events. The recorders of client-go's tools/events, and so those of a manager, are Recorders.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Emitter sends events about objects, each text once until another text has the same object and reason.
// It remembers in memory: a new process says once more what still holds.
type Emitter struct {
	recorder Recorder

	mu   sync.Mutex
	said map[types.UID]map[string]string
}

// NewEmitter returns an Emitter that sends through a recorder.
func NewEmitter(recorder Recorder) *Emitter {
	return &Emitter{recorder: recorder, said: map[types.UID]map[string]string{}}
}

// Emit sends an event about an object, unless it was the last one said about it for this reason.
func (e *Emitter) Emit(about client.Object, event Event, args ...any) {
	note := text.Truncate(fmt.Sprintf(event.Text, args...), maxNote)
	if !e.remember(about.GetUID(), event.Reason, note) {
		return
	}
	e.recorder.Eventf(about, nil, event.Type, event.Reason, event.Action, "%s", note)
}

// remember reports whether a note is news.
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

// Clear forgets what was said about an object for some reasons: the matter is over, and when it comes back it is news.
func (e *Emitter) Clear(about client.Object, reasons ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, reason := range reasons {
		delete(e.said[about.GetUID()], reason)
	}
}

// Forget forgets all that was said about an object that is gone.
func (e *Emitter) Forget(about client.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.said, about.GetUID())
}

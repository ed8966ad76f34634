package reference

import (
	"cmp"
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

var eventDoc = regexp.MustCompile(`^(\w+) is a (Normal|Warning) event on the ([^:]+): (.+)$`)

// Events has all events of the product.
type Events struct {
	events []event
}

type event struct {
	name, kind, object, when, whatToDo string
}

// NewEvents returns the events in the comments of the code.
func NewEvents(s *Source) (*Events, error) {
	e := &Events{}
	types := s.recordedTypes()
	for _, d := range s.Declarations() {
		m := eventDoc.FindStringSubmatch(d.Doc)
		if m == nil || m[1] != d.Name {
			continue
		}
		if kind := cmp.Or(d.Event, types[d.Folder+"."+d.Name], m[2]); kind != m[2] {
			return nil, fmt.Errorf("%s/%s: it is a %s event, and its comment says %s", d.Folder, d.Name, kind, m[2])
		}
		when, remedy := split(m[4], whatToDo)
		if m[2] == "Warning" && remedy == "" {
			return nil, fmt.Errorf("%s/%s: its comment lacks %q", d.Folder, d.Name, whatToDo)
		}
		e.events = append(e.events, event{name: d.Value, kind: m[2], object: m[3], when: when, whatToDo: remedy})
	}
	return e, nil
}

// recordedTypes returns the types with which constants are recorded, by directory and name. It finds calls that have
// both the type and the constant as arguments.
func (s *Source) recordedTypes() map[string]string {
	types := map[string]string{}
	for _, f := range s.files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				f.addTypes(types, call.Args)
			}
			return true
		})
	}
	return types
}

// addTypes assigns the event type among the arguments of a call to the constants among them.
func (f file) addTypes(types map[string]string, arguments []ast.Expr) {
	kind := ""
	for _, argument := range arguments {
		if selector, ok := argument.(*ast.SelectorExpr); ok && strings.HasPrefix(selector.Sel.Name, "EventType") {
			kind = strings.TrimPrefix(selector.Sel.Name, "EventType")
		}
	}
	if kind == "" {
		return
	}
	for _, argument := range arguments {
		if call, ok := argument.(*ast.CallExpr); ok && calleeOf(call) == "string" && len(call.Args) == 1 {
			argument = call.Args[0]
		}
		switch constant := argument.(type) {
		case *ast.Ident:
			types[f.folder+"."+constant.Name] = kind
		case *ast.SelectorExpr:
			if of, ok := constant.X.(*ast.Ident); ok {
				types[f.imported(of.Name)+"."+constant.Sel.Name] = kind
			}
		}
	}
}

// Names returns the reasons of the events.
func (e *Events) Names() map[string]bool {
	names := map[string]bool{}
	for _, o := range e.events {
		names[o.name] = true
	}
	return names
}

// eventObjects are the chapters of the page, by the phrases in the comments.
var eventObjects = []string{"LVMCluster", "LVMVolumeGroup", "LogicalVolume", "PersistentVolumeClaim", "Node",
	"Deployment of the operator"}

const eventsIntroduction = `# Events

Written by ` + "`make references`" +
	` from the comments in the code. An event is recorded when what it says has changed, not with every attempt; some are recorded again after a restart of the program. Its note has the cause and what to do. Events of objects without a namespace are in the namespace ` +
	"`default`" + `:

    kubectl get events -A --field-selector reason=DeviceWiped
`

const libraryEvents = `
## Of the CSI libraries and the kubelet

The operator has the provisioner, the resizer and the snapshotter of Kubernetes CSI as libraries, which record events of
their own. The kubelet records what the CSI node service of the agent answers.

| object | reason | type | when |
|---|---|---|---|
| PersistentVolumeClaim | ` + "`Provisioning`, `ProvisioningSucceeded`" +
	` | Normal | a volume is being created, and was |
| | ` + "`ProvisioningFailed`" + ` | Warning | a volume could not be created; the note has the error of the CSI driver |
| | ` + "`Resizing`, `FileSystemResizeRequired`, `VolumeResizeSuccessful`" +
	` | Normal | a volume is being extended, its file system has to follow on the node, and all is done |
| | ` + "`VolumeResizeFailed`" +
	` | Warning | a volume could not be extended; the note has the error of the CSI driver |
| PersistentVolume | ` + "`VolumeFailedDelete`" + ` | Warning | a volume could not be deleted |
| VolumeSnapshotContent | ` + "`SnapshotCreationFailed`, `SnapshotContentCheckandUpdateFailed`, `SnapshotDeleteError`" +
	` | Warning | a snapshot could not be created, read or deleted |
| Pod | ` + "`FailedMount`" +
	` | Warning | a volume could not be mounted on the node; the note has the error of the CSI driver |
`

// Page returns docs/reference/events.md.
func (e *Events) Page() (string, error) {
	var b strings.Builder
	b.WriteString(eventsIntroduction)
	for _, object := range eventObjects {
		var rows [][]string
		for _, o := range e.events {
			if o.object == object {
				rows = append(rows, []string{Code(o.name), o.kind, o.when, o.whatToDo})
			}
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s", object, Table([]string{"reason", "type", "when", "what to do"}, rows))
	}
	for _, o := range e.events {
		if !slices.Contains(eventObjects, o.object) {
			return "", fmt.Errorf("event %s is on the %s, which has no chapter", o.name, o.object)
		}
	}
	b.WriteString(libraryEvents)
	return withRunbooks(b.String()), nil
}

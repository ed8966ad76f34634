package reference

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	conditionDoc = regexp.MustCompile(`^(\w+) is a condition of ([^:]+): (.+)$`)
	reasonDoc    = regexp.MustCompile(`^(\w+) sets ([^:]+ to (?:True|False|Unknown|` + healthStatuses + `)): (.+)$`)
	statusClause = regexp.MustCompile(`(?:^| and )(.+?) to (True|False|Unknown|` + healthStatuses + `)`)
	codeDoc      = regexp.MustCompile(`^(\w+) means: (.+)$`)
)

const (
	healthStatuses = "Degraded or Inaccessible|Degraded|Inaccessible"

	whatToDo = "What to do: "
	byName   = "By name: "
)

// Conditions has all conditions with their reasons, and all reasons why a device is not used.
type Conditions struct {
	conditions []condition
	codes      []code
}

// condition is a condition type of a kind.
type condition struct {
	name, object, means string
	reasons             []reason
}

// reason is a status of a condition and its cause.
type reason struct {
	name, status, means, whatToDo string
}

// code is one reason why a device is not used.
type code struct {
	name, means, whatToDo, byName string
}

// NewConditions returns the conditions, reasons and device reasons in the comments of the code.
func NewConditions(s *Source) (*Conditions, error) {
	c := &Conditions{}
	declarations := s.Declarations()
	for _, d := range declarations {
		if m := conditionDoc.FindStringSubmatch(d.Doc); m != nil && m[1] == d.Name {
			c.conditions = append(c.conditions, condition{name: d.Value, object: m[2], means: clause(m[3])})
		}
	}
	for _, d := range declarations {
		if err := c.add(d); err != nil {
			return nil, err
		}
	}
	for i := range c.conditions {
		if err := c.conditions[i].complete(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// add adds a declaration if it is a reason of a condition or device.
func (c *Conditions) add(d Declaration) error {
	if m := codeDoc.FindStringSubmatch(d.Doc); m != nil && m[1] == d.Name && d.Type == "Code" {
		rest, named := split(m[2], byName)
		means, remedy := split(rest, whatToDo)
		if remedy == "" || named == "" {
			return fmt.Errorf("%s/%s: its comment lacks %q or %q", d.Folder, d.Name, whatToDo, byName)
		}
		c.codes = append(c.codes, code{name: d.Value, means: means, whatToDo: remedy, byName: named})
		return nil
	}
	m := reasonDoc.FindStringSubmatch(d.Doc)
	if m == nil || m[1] != d.Name {
		return nil
	}
	means, remedy := split(m[3], whatToDo)
	for _, clause := range statusClause.FindAllStringSubmatch(m[2], -1) {
		if clause[2] != "True" && remedy == "" {
			return fmt.Errorf("%s/%s: its comment lacks %q", d.Folder, d.Name, whatToDo)
		}
		for name := range strings.SplitSeq(clause[1], ", ") {
			at := slices.IndexFunc(c.conditions, func(o condition) bool { return o.name == name })
			if at < 0 {
				return fmt.Errorf("%s/%s: its comment names %s, and no constant is that condition", d.Folder, d.Name,
					name)
			}
			c.conditions[at].reasons = append(c.conditions[at].reasons,
				reason{name: d.Value, status: clause[2], means: means, whatToDo: remedy})
		}
	}
	return nil
}

// complete sorts the reasons by status. If a condition has no reason for True, its own name is that reason.
func (c *condition) complete() error {
	order := []string{"True", "False", "Unknown"}
	// The health of a volume has no status of its own.
	isKnown := func(r reason) bool { return r.status == "True" || strings.Contains(healthStatuses, r.status) }
	if !slices.ContainsFunc(c.reasons, isKnown) {
		c.reasons = append(c.reasons, reason{name: c.name, status: "True", means: c.means})
	}
	slices.SortStableFunc(c.reasons, func(a, b reason) int {
		return slices.Index(order, a.status) - slices.Index(order, b.status)
	})
	if len(c.reasons) < 2 {
		return fmt.Errorf("condition %s has no reason for False", c.name)
	}
	return nil
}

// Names returns the types of conditions, their reasons, and the reasons for devices.
func (c *Conditions) Names() map[string]bool {
	names := map[string]bool{}
	for _, o := range c.conditions {
		names[o.name] = true
		for _, r := range o.reasons {
			names[r.name] = true
		}
	}
	for _, o := range c.codes {
		names[o.name] = true
	}
	return names
}

// objects are the chapters of the page, by the phrases in the comments.
var objects = []struct{ words, title, introduction string }{
	{"an LVMCluster", "LVMCluster", "If several reasons of `VolumeGroupsReady` apply, the worst is the reason: " +
		"`VGsFailed`, `VGsDegraded`, `VGReadinessInProgress`. The message has the first ten problems, each with " +
		"device class, node and cause. `state` follows from both: see [status](lvmcluster.md#status)."},
	{"an LVMVolumeGroupNodeStatus", "LVMVolumeGroupNodeStatus", "The agent of the node sets it. The operator sets it " +
		"to Unknown if the agent no longer observes the node."},
	{"a volume group on a node", "A volume group on a node", "These are in `.status.nodeStatus[].conditions` of the " +
		"LVMVolumeGroupNodeStatus. The LVMCluster has those that are not True too. If several reasons apply, the " +
		"first in the table is the reason, and the message has all, with node, device class, device, and the " +
		"volumes at risk with their claims."},
	{"an LVMRecovery", "LVMRecovery", "The agent of the node sets it. The reason is the phase: see " +
		"[recover from lost disks](../how-to/recover.md)."},
	{"a VolumeMove", "VolumeMove", "The operator sets it. The reason is the phase: see " +
		"[move volumes](../how-to/move-volumes.md)."},
	{"a volume", "The health of a volume", "The agent of the node finds it, and the annotation `lvm.topolvm.io/condition` " +
		"of the LogicalVolume has the messages. With the feature gate `CSIVolumeHealth` (alpha in Kubernetes 1.37), the " +
		"kubelet writes it to `.status.volumeHealth` of Pods, and what is wrong with the device classes of a node to " +
		"`.status.storageHealth` of the CSINode. The operator writes it to `.status.healthStatus` of claims. A volume that is " +
		"`Degraded` can be used. Of one that is `Inaccessible`, at least a part cannot. `DataLoss` is never reported: a device " +
		"that is missing can return, and LVM metadata can be restored."},
	{"the OperatorCondition", "OperatorCondition", "The Operator Lifecycle Manager creates the OperatorCondition in " +
		"the operator's namespace. Without it, the operator sets no condition."},
}

const conditionsIntroduction = `# Conditions and reasons

Generated by ` + "`make references`" + ` from the comments in the code. Each condition has the ` +
	"`observedGeneration`" +
	` that it reflects. When a condition changes, [events](events.md) are recorded; if a problem lasts, [alerts](alerts.md) fire.
`

// claimConditions are conditions of Kubernetes' own code: its resizer is a library of the operator.
const claimConditions = `
## PersistentVolumeClaim

The resizer of Kubernetes CSI, which is a library of the operator, and the kubelet set these while a claim is expanded.
They have no reasons, and are removed when the claim has its new size.

| condition | True means | what to do |
|---|---|---|
| ` + "`Resizing`" + ` | the volume is being extended | wait |
| ` + "`FileSystemResizePending`" +
	` | the volume is extended, but its file system is not extended yet | wait; if no Pod uses the claim, start one |
| ` + "`ControllerResizeError`" +
	` | the volume could not be extended; the message has the error | as the message says; see the runbook LVMSExpansionFailing |
| ` + "`NodeResizeError`" + ` | the file system could not be extended; the message has the error | as the message says |
`

const codesIntroduction = `
## Why a device is not used

These are in ` + "`.status.devices[].reasons[].code`" + ` of the LVMVolumeGroupNodeStatus, and in ` + "`excluded`" +
	` of a volume group. All reasons that apply are listed. The column "by name" says whether a device is used nevertheless if ` +
	"`paths` or `optionalPaths`" + ` names it; "wiped" means: if ` + "`forceWipeDevicesAndDestroyAllData`" +
	` is set too, which removes the cause. [Devices](devices.md) has the states of a device.

`

// Page returns docs/reference/conditions.md.
func (c *Conditions) Page() (string, error) {
	var b strings.Builder
	b.WriteString(conditionsIntroduction)
	written := 0
	for _, o := range objects {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", o.title, o.introduction)
		for _, each := range c.conditions {
			if each.object == o.words {
				b.WriteString(each.chapter())
				written++
			}
		}
	}
	if written < len(c.conditions) {
		return "", fmt.Errorf("%d conditions, and only %d are of an object that has a chapter", len(c.conditions),
			written)
	}
	var rows [][]string
	for _, o := range c.codes {
		rows = append(rows, []string{Code(o.name), o.means, o.whatToDo, o.byName})
	}
	b.WriteString(claimConditions + codesIntroduction + Table([]string{"code", "means", "what to do", "by name"}, rows))
	return withRunbooks(b.String()), nil
}

func (c *condition) chapter() string {
	var rows [][]string
	for _, r := range c.reasons {
		rows = append(rows, []string{r.status, Code(r.name), r.means, r.whatToDo})
	}
	return fmt.Sprintf("\n### %s\n\nTrue: %s.\n\n%s", c.name, c.means,
		Table([]string{"status", "reason", "means", "what to do"}, rows))
}

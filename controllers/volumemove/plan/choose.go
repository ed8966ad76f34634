package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/internal/volume/room"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// maxCandidates is the maximum number of nodes in a message.
const maxCandidates = 8

// Choose returns the target node: the requested one, or the node with the most free capacity. It prefers nodes whose
// thin pool has room for all data that the volume can have. A node with another volume of the spread group is chosen
// only if the group does not require different nodes, and no other node has enough capacity. doubt says why the node
// may have no room for the data, or is "". It returns a PendingError with the numbers of each node if no node is
// possible.
func Choose(candidates []Candidate, s *State, class string) (node, doubt string, err error) {
	source := s.Volume.Spec.NodeName
	at := slices.IndexFunc(candidates, func(c Candidate) bool { return c.Node == source })
	if at < 0 {
		return "", "", Pending("node %s of volume %s does not exist", source, s.Volume.Name)
	}
	if problem := candidates[at].Problem; problem != "" {
		return "", "", Pending("node %s, which has volume %s, %s", source, s.Volume.Name, problem)
	}
	needs := room.Copy(s.Volume.Spec.Size.Value(), candidates[at].Pool)
	best, reasons := selectBest(s, candidates, needs)
	switch {
	case best != nil:
		return best.Node, best.room().Doubt(needs), nil
	case len(reasons) == 0 && s.Move.Spec.NodeName != "":
		return "", "", Pending("node %s does not exist", s.Move.Spec.NodeName)
	case len(reasons) == 0:
		return "", "", Pending("there is no other node")
	}
	return "", "", Pending("no node for a volume of %s in device class %s: %s", s.Volume.Spec.Size.String(), class,
		someOf(reasons))
}

// selectBest returns the best target, or nil with the reason of each node.
func selectBest(s *State, candidates []Candidate, needs room.Volume) (best *Candidate, reasons []string) {
	spread := view.SpreadOf(s.Volume)
	var second *Candidate // has a neighbor of the spread group
	for i := range candidates {
		c := &candidates[i]
		if c.Node == s.Volume.Spec.NodeName || s.Move.Spec.NodeName != "" && c.Node != s.Move.Spec.NodeName {
			continue
		}
		why := c.refusal(needs, spread)
		switch {
		case why != "":
			reasons = append(reasons, fmt.Sprintf("node %s %s", c.Node, why))
		case c.Neighbor == "" && (best == nil || c.room().Better(best.room(), needs)):
			best = c
		case c.Neighbor != "" && (second == nil || c.room().Better(second.room(), needs)):
			second = c
		}
	}
	if best == nil {
		best = second
	}
	return best, reasons
}

// room returns what the node has for the volume.
func (c *Candidate) room() room.Node { return room.Node{Free: c.Room, Pool: c.Pool} }

// refusal returns why the volume cannot be moved to a node, or "".
func (c *Candidate) refusal(needs room.Volume, spread view.Spread) string {
	why := c.room().Refusal(needs)
	switch {
	case c.Problem != "":
		return c.Problem
	case why != "":
		return why
	case c.Neighbor != "" && spread.Required():
		return fmt.Sprintf("has %s of spread group %s, which requires different nodes", c.Neighbor, spread.Group)
	}
	return ""
}

// someOf joins texts, at most maxCandidates.
func someOf(texts []string) string {
	shown := texts[:min(len(texts), maxCandidates)]
	text := strings.Join(shown, "; ")
	if more := len(texts) - len(shown); more > 0 {
		text += fmt.Sprintf("; and %d more nodes", more)
	}
	return text
}

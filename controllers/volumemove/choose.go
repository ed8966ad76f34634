package volumemove

import (
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/room"
)

// maxCandidates is the maximum number of nodes in a message.
const maxCandidates = 8

func newStorageClass() *storagev1.StorageClass { return &storagev1.StorageClass{} }

// choose returns the target node: the requested one, or the node with the most free capacity. It prefers nodes whose
// thin pool has room for all data that the volume can have. A node with another volume of the spread group is chosen
// only if the group does not require different nodes, and no other node has enough capacity. doubt says why the node
// may have no room for the data, or is "". It returns a pendingError with the numbers of each node if no node is
// possible.
func choose(candidates []candidate, s *state, class string) (node, doubt string, err error) {
	source := s.volume.Spec.NodeName
	at := slices.IndexFunc(candidates, func(c candidate) bool { return c.Node == source })
	if at < 0 {
		return "", "", pending("node %s of volume %s does not exist", source, s.volume.Name)
	}
	if problem := candidates[at].Problem; problem != "" {
		return "", "", pending("node %s, which has volume %s, %s", source, s.volume.Name, problem)
	}
	needs := room.Copy(s.volume.Spec.Size.Value(), candidates[at].pool)
	spread, _ := v1alpha1.ParseSpread(s.volume.Annotations[v1alpha1.SpreadAnnotation])
	var best, second *candidate
	var reasons []string
	for i := range candidates {
		c := &candidates[i]
		if c.Node == source || s.move.Spec.NodeName != "" && c.Node != s.move.Spec.NodeName {
			continue
		}
		why := c.refusal(needs, spread)
		switch {
		case why != "":
			reasons = append(reasons, fmt.Sprintf("node %s %s", c.Node, why))
		case c.neighbor == "" && (best == nil || c.room().Better(best.room(), needs)):
			best = c
		case c.neighbor != "" && (second == nil || c.room().Better(second.room(), needs)):
			second = c
		}
	}
	if best == nil {
		best = second
	}
	switch {
	case best != nil:
		return best.Node, best.room().Doubt(needs), nil
	case len(reasons) == 0 && s.move.Spec.NodeName != "":
		return "", "", pending("node %s does not exist", s.move.Spec.NodeName)
	case len(reasons) == 0:
		return "", "", pending("there is no other node")
	}
	return "", "", pending("no node for a volume of %s in device class %s: %s", s.volume.Spec.Size.String(), class,
		someOf(reasons))
}

// room returns what the node has for the volume.
func (c *candidate) room() room.Node { return room.Node{Free: c.Room, Pool: c.pool} }

// refusal returns why the volume cannot be moved to a node, or "".
func (c *candidate) refusal(needs room.Volume, spread v1alpha1.Spread) string {
	why := c.room().Refusal(needs)
	switch {
	case c.Problem != "":
		return c.Problem
	case why != "":
		return why
	case c.neighbor != "" && spread.Required():
		return fmt.Sprintf("has %s of spread group %s, which requires different nodes", c.neighbor, spread.Group)
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

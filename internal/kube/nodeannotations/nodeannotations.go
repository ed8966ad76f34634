// Package nodeannotations removes what the agents of a CSI driver write to Nodes: annotations with the capacity for the
// scheduler, and a finalizer, which blocks the deletion of a Node when no agent is left to remove it.
package nodeannotations

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Remove removes the annotations whose keys have a prefix, and a finalizer, from a Node in memory. It reports whether
// there was something to remove. A patch with the result needs an optimistic lock, because it replaces the list of
// finalizers.
func Remove(node *corev1.Node, annotationPrefix, finalizer string) bool {
	before := len(node.Annotations) + len(node.Finalizers)
	for key := range node.Annotations {
		if strings.HasPrefix(key, annotationPrefix) {
			delete(node.Annotations, key)
		}
	}
	node.Finalizers = slices.DeleteFunc(node.Finalizers, func(f string) bool { return f == finalizer })
	return len(node.Annotations)+len(node.Finalizers) != before
}

package device

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/cli/session"
)

// maxListed is the maximum number of Pods or volumes that a preview lists.
const maxListed = 10

// podsOf returns the Pods of claims that have not ended, by claim. If they cannot be read, a note says so.
func podsOf(ctx context.Context, s *session.Source, volumes []boundVolume) map[string][]string {
	pods := map[string][]string{}
	var namespaces []string
	for _, v := range volumes {
		if namespace, _, found := strings.Cut(v.claim, "/"); found && !slices.Contains(namespaces, namespace) {
			namespaces = append(namespaces, namespace)
		}
	}
	slices.Sort(namespaces)
	for _, namespace := range namespaces {
		found, err := session.List(ctx, s.Client, &corev1.PodList{},
			func(page *corev1.PodList) []corev1.Pod { return page.Items }, client.InNamespace(namespace))
		switch {
		case apierrors.IsForbidden(err):
			s.Notes = append(s.Notes, "You may not list Pods in the namespace "+namespace+", so they are not listed.")
		case err != nil:
			s.Notes = append(s.Notes, fmt.Sprintf("The Pods in the namespace %s are not listed: %v", namespace,
				session.CauseOf(err)))
		}
		for i := range found {
			for _, claim := range claimsOfPod(&found[i]) {
				pods[namespace+"/"+claim] = append(pods[namespace+"/"+claim], found[i].Name)
			}
		}
	}
	return pods
}

// claimsOfPod returns the claims that a Pod uses, unless it has ended.
func claimsOfPod(pod *corev1.Pod) []string {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	var claims []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			claims = append(claims, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			claims = append(claims, pod.Name+"-"+v.Name)
		}
	}
	return claims
}

// podText says which Pods use a volume.
func podText(pods []string) string {
	if len(pods) == 0 {
		return ""
	}
	return "; Pods: " + limited(pods)
}

// limited returns names as a list with at most maxListed of them.
func limited(names []string) string {
	if len(names) <= maxListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
}

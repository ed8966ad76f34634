package operand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
)

// vgManager keeps the DaemonSet of the node agent. It is created only when the admission policies that restrict the
// agents are in force. An existing one stays without them, because volumes need the agents.
type vgManager struct{ fence *fence }

// GetName names the manager.
func (vgManager) GetName() string { return "vgManager" }

// +kubebuilder:rbac:groups=apps,resources=daemonsets,namespace=openshift-lvm-storage,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,namespace=openshift-lvm-storage,verbs=list

// EnsureCreated applies the DaemonSet and waits until its Pods are ready.
func (m vgManager) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	unfenced := m.fence.check(ctx, r, cluster.Namespace)
	exists, err := deleteIncompatible(r, ctx, cluster)
	switch {
	case err != nil:
		return err
	case unfenced != nil && !exists:
		return unfenced
	}
	return errors.Join(unfenced, r.runAgents(ctx, cluster))
}

// runAgents applies the DaemonSet and waits until its Pods are ready.
func (r Reconciler) runAgents(ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	account, err := r.agentAccount(ctx, cluster.Namespace)
	if err != nil {
		return err
	}
	desired := newDaemonSet(cluster, r.Current.Placement(cluster), account, r.Options)
	if err := r.Applier.Apply(ctx, desired); err != nil {
		return err
	}
	daemonSet := &appsv1.DaemonSet{}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: AgentName}, daemonSet)
	if apierrors.IsNotFound(err) {
		return waitFor([]string{"DaemonSet " + AgentName + " was created; its Pods have not started yet"})
	}
	if err != nil {
		return fmt.Errorf("DaemonSet %s: read its status: %w", AgentName, err)
	}
	refused, err := r.refused(ctx, daemonSet)
	if err != nil {
		return errors.Join(err, rollout(daemonSet, ""))
	}
	return rollout(daemonSet, refused)
}

// +kubebuilder:rbac:groups="",resources=events,namespace=openshift-lvm-storage,verbs=list

// refused returns why the API server most recently refused to create a Pod of the DaemonSet, if Pods are missing. The
// status of the DaemonSet does not contain the reason; only events do.
func (r Reconciler) refused(ctx context.Context, daemonSet *appsv1.DaemonSet) (string, error) {
	if daemonSet.Status.CurrentNumberScheduled >= daemonSet.Status.DesiredNumberScheduled {
		return "", nil
	}
	events := &corev1.EventList{}
	err := r.Live.List(ctx, events, client.InNamespace(daemonSet.Namespace),
		client.MatchingFields{"involvedObject.uid": string(daemonSet.UID), "reason": "FailedCreate"})
	if err != nil {
		return "", fmt.Errorf("list Events of DaemonSet %s: %w", daemonSet.Name, err)
	}
	if len(events.Items) == 0 {
		return "", nil
	}
	newest := slices.MaxFunc(events.Items,
		func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	return explainRefusal(daemonSet.Namespace, newest.Message), nil
}

// explainRefusal returns what to do about a Pod that the API server refused. It removes the name of the Pod, which
// differs each time, from the message.
func explainRefusal(namespace, message string) string {
	if _, why, found := strings.Cut(message, " is forbidden: "); found {
		message = why
	}
	if !strings.Contains(message, "violates PodSecurity") {
		return "the API server rejects the others: " + message
	}
	return fmt.Sprintf("the Pod Security level of namespace %[1]s does not allow privileged Pods, which node "+
		"agents require: run kubectl label --overwrite namespace %[1]s "+
		"pod-security.kubernetes.io/enforce=privileged; the Pods are then created within minutes (API server: "+
		"%[2]s)", namespace, message)
}

// +kubebuilder:rbac:groups="",resources=serviceaccounts,namespace=openshift-lvm-storage,verbs=list;watch

// agentAccount returns the UID of the agents' ServiceAccount. If a user removes the operator with OLM, OLM deletes the
// ServiceAccount but not the agents. A new installation creates another ServiceAccount with the same name, and the API
// server rejects the tokens of the running agents until the kubelet renews them after an hour. Without a ServiceAccount
// agentAccount returns a WaitError, and the running agents stay unchanged, because new ones could not start.
func (r Reconciler) agentAccount(ctx context.Context, namespace string) (types.UID, error) {
	accounts := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1",
		Kind: "ServiceAccountList"}}
	if err := r.Client.List(ctx, accounts, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("list ServiceAccounts in namespace %s: %w", namespace, err)
	}
	for _, account := range accounts.Items {
		if account.Name == AgentName {
			return account.UID, nil
		}
	}
	return "", waitFor([]string{fmt.Sprintf("ServiceAccount %s/%s does not exist, so node agents cannot start: "+
		"reinstall the operator, which includes it", namespace, AgentName)})
}

// deleteIncompatible deletes a DaemonSet of an old version whose selector, which is immutable, differs from ours. It
// does not affect Pods that use volumes. exists reports whether there was a DaemonSet.
func deleteIncompatible(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) (exists bool, err error) {
	daemonSet := &appsv1.DaemonSet{}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: AgentName}, daemonSet)
	if apierrors.IsNotFound(err) || err == nil && maps.Equal(daemonSet.Spec.Selector.MatchLabels, podLabels()) {
		return err == nil, nil
	}
	if err != nil {
		return false, fmt.Errorf("DaemonSet %s: read before apply: %w", AgentName, err)
	}
	return true, r.Applier.Delete(ctx, r.Live, daemonSet)
}

// rollout returns a WaitError until every node has a ready and updated Pod. refused is the reason why Pods could not be
// created, or "".
func rollout(daemonSet *appsv1.DaemonSet, refused string) error {
	status := daemonSet.Status
	switch {
	case status.ObservedGeneration < daemonSet.Generation:
		return waitFor([]string{fmt.Sprintf("DaemonSet %s has changed, and its Pods are not updated yet",
			daemonSet.Name)})
	case refused != "":
		return waitFor([]string{fmt.Sprintf("DaemonSet %s: %d of %d Pods are created: %s", daemonSet.Name,
			status.CurrentNumberScheduled, status.DesiredNumberScheduled, refused)})
	case status.UpdatedNumberScheduled < status.DesiredNumberScheduled:
		return waitFor([]string{fmt.Sprintf("DaemonSet %s: %d of %d Pods are updated; if this does not change, run "+
			"kubectl -n %s describe daemonset %s",
			daemonSet.Name, status.UpdatedNumberScheduled, status.DesiredNumberScheduled, daemonSet.Namespace,
			daemonSet.Name)})
	case status.NumberReady < status.DesiredNumberScheduled:
		return waitFor([]string{fmt.Sprintf("DaemonSet %s: %d of %d Pods are ready",
			daemonSet.Name, status.NumberReady, status.DesiredNumberScheduled)})
	}
	return nil
}

// EnsureDeleted deletes the DaemonSet and waits for its Pods, because they unregister the CSI driver when they end. It
// does not wait for Pods on nodes that are not ready: they end when the node returns or is removed.
func (vgManager) EnsureDeleted(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: AgentName, Namespace: cluster.Namespace}}
	if err := r.Applier.Delete(ctx, r.Live, daemonSet); err != nil {
		return err
	}
	pods := &corev1.PodList{}
	selector := client.MatchingLabels(podLabels())
	if err := r.Live.List(ctx, pods, client.InNamespace(cluster.Namespace), selector); err != nil {
		return fmt.Errorf("list Pods of DaemonSet %s: %w", AgentName, err)
	}
	if len(pods.Items) == 0 {
		return nil
	}
	ready, err := r.readyNodes(ctx)
	if err != nil {
		return err
	}
	return podsLeft(pods.Items, ready)
}

// podsLeft returns a WaitError for Pods on nodes that are ready, or nil if there are none.
func podsLeft(pods []corev1.Pod, readyNodes []string) error {
	onReady := map[string]bool{}
	for _, node := range readyNodes {
		onReady[node] = true
	}
	var left []string
	for _, pod := range pods {
		if onReady[pod.Spec.NodeName] {
			left = append(left, fmt.Sprintf("%s on node %s", pod.Name, pod.Spec.NodeName))
		}
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	return waitFor([]string{text.List("Pod", left) + " still running"})
}
